"""Runs read from their traces: curves, seconds, passes, settings; all values checked, as traces are untrusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blocksvm.base.errors import InputError
from blocksvm.base.settings import plain
from blocksvm.model.trace import read_trace

LOSS = "cumulative_loss"
# entries of a start event that are not settings of the run
NO_SETTINGS = ("event", "outer", "memory_plan", "versions", "learner_settings", "learners")
LONGEST_TEXT = 300  # characters of a setting that are shown


@dataclass(frozen=True)
class Iteration:
    """An outer iteration, or an online learner's epoch; None: not in the trace.

    seconds, bytes_read: of the run, at its end; gap, primal, dual: certified, or estimates; held_out, on_rows:
    accuracies, and *_rmse root mean squared errors; lasted: seconds of this iteration, of which training, on_set
    (passes over the working set) and waiting were spent; reading, decoding: seconds of the threads that read
    meanwhile; requests: of the run, to an object store; rows_share, set_share: the working set, as a share of the
    rows and of the gap; passes: a block, on the mean; set_passes: over the working set.
    """

    number: int
    seconds: float
    lasted: float
    bytes_read: float
    certified: bool
    gap: float | None
    primal: float | None
    dual: float | None
    held_out: float | None
    on_rows: float | None
    held_out_rmse: float | None
    rows_rmse: float | None
    training: float
    on_set: float
    waiting: float
    reading: float
    decoding: float
    requests: float
    rows_share: float | None
    set_share: float | None
    passes: float | None
    set_passes: float


@dataclass(frozen=True)
class OnlineLoss:
    """Figures of an online learner after so many rows: the average loss, and the share of mistakes or the root mean
    squared error."""

    seconds: float
    rows: float
    loss: float
    mistakes: float | None
    rmse: float | None


@dataclass
class TracedRun:
    """A run so far.  settings: by name; memory: bytes planned; iterations; online: the losses of each learner, by its
    name; status: None while it goes on, or where it was killed."""

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    memory: float = 0.0
    iterations: list[Iteration] = field(default_factory=list)
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


class Event:
    """An event with numbers by name; InputError, with file and line, for a value of another type."""

    def __init__(self, path: Path, line: int, values: Mapping):
        self.where = f"{path}:{line}"
        self.values = values

    def number(self, name: str) -> float | None:
        """A finite number, or None where it is null or missing."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= 1.7e308:
            raise self._wrong(name, "is not a number")
        return float(value)

    def amount(self, name: str) -> float:
        """A number that is 0 or more; 0 where it is missing."""
        value = self.number(name) or 0.0
        if value < 0.0:
            raise self._wrong(name, "is below 0")
        return value

    def total(self, name: str) -> float:
        value = self.values.get(name) or []
        if not isinstance(value, list) or not all(type(one) is int and 0 <= one < 2**53 for one in value):
            raise self._wrong(name, "is not a list of whole numbers")
        return float(sum(value))

    def group(self, name: str) -> dict:
        """A dict, empty where it is missing."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(name, "is not an object")
        return value

    def of(self, name: str, values) -> Event:
        """An object within the event, with the event's place in the file."""
        if not isinstance(values, dict):
            raise self._wrong(name, "is not an object")
        part = Event(Path(), 0, values)
        part.where = self.where
        return part

    def _wrong(self, name: str, what: str) -> InputError:
        return InputError(f"{self.where}: {str(name)[:40]!r} {what}; name a trace that a run wrote")


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
        event = Event(path, line, values)
        kind = values["event"]
        if kind in ("start", "resume"):
            _begin(run, event)
        elif kind == "outer":
            _iterate(run, event)
        if kind in ("progress", "outer", "end") and values.get(LOSS) is not None:
            _add_online(run, event)
        run.seconds = max(run.seconds, event.amount("seconds"))
        run.status = str(values.get("status") or "ended") if kind == "end" else None
        if kind == "end":
            run.gap = event.number("rel_gap")
    if not (run.settings or run.iterations or run.online):
        raise InputError(f"{path}: holds no run; name a trace that train or stream wrote")
    return run


def _begin(run: TracedRun, event: Event) -> None:
    settings = {key: value for key, value in event.values.items() if key not in NO_SETTINGS}
    for name, values in event.group("learners").items():
        settings |= {f"{name}: {key}": value for key, value in event.of(name, values).values.items()}
    run.settings = {str(key): _text(value) for key, value in settings.items() if value is not None}
    plan = event.of("memory_plan", event.group("memory_plan"))
    run.memory = sum(map(plan.amount, plan.values))
    run.rows = event.number("n_samples")
    run.method = _text(event.values.get("solver") or event.values.get("learner") or "")


def _text(value) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else str(plain(value))
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _iterate(run: TracedRun, event: Event) -> None:
    before = run.iterations[-1] if run.iterations else None
    without_dual = event.number("primal") is not None and event.number("dual_estimate") is None
    certified = event.number("rel_gap") is not None or without_dual
    suffix = "" if certified else "_estimate"
    seconds, blocks, set_rows = event.amount("seconds"), event.amount("blocks"), event.number("set_rows")
    run.iterations.append(
        Iteration(
            number=int(event.amount("outer")),
            seconds=seconds,
            lasted=max(0.0, seconds - (before.seconds if before else 0.0)),
            bytes_read=event.amount("bytes_read") + (before.bytes_read if before else 0.0),
            certified=certified,
            gap=event.number("rel_gap" if certified else "gap_estimate"),
            primal=event.number("primal" + suffix),
            dual=event.number("dual" + suffix),
            held_out=event.number("valid_accuracy"),
            on_rows=event.number("accuracy"),
            held_out_rmse=event.number("valid_rmse"),
            rows_rmse=event.number("rmse"),
            training=event.amount("seconds_training"),
            on_set=event.amount("set_seconds"),
            waiting=event.amount("seconds_waiting"),
            reading=event.amount("seconds_reading"),
            decoding=event.amount("seconds_decoding"),
            requests=event.amount("requests") + (before.requests if before else 0.0),
            rows_share=None if set_rows is None or not run.rows else set_rows / run.rows,
            set_share=event.number("set_share"),
            passes=event.amount("inner_passes") / blocks if blocks else None,
            set_passes=event.total("set_passes"),
        )
    )


def _add_online(run: TracedRun, event: Event) -> None:
    learners = event.group("learners") or {run.method or "learner": event.values}
    for name, values in learners.items():
        record = event.of(name, values)
        rows, squared, mistakes = record.amount("rows"), record.number("squared_errors"), record.number("mistakes")
        if not rows:
            continue
        point = OnlineLoss(
            seconds=event.amount("seconds"),
            rows=rows,
            loss=record.amount(LOSS) / rows,
            mistakes=None if mistakes is None else mistakes / rows,
            rmse=None if squared is None else math.sqrt(max(0.0, squared) / rows),
        )
        points = run.online.setdefault(str(name), [])
        if not points or points[-1] != point:
            points.append(point)
