"""The result of a benchopt run as tables, and as a figure: distance to the optimum against seconds.

    python -m experiments.curves RESULT.parquet [--tol 1e-3 1e-5] [--figure FILE.png]

A row is the median of the repetitions of a solver at one tolerance or number of iterations.  P* is the largest dual
that blocksvm has certified.  The other tables: seconds until each solver's curve, straight lines between its points in
logarithms, is at the primal at which blocksvm (the first of its configurations) ends with each tolerance of --tol; the
other figures there are of the first level at which it is.  Parameters that all runs of a solver share are not shown.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from experiments.runs import begin, panels, parser, row, table

FLOOR = 1e-9  # a distance below it is rounding


def shown(names: list[str]) -> dict[str, str]:
    """Names of solvers ("snapml[max_iter=10,n_jobs=1]") without the parameters that all of one program share."""
    parsed = {name: (name.partition("[")[0], name.partition("[")[2].rstrip("]").split(",")) for name in names}
    short = {}
    for name, (program, given) in parsed.items():
        shared = set.intersection(*(set(others) for whose, others in parsed.values() if whose == program))
        own = ",".join(one for one in given if one not in shared)
        short[name] = f"{program}[{own}]" if own else program
    return short


def points(frame) -> dict[str, list[dict]]:
    """By solver, sorted by seconds: the median of each figure at each stopping value, but at no iterations at all; of
    memory the largest, since a repetition in one process may find what the one before it had taken."""
    frame = frame[frame["stop_val"] > 0]
    frame = frame.assign(seconds=frame["objective_seconds"].fillna(frame["time"]))
    curves = {}
    for solver, runs in frame.groupby("solver_name", sort=False):
        levels = runs.groupby("stop_val")
        medians = levels[[c for c in runs if c.startswith("objective_") and c != "objective_name"]]
        found = medians.median(numeric_only=True).join(levels[["seconds", "time"]].median())
        found["objective_peak_mb"] = levels["objective_peak_mb"].max()
        found = found.join(levels["seconds"].agg(["min", "max"]))
        curves[solver] = found.reset_index().sort_values("seconds").to_dict("records")
    return curves


def seconds_to(curve: list[tuple[float, float]], target: float) -> float | None:
    """Seconds at which a curve of (seconds, distance) is at the target; None where no point is."""
    for k, (seconds, distance) in enumerate(curve):
        if distance > target:
            continue
        if k == 0:
            return seconds
        before, above = curve[k - 1]
        return before * (seconds / before) ** (math.log(above / target) / math.log(above / distance))
    return None


def cells(level: dict, scores: list[str]) -> list[str]:
    """What tables say of a level beside its seconds."""
    readings = "" if math.isnan(level["objective_readings"]) else f"{level['objective_readings']:.1f}"
    rest = [f"{level[score]:.4f}" for score in scores]
    return [f"{level['time']:.3g}", f"{level['distance']:.1e}", readings, f"{level['objective_peak_mb']:.0f}", *rest]


def draw(title: str, curves: dict[str, list[dict]], path: Path) -> None:
    """Seconds and distances, both axes logarithmic, and peak memory."""
    with panels(path, n_columns=2, width_ratios=(2.2, 1)) as axes:
        left, right = axes[0]
        for solver, levels in curves.items():
            seconds, distances = ([level[key] for level in levels] for key in ("seconds", "distance"))
            (line,) = left.loglog(seconds, distances, "o-", label=solver, lw=2.5 if "blocksvm" in solver else 1.2)
            peak = max(level["objective_peak_mb"] for level in levels)
            right.barh(solver, peak, color=line.get_color())
            right.annotate(f" {peak:,.0f}", (peak, solver), va="center", fontsize=8)
        left.set(xlabel="seconds of training", ylabel="relative distance to the optimum", title=title)
        left.legend(fontsize=8)
        right.invert_yaxis()
        right.set(title="peak memory, MB", xlabel="blocksvm: Python included;\nthe others: beside Python")


def main() -> None:
    import pandas as pd

    p = parser(__doc__)
    p.add_argument("result", type=Path, metavar="RESULT.parquet")
    p.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-5])
    p.add_argument("--figure", type=Path, metavar="FILE.png")
    options = p.parse_args()
    begin()
    result = pd.read_parquet(options.result)
    result["solver_name"] = result["solver_name"].map(shown(list(result["solver_name"].unique())))
    for (dataset, objective), frame in result.groupby(["dataset_name", "objective_name"]):
        text = re.search(r"[\[,]text=([^],]*)", dataset)
        data, curves = Path(text[1]).stem if text else dataset, points(frame)
        every = [level for levels in curves.values() for level in levels]
        duals = [level["objective_dual"] for level in every if not math.isnan(level["objective_dual"])]
        optimum = max(duals, default=min(level["objective_value"] for level in every))
        scores = [c for c in every[0] if c.startswith(("objective_train", "objective_test"))]
        of_runs = "whole run, s", "distance", "readings", "peak MB", *(c.removeprefix("objective_") for c in scores)
        table(f"{data}, {objective}, P* = {optimum:.8g}", "solver", "tolerance or iterations", "seconds (least-most)",
              *of_runs)  # fmt: skip
        for solver, levels in curves.items():
            for level in levels:
                level["distance"] = max(FLOOR, (level["objective_value"] - optimum) / optimum)
                seconds = f"{level['seconds']:.3g} ({level['min']:.3g}-{level['max']:.3g})"
                row(solver, f"{level['stop_val']:g}", seconds, *cells(level, scores))
        ours = next((levels for solver, levels in curves.items() if solver.startswith("blocksvm")), [])
        for end in (level for level in ours if any(math.isclose(level["stop_val"], tol) for tol in options.tol)):
            table(f"{data}, {objective}, to the primal certified at {end['stop_val']:g}, distance "
                  f"{end['distance']:.1e}", "solver", "seconds", "times as long", "tolerance or iterations",
                  *of_runs)  # fmt: skip
            at = {solver: seconds_to([(level["seconds"], level["distance"]) for level in levels], end["distance"])
                  for solver, levels in curves.items()}  # fmt: skip
            shortest = next(seconds for solver, seconds in at.items() if solver.startswith("blocksvm"))
            for solver, levels in curves.items():
                if (reached := at[solver]) is None:
                    row(solver, "not reached", *[""] * (2 + len(of_runs)))
                    continue
                level = next(level for level in levels if level["distance"] <= end["distance"])
                row(solver, f"{reached:.3g}", f"{reached / shortest:.2f}", f"{level['stop_val']:g}",
                    *cells(level, scores))  # fmt: skip
        if options.figure:
            draw(f"{data}: {objective}", curves, options.figure)


if __name__ == "__main__":
    main()
