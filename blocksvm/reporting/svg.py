"""Charts and timelines as SVG, visible without JavaScript and on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from blocksvm.reporting.charts import Axis, Chart, in_seconds
from blocksvm.reporting.runs import Iteration, TracedRun

WIDTH, HEIGHT = 320, 226  # of a chart, in units that a phone shows as about a pixel
LEFT, RIGHT, TOP, BOTTOM = 60, 18, 12, 50
COLOURS = 8  # of runs, in page.css; later runs have the same colours with other dashes
CROWDED = 60  # curves of more points have smaller marks
MOST_SPANS = 150  # of a timeline
HALF_A_LETTER = 4.2  # half the width of a letter, in units
BESIDE = 4.0  # between a label and the next one


class ChartFrame:
    """The coordinates of values in a chart."""

    def __init__(self, chart: Chart):
        points = [point for series in chart.series for point in series.points]
        self.x, self.y = chart.x, chart.y
        self.x_range = self.x.range_of(point.x for point in points)
        self.y_range = self.y.range_of(point.y for point in points)

    def across(self, value: float) -> float:
        return LEFT + _part(self.x, self.x_range, value) * (WIDTH - LEFT - RIGHT)

    def down(self, value: float) -> float:
        return HEIGHT - BOTTOM - _part(self.y, self.y_range, value) * (HEIGHT - TOP - BOTTOM)


def _part(axis: Axis, ends: tuple[float, float], value: float) -> float:
    low, high = map(axis.scaled, ends)
    return (axis.scaled(value) - low) / (high - low)


def drawn(chart: Chart) -> str:
    """A chart as an <svg> element."""
    frame = ChartFrame(chart)
    parts = [*_axes(frame), *(part for series in chart.series for part in _curve(frame, series))]
    names = ", ".join(series.label for series in chart.series)
    label = escape(f"{chart.title}: {names}")
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">\n' + "\n".join(parts)
    ) + "\n</svg>"


def _axes(frame: ChartFrame) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    ticks = frame.y.ticks(*frame.y_range)
    for tick, text in zip(ticks, frame.y.tick_texts(ticks), strict=True):
        y = frame.down(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    ticks = frame.x.ticks(*frame.x_range)
    labels = list(zip(map(frame.across, ticks), frame.x.tick_texts(ticks), strict=True))
    parts += (f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>' for x, _ in labels)
    parts += _labels(labels, bottom + 23, WIDTH)
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    middle = (LEFT + right) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 7}" text-anchor="middle">{escape(frame.x.label)}</text>')
    return parts


def _labels(ticks: Sequence[tuple[float, str]], y: float, width: float) -> list[str]:
    """Labels of ticks along x: each centred below its tick, or moved left into the drawing of this width; left out
    where it would meet the previous one."""
    parts = []
    right_end = 0.0
    for x, text in ticks:
        half = HALF_A_LETTER * len(text)
        middle = min(x, width - half)
        if middle - half < right_end:
            continue
        right_end = middle + half + BESIDE
        parts.append(f'<text x="{middle:.1f}" y="{y}" text-anchor="middle">{escape(text)}</text>')
    return parts


def _curve(frame: ChartFrame, series) -> list[str]:
    places = [(frame.across(point.x), frame.down(point.y)) for point in series.points]
    dash = " second" if series.second else ""
    group = f'<g class="curve c{series.run % COLOURS}{dash}{" later" if series.run >= COLOURS else ""}">'
    parts = [group]
    if len(places) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path class="line" d="M{path}"/>')
    for (x, y), point in zip(places, series.points, strict=True):
        text = f"{series.label}: {frame.y.written(point.y)} ({frame.x.label} {frame.x.written(point.x)})"
        radius = 2.8 if len(places) <= CROWDED or point.marked else 1.7
        mark = "point" if point.marked else "point estimate"
        title = f"<title>{escape(text)}</title>"
        parts.append(f'<circle class="{mark}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{title}</circle>')
    return [*parts, "</g>"]


# ------------------------------------------------------------------------------------------------ the timeline

LANE, LANES_LEFT, LANES_WIDTH = 46, 62, 900
# lane -> (class of its part, what it is, seconds of it that an iteration has)
TRAINS = (
    ("training", "training", lambda one: one.training),
    ("on-set", "passes over the working set", lambda one: one.on_set),
    ("waiting", "waiting for a block", lambda one: one.waiting),
)
READS = (("reading", "reading", lambda one: one.reading), ("decoding", "decoding", lambda one: one.decoding))
REST = ("rest", "not measured apart (certificates, decisions, writing, compiling)")
IDLE = ("idle", "idle")


def timeline(run: TracedRun) -> str:
    """The timeline of a run's seconds: above the thread that trains, below those that read and decode."""
    spans = merged(run.iterations)
    end = max(1e-9, spans[-1][-1].seconds)
    begin = spans[0][0].seconds - spans[0][0].lasted
    scale = (LANES_WIDTH - LANES_LEFT - 14) / max(1e-9, end - begin)
    parts = []
    for lane, (name, kinds, left) in enumerate((("trains", TRAINS, REST), ("reads", READS, IDLE))):
        top = 8 + lane * (LANE + 14)
        parts.append(f'<text x="{LANES_LEFT - 6}" y="{top + LANE / 2 + 4}" text-anchor="end">{name}</text>')
        for iterations in spans:
            parts += _span(iterations, kinds, left, top, lambda seconds: LANES_LEFT + (seconds - begin) * scale)
    bottom = 8 + 2 * LANE + 14
    axis = Axis("seconds", False, in_seconds)
    ticks = axis.ticks(begin, max(end, begin + 1e-9))
    places = [LANES_LEFT + (tick - begin) * scale for tick in ticks]
    parts += (f'<path class="axis" d="M{x:.1f} {bottom}v5"/>' for x in places)
    parts += _labels(list(zip(places, axis.tick_texts(ticks), strict=True)), bottom + 20, LANES_WIDTH)
    label = escape(f"{run.name}: where the seconds went")
    return (
        f'<div class="scrolled"><svg class="timeline" viewBox="0 0 {LANES_WIDTH} {bottom + 28}" role="img" '
        f'aria-label="{label}">\n' + "\n".join(parts) + "\n</svg></div>"
    )


