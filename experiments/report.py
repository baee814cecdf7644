"""From the runs' lines to medians, times at a given accuracy, a markdown table and a figure."""

from __future__ import annotations

import math
import os
import platform
import time
from pathlib import Path
from statistics import median

TARGET = 1e-3  # relative distance to the optimum at which times are compared
FLOOR = 1e-9  # a distance below it is rounding


def machine() -> dict:
    """What the figures were measured on."""
    cpu = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "ram_gb": round(ram, 1),
            "system": platform.platform(), "python": platform.python_version(),
            "date": time.strftime("%Y-%m-%d %H:%M")}  # fmt: skip


def summarise(runs: list[dict]) -> list[dict]:
    """One line for each solver and level, in their order: medians over the repeats, least and most seconds."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for run in runs:
        groups.setdefault((run["solver"], run["level"]), []).append(run)
    lines = []
    for (solver, level), group in groups.items():
        done = [run for run in group if "error" not in run]
        line = {"solver": solver, "level": level, "curve": group[0]["curve"], "runs": len(done)}
        line["errors"] = sorted({run["error"] for run in group if "error" in run})
        line["warnings"] = sorted({warning for run in done for warning in run.get("warnings", [])})
        line["warnings"] += doubts(done)
        if done:
            for key in ("seconds", "wall_seconds", "load_seconds", "peak_rss_mb", "primal", "distance",
                        "train_accuracy", "test_accuracy"):  # fmt: skip
                values = [run[key] for run in done if run.get(key) is not None]
                line[key] = median(values) if values else None
            line["least_seconds"] = min(run["seconds"] for run in done)
            line["most_seconds"] = max(run["seconds"] for run in done)
        lines.append(line)
    return lines


def doubts(runs: list[dict]) -> list[str]:
    """What contradicts weak duality or the solver's own figures: a fault of somebody's."""
    found = []
    if any(run["distance"] < -1e-6 for run in runs):
        found.append("its primal objective lies below the certified dual")
    if any(abs(run["certified_primal"] / run["primal"] - 1.0) > 1e-6 for run in runs if "certified_primal" in run):
        found.append("the primal objective that it certified is not the one computed from its weights")
    return found


def curves(lines: list[dict]) -> dict[str, list[tuple[float, float]]]:
    """(seconds, relative distance) of each curve, by seconds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if "seconds" in line:
            found.setdefault(line["curve"], []).append((line["seconds"], max(FLOOR, line["distance"])))
    return {name: sorted(points) for name, points in found.items()}


def time_to(points: list[tuple[float, float]], target: float) -> tuple[float, str] | None:
    """Seconds at which a curve reaches the target, between two of its points along a straight line in log-log.

    (seconds, '') or, where the first point is there already, (its seconds, '<='); None where no point is.
    """
    for k, (seconds, distance) in enumerate(points):
        if distance > target:
            continue
        if k == 0:
            return seconds, "<=" if distance < target else ""
        before, above = points[k - 1]
        share = math.log(above / target) / math.log(above / distance)
        return before * (seconds / before) ** share, ""
    return None


def _reaches(name: str, reached: tuple[float, str] | None, what: str = "") -> str:
    return (
        f"{name} does not{what and ' reach' + what}"
        if reached is None
        else (f"{name}{what and ' reaches' + what} in {reached[1]} {reached[0]:.2f} s".replace("  ", " "))
    )


def ratios(lines: list[dict], target: float = TARGET) -> list[str]:
    """'blocksvm reaches relative distance X in t1, liblinear in t2' for every curve beside blocksvm's."""
    times = {name: time_to(points, target) for name, points in curves(lines).items()}
    ours = times.pop("blocksvm", None)
    told = []
    for name, theirs in times.items():
        text = f"{_reaches('blocksvm', ours, f' relative distance {target:g}')}, {_reaches(name, theirs)}"
        if ours is not None and theirs is not None:
            exact = "" if not (ours[1] or theirs[1]) else " (bounded only: a first point lies below already)"
            text += f": {theirs[0] / ours[0]:.2f} times as long{exact}"
        told.append(text)
    return told


