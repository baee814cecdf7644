"""What a solver is to the outer loop: declared state, and passes over one block that are functions of rows and state.

The loop owns the state: it counts it against the budget, hands a visit the rows' part of it, and writes it to
checkpoints.  So a block may be one row, a visit can be replayed and tested alone, and a solver is one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blocksvm.sources.block import Block


@dataclass(frozen=True)
class StateArray:
    """A named array of the state: ``columns`` numbers a feature (and for the constant feature), one a row, or
    ``length`` numbers.  in_model: a later run can start from it, so the model keeps it (of features: beside the
    weights)."""

    name: str
    axis: str  # "feature", "row" or "scalar"
    length: int = 0
    dtype: type = np.float64
    in_model: bool = True
    columns: int = 1

    @property
    def item_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class VisitArray:
    """A named array that lives as long as a visit: one ``dtype`` a row of the block, or ``length`` float64 numbers."""

    name: str
    dtype: type = np.float64
    length: int = 0  # 0: one a row


@dataclass(frozen=True)
class PassResult:
    """What an inner pass did.  loss_sum: C-weighted loss of the margins seen before each row's own step;
    finished: nothing is left to do on this block (for schedules that stop by tolerance)."""

    rows_visited: int
    nnz_visited: int
    loss_sum: float
    finished: bool
    reports: tuple[dict, ...] = ()  # of an online learner: its progress at doubling numbers of rows


State = dict[str, np.ndarray]


class Solver(Protocol):
    """Minimises over one block at a time.

    ``state`` holds the feature and scalar arrays whole, and of row arrays the block's part; ``visit`` the arrays
    declared for a visit.  Both are updated in place.  ``weights`` gives w (copies * (d + 1),), one vector or one a
    class, the last entry of each the weight of the constant feature; it may be computed into ``out``.
    """

    name: str
    state_arrays: tuple[StateArray, ...]
    visit_arrays: tuple[VisitArray, ...]
    has_dual: bool
    needs_weights_buffer: bool
    online: bool  # an online learner: nothing is certified, rows are predicted before they are learned from
    copies: int
    prior: np.ndarray  # weights (copies * (d + 1),) of a prior model, or (0,); set before ``start``

    def start(self, state: State) -> None: ...

    def warm_start(self, state, saved: dict, lengths: dict, load: Callable, blocks: Iterable[Block], name: str) -> None:
        """Begin from another run's end: ``saved`` its description, ``load(name, out)`` its arrays."""
        ...

    def start_visit(self, visit: State) -> None: ...

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult: ...

    def end_outer(self, state: State, outer: int) -> None: ...

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray: ...

    def estimated_primal(self, state: State, loss_sum: float) -> float: ...

    def estimated_dual(self, state: State) -> float | None: ...
