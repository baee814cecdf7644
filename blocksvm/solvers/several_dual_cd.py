"""Dual coordinate descent on several problems over the same rows, one class against the others for each class: one
reading, one decoding and one set of rows in memory serve them all, and each ends by its own certificate.

The rows that a working set keeps are those with the largest shares of the gaps, each problem's counted in units of its
own primal, so that small classes have their part in it.  A problem whose certified gap is within the tolerance is left
as it is: no row is moved for it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from blocksvm.base.memory import Budget
from blocksvm.base.vectors import LINE
from blocksvm.kernels.dual_cd_loops import Limits, Objective
from blocksvm.kernels.loss_functions import AT_REST
from blocksvm.kernels.several_loops import (
    add_up_shares,
    leave_rows_at_rest,
    several_coefficients,
    several_dual_cd_pass,
    several_feasible,
    several_shares,
)
from blocksvm.problems.problem import Certificate
from blocksvm.problems.several_problems import CERTIFIED, REL_GAP, SeveralProblems, at_their_end, each_against_the_rest
from blocksvm.solvers.dual_cd import CONJUGATE, OUTERS, Shrinking
from blocksvm.solvers.side_by_side import SideBySide
from blocksvm.solvers.solver import (
    SHARE,
    PassResult,
    SeveralProblemsSolver,
    State,
    StateArray,
    Task,
    Visit,
    VisitArray,
)
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source

ORDER, ACTIVE, SHARES = "order", "active", "shares"  # visit arrays, (n,) for each lane


@dataclass
class Lane(Visit):
    """What one lane has of a visit; live (t,): its problems."""

    live: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


class SeveralDualCD(SideBySide, SeveralProblemsSolver):
    """``DualCD`` of each of several problems, by threads: one has those of a lane (kernels/several_loops.py).

    state["conjugates"], ["seen"], ["scale"] (k,): of each problem the sum of the conjugates, the gap that this reading
    has seen, and what its shares of the gap are multiplied by; ["certified"] (4 k,): as ``SeveralProblems`` has it.
    """

    rests_by_vector = True

    def __init__(self, task: Task):
        super().__init__(task)
        k = self.n_vectors
        lanes = -(-k // LINE)
        self.visit_arrays = (VisitArray(ORDER, np.int32, lanes), VisitArray(ACTIVE, np.uint8, lanes))
        if self.with_set:
            self.visit_arrays += (VisitArray(SHARES, copies=lanes), VisitArray(SHARE))
        self.state_arrays += tuple(StateArray(n, "scalar", k, in_model=False) for n in ("conjugates", "seen", "scale"))
        self.state_arrays += (StateArray("certified", "scalar", len(CERTIFIED) * k, in_model=False),)

    def stated(self, task: Task) -> SeveralProblems:
        return each_against_the_rest(self.settings, task.bias, task.source, task.tol)

    def plan_memory(self, budget: Budget, source: Source) -> None:
        budget.take("sides of the classes", self.problem.sides.n_bytes)

    def problem_at(self, state: State) -> SeveralProblems:
        return replace(self.problem, certified=state["certified"].reshape(-1, len(CERTIFIED)))

    def live(self, state: State) -> np.ndarray:
        return self.problem_at(state).live

    def start(self, state: State) -> None:
        super().start(state)
        state["scale"][:] = 1.0
        state["certified"][REL_GAP :: len(CERTIFIED)] = np.inf

    def forget_conjugates(self, state: State) -> None:
        state["conjugates"][self.live(state)] = 0.0

    def coefficients(self, block: Block, state: State, alpha: np.ndarray, ratio: np.ndarray | None) -> np.ndarray:
        problem, conjugates = self.problem, state["conjugates"]
        rows = problem.codes(block), problem.reals(block), block.weights
        row = *rows, problem.sides.table, problem.cost, problem.function
        if ratio is not None:
            several_feasible(alpha, *row, ratio)
        coefficients = np.empty_like(alpha)
        several_coefficients(alpha, *row, self.live(state), conjugates, coefficients)
        state["sums"][CONJUGATE] = conjugates.sum()
        return coefficients

    def start_visit(self, visit: Visit) -> None:
        super().start_visit(visit)
        if self.with_set:
            visit.arrays[SHARES][:] = AT_REST

    def lanes(self, visit: Visit, live: np.ndarray) -> list[Lane]:
        """Those in which there are live problems."""
        arrays = {name: array for name, array in visit.arrays.items() if name != SHARE}
        if self.with_set:
            arrays[SHARE] = arrays.pop(SHARES)
        return [
            Lane(
                {name: np.atleast_2d(array)[lane] for name, array in arrays.items()}, visit.of_the_set,
                memo=Shrinking(), live=live[live // LINE == lane],
            )
            for lane in np.unique(live // LINE)
        ]  # fmt: skip

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """That of each lane.  Rows and nonzeros visited are the mean of the lanes'."""
        if not visit.passes:
            visit.memo = self.lanes(visit, self.live(state))
        lane_pass = super().inner_pass

        def one(lane: Lane) -> tuple[PassResult, np.ndarray]:
            lane.passes = visit.passes
            mine = lane.arrays[ORDER][: len(order)]
            mine[:] = order
            sums = np.zeros_like(state["sums"])
            sums[OUTERS] = state["sums"][OUTERS]
            return lane_pass(block, {**state, "sums": sums}, lane, mine), sums

        done = self.threads.map(one, visit.memo)
        for _, sums in done:
            sums[OUTERS] = 0.0
            state["sums"] += sums
        if self.with_set:
            add_up_shares(order, np.atleast_2d(visit.arrays[SHARES]), visit.arrays[SHARE])
        results, n = [result for result, _ in done], max(1, len(done))
        return PassResult(
            sum(r.rows_visited for r in results) // n, sum(r.nnz_visited for r in results) // n,
            sum(r.loss_sum for r in results), all(r.finished for r in results),
            gain=sum(r.gain for r in results), seen=sum(r.seen for r in results),
        )  # fmt: skip

    def leave_resting(self, order: np.ndarray, state: State, visit: Visit) -> int:
        assert isinstance(visit, Lane)
        return leave_rows_at_rest(order, state["rest"], visit.live, visit.arrays[ACTIVE], not visit.of_the_set)

    def visit_rows(self, block: Block, state: State, visit: Visit, order: np.ndarray, limits: Limits) -> tuple:
        assert isinstance(visit, Lane)
        problem, reading = self.problem, not visit.of_the_set
        first = reading and visit.passes == 0
        return several_dual_cd_pass(
            block.row_arrays._replace(y=problem.codes(block)), problem.reals(block), order,
            Objective(self.bias, problem.cost, problem.function), problem.sides.table, limits, visit.live,
            reading, first, state["scale"], self.pass_arrays(state, visit), state["w"].shape[1], state["conjugates"],
            state["seen"] if first else np.zeros(self.n_vectors),
        )  # fmt: skip

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        problem = self.problem
        several_shares(
            scores, problem.codes(block), problem.reals(block), block.weights, state["alpha"], problem.sides.table,
            problem.cost, problem.function, self.live(state), state["scale"], state["rest"], state["pauses"], out,
        )  # fmt: skip

    def begin_outer(self, state: State) -> None:
        state["seen"][:] = 0.0

    def count_seen(self, state: State, added: Mapping) -> None:
        state["seen"] += added["totals"][:, 1]

    def certified(self, state: State, certificate: Certificate) -> float:
        """Store the figures of the problems that are at their end."""
        figures, live = state["certified"].reshape(-1, len(CERTIFIED)), self.live(state)
        assert certificate.by_class is not None
        certified = np.array([certificate.by_class[name] for name in CERTIFIED]).T
        ended = at_their_end(certified, self.problem.tol)
        figures[ended] = certified[ended]
        return half_below(certified[live, REL_GAP])

    def progress(self, state: State) -> dict:
        return {"classes_done": self.n_vectors - len(self.live(state))}

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, float, float]:
        """Of all problems together.  With a working set the relative gap is the one that half of the live problems are
        not above: a certificate is worth its reading where so many end by it."""
        if seen is None:
            return super().estimates(state, loss_sum)
        norms = self.norms(state)
        duals = -state["conjugates"] - 0.5 * norms[:, 1] - norms[:, 3]
        primals, live = duals + state["seen"], self.live(state)
        # so that the shares, over the sum of all primals, are the mean of the live problems' relative gaps
        if primals.min() > 0.0:
            state["scale"][:] = primals.sum() / (max(1, len(live)) * primals)
        gaps = np.divide(state["seen"], np.abs(primals), out=np.zeros(len(primals)), where=primals != 0.0)
        return float(primals.sum()), float(duals.sum()), half_below(gaps[live])


def half_below(gaps: np.ndarray) -> float:
    """The least number that half of these are not above; 0 of none."""
    return float(np.sort(gaps)[(len(gaps) - 1) // 2]) if len(gaps) else 0.0
