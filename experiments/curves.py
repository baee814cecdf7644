"""The result of a benchopt run as tables, and as a figure: distance to the optimum against seconds.

    python -m experiments.curves RESULT.parquet [--figure FILE.png]

A row is the median of the repetitions of a solver at one tolerance or number of iterations.  P* is the largest dual
that blocksvm has certified.  The other tables: seconds until each solver's curve, straight lines between its points in
logarithms, is at the primal at which blocksvm (the first of its configurations) ends with 1e-3 and 1e-5; the other
figures there are of the first level at which it is.  Parameters that all runs of a solver share are not shown.
"""

import math
import re
from pathlib import Path

from experiments.runs import row, script, table

FLOOR = 1e-9  # a distance below it is rounding
TARGETS = (1e-3, 1e-5)


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
    frame = frame.rename(columns=lambda name: name.removeprefix("objective_"))
    frame = frame.assign(seconds=frame["seconds"].fillna(frame["time"]))
    curves = {}
    for solver, runs in frame.groupby("solver_name", sort=False):
        levels = runs.groupby("stop_val")
        found = levels.median(numeric_only=True).join(levels["seconds"].agg(["min", "max"]))
        found["peak_mb"] = levels["peak_mb"].max()
        curves[solver] = found.reset_index().sort_values("seconds").to_dict("records")
    return curves


def seconds_to(levels: list[dict], target: float) -> tuple[float, dict] | None:
    """Seconds at which a curve is at the target distance, and the first level that is; None where none is."""
    for before, level in zip([None, *levels], levels, strict=False):
        if level["distance"] <= target:
            if before is None:
                return level["seconds"], level
            logs = [math.log(one["distance"]) for one in (before, level)]
            share = (logs[0] - math.log(target)) / (logs[0] - logs[1])
            return before["seconds"] * (level["seconds"] / before["seconds"]) ** share, level
    return None


def draw(title: str, curves: dict[str, list[dict]], path: str) -> None:
    """Seconds and distances, both axes logarithmic, and peak memory."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size, widths = (11, 4.5), {"width_ratios": (2.2, 1)}
    figure, (left, right) = plt.subplots(1, 2, figsize=size, layout="constrained", gridspec_kw=widths)
    for solver, levels in curves.items():
        seconds, distances = ([level[key] for level in levels] for key in ("seconds", "distance"))
        (line,) = left.loglog(seconds, distances, "o-", label=solver, lw=2.5 if "blocksvm" in solver else 1.2)
        peak = max(level["peak_mb"] for level in levels)
        right.barh(solver, peak, color=line.get_color())
        right.annotate(f" {peak:,.0f}", (peak, solver), va="center", fontsize=8)
    left.set(xlabel="seconds of training", ylabel="relative distance to the optimum", title=title)
    left.legend(fontsize=8)
    right.invert_yaxis()
    right.set(title="peak memory, MB", xlabel="blocksvm: Python included;\nthe others: beside Python")
    figure.savefig(path, dpi=110)


@script("results+", figure="")
def main(options) -> None:
    import pandas as pd

    result = pd.concat(map(pd.read_parquet, options.results))
    result["solver_name"] = result["solver_name"].map(shown(list(result["solver_name"].unique())))
    for (dataset, objective), frame in result.groupby(["dataset_name", "objective_name"]):
        text, curves = re.search(r"[\[,]text=([^],]*)", dataset), points(frame)
        title = f"{Path(text[1]).stem if text else dataset}, {objective}"
        every = [level for levels in curves.values() for level in levels]
        duals = [level["dual"] for level in every if not math.isnan(level["dual"])]
        optimum = max(duals, default=min(level["value"] for level in every))
        scores = [c for c in every[0] if c.startswith(("train_", "test_"))]
        for level in every:
            level["distance"] = max(FLOOR, (level["value"] - optimum) / optimum)
            level["cells"] = [f"{level['stop_val']:g}", f"{level['distance']:.1e}",
                              "" if math.isnan(level["readings"]) else f"{level['readings']:.1f}",
                              f"{level['peak_mb']:.0f}", *(f"{level[score]:.4f}" for score in scores)]  # fmt: skip
        columns = "tolerance or iterations", "distance", "readings", "peak MB", *scores
        table(f"{title}, P* = {optimum:.8g}", "solver", "seconds (least-most)", *columns)
        for solver, levels in curves.items():
            for level in levels:
                row(solver, f"{level['seconds']:.3g} ({level['min']:.3g}-{level['max']:.3g})", *level["cells"])
        ours = next((levels for solver, levels in curves.items() if solver.startswith("blocksvm")), [])
        for end in (level for level in ours if any(math.isclose(level["stop_val"], tol) for tol in TARGETS)):
            table(f"{title}, to the primal certified at {end['stop_val']:g}", "solver", "seconds", "times as long",
                  *columns)  # fmt: skip
            for solver, levels in curves.items():
                reached, level = seconds_to(levels, end["distance"]) or (math.nan, {"cells": [""] * len(columns)})
                times = reached / seconds_to(ours, end["distance"])[0]
                told = ["not reached", ""] if math.isnan(reached) else [f"{reached:.3g}", f"{times:.2f}"]
                row(solver, *told, *level["cells"])
        if options.figure:
            draw(title, curves, options.figure)
