"""Dual coordinate descent on several problems over the same rows, one class against the others for each class: one
reading, one decoding and one set of rows in memory serve them all, and each ends by its own certificate.

The rows that a working set keeps are those with the largest shares of the gaps, each problem's counted in units of its
own primal, so that small classes have their part in it.  A problem whose certified gap is within the tolerance is left
as it is: no row is moved for it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.kernels.several import (
    add_rows_to_several,
    several_coefficients,
    several_dual_cd_pass,
    several_feasible,
    several_shares,
    sums_of_columns,
)
from blocksvm.problems.problem import Certificate, Decided
from blocksvm.problems.several import CERTIFIED, REL_GAP, SeveralProblems, each_against_the_rest
from blocksvm.solvers.dual_cd import CONJUGATE, NO_PAUSES, NO_SHARES, OUTERS, REST_VISITS, RESTING, DualCD, settings_of
from blocksvm.solvers.protocol import SHARE, SavedRun, State, StateArray, Task, VisitArray
from blocksvm.sources.block import Block

NOTHING = np.empty((0, 0))  # in the place of a prior


class SeveralDualCD(DualCD):
    """``DualCD`` of each of several problems; w (d + 1, k) and alpha (l, k), the problems side by side.

    state["conjugates"], ["seen"], ["scale"] (k,): of each problem the sum of the conjugates, the gap that this reading
    has seen, and what its shares of the gap are multiplied by; ["certified"] (3 k,): as ``SeveralProblems`` has it.
    """

    capabilities = replace(DualCD.capabilities, free_bias=False, screens=False)

    def __init__(self, task: Task):
        if task.free_bias:
            raise InputError(f"{called('bias=free')}: is for two classes; give the value of a constant feature instead")
        self.settings = settings_of(task.settings).resolve(task.settings, self.name)
        self.problems: SeveralProblems = self.stated(task)
        self.bias = self.problems.bias
        self.n_vectors = k = self.problems.n_problems
        self.one_pass = self.problems.loss.compiled(several_dual_cd_pass)
        self.tolerance = task.tolerance
        self.prior = NOTHING
        self.with_set = task.working_set
        self.state_arrays = (
            StateArray("w", "feature", columns=k, in_model=False),
            StateArray("alpha", "row", columns=k),
            StateArray("rest", "row", dtype=np.uint8, in_model=False),
            StateArray("sums", "scalar", RESTING + REST_VISITS + 1),
            *(StateArray(name, "scalar", k, in_model=False) for name in ("conjugates", "seen", "scale")),
            StateArray("certified", "scalar", len(CERTIFIED) * k, in_model=False),
        )
        self.visit_arrays = (VisitArray("active", np.uint8), VisitArray("range", length=4))
        if self.with_set:
            self.state_arrays += (StateArray("pauses", "row", dtype=np.uint8, in_model=False),)
            self.visit_arrays = (VisitArray("active", np.uint8), VisitArray("range", length=5), VisitArray(SHARE))

    def stated(self, task: Task) -> SeveralProblems:
        """The problems of a task."""
        return each_against_the_rest(self.settings, task.bias, task.source, task.tol)

    @property
    def problem(self) -> SeveralProblems:
        return self.problems

    def problem_at(self, state: State) -> SeveralProblems:
        return replace(self.problems, certified=state["certified"].reshape(-1, len(CERTIFIED)))

    def live(self, state: State) -> np.ndarray:
        return self.problem_at(state).live

    def start(self, state: State) -> None:
        """a = 0 is a feasible start, with w = 0 or the prior model's weights, which are laid side by side."""
        if self.prior.size:
            self.prior = np.ascontiguousarray(self.prior.reshape(self.n_vectors, -1).T)
            state["w"][:] = self.prior
        state["scale"][:] = 1.0
        state["certified"][REL_GAP :: len(CERTIFIED)] = np.inf

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's a, scaled in each problem and class by the ratio of C, then into each row's own bounds."""
        if self.prior.size:
            raise InputError(f"{called('warm_start')}: not together with {called('prior')}; leave one of them out")
        alpha, problems = state["alpha"], self.problems
        if saved.lengths.get(self.name, {}).get("alpha") != alpha.size:
            raise InputError(
                f"{saved.name}: holds no dual variables of {self.n_vectors} classes; dual-cd starts from a model or "
                "checkpoint of dual-cd on the same rows"
            )
        saved.load(self.name, "alpha", alpha)
        by_side = problems.cost / np.array(saved.meta["cost"])
        ratio = np.where(problems.targets > 0.0, by_side[:, 1], by_side[:, 0])
        self._sum_rows(state, blocks, ratio)

    def rebuild(self, state: State, blocks: Iterable[Block], decided: Decided | None = None) -> None:
        """w_c = w0_c + sum a_i direction_i x_i anew from a, of the live problems, in one reading of all rows."""
        self._sum_rows(state, blocks)
        if self.prior.size:
            live = self.live(state)
            state["w"][:, live] += self.prior[:, live]

    def _sum_rows(self, state: State, blocks: Iterable[Block], ratio: np.ndarray | None = None) -> None:
        problems, live, w = self.problems, self.live(state), state["w"]
        w[:, live] = 0.0
        state["conjugates"][live] = 0.0
        row = problems.targets, problems.costs, problems.own
        for block in blocks:
            alpha, codes = state["alpha"][block.rows], problems.codes(block)
            if ratio is not None:
                problems.loss.compiled(several_feasible)(alpha, codes, block.weights, *row, ratio)
                state["alpha"][block.rows] = alpha
            coefficients = np.empty_like(alpha)
            problems.loss.compiled(several_coefficients)(
                alpha, codes, block.weights, *row, live, state["conjugates"], coefficients
            )
            add_rows_to_several(*block.matrix, coefficients, self.bias, w.reshape(-1))
        state["sums"][CONJUGATE] = state["conjugates"].sum()

    def visit_rows(
        self, block: Block, state: State, visit: State, order: np.ndarray, shrinking: tuple, counted: bool
    ) -> tuple:
        problems, k = self.problems, self.n_vectors
        return self.one_pass(
            *block.matrix, problems.codes(block), block.weights, block.sq_norms, order, self.bias, problems.targets,
            problems.costs, problems.own, *shrinking, self.live(state), state["scale"], state["w"].reshape(-1),
            state["alpha"], visit["active"], state["rest"], state.get("pauses", NO_PAUSES),
            visit.get(SHARE, NO_SHARES), state["conjugates"], state["seen"] if counted else np.zeros(k),
        )  # fmt: skip

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        problems = self.problems
        problems.loss.compiled(several_shares)(
            scores, problems.codes(block), block.weights, state["alpha"], problems.targets, problems.costs,
            problems.own, self.live(state), state["scale"], state["rest"], state["pauses"], out,
        )  # fmt: skip

    def begin_outer(self, state: State) -> None:
        state["seen"][:] = 0.0

    def certified(self, state: State, certificate: Certificate) -> None:
        """Keep the figures of the problems that are at their end."""
        figures = state["certified"].reshape(-1, len(CERTIFIED))
        found = np.array([certificate.by_class[name] for name in CERTIFIED]).T
        ended = found[:, REL_GAP] <= self.problems.tol
        figures[ended] = found[ended]

    def progress(self, state: State) -> dict:
        return {"classes_done": self.n_vectors - len(self.live(state))}

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"].T

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, float, float]:
        """Of all problems together; with a working set the relative gap is the largest one of the live problems."""
        norms = np.empty((self.n_vectors, 4))
        sums_of_columns(state["w"], self.prior, norms)
        duals = -state["conjugates"] - 0.5 * norms[:, 1] - norms[:, 3]
        dual = float(duals.sum())
        if seen is None:
            now = int(state["sums"][OUTERS]) % (REST_VISITS + 1)
            at_rest = sum(float(state["sums"][RESTING + n]) for n in range(REST_VISITS + 1) if n != now)
            primal = float(0.5 * norms[:, 1].sum() + loss_sum + at_rest)
            return primal, dual, (primal - dual) / abs(primal) if primal else 0.0
        primals, live = duals + state["seen"], self.live(state)
        state["scale"][:] = primals.mean() / np.maximum(primals, 1e-300) if primals.min() > 0.0 else 1.0
        gaps = np.divide(state["seen"], np.abs(primals), out=np.zeros(len(primals)), where=primals != 0.0)
        return float(primals.sum()), dual, float(gaps[live].max(initial=0.0))
