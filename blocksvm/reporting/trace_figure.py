"""The charts of runs as one picture, drawn by matplotlib; of equal curves the earlier ones are wider, with other
markers beside those of the later ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from blocksvm.reporting.charts import Chart, Series, progress_charts, working_charts
from blocksvm.reporting.runs import TracedRun

COLUMNS, CELLS = 3, 6  # charts in a row at most; cells of a row, which its charts share evenly
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#1b7c83", "#7d4e00", "#bf3989")  # those of the page
MARKERS, MARKED = "osD^vPX*", 10  # of these about so many on a curve


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
    grid, told = figure.add_gridspec(rows, CELLS), {}
    names = list(dict.fromkeys(_named(series, runs)[0] for chart in charts for series in chart.series))
    left = iter(charts)
    for row in range(rows):
        columns = (len(charts) + rows - 1 - row) // rows
        for k, cells in zip(range(0, CELLS, CELLS // columns), [CELLS // columns] * columns, strict=True):
            _draw(figure.add_subplot(grid[row, k : k + cells]), next(left), runs, names, told)
    # a label literally: without formulas, and not hidden by a leading '_'
    texts = [" " * name.startswith("_") + name.replace("$", r"\$") for name in told]
    figure.legend(told.values(), texts, loc="outside upper center", ncols=2 * widest, fontsize=9)
    return figure


def _named(series: Series, runs: Sequence[TracedRun]) -> tuple[str, str]:
    """(what the legend calls a curve: its run, or its run and learner; what tells it from the run's other curves)."""
    run = runs[series.run]
    kind = series.label.removeprefix(run.name).removeprefix(", ")
    return (series.label, "") if len(run.online) > 1 and kind in run.online else (run.name, kind)


def _draw(axes, chart: Chart, runs: Sequence[TracedRun], names: list[str], told: dict) -> None:
    """Draw a chart; told: a curve of each name so far, for the legend."""
    numbers = sorted({names.index(_named(series, runs)[0]) for series in chart.series})
    title = chart.title
    for series in chart.series:
        name, kind = _named(series, runs)
        number = names.index(name)
        above = min(3, len(numbers) - 1 - numbers.index(number))  # curves that may hide this one
        dashed = series.second and kind != ""
        title = f"{chart.title} (dashed: {kind})" if dashed else title
        sure = [k for k, point in enumerate(series.points) if point.marked]
        step = max(1, len(sure) // MARKED)
        [told[name]] = axes.plot(
            [point.x for point in series.points], [point.y for point in series.points], ls="--" if dashed else "-",
            color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)], lw=1.2 + 0.9 * above,
            ms=3.5 + 1.2 * above, zorder=2 + number / len(names), markevery=sure[number * step // len(names) :: step],
        )  # fmt: skip
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
