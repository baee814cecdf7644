"""The result of a benchopt run as tables, and as a figure: distance to the optimum against seconds.

    python -m experiments.curves RESULT.parquet [--tol 1e-3 1e-5] [--figure FILE.png] [--json FILE]

A row is the median of the repetitions of a solver at one tolerance or number of iterations.  P* is the largest dual
that blocksvm has certified.  The other tables: seconds until each solver's curve, straight lines between its points in
logarithms, is at the primal at which blocksvm (the first of its configurations) ends with each tolerance of --tol; the
other figures there are of the first level at which it is.  Parameters that all runs of a solver share are not shown.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from experiments.measuring import Tables, panels, parser

FLOOR = 1e-9  # a distance below it is rounding


def named(dataset: str, objective: str) -> str:
    """Its file's name ("svmlight[...,text=/data/enron.svm]"), with the loss where that is not the hinge."""
    text, loss = re.search(r"[\[,]text=([^],]*)", dataset), re.search(r"[\[,]loss=([^],]*)", objective)
    data = Path(text[1]).stem if text else dataset
    return data if loss is None or loss[1] == "hinge" else f"{data} ({loss[1]})"


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
        figures = runs.groupby("stop_val")[[c for c in runs if c.startswith("objective_") and c != "objective_name"]]
        table = figures.median(numeric_only=True).join(runs.groupby("stop_val")[["seconds", "time"]].median())
        table["objective_peak_mb"] = runs.groupby("stop_val")["objective_peak_mb"].max()
        bounds = runs.groupby("stop_val")["seconds"].agg(["min", "max"])
        curves[solver] = table.join(bounds).reset_index().sort_values("seconds").to_dict("records")
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


def told(row: dict, scores: list[str]) -> list[str]:
    """What tables say of a level beside its seconds."""
    readings = "" if math.isnan(row["objective_readings"]) else f"{row['objective_readings']:.1f}"
    rest = [f"{row[score]:.4f}" for score in scores]
    return [f"{row['time']:.3g}", f"{row['distance']:.1e}", readings, f"{row['objective_peak_mb']:.0f}", *rest]


def figure(curves: dict[str, list[dict]], title: str, path: Path) -> None:
    """Both axes logarithmic; beside it each solver's peak memory."""
    with panels(path, n_columns=2, width_ratios=(2.2, 1)) as axes:
        left, right = axes[0]
        for solver, rows in curves.items():
            lines = [row["seconds"] for row in rows], [row["distance"] for row in rows]
            (line,) = left.loglog(*lines, "o-", label=solver, lw=2.5 if solver.startswith("blocksvm") else 1.2)
            right.barh(solver, max(row["objective_peak_mb"] for row in rows), color=line.get_color())
        left.set(xlabel="seconds of training", ylabel="relative distance to the optimum", title=title)
        left.legend(fontsize=8)
        right.invert_yaxis()
        right.set(xlabel="peak memory of the process, MB")


def main() -> None:
    import pandas as pd

    p = parser(__doc__)
    p.add_argument("result", type=Path, metavar="RESULT.parquet")
    p.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-5])
    p.add_argument("--figure", type=Path, metavar="FILE.png")
    options = p.parse_args()
    tables = Tables(options)
    result = pd.read_parquet(options.result)
    result["solver_name"] = result["solver_name"].map(shown(list(result["solver_name"].unique())))
    for (dataset, objective), frame in result.groupby(["dataset_name", "objective_name"]):
        data, curves = named(dataset, objective), points(frame)
        every = [row for rows in curves.values() for row in rows]
        duals = [row["objective_dual"] for row in every if not math.isnan(row["objective_dual"])]
        optimum = max(duals, default=min(row["objective_value"] for row in every))
        scores = [c for c in every[0] if c.startswith(("objective_train", "objective_test"))]
        of_runs = "whole run, s", "distance", "readings", "peak MB", *(c.removeprefix("objective_") for c in scores)
        tables.begin(f"{data}, {objective}, P* = {optimum:.8g}", "solver", "tolerance or iterations",
                     "seconds (least-most)", *of_runs)  # fmt: skip
        for solver, rows in curves.items():
            for row in rows:
                row["distance"] = max(FLOOR, (row["objective_value"] - optimum) / optimum)
                seconds = f"{row['seconds']:.3g} ({row['min']:.3g}-{row['max']:.3g})"
                tables.row(solver, f"{row['stop_val']:g}", seconds, *told(row, scores))
        ours = next((rows for solver, rows in curves.items() if solver.startswith("blocksvm")), [])
        for tol in options.tol:
            ended = next((row for row in ours if math.isclose(row["stop_val"], tol)), None)
            if ended is None:
                continue
            tables.begin(f"{data}, {objective}, to the primal certified at {tol:g}, distance {ended['distance']:.1e}",
                         "solver", "seconds", "times as long", "tolerance or iterations", *of_runs)  # fmt: skip
            at = {solver: seconds_to([(row["seconds"], row["distance"]) for row in rows], ended["distance"])
                  for solver, rows in curves.items()}  # fmt: skip
            shortest = next(seconds for solver, seconds in at.items() if solver.startswith("blocksvm"))
            for solver, rows in curves.items():
                if (reached := at[solver]) is None:
                    tables.row(solver, "not reached", *[""] * (2 + len(of_runs)))
                    continue
                row = next(row for row in rows if row["distance"] <= ended["distance"])
                level = [f"{reached:.3g}", f"{reached / shortest:.2f}", f"{row['stop_val']:g}"]
                tables.row(solver, *level, *told(row, scores))
        if options.figure:
            figure(curves, data, options.figure)
    tables.end()


if __name__ == "__main__":
    main()
