"""The events of a training run, as ``on_event`` gets them and a trace has them, a JSON object a line.

docs/operations.md says what each key means.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class _Event(TypedDict):
    outer: int
    seconds: float


class _Figures(TypedDict):
    """Of a certificate; None where there is none, and what the method does not have."""

    primal: float | None
    dual: float | None
    rel_gap: float | None
    accuracy: float | None
    rmse: float | None
    alpha_factors: NotRequired[tuple[float, float] | None]
    by_class: NotRequired[dict[str, list[float]] | None]
    rounding: float | None


class _Suffered(TypedDict):
    """Of an online learner: what it has suffered so far."""

    rows: NotRequired[int]
    cumulative_loss: NotRequired[float]
    mistakes: NotRequired[int | None]
    squared_errors: NotRequired[float | None]
    cumulative_cost: NotRequired[float | None]
    asked: NotRequired[int]


class StartEvent(TypedDict):
    """A run begins, or goes on ("resume"); the solver's settings are further keys, by their names."""

    event: Literal["start", "resume"]
    outer: int
    solver: str
    learner_settings: dict | None
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
    n_samples: int
    n_features: int
    n_nonzeros: int
    n_vectors: int
    blocks: int
    resident: bool
    under_way: int
    capacity: int
    set_bytes: int | None
    unit_bytes: int | None
    memory_plan: dict[str, int]
    versions: dict[str, str]


class VisitEvent(_Event):
    """A block has been visited; not in traces."""

    event: Literal["visit"]
    visit: int
    blocks: int


class ProgressEvent(_Event, _Suffered):
    """An online learner has seen a doubling number of rows."""

    event: Literal["progress"]


class CertifyingEvent(_Event):
    """The rows are read for a certificate; not in traces."""

    event: Literal["certifying"]


class CertificateEvent(_Event, _Figures):
    event: Literal["certificate"]


class OuterEvent(_Event, _Figures, _Suffered):
    event: Literal["outer"]
    rows_read: int
    blocks: int
    inner_passes: int
    rows_visited: int
    nnz_visited: int
    bytes_read: int
    seconds_reading: float
    seconds_decoding: float
    seconds_waiting: float
    seconds_training: float
    bytes_sent: int
    bytes_received: int
    seconds_workers: float
    requests: int
    passes: list[int]
    gain: float
    set_rows: int | None
    set_nonzeros: int | None
    set_share: float | None
    set_passes: list[int]
    set_rows_visited: int
    set_nnz_visited: int
    set_gain: float
    set_seconds: float
    primal_estimate: float | None
    dual_estimate: float | None
    gap_estimate: float | None
    certificates: int
    valid_accuracy: float | None
    valid_rmse: float | None
    classes_done: NotRequired[int]


class EndEvent(_Event, _Figures):
    event: Literal["end"]
    status: str
    cause: str | None
    advice: str | None
    passes: list[int]
    set_passes: list[int]


RunEvent = StartEvent | VisitEvent | ProgressEvent | CertifyingEvent | CertificateEvent | OuterEvent | EndEvent
UNTRACED = ("visit", "certifying")  # events that a trace does not have
