"""The charts of runs, drawn by matplotlib: what is drawn is a table, one entry a chart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, NamedTuple

from blocksvm.reporting.runs import TracedRun

COLUMNS = 3  # charts in a row
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#1b7c83", "#7d4e00", "#bf3989")
MARKERS = "osD^vPX*"
# what the thread that trains does, and what the threads that read do meanwhile
SECONDS = {"training": "seconds_training", "passes over the working set": "set_seconds",
           "waiting for a block": "seconds_waiting", "reading": "seconds_reading",
           "decoding": "seconds_decoding"}  # fmt: skip


class Curve(NamedTuple):
    run: int
    label: str
    points: list[tuple[float, float, bool]]  # x, y, whether it is certified or measured, and no estimate
    dashed: bool


@dataclass(frozen=True)
class Chart:
    title: str
    x: str
    at: str  # the figure along x, of an iteration or an online learner's record
    of: dict[str, str]  # figures along y by name, the second one dashed
    log: str = ""  # the axes that are logarithmic
    online: bool = False
    percent: bool = False  # y is a share

    def curves(self, runs: Sequence[TracedRun]) -> Iterator[Curve]:
        for k, run in enumerate(runs):
            records = run.online if self.online else {"": run.iterations}
            for name, ones in records.items():
                for second, (what, name_of_y) in enumerate(self.of.items()):
                    sure = [one.get("certified", True) for one in ones]
                    xs, ys = ([one.get(key) for one in ones] for key in (self.at, name_of_y))
                    points = zip(xs, ys, sure, strict=True)
                    there = [one for one in points if None not in one and all(one["xy".index(a)] > 0 for a in self.log)]
                    label = ", ".join(filter(None, (run.name, name if len(records) > 1 else "", what)))
                    if there:
                        some = [*there[: -1 : -(-len(there) // 300)], there[-1]]  # evenly spaced, and the last one
                        yield Curve(k, label, some, second == 1)


CHARTS = (
    Chart("gap", "seconds", "seconds", {"": "gap"}, "xy"),
    Chart("gap", "bytes read", "bytes_read", {"": "gap"}, "xy"),
    Chart("objective", "seconds", "seconds", {"primal": "objective", "dual": "bound"}, "xy"),
    Chart("accuracy", "seconds", "seconds", {"held out": "valid_accuracy", "training rows": "accuracy"}, "x",
          percent=True),
    Chart("root mean squared error", "seconds", "seconds", {"held out": "valid_rmse", "training rows": "rmse"}, "xy"),
    Chart("working set", "outer iteration", "outer", {"of the rows": "set_rows", "of the gap": "set_share"},
          percent=True),
    Chart("passes", "outer iteration", "outer",
          {"over a block": "mean_passes", "over the working set": "passes_over_set"}),
    Chart("average loss", "rows", "rows", {"": "loss"}, "x", online=True),
    Chart("mistakes", "rows", "rows", {"": "share_wrong"}, "x", online=True, percent=True),
    Chart("root mean squared error", "rows", "rows", {"": "error"}, "xy", online=True),
)  # fmt: skip


def charts_of(runs: Sequence[TracedRun]) -> list[tuple[Chart, list[Curve]]]:
    """The charts that have something to show.  Rows that stay in memory are read once: no gap against bytes then."""
    grows = any(run.iterations and run.iterations[0]["bytes_read"] < run.iterations[-1]["bytes_read"] for run in runs)
    drawn = ((chart, list(chart.curves(runs))) for chart in CHARTS if chart.x != "bytes read" or grows)
    return [(chart, curves) for chart, curves in drawn if curves]


def spent(run: TracedRun) -> dict[str, float]:
    """Seconds by what they were spent on; 'other': of the thread that trains, not measured apart."""
    found = {what: sum(one.get(seconds, 0.0) for one in run.iterations) for what, seconds in SECONDS.items()}
    lasted = sum(one["lasted"] for one in run.iterations)
    return found | {"other": max(0.0, lasted - sum(list(found.values())[:3]))}


def draw(runs: Sequence[TracedRun], file: IO[bytes], kind: str) -> None:
    """Write the charts as 'png', 'svg' or 'pdf'; equal runs give equal bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    drawn = charts_of(runs)
    timed = [run for run in runs if any(one["lasted"] > 0.0 for one in run.iterations)]
    n = max(1, len(drawn) + bool(timed))
    rows, columns = -(-n // COLUMNS), min(n, COLUMNS)
    figure = Figure(figsize=(5.2 * columns, 4.0 * rows), layout="constrained")
    if not (drawn or timed):
        figure.text(0.5, 0.5, "no figures yet", ha="center")
    for k, (chart, curves) in enumerate(drawn):
        _draw(figure.add_subplot(rows, columns, k + 1), chart, curves)
    if timed:
        _draw_seconds(figure.add_subplot(rows, columns, n), timed)
    dated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "blocksvm"}):
        figure.savefig(file, format=kind, dpi=130, metadata=dated[kind])


def _literal(text: str) -> str:
    """A label without formulas, and not hidden by a leading '_'."""
    return " " * text.startswith("_") + text.replace("$", r"\$")


def _draw(axes, chart: Chart, curves: list[Curve]) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator, PercentFormatter, StrMethodFormatter

    above = dict.fromkeys(curve.run for curve in curves)  # of equal runs the earlier ones are wider, and show
    above = {run: min(3, len(above) - 1 - k) for k, run in enumerate(above)}
    for curve in curves:
        xs, ys, sure = zip(*curve.points, strict=True)
        axes.plot(xs, ys, ls="--" if curve.dashed else "-", color=COLOURS[curve.run % len(COLOURS)],
                  marker=MARKERS[curve.run % len(MARKERS)], lw=1.2 + 0.9 * above[curve.run], ms=4,
                  markevery=[k for k, one in enumerate(sure) if one][:: max(1, len(sure) // 12)],
                  label=_literal(curve.label))  # fmt: skip
    axes.set(xscale="log" if "x" in chart.log else "linear", yscale="log" if "y" in chart.log else "linear",
             xlabel=chart.x, title=chart.title)  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high < 1000.0 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if chart.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if chart.x in ("bytes read", "rows"):
        axes.xaxis.set_major_formatter(EngFormatter("B" if chart.x == "bytes read" else ""))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def _draw_seconds(axes, runs: Sequence[TracedRun]) -> None:
    """For each run a bar of the thread that trains, and one of the threads that read."""
    colours = dict(zip([*SECONDS, "other"], COLOURS, strict=False))
    for k, run in enumerate(runs):
        left = {0: 0.0, 1: 0.0}
        for what, seconds in spent(run).items():
            lane = what in ("reading", "decoding")
            label = what if k == 0 else None
            axes.barh(k + 0.35 * lane, seconds, 0.3, left[lane], color=colours[what], label=label)
            left[lane] += seconds
    axes.set_yticks(range(len(runs)), [_literal(run.name) for run in runs])
    axes.set_ylim(len(runs), -1.5)  # with room for the legend
    axes.set(xlabel="seconds", title="where the time went")
    axes.legend(fontsize=8, loc="upper center", ncols=2)
