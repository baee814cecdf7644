"""The result of a benchopt run as tables, and as a figure: distance to the optimum against seconds.

    python -m experiments.curves RESULT.parquet [--tol 1e-3 1e-5] [--figure FILE.png] [--json FILE]
    python -m experiments.curves KEPT.json --figure FILE.png     draws the figure again

A row is the median of the repetitions of a solver at one tolerance or number of iterations.  P* is the largest dual
that blocksvm has certified.  The other tables: seconds until each solver's curve, straight lines between its points in
logarithms, is at the primal at which blocksvm (the first of its configurations) ends with each tolerance of --tol; the
other figures there are of the first level at which it is.  Parameters that all runs of a solver share are not shown.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from experiments.measuring import Tables, panels, parser

FLOOR = 1e-9  # a distance below it is rounding
TICKS = [float(f"{digit}e{power}") for power in range(-3, 4) for digit in (1, 2, 5)]  # seconds
PROGRAMS = {
    "liblinear": "LIBLINEAR", "LinearSVC": "scikit-learn LinearSVC", "SGDClassifier": "scikit-learn SGDClassifier",
    "snapml": "Snap ML", "vowpal-wabbit": "Vowpal Wabbit",
}  # fmt: skip
PARAMETERS = {"n_jobs=1": "one thread", "n_jobs=2": "two threads", "update=default": "", "update=sgd": "--sgd"}
TITLES = {
    "imdb-words": "IMDB, 50,000 reviews: 29.2 M nonzeros, hinge loss",
    "imdb-train": "IMDB, 25,000 reviews: 14.8 M nonzeros, hinge loss",
    "zipf": "planted rows: 63.9 M nonzeros, hinge loss",
}


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


def named_plainly(solver: str) -> str:
    """ "LIBLINEAR" for "liblinear"; what is in brackets tells runs of one program apart."""
    program, _, given = solver.partition("[")
    more = PARAMETERS.get(given.rstrip("]"), given.rstrip("]"))
    return PROGRAMS.get(program, program) + (f", {more}" if more else "")


def figure(table: dict, path: Path) -> None:
    """Of a table of all levels, as it is kept: seconds and distances, both axes logarithmic, and peak memory."""
    from matplotlib.ticker import NullFormatter

    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    with panels(path, n_columns=2, width_ratios=(2.2, 1)) as axes:
        left, right = axes[0]
        for solver in dict.fromkeys(row["solver"] for row in rows):
            levels = [row for row in rows if row["solver"] == solver and row["tolerance or iterations"] != "0"]
            ours, name = solver.startswith("blocksvm"), named_plainly(solver)
            seconds = [float(row["seconds (least-most)"].partition(" ")[0]) for row in levels]
            distances = [float(row["distance"]) for row in levels]
            (line,) = left.loglog(
                seconds, distances, "o-", label=name, lw=2.5 if ours else 1.2, zorder=3 if ours else 2
            )
            peak = max(float(row["peak MB"]) for row in levels)
            right.barh(name, peak, color=line.get_color())
            right.annotate(f" {peak:,.0f}", (peak, name), va="center", fontsize=8)
        data = table["title"].partition(", linear")[0]
        left.set(xlabel="seconds of training", ylabel="relative distance to the optimum", title=TITLES.get(data, data))
        lowest, highest = left.get_xlim()
        left.set_xticks(ticks := [one for one in TICKS if lowest <= one <= highest], [f"{one:g}" for one in ticks])
        left.xaxis.set_minor_formatter(NullFormatter())
        left.legend(fontsize=8)
        right.invert_yaxis()
        right.margins(x=0.2)
        right.set(title="peak memory, MB", xlabel="blocksvm: Python included;\nthe others: beside Python")


def main() -> None:
    import pandas as pd

    p = parser(__doc__)
    p.add_argument("result", type=Path, metavar="RESULT.parquet", help="or a file that --json has written")
    p.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-5])
    p.add_argument("--figure", type=Path, metavar="FILE.png")
    options = p.parse_args()
    if options.result.suffix == ".json":
        figure(json.loads(options.result.read_text())["tables"][0], options.figure)
        return
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
            figure(next(one for one in tables.tables if one["title"].startswith(f"{data}, {objective}, P*")),
                   options.figure)  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
