"""Crammer and Singer's machine in blocks, by its sequential dual method: a row's k dual variables move at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from blocksvm.kernels.crammer_singer import (
    crammer_singer_feasible,
    crammer_singer_pass,
    crammer_singer_shares,
)
from blocksvm.kernels.dual_cd import Limits
from blocksvm.kernels.several import add_rows_to_several
from blocksvm.problems.crammer_singer import CrammerSinger, crammer_singer
from blocksvm.solvers.dual_cd import CONJUGATE
from blocksvm.solvers.protocol import SavedRun, State, Task, Visit
from blocksvm.solvers.side_by_side import SideBySide
from blocksvm.sources.block import Block


class CrammerSingerCD(SideBySide):
    """Keerthi et al., KDD 2008, on the rows of a block.  state["sums"][CONJUGATE] is the sum of a_ik, k != y_i."""

    def stated(self, task: Task) -> CrammerSinger:
        return crammer_singer(self.settings, task.bias, task.source)

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's a, scaled in each class by the ratio of C, then into each row's own bounds."""
        self._sum_rows(state, blocks, self.problem.cost / self.load_alpha(state, saved))

    def rebuild(self, state: State, blocks: Iterable[Block]) -> None:
        """w_k = w0_k + sum a_ik x_i anew from a, in one reading of all rows."""
        self._sum_rows(state, blocks)
        if self.prior.size:
            state["w"] += self.prior

    def _sum_rows(self, state: State, blocks: Iterable[Block], ratio: np.ndarray | None = None) -> None:
        state["w"][:] = 0.0
        total = 0.0
        for block in blocks:
            alpha = state["alpha"][block.rows]
            if ratio is not None:
                crammer_singer_feasible(alpha, block.y, block.weights, self.problem.costs, ratio)
                state["alpha"][block.rows] = alpha
            own = alpha[np.arange(len(alpha)), block.y]
            total += float(alpha.sum() - own.sum())
            add_rows_to_several(*block.matrix, alpha, self.bias, state["w"].reshape(-1), state["w"].shape[1])
        state["sums"][CONJUGATE] = total

    def visit_rows(self, block: Block, state: State, visit: Visit, order: np.ndarray, limits: Limits) -> tuple:
        arrays, width = self.pass_arrays(state, visit), state["w"].shape[1]
        return crammer_singer_pass(block.row_arrays, order, self.bias, self.problem.costs, limits, arrays, width)

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        crammer_singer_shares(
            scores, block.y, block.weights, state["alpha"], self.problem.costs, state["rest"], state["pauses"], out
        )
