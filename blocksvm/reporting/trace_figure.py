"""The charts of runs as one picture, drawn by matplotlib: each curve's colour, marker and width, told once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from blocksvm.reporting.charts import Chart, Series, progress_charts, working_charts
from blocksvm.reporting.runs import TracedRun

COLUMNS = 3
WIDTH = 6 * COLUMNS  # cells of a row, which its charts share evenly, one or two of them as well
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#1b7c83", "#7d4e00", "#bf3989")  # those of the page
MARKERS = "osD^vPX*"
MARKED = 10  # points of a curve that have a marker, at most about so many
DEPTHS = 3  # by so many steps curves are wider that lie below others: of equal ones an edge remains


def draw(runs: Sequence[TracedRun], file: IO[bytes]) -> None:
    """Write a PNG of every chart; without any, the picture says so."""
    figure_of(runs).savefig(file, format="png", dpi=130)


def figure_of(runs: Sequence[TracedRun]):
    """The picture as matplotlib's figure."""
    from matplotlib.figure import Figure

    charts = progress_charts(runs) + working_charts(runs)
    rows = max(1, -(-len(charts) // COLUMNS))
    widest = max(1, -(-len(charts) // rows))
    figure = Figure(figsize=(5.2 * widest, 3.9 * rows), layout="constrained")
    if not charts:
        figure.text(0.5, 0.5, "no figures yet", ha="center")
        return figure
    grid = figure.add_gridspec(rows, WIDTH)
    names = {name_of(series, runs): None for chart in charts for series in chart.series}
    numbers = {name: number for number, name in enumerate(names)}
    first, told = 0, {}
    for row in range(rows):
        columns = -(-(len(charts) - first) // (rows - row))
        for column, chart in enumerate(charts[first : first + columns]):
            width = WIDTH // columns
            axes = figure.add_subplot(grid[row, column * width : (column + 1) * width])
            _draw(axes, chart, runs, numbers, told)
        first += columns
    # a label literally: without formulas, and not hidden by a leading '_'
    texts = [" " * name.startswith("_") + name.replace("$", r"\$") for name in told]
    figure.legend(told.values(), texts, loc="outside upper center", ncols=min(len(texts), 2 * widest), fontsize=9)
    return figure


def name_of(series: Series, runs: Sequence[TracedRun]) -> str:
    """What the legend calls a curve: its run, or its run and learner."""
    run = runs[series.run]
    return series.label if len(run.online) > 1 and _kind(series, runs) in run.online else run.name


def _kind(series: Series, runs: Sequence[TracedRun]) -> str:
    """What the label of a curve has beside the name of its run."""
    return series.label.removeprefix(runs[series.run].name).removeprefix(", ")


def _draw(axes, chart: Chart, runs: Sequence[TracedRun], numbers: dict[str, int], told: dict) -> None:
    """Draw a chart; told: a curve of each name so far, for the legend."""
    title = chart.title
    of_chart = sorted({numbers[name_of(series, runs)] for series in chart.series})
    for series in chart.series:
        name = name_of(series, runs)
        number, below = numbers[name], min(DEPTHS, len(of_chart) - 1 - of_chart.index(numbers[name]))
        second = series.second and name != series.label  # several learners have names, and colours, of their own
        if second:
            title = f"{chart.title} (dashed: {_kind(series, runs)})"
        sure = [k for k, point in enumerate(series.points) if point.marked]
        step = max(1, len(sure) // MARKED)
        [line] = axes.plot(
            [point.x for point in series.points], [point.y for point in series.points], ls="--" if second else "-",
            color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)],
            lw=1.2 + 0.9 * below, ms=3.5 + 1.2 * below, zorder=2 + number / len(numbers),
            markevery=sure[number * step // len(numbers) :: step],  # those of several stand beside each other
        )  # fmt: skip
        told.setdefault(name, line)
    axes.set(xscale="log" if chart.x.log else "linear", yscale="log" if chart.y.log else "linear")
    axes.set(xlabel=chart.x.label, ylabel=chart.y.label)
    axes.set_title(title, fontsize=10)
    for axis, scale in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        low, high = scale.range_of(
            point.x if scale is chart.x else point.y for series in chart.series for point in series.points
        )
        axis.set_ticks(scale.ticks(low, high), scale.tick_texts(scale.ticks(low, high)))
        axis.set_ticks([], minor=True)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
