"""Crammer and Singer's machine in blocks, by its sequential dual method: a row's k dual variables move at once."""

import numpy as np

from blocksvm.problems.certificate import Certificate
from blocksvm.problems.crammer_singer_kernels import crammer_singer_pass, crammer_singer_shares
from blocksvm.problems.problem import CrammerSinger, crammer_singer
from blocksvm.solvers.dual_cd import DualCD, Lane
from blocksvm.solvers.dual_cd_kernels import Limits
from blocksvm.solvers.solver import State, Task
from blocksvm.sources.block import Block


class CrammerSingerCD(DualCD):
    """Keerthi et al., KDD 2008, on the rows of a block: the k vectors have one certificate and a row one rest.
    state["conjugates"] are the sums of a_ik over the rows of other classes than k, state["seen"][0] the gap seen."""

    problem: CrammerSinger

    def stated(self, task: Task) -> CrammerSinger:
        return crammer_singer(self.settings, task.bias, task.source)

    def declare(self, lanes: int, rests: int) -> None:
        super().declare(1, 1)

    def live(self, state: State) -> np.ndarray:
        return np.arange(self.n_vectors, dtype=np.int32)

    def problem_at(self, state: State) -> CrammerSinger:
        return self.problem

    def scale_dual(self, state: State, conjugates: np.ndarray, largest: np.ndarray) -> None:
        state["conjugates"][:] = conjugates[:, 0]

    def visit_rows(self, block: Block, order: np.ndarray, limits: Limits, lane: Lane, begun: bool) -> tuple:
        return crammer_singer_pass(lane.rows, order, self.bias, self.problem.costs, limits, lane.arrays)

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        rest, pauses = self.columns(state, "rest"), self.columns(state, "pauses")
        crammer_singer_shares(
            scores, block.y, block.weights, self.columns(state, "alpha"), self.problem.costs, rest, pauses, out
        )

    def certified(self, state: State, certificate: Certificate) -> float | None:
        return certificate.rel_gap

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, float, float]:
        if seen is None:
            return super().estimates(state, loss_sum)
        dual = float(self.duals(state)[1].sum())
        primal = dual + seen
        return primal, dual, seen / abs(primal) if primal else 0.0
