"""Dual coordinate descent that goes on, where many passes over a working set follow each other, in the direction in
which they have moved the dual variables (kernels/extrapolation_loops.py has the mathematics)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blocksvm.kernels.extrapolation_loops import extrapolate
from blocksvm.solvers.dual_cd import CONJUGATE, DualCD
from blocksvm.solvers.solver import PassResult, State, Task, Visit, VisitArray
from blocksvm.sources.block import Block

EVERY = 16  # passes of a visit to the working set, after which comes a step along what the later half of them did
MOVED, SCORES = "moved", "scores"


class DualCDWithExtrapolation(DualCD):
    """``DualCD``, with steps between its passes over the working set that never let D fall."""

    def __init__(self, task: Task):
        super().__init__(task)
        self.extrapolate = self.problem.loss.compiled(extrapolate)
        self.visit_arrays += (VisitArray(MOVED), VisitArray(SCORES))

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        if not visit.of_the_set or not visit.passes or visit.passes % (EVERY // 2):
            return super().inner_pass(block, state, visit, order)
        moved = visit.arrays[MOVED]
        if visit.passes % EVERY:
            moved[:] = state["alpha"]
            return super().inner_pass(block, state, visit, order)
        _, nnz, change, gain = self.step(block, state, order.copy(), moved, visit.arrays[SCORES])
        state["sums"][CONJUGATE] += change
        self.look_at_all(visit)  # rows that stayed at their bounds may leave them after a long step
        result = super().inner_pass(block, state, visit, order)
        return replace(result, nnz_visited=result.nnz_visited + nnz, gain=result.gain + gain)

    def step(self, block: Block, state: State, members: np.ndarray, moved: np.ndarray, scores: np.ndarray) -> tuple:
        """The kernel's step, and what it returns."""
        return self.extrapolate(block.row_arrays, members, self.objective, state["w"], state["alpha"], moved, scores)