def ratios_at_ours(lines: list[dict], level: str = "tol=1e-3") -> list[str]:
    """'the primal that blocksvm certifies at its level in t1, liblinear reaches in t2', for every other curve."""
    own = next((line for line in lines if line["solver"] == "blocksvm" and line["level"] == level), {})
    if "seconds" not in own:
        return []
    told = []
    for name, points in curves(lines).items():
        if name == "blocksvm":
            continue
        theirs = time_to(points, max(FLOOR, own["distance"]))
        text = f"blocksvm at {level} ends after {own['seconds']:.2f} s at distance {own['distance']:.1e}"
        text += f", {_reaches(name, theirs, ' the same primal')}"
        if theirs is not None:
            text += f": {theirs[0] / own['seconds']:.2f} times as long"
        told.append(text)
    return told


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def markdown(result: dict) -> str:
    """The table, with all that is needed to judge it."""
    m, data, lines = result["machine"], result["data"], result["summary"]
    reference = result["reference"]
    out = [f"# {data['name']}", ""]
    out.append(
        f"{m['date']}; {m['cpu']}, {m['cores']} cores, {m['ram_gb']} GB RAM; {m['system']}; Python {m['python']}."
    )
    out.append(
        f"{data['rows']:,} rows, {data['columns']:,} columns, {data['nonzeros']:,} nonzeros, "
        f"{data['text_bytes'] / 1e6:,.0f} MB of text; store {data['store_bytes'] / 1e6:,.0f} MB, made in "
        f"{data['split_seconds']:.1f} s ({data['text_bytes'] / 1e6 / data['split_seconds']:,.0f} MB/s of text, "
        f"start-up included). Hinge loss, C = {data['C']:g}, no bias. blocksvm's budget of memory: "
        f"{data['memory'] / 1e6:,.0f} MB, {data['memory_rule']}."
    )
    out.append(
        f"Distance: (P - P*) / P* with P* = {reference['optimum']:.8g}, the largest dual that blocksvm has certified "
        f"(in the run of tol {reference['tol']:g}, gap {reference['rel_gap']:.1e}: distances near it are too large). "
        f"P is computed from each w in float64. Medians of {result['repeats']} interleaved runs."
    )
    out += ["", "| solver | level | seconds (least-most) | wall s | load s | distance | training accuracy "
            "| test accuracy | peak MB |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for line in lines:
        if "seconds" not in line:
            out.append(f"| {line['solver']} | {line['level']} | failed: {'; '.join(line['errors'])} | | | | | | |")
            continue
        flag = " (!)" if line["warnings"] or line["errors"] else ""
        out.append(
            f"| {line['solver']} | {line['level']}{flag} | {line['seconds']:.2f} "
            f"({line['least_seconds']:.2f}-{line['most_seconds']:.2f}) | {line['wall_seconds']:.2f} "
            f"| {line['load_seconds']:.2f} | {line['distance']:.1e} | {line['train_accuracy']:.4f} "
            f"| {_cell(line['test_accuracy'], '.4f')} | {line['peak_rss_mb']:.0f} |"
        )
    out += ["", *(f"- {text}" for text in result["ratios"])]
    for line in lines:
        out += [f"- (!) {line['solver']} {line['level']}: {text}" for text in line["warnings"] + line["errors"]]
    out += [
        "",
        "Settings (seconds: training alone; wall: the whole process, for peers with imports, loading of binary "
        "arrays and saving of w; load: what comes between imports and training):",
        "",
    ]
    for name, solver in result["solvers"].items():
        state = f"{solver['version']}. {solver['about']}." if solver["version"] else solver["missing"]
        out.append(f"- {name}: {state}")
    if result.get("roofline"):
        from experiments.roofline import markdown as roofline_markdown

        out += ["", roofline_markdown(result["roofline"])]
    return "\n".join(out) + "\n"


def figure(result: dict, path: Path) -> None:
    """Distance against seconds, both logarithmic, and beside it each curve's peak memory."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    found = curves(result["summary"])
    peaks = {name: max(line["peak_rss_mb"] for line in result["summary"] if line["curve"] == name and "seconds" in line)
             for name in found}  # fmt: skip
    colors = dict(zip(found, plt.get_cmap("tab10").colors, strict=False))
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), width_ratios=(2.2, 1), layout="constrained")
    for name, points in found.items():
        ours = name == "blocksvm"
        left.loglog(*zip(*points, strict=True), "o-", label=name, color=colors.get(name), lw=2.5 if ours else 1.2)
    left.axhline(TARGET, color="grey", lw=0.8, ls=":")
    left.set(xlabel="seconds of training", ylabel="relative distance to the optimum", title=result["data"]["name"])
    # 1, 2, 5, 10, ...: labels of all minor ticks of few decades would overlap
    left.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    left.xaxis.set_major_formatter("{x:g}")
    left.xaxis.set_minor_locator(LogLocator(subs="all", numticks=20))
    left.xaxis.set_minor_formatter(NullFormatter())
    left.legend(fontsize=8)
    right.barh(list(peaks), list(peaks.values()), color=[colors.get(name) for name in peaks])
    right.invert_yaxis()
    right.set(xlabel="peak memory of the process, MB")
    fig.savefig(path, dpi=130)
    plt.close(fig)
