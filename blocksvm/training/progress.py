"""What a run knows of itself: where it stands, what it has done, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from blocksvm.problems.problem import Certificate
from blocksvm.training.certificate import Attempts


@dataclass
class Position:
    """Where a run stands: outer iteration (from 1), visit (from 0) and inner passes done in it."""

    outer: int = 1
    visit: int = 0
    passes: int = 0


@dataclass
class Tally:
    """What an outer iteration has done so far."""

    blocks: int = 0
    inner_passes: int = 0
    rows_visited: int = 0
    nnz_visited: int = 0
    loss_sum: float = 0.0
    bytes_read: int = 0
    seconds_waiting: float = 0.0
    seconds_training: float = 0.0
    passes: list[int] = field(default_factory=list)


@dataclass
class Progress:
    """What is known of the whole run so far, and goes into checkpoints."""

    position: Position = field(default_factory=Position)
    tally: Tally = field(default_factory=Tally)
    passes: list[int] = field(default_factory=list)  # of every visit
    seconds_before: float = 0.0
    attempts: Attempts = field(default_factory=Attempts)
    estimates: list[float] = field(default_factory=list)
    certificate: dict | None = None  # the last one taken
    certified_outer: int = 0
    outers_before: int = 0  # outer iterations of a run that this one continues


@dataclass(frozen=True)
class Result:
    """A run's end.  status 'converged', 'max-outer', 'max-seconds' or 'interrupted'; w (d + 1,), the constant
    feature's weight last; alpha (l,) or None; certificate of exactly this w and alpha, or None where interrupted;
    passes of every visit; peak plan of memory by name; note: what an online learner's run shows."""

    status: str
    w: np.ndarray
    alpha: np.ndarray | None
    certificate: Certificate | None
    outer: int
    seconds: float
    passes: list[int]
    memory: dict[str, int]
    note: str = ""
