"""Dual coordinate descent that goes on, where many passes over a working set follow each other, in the direction in
which they have moved the dual variables (kernels/extrapolation.py has the mathematics)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blocksvm.kernels.extrapolation import extrapolate
from blocksvm.solvers.dual_cd import ABOVE, BELOW, CONJUGATE, DROPPED, OF_THE_SET, PASSES, DualCD
from blocksvm.solvers.protocol import PassResult, State, Task, VisitArray
from blocksvm.sources.block import Block

# After each EVERY passes of one visit to the working set comes a step along what the last LAG of them did, and at least
# SMOOTHING passes follow it: it leaves the margins rough, and with them the primal.
EVERY, LAG, SMOOTHING = 16, 8, 8
MOVED, SCORES = "moved", "scores"


class DualCDWithExtrapolation(DualCD):
    """``DualCD``, with steps between its passes over the working set that never let D fall."""

    def __init__(self, task: Task):
        super().__init__(task)
        self.extrapolate = self.problem.loss.compiled(extrapolate)
        self.visit_arrays += (VisitArray(MOVED), VisitArray(SCORES))

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult:
        bounds = visit["range"]
        number = int(bounds[PASSES])
        if not bounds[OF_THE_SET] or not number or number % LAG:
            return super().inner_pass(block, state, visit, order)
        if number % EVERY:
            visit[MOVED][:] = state["alpha"]
            return super().inner_pass(block, state, visit, order)
        theta, nnz, change, gain = self.step(block, state, order.copy(), visit[MOVED], visit[SCORES])
        state["sums"][CONJUGATE] += change
        # rows that stayed at their bounds may leave them after a long step
        visit["active"][:] = 1
        bounds[[ABOVE, BELOW, DROPPED]] = (np.inf, -np.inf, 0)
        result = super().inner_pass(block, state, visit, order)
        further = SMOOTHING if theta else 0
        return replace(result, nnz_visited=result.nnz_visited + nnz, gain=result.gain + gain, further=further)

    def step(self, block: Block, state: State, members: np.ndarray, moved: np.ndarray, scores: np.ndarray) -> tuple:
        """The kernel's step, and what it returns."""
        problem = self.problem
        return self.extrapolate(
            *block.matrix, block.y, block.weights, members, problem.bias, self.cost, problem.own, state["w"],
            state["alpha"], moved, scores,
        )  # fmt: skip
