"""The charts of runs as data: curves, axes and their ticks, for any renderer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from blocksvm.reporting.runs import Iteration, TracedRun, thinned

MOST_POINTS = 300  # of a curve that are drawn
MOST_DIGITS = 10  # beside the usual ones, by which ticks are told apart
TICKS = 6  # at most about so many labels on an axis


# values as texts; more: digits beside the usual ones


def quantity(value: float, more: int = 0, unit: str = "") -> str:
    """'1.2 GB' or '3 k': three digits and an SI prefix."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power * 0.9995:
            return f"{value / 10**power:.{3 + more}g} {prefix}{unit}".rstrip()
    return f"{value:.{3 + more}g} {unit}".rstrip()


def in_bytes(value: float, more: int = 0) -> str:
    return quantity(value, more, "B")


def in_seconds(value: float, more: int = 0) -> str:
    scale, unit = (3600.0, "h") if value >= 7200.0 else (60.0, "min") if value >= 120.0 else (1.0, "s")
    return f"{value / scale:.{3 + more}g} {unit}"


def percent(value: float, more: int = 0) -> str:
    return f"{100.0 * value:.{4 + more}g}%"


def number(value: float, more: int = 0) -> str:
    return f"{value:.{6 + more}g}"


def short(value: float, more: int = 0) -> str:
    return f"{value:.{3 + more}g}"


