"""Runs read from their traces: curves, seconds, passes, settings; all values checked, as traces are untrusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from blocksvm.base.errors import InputError
from blocksvm.base.settings import plain
from blocksvm.model.trace import read_trace

# entries of a start event that are not settings of the run
NO_SETTINGS = ("event", "outer", "memory_plan", "versions", "learner_settings", "learners")
LONGEST_TEXT = 300  # characters of a setting that are shown
# neither is nan or infinite
Amount = Annotated[float, Meta(ge=0.0, le=1.7e308)]
Figure = Annotated[float, Meta(ge=-1.7e308, le=1.7e308)] | None


class OnlineLoss(Struct):
    """Of an online learner after so many rows."""

    rows: Amount = 0.0
    cumulative_loss: Figure = None
    mistakes: Amount | None = None
    squared_errors: Amount | None = None

    @property
    def loss(self) -> float:
        return (self.cumulative_loss or 0.0) / self.rows

    @property
    def share_wrong(self) -> float | None:
        return None if self.mistakes is None else self.mistakes / self.rows

    @property
    def error(self) -> float | None:
        """The root of the mean squared one."""
        return None if self.squared_errors is None else math.sqrt(self.squared_errors / self.rows)


class Event(OnlineLoss):
    """What is read of an event other than the first, by the names that a trace has; None and 0: not in the trace.

    Of an outer iteration bytes_read and requests are those of the run so far, set_rows is a share of the rows, and
    lasted are its own seconds.
    """

    outer: Amount = 0.0
    seconds: Amount = 0.0
    learners: dict[str, OnlineLoss] = {}
    status: Any = None
    primal: Figure = None
    dual: Figure = None
    rel_gap: Figure = None
    primal_estimate: Figure = None
    dual_estimate: Figure = None
    gap_estimate: Figure = None
    accuracy: Figure = None
    rmse: Figure = None
    valid_accuracy: Figure = None
    valid_rmse: Figure = None
    bytes_read: Amount = 0.0
    requests: Amount = 0.0
    blocks: Amount = 0.0
    inner_passes: Amount = 0.0
    set_passes: list[Annotated[int, Meta(ge=0, lt=2**53)]] = []
    set_rows: Figure = None
    set_share: Figure = None
    set_seconds: Amount = 0.0
    seconds_training: Amount = 0.0
    seconds_waiting: Amount = 0.0
    seconds_reading: Amount = 0.0
    seconds_decoding: Amount = 0.0
    lasted: Amount = 0.0

    @property
    def certified(self) -> bool:
        """By figures of a certificate, or of a method without a dual, and not by estimates."""
        return self.rel_gap is not None or (self.primal is not None and self.dual_estimate is None)

    @property
    def gap(self) -> float | None:
        return self.rel_gap if self.certified else self.gap_estimate

    @property
    def objective(self) -> float | None:
        return self.primal if self.certified else self.primal_estimate

    @property
    def bound(self) -> float | None:
        return self.dual if self.certified else self.dual_estimate

    @property
    def passes(self) -> float | None:
        """Over a block, on the mean."""
        return self.inner_passes / self.blocks if self.blocks else None

    @property
    def passes_over_set(self) -> int | None:
        return sum(self.set_passes) or None


class Start(Struct):
    """What is read of the first event beside settings."""

    memory_plan: dict[str, Amount] = {}
    learners: dict[str, dict[str, Any]] = {}
    n_samples: Figure = None


@dataclass
class TracedRun:
    """A run so far.  settings: by name; memory: bytes planned; iterations; online: the losses of each learner, by its
    name; status: None while it goes on, or where it was killed."""

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    memory: float = 0.0
    iterations: list[Event] = field(default_factory=list)
    online: dict[str, list[OnlineLoss]] = field(default_factory=dict)
    rows: float | None = None
    method: str = ""
    status: str | None = None
    seconds: float = 0.0
    gap: float | None = None


def thinned(items: Sequence, most: int) -> tuple:
    """At most some ``most`` items, evenly spaced, with the last one."""
    step = -(-len(items) // most)
    return tuple(items) if step <= 1 else (*items[:-1:step], items[-1])


def load_runs(paths: list[Path]) -> list[TracedRun]:
    """A run for each trace, named by its file.

    InputError for another file, with its line; an incomplete last line is left out.
    """
    return [load_run(path, name) for path, name in zip(paths, distinct_names([*map(str, paths)]), strict=True)]


def distinct_names(names: list[str]) -> list[str]:
    """Distinct file names, without the common folder and without their suffixes."""
    parts = [Path(name).with_suffix("").parts for name in names]
    shared = 0
    while len(names) > 1 and all(len(one) > shared + 1 and one[shared] == parts[0][shared] for one in parts):
        shared += 1
    short = ["/".join(folders[shared:] if len(names) > 1 else folders[-1:]) for folders in parts]
    return [f"{name} ({k + 1})" if short.count(name) > 1 else name for k, name in enumerate(short)]


def load_run(path: Path, name: str) -> TracedRun:
    if not path.is_file():
        raise InputError(f"{path}: no such file; name a trace that train or stream wrote")
    run = TracedRun(name)
    for line, values in enumerate(read_trace(path, cut_short=True), 1):
        kind, there = values["event"], {key: value for key, value in values.items() if value is not None}
        try:
            if kind in ("start", "resume"):
                _begin(run, there, msgspec.convert(there, Start))
            else:
                _go_on(run, kind, msgspec.convert(there, Event))
        except msgspec.ValidationError as error:
            raise InputError(f"{path}:{line}: {str(error)[:200]}; name a trace that a run wrote") from None
    if not (run.settings or run.iterations or run.online):
        raise InputError(f"{path}: holds no run; name a trace that train or stream wrote")
    return run


def _begin(run: TracedRun, values: dict, start: Start) -> None:
    settings = {key: value for key, value in values.items() if key not in NO_SETTINGS}
    for name, of_learner in start.learners.items():
        settings |= {f"{name}: {key}": value for key, value in of_learner.items() if value is not None}
    run.settings = {key: _text(value) for key, value in settings.items()}
    run.memory, run.rows = sum(start.memory_plan.values()), start.n_samples
    run.method, run.status = _text(values.get("solver") or values.get("learner") or ""), None


def _go_on(run: TracedRun, kind: str, event: Event) -> None:
    run.seconds = max(run.seconds, event.seconds)
    run.status = str(event.status or "ended") if kind == "end" else None
    if kind == "outer":
        before = run.iterations[-1] if run.iterations else Event()
        event.lasted = max(0.0, event.seconds - before.seconds)
        event.bytes_read += before.bytes_read
        event.requests += before.requests
        event.set_rows = event.set_rows / run.rows if event.set_rows is not None and run.rows else None
        run.iterations.append(event)
    elif kind == "end":
        run.gap = event.rel_gap
    if event.cumulative_loss is not None and kind in ("progress", "outer", "end"):
        for name, one in (event.learners or {run.method or "learner": event}).items():
            figures = OnlineLoss(one.rows, one.cumulative_loss, one.mistakes, one.squared_errors)
            points = run.online.setdefault(name, [])
            if figures.rows and figures not in points[-1:]:
                points.append(figures)


def _text(value) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else str(plain(value))
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
