"""The charts of runs as one picture, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from blocksvm.reporting.charts import Chart, progress_charts, working_charts
from blocksvm.reporting.runs import TracedRun

COLUMNS = 3


def draw(runs: Sequence[TracedRun], file: IO[bytes]) -> None:
    """Write a PNG of every chart; without any, the picture says so."""
    from matplotlib.figure import Figure

    charts = progress_charts(runs) + working_charts(runs)
    columns = max(1, min(COLUMNS, len(charts)))
    rows = max(1, -(-len(charts) // columns))
    figure = Figure(figsize=(5.2 * columns, 3.9 * rows), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in places[len(charts) :]:
        axes.set_axis_off()
    for axes, chart in zip(places, charts, strict=False):
        _draw(axes, chart)
    if not charts:
        places[0].text(0.5, 0.5, "no figures yet", ha="center")
    figure.savefig(file, format="png", dpi=130)


def _draw(axes, chart: Chart) -> None:
    for series in chart.series:
        xs, ys = [point.x for point in series.points], [point.y for point in series.points]
        color = f"C{series.run % 10}"
        axes.plot(xs, ys, color=color, lw=1.3, ls="--" if series.second else "-", label=_plain(series.label))
        sure = [point for point in series.points if point.marked]
        axes.plot([point.x for point in sure], [point.y for point in sure], "o", color=color, ms=3)
    axes.set(xscale="log" if chart.x.log else "linear", yscale="log" if chart.y.log else "linear")
    axes.set(xlabel=chart.x.label, ylabel=chart.y.label)
    axes.set_title(chart.title, fontsize=10)
    for axis, scale in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        low, high = scale.range_of(
            point.x if scale is chart.x else point.y for series in chart.series for point in series.points
        )
        axis.set_ticks(scale.ticks(low, high), scale.tick_texts(scale.ticks(low, high)))
        axis.set_ticks([], minor=True)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)


def _plain(text: str) -> str:
    """A label literally: without formulas, and not hidden by a leading '_'."""
    return " " * text.startswith("_") + text.replace("$", r"\$")
