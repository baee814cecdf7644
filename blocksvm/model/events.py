"""The events of a training run, as ``on_event`` gets them and a trace, TRACE.jsonl, has them, a JSON object a line.

One type has the keys of all events; docs/trace.md says what each key means and which events have it.
"""

import json
import platform
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal, Required, TypedDict, cast

from msgspec import Meta

from blocksvm import __version__
from blocksvm.base.errors import InputError, option
from blocksvm.files.input import open_input
from blocksvm.files.output import JsonLines, written_text
from blocksvm.files.paths import Location

Count = Annotated[int, Meta(ge=0, lt=2**53)]
# neither is nan or infinite
Amount = Annotated[float, Meta(ge=0.0, le=1.7e308)]
Figure = Annotated[float, Meta(ge=-1.7e308, le=1.7e308)]


class Losses(TypedDict, total=False):
    """Of an online learner so far."""

    rows: Count
    cumulative_loss: Figure
    mistakes: Count | None
    squared_errors: Amount | None
    cumulative_cost: Figure | None
    asked: Count


class RunEvent(Losses, total=False):
    """An event; that of a start has the solver's settings as further keys, by their names."""

    event: Required[Literal["start", "resume", "visit", "progress", "certifying", "certificate", "outer", "end"]]
    outer: Count
    seconds: Amount
    # of a start
    solver: str
    learner_settings: dict[str, Any] | None
    bias: float | str
    schedule: str
    working_set: str
    partition: str
    block_chunks: int | None
    order: str
    seed: int
    memory: int
    tol: float
    max_outer: int
    max_passes: int | None
    max_seconds: float | None
    store: str
    fingerprint: str
    n_samples: Count
    n_features: Count
    n_nonzeros: Count
    n_vectors: Count
    resident: bool
    under_way: Count
    capacity: Count
    set_bytes: Count | None
    unit_bytes: Count | None
    memory_plan: dict[str, Amount]
    versions: dict[str, str]
    # of a visit
    visit: Count
    # of a certificate
    primal: Figure | None
    dual: Figure | None
    rel_gap: Figure | None
    accuracy: Figure | None
    rmse: Figure | None
    alpha_factors: tuple[float, float] | None
    by_class: dict[str, list[float]] | None
    rounding: Figure | None
    # of an outer iteration
    rows_read: Count
    blocks: Count
    inner_passes: Count
    rows_visited: Count
    nnz_visited: Count
    bytes_read: Count
    seconds_reading: Amount
    seconds_decoding: Amount
    seconds_waiting: Amount
    seconds_training: Amount
    bytes_sent: Count
    bytes_received: Count
    seconds_workers: Amount
    requests: Count
    passes: list
    gain: Figure
    set_rows: Count | None
    set_nonzeros: Count | None
    set_share: Figure | None
    set_passes: list[Count]
    set_rows_visited: Count
    set_nnz_visited: Count
    set_gain: Figure
    set_seconds: Amount
    primal_estimate: Figure | None
    dual_estimate: Figure | None
    gap_estimate: Figure | None
    certificates: Count
    valid_accuracy: Figure | None
    valid_rmse: Figure | None
    classes_done: Count
    # of the end
    status: str
    cause: str | None
    advice: str | None
    # of a stream: of each of several learners its settings, or its losses
    learners: dict[str, dict[str, Any]] | None


CERTIFIED, ESTIMATED = ("rel_gap", "primal", "dual"), ("gap_estimate", "primal_estimate", "dual_estimate")
UNTRACED = ("visit", "certifying")  # events that a trace does not have


def optimality(event: RunEvent) -> tuple[bool, list[float | None]]:
    """Whether an outer iteration has a certificate, or is of a method without a dual, and its gap, primal and dual by
    that; else by what its visits suggest."""
    figures = cast(dict[str, float | None], event)
    certified = figures.get("rel_gap") is not None
    certified |= figures.get("primal") is not None and figures.get("dual_estimate") is None
    return certified, [figures.get(name) for name in (CERTIFIED if certified else ESTIMATED)]


@cache
def versions() -> dict[str, str]:
    """Of what takes part in the arithmetic and the files, for traces, checkpoints and models."""
    names = ("numpy", "numba", "h5py", "numcodecs")
    return {"blocksvm": __version__, "python": platform.python_version()} | {name: version(name) for name in names}


class Trace(JsonLines):
    """A trace being written.  Resuming retains what lies before the checkpoint and appends to it."""

    def __init__(self, path: Location, resumed_outer: int | None, warn: Callable[[str], None], overwrite: bool = True):
        if resumed_outer is not None and path.is_file():
            events = read_trace(path, cut_short=True)
            before = [e for e in events if e["event"] in ("start", "resume") or e.get("outer", 0) < resumed_outer]
            # replaced whole: a kill in between loses nothing
            with written_text(path) as file:
                file.write("".join([json.dumps(event) + "\n" for event in before if event["event"] != "end"]))
        super().__init__(path, warn, overwrite, going_on=resumed_outer is not None)

    def write(self, event: Mapping) -> None:
        if event["event"] not in UNTRACED:
            super().write(event)


def read_trace(path: Location, cut_short: bool = False) -> list[dict]:
    """The events of a trace; InputError where a line is not one.  cut_short: a last line without an end is left out."""
    events = []
    with open_input(path) as file:
        for number, line in enumerate(file, 1):
            if cut_short and not line.endswith(b"\n"):
                break
            try:
                event = json.loads(line)
                event["event"]
            except (ValueError, TypeError, KeyError, RecursionError):
                cure = f"name one that {option('log')} wrote"
                raise InputError(f"{path}:{number}: is not a line of a trace; {cure}") from None
            events.append(event)
    return events
