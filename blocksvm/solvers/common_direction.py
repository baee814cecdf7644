"""Dual coordinate descent that keeps D at its maximum along a direction that a visit's rows have in common: for visits
of several passes (kernels/common_direction.py has the mathematics)."""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.common_direction import (
    CHOSEN,
    CURVATURE,
    LENGTH,
    MOST_FREQUENT,
    aim,
    arrive,
    choose_direction,
    follow,
    look_again,
)
from blocksvm.solvers.dual_cd import ALONG, FREQUENT, OUTERS, PASSES, DualCD
from blocksvm.solvers.protocol import State, StateArray, Task, VisitArray
from blocksvm.sources.block import Block

ROOM, COMMON, SUPPORT = "room", "common", "support"
# Every eighth row is a part of the direction: it is as good as that of all rows, and <x_i, c> costs less, c has fewer
# entries.
EVERY = 8
# Rows less alike have nothing in common that slows the passes down (0.005 on zipf data; 0.06 to 0.3 on texts, 0.5 to
# 0.8 on these with a constant feature).
ALIKE = 0.1
# Along the direction after a pass: its own, and to the maximum, from which what it did not see of c keeps it, and rows
# that left the direction.
STEPS = 3
# At a kink of the loss a row that is a little off costs the primal in proportion, and the dual its square: with the
# hinge loss visits go on until there is less to gain (up to twice as fast to a gap of 1e-4; a tenth slower without a
# direction, and of no use where the loss is smooth).
GAIN_OF_GAP_AT_KINKS = 0.1
FALLS = "falls"
MOST_FALLS = 3  # of D, in passes with a direction: from then on the run goes on without, whose passes always raise it


class DualCDWithDirection(DualCD):
    """``DualCD``, whose visits choose a direction as soon as rows have moved.

    A choice looks at as many numbers as w has, so blocks of fewer entries have none.
    """

    def __init__(self, task: Task):
        super().__init__(task)
        compiled = self.problem.loss.compiled
        self.choose, self.aim, self.follow = compiled(choose_direction), compiled(aim), compiled(follow)
        if self.problem.loss.curvature == 0.0:
            self.gain_of_gap = GAIN_OF_GAP_AT_KINKS
        self.state_arrays += (StateArray(FALLS, "scalar", 1, in_model=False),)
        n_features = task.source.n_features
        self.visit_arrays += (
            VisitArray(ROOM),
            VisitArray(COMMON, length=n_features + 1),
            VisitArray(SUPPORT, np.int32, max(1, n_features)),
            VisitArray(FREQUENT, length=min(n_features, MOST_FREQUENT) + 1),
            VisitArray(ALONG, length=LENGTH),
        )

    def visit_rows(self, block: Block, state: State, visit: State, order: np.ndarray, *how) -> tuple:
        """The pass of ``DualCD``, with every row's step one along the direction, and then the rows go it."""
        problem, along, w = self.problem, visit[ALONG], state["w"]
        common = (visit[COMMON], visit[SUPPORT], along)
        rows = (*block.matrix, block.y, block.weights, block.sq_norms)
        own = (problem.bias, self.cost, problem.own)
        alpha, room = state["alpha"], visit[ROOM]
        moved = state["sums"][OUTERS] > 0 or visit["range"][PASSES] > 0
        useful = state[FALLS][0] < MOST_FALLS and len(block.indices) >= len(w)
        if moved and useful and not along[CHOSEN]:
            alike = self.choose(*rows, order, EVERY, *own, w, alpha, room, *common)
            along[CHOSEN] = 1.0 if alike >= ALIKE else -1.0
        aiming = (block.y, block.weights, *own, alpha, room, visit[COMMON], visit[FREQUENT], along)
        if along[CHOSEN] > 0.0:
            self.aim(*aiming)
        *figures, change, gain, shares = super().visit_rows(block, state, visit, order, *how)
        if not along[CURVATURE] > 0.0:
            return *figures, change, gain, shares
        look_again(w, *common)
        for step in range(STEPS):
            if step:
                self.aim(*aiming)
            if not along[CURVATURE] > 0.0:
                break
            more, ascent = self.follow(*rows, *own, w, alpha, room, visit[COMMON], along)
            change, gain = change + more, gain + ascent
        arrive(w, *common)
        if gain < 0.0:  # bounds stood in the way of more than the direction brought
            along[CHOSEN], along[CURVATURE] = -1.0, 0.0
            state[FALLS] += 1.0
        return *figures, change, gain, shares