def merged(iterations: Sequence[Iteration]) -> list[list[Iteration]]:
    """Consecutive iterations in at most some ``MOST_SPANS`` groups of similar length."""
    whole = sum(one.lasted for one in iterations)
    groups: list[list[Iteration]] = []
    lasted = 0.0
    for one in iterations:
        lasted += one.lasted
        if groups and lasted <= whole / MOST_SPANS:
            groups[-1].append(one)
        else:
            groups.append([one])
            lasted = one.lasted
    return groups


def _span(iterations: list[Iteration], kinds: tuple, left: tuple[str, str], top: float, across: Callable) -> list[str]:
    """The parts of the time of some iterations in a lane, stacked."""
    lasted = sum(one.lasted for one in iterations)
    if lasted <= 0.0:
        return []
    spent = [(*kind, sum(map(seconds, iterations))) for *kind, seconds in kinds]
    # several threads that read together may spend more seconds than there are
    whole = max(lasted, sum(seconds for *_, seconds in spent))
    spent.append((*left, whole - sum(seconds for *_, seconds in spent)))
    first, last = iterations[0], iterations[-1]
    x, end = across(first.seconds - first.lasted), across(last.seconds)
    which = f"iteration {first.number}" if first is last else f"iterations {first.number} to {last.number}"
    parts, y = [], top + LANE
    for name, what, seconds in spent:
        height = LANE * seconds / whole
        y -= height
        if name != IDLE[0] and height >= 0.05:
            title = escape(f"{which}: {what} {in_seconds(seconds)} of {in_seconds(lasted)}")
            parts.append(
                f'<rect class="{name}" x="{x:.2f}" y="{y:.2f}" width="{max(0.3, end - x):.2f}" height="{height:.2f}">'
                f"<title>{title}</title></rect>"
            )
    return parts