@dataclass(frozen=True)
class Axis:
    """label; log: logarithmic, for values above 0; written(value, more): a value as text, with more digits."""

    label: str
    log: bool
    written: Callable[..., str] = number

    def scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def has_place(self, value: float | None) -> bool:
        return value is not None and (value > 0.0 or not self.log)

    def range_of(self, values: Iterable[float]) -> tuple[float, float]:
        """(least, most) of values, widened a little where they are equal."""
        values = list(values)
        least, most = min(values), max(values)
        if self.log:
            return (least, most) if most > 1.02 * least else (least / 1.1, most * 1.1)
        space = (most - least) or abs(most) or 1.0
        # a linear axis begins at 0 where that is near
        least = 0.0 if 0.0 <= least <= 0.5 * most or least == most >= 0.0 else least
        return least, most if most > least else least + space

    def ticks(self, least: float, most: float) -> list[float]:
        """Some ``TICKS`` round numbers within the range."""
        if not self.log:
            return round_numbers(least, most)
        low, high = math.ceil(math.log10(least) - 1e-9), math.floor(math.log10(most) + 1e-9)
        decades = high - low + 1
        if decades >= 3:
            step = -(-decades // TICKS)
            return [10.0**power for power in range(low, high + 1, step)]
        values = [digit * 10.0**power for power in range(low - 1, high + 1) for digit in (1, 2, 5)]
        values = [value for value in values if least * (1 - 1e-9) <= value <= most * (1 + 1e-9)]
        return values if len(values) >= 2 else round_numbers(least, most)

    def tick_texts(self, ticks: Sequence[float]) -> list[str]:
        """The ticks as texts, with the digits by which they differ."""
        several = ([self.written(tick, more) for tick in ticks] for more in range(MOST_DIGITS))
        return next((texts for texts in several if len(set(texts)) == len(texts)), [*map(self.written, ticks)])


def round_numbers(least: float, most: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of 10."""
    step = 10.0 ** math.floor(math.log10((most - least) / TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (most - least) / (factor * step) <= TICKS)
    first, last = math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9)
    return [0.0 if k == 0 else k * step for k in range(first, last + 1)]


SECONDS = Axis("seconds", True, in_seconds)
BYTES = Axis("bytes read", True, in_bytes)
ROWS = Axis("rows", True, quantity)
ITERATION = Axis("outer iteration", False)
GAP = Axis("relative gap", True, short)
OBJECTIVE = Axis("objective", True)
SHARE = Axis("", False, percent)
AMOUNT = Axis("", False)
ERROR = Axis("root mean squared error", True)


@dataclass(frozen=True)
class Point:
    """marked: a certified figure, not an estimate."""

    x: float
    y: float
    marked: bool = True


@dataclass(frozen=True)
class Series:
    """A curve of the run of this number; second: of two curves of a run the one that is dashed."""

    run: int
    label: str
    points: tuple[Point, ...]
    second: bool = False


@dataclass(frozen=True)
class Chart:
    """One or more curves; note: a sentence for the reader."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    note: str = ""


def chart(title: str, x: Axis, y: Axis, curves: Iterable[tuple], note: str = "") -> Chart | None:
    """From (run's number, label, [(x, y, marked)], second) of each curve; None where nothing can be drawn."""
    series = []
    for run, label, points, second in curves:
        drawable = [Point(a, b, marked) for a, b, marked in points if x.has_place(a) and y.has_place(b)]
        if drawable:
            series.append(Series(run, label, thinned(drawable, MOST_POINTS), second))
    return Chart(title, x, y, tuple(series), note) if series else None


def by_iteration(runs: Sequence[TracedRun], at: Callable, of: Callable, label: str = "", second: bool = False,
                 estimated: bool = False):  # fmt: skip
    """A curve of each run over its iterations; at, of: functions of an Iteration for the two axes; estimated: figures
    that are not certified are estimates."""
    for k, run in enumerate(runs):
        points = [(at(one), of(one), one.certified or not estimated) for one in run.iterations]
        yield k, f"{run.name}{label and ', ' + label}", points, second


def by_learner(runs: Sequence[TracedRun], at: Callable, of: Callable):
    """The same for the losses of online learners, the second one of a run dashed."""
    for k, run in enumerate(runs):
        for place, (learner, points) in enumerate(run.online.items()):
            label = f"{run.name}, {learner}" if len(run.online) > 1 else run.name
            yield k, label, [(at(one), of(one), True) for one in points], place % 2 == 1


def progress_charts(runs: Sequence[TracedRun]) -> list[Chart]:
    """The progress of runs against time and against bytes read (or rows)."""
    charts: list[Chart | None] = []
    axes = [(SECONDS, lambda one: one.seconds)]
    if any(run.iterations and run.iterations[0].bytes_read < run.iterations[-1].bytes_read for run in runs):
        # a run with all rows in memory reads once: such a chart would be a vertical line
        axes.append((BYTES, lambda one: one.bytes_read))
    for x, at in axes:
        what = "time" if x is SECONDS else "bytes read"
        charts += [
            chart(f"Gap against {what}", x, GAP, by_iteration(runs, at, lambda one: one.gap, estimated=True),
                  "Filled points are certified, hollow ones estimates."),
            chart(f"Primal and dual against {what}", x, OBJECTIVE,
                  [*by_iteration(runs, at, lambda one: one.primal, "primal", estimated=True),
                   *by_iteration(runs, at, lambda one: one.dual, "dual", True, True)],
                  "The dual is dashed; filled points are certified."),
            chart(f"Accuracy against {what}", x, SHARE,
                  [*by_iteration(runs, at, lambda one: one.held_out, "held out"),
                   *by_iteration(runs, at, lambda one: one.on_rows, "training rows", True)]),
            chart(f"Error against {what}", x, ERROR,
                  [*by_iteration(runs, at, lambda one: one.held_out_rmse, "held out"),
                   *by_iteration(runs, at, lambda one: one.rows_rmse, "training rows", True)]),
        ]  # fmt: skip
    for x, at in ((ROWS, lambda one: one.rows), (SECONDS, lambda one: one.seconds)):
        what = "time" if x is SECONDS else "rows"
        charts += [
            chart(f"Average loss against {what}", x, AMOUNT, by_learner(runs, at, lambda one: one.loss)),
            chart(f"Mistakes against {what}", x, SHARE, by_learner(runs, at, lambda one: one.mistakes)),
            chart(f"Error of predictions against {what}", x, ERROR, by_learner(runs, at, lambda one: one.rmse)),
        ]
    return [one for one in charts if one is not None]


def working_charts(runs: Sequence[TracedRun]) -> list[Chart]:
    """The working set and the passes chosen, by outer iteration."""

    def at(one: Iteration) -> float:
        return float(one.number)

    def share_of(run: TracedRun) -> Callable:
        return lambda one: one.set_rows / run.rows if one.set_rows is not None and run.rows else None

    rows = (curve for k, run in enumerate(runs)
            for curve in ((k, *rest) for _, *rest in by_iteration([run], at, share_of(run))))  # fmt: skip
    charts = [
        chart("Working set: its part of the rows", ITERATION, SHARE, rows),
        chart("Working set: its part of the gap", ITERATION, SHARE, by_iteration(runs, at, lambda one: one.set_share)),
        chart("Passes over a block", ITERATION, AMOUNT, by_iteration(runs, at, lambda one: one.passes),
              "On the mean of the blocks of an outer iteration."),
    ]  # fmt: skip
    with_set = [run if any(one.set_passes for one in run.iterations) else TracedRun(run.name) for run in runs]
    charts.append(
        chart("Passes over the working set", ITERATION, AMOUNT, by_iteration(with_set, at, lambda one: one.set_passes))
    )
    return [one for one in charts if one is not None]
