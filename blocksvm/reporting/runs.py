"""Runs read from their traces: curves, seconds, passes, settings; all values checked, as traces are untrusted."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from blocksvm.base.errors import InputError
from blocksvm.base.settings import plain
from blocksvm.model.events import Losses, RunEvent, optimality, read_trace

# entries of a start event that are not settings of the run
NO_SETTINGS = ("event", "outer", "memory_plan", "versions", "learner_settings", "learners")
OF_START = ("event", "memory_plan", "learners", "n_samples")  # what is read of it beside settings
LONGEST_TEXT = 300  # characters of a setting that are shown


@dataclass
class TracedRun:
    name: str
    settings: dict[str, str] = field(default_factory=dict)
    memory: float = 0.0  # bytes planned
    iterations: list[dict[str, Any]] = field(default_factory=list)  # the figures of each (``_iteration``)
    online: dict[str, list[dict[str, float]]] = field(default_factory=dict)  # those of each learner (``_per_row``)
    rows: float | None = None
    method: str = ""
    status: str | None = None  # None while it goes on, or where it was killed
    seconds: float = 0.0
    gap: float | None = None  # the last that was certified


def distinct_names(names: list[str]) -> list[str]:
    """Distinct file names, without the common folder and without their suffixes."""
    parts = [Path(name).with_suffix("").parts for name in names]
    shared = 0
    while len(names) > 1 and all(len(one) > shared + 1 and one[shared] == parts[0][shared] for one in parts):
        shared += 1
    short = ["/".join(folders[shared:] if len(names) > 1 else folders[-1:]) for folders in parts]
    return [f"{name} ({k + 1})" if short.count(name) > 1 else name for k, name in enumerate(short)]


def load_runs(paths: list[Path]) -> list[TracedRun]:
    """A run for each trace, named by its file; an incomplete last line is left out.  InputError for another file."""
    runs = [TracedRun(name) for name in distinct_names([*map(str, paths)])]
    for path, run in zip(paths, runs, strict=True):
        if not path.is_file():
            raise InputError(f"{path}: no such file; name a trace that train or stream wrote")
        for line, values in enumerate(read_trace(path, cut_short=True), 1):
            kind, there = values["event"], {key: value for key, value in values.items() if value is not None}
            try:
                if kind in ("start", "resume"):
                    of_start = {key: there[key] for key in OF_START if key in there}
                    _begin(run, there, msgspec.convert(of_start, RunEvent))
                else:
                    _go_on(run, msgspec.convert(there, RunEvent))
            except msgspec.ValidationError as error:
                raise InputError(f"{path}:{line}: {str(error)[:200]}; name a trace that a run wrote") from None
        if not (run.settings or run.iterations or run.online):
            raise InputError(f"{path}: holds no run; name a trace that train or stream wrote")
    return runs


def _begin(run: TracedRun, values: dict, start: RunEvent) -> None:
    settings = {key: value for key, value in values.items() if key not in NO_SETTINGS}
    for name, of_learner in (start.get("learners") or {}).items():
        settings |= {f"{name}: {key}": value for key, value in of_learner.items() if value is not None}
    run.settings = {key: _text(value) for key, value in settings.items()}
    run.memory, run.rows = sum(start.get("memory_plan", {}).values()), start.get("n_samples")
    run.method, run.status = _text(values.get("solver") or values.get("learner") or ""), None


def _go_on(run: TracedRun, event: RunEvent) -> None:
    """Of an event, from which keys without a value have been left out."""
    kind, learners = event["event"], event.get("learners") or {run.method or "learner": event}
    run.seconds = max(run.seconds, event.get("seconds", 0.0))
    run.gap = event.get("rel_gap", run.gap)
    run.status = event.get("status") or "ended" if kind == "end" else None
    if kind == "outer":
        run.iterations.append(_iteration(event, run.iterations[-1] if run.iterations else {}, run.rows))
    if "cumulative_loss" in event and kind in ("progress", "outer", "end"):
        for name, one in learners.items():
            losses = msgspec.convert({key: value for key, value in one.items() if value is not None}, Losses)
            points = run.online.setdefault(name, [])
            if losses.get("rows") and (figures := _per_row(losses)) not in points[-1:]:
                points.append(figures)


def _iteration(event: RunEvent, before: dict, rows: int | None) -> dict[str, Any]:
    """The figures of an outer iteration: the event's own, but bytes_read and requests of the run so far and set_rows as
    a share of the rows; and its ``optimality``."""
    certified, known = optimality(event)
    figures: dict[str, Any] = dict(event)
    figures |= {name: event.get(name, 0) + before.get(name, 0) for name in ("bytes_read", "requests")}
    return figures | {
        **dict(zip(("gap", "objective", "bound"), known, strict=True)),
        "certified": certified,
        "lasted": max(0.0, event.get("seconds", 0.0) - before.get("seconds", 0.0)),
        "set_rows": figures["set_rows"] / rows if "set_rows" in event and rows else None,
        "mean_passes": event.get("inner_passes", 0) / event["blocks"] if event.get("blocks") else None,
        "passes_over_set": sum(event.get("set_passes", [])) or None,
    }


def _per_row(losses: Losses) -> dict[str, float]:
    """The figures of an online learner after so many rows; error: the root of the mean squared one."""
    rows = losses["rows"]
    figures = {"rows": rows, "loss": losses.get("cumulative_loss", 0.0) / rows}
    figures |= {"share_wrong": losses["mistakes"] / rows} if "mistakes" in losses else {}
    return figures | ({"error": math.sqrt(losses["squared_errors"] / rows)} if "squared_errors" in losses else {})


def _text(value) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else str(plain(value))
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
