"""Crammer and Singer's machine in blocks, by its sequential dual method: a row's k dual variables move at once."""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.crammer_singer_loops import crammer_singer_feasible, crammer_singer_pass, crammer_singer_shares
from blocksvm.kernels.dual_cd_loops import Limits
from blocksvm.problems.crammer_singer import CrammerSinger, crammer_singer
from blocksvm.solvers.dual_cd import CONJUGATE
from blocksvm.solvers.side_by_side import SideBySide
from blocksvm.solvers.solver import State, Task, Visit
from blocksvm.sources.block import Block


class CrammerSingerCD(SideBySide):
    """Keerthi et al., KDD 2008, on the rows of a block.  state["sums"][CONJUGATE] is the sum of a_ik, k != y_i."""

    def stated(self, task: Task) -> CrammerSinger:
        return crammer_singer(self.settings, task.bias, task.source)

    def coefficients(self, block: Block, state: State, alpha: np.ndarray, ratio: np.ndarray | None) -> np.ndarray:
        if ratio is not None:
            crammer_singer_feasible(alpha, block.y, block.weights, self.problem.costs, ratio)
        of_class = alpha[np.arange(len(alpha)), block.y]
        state["sums"][CONJUGATE] += float(alpha.sum() - of_class.sum())
        return alpha

    def visit_rows(self, block: Block, state: State, visit: Visit, order: np.ndarray, limits: Limits) -> tuple:
        arrays, width = self.pass_arrays(state, visit), state["w"].shape[1]
        return crammer_singer_pass(block.row_arrays, order, self.bias, self.problem.costs, limits, arrays, width)

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        crammer_singer_shares(
            scores, block.y, block.weights, state["alpha"], self.problem.costs, state["rest"], state["pauses"], out
        )
