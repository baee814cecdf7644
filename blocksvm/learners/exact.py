"""forel-exact and ftl: each row is predicted by the exact minimiser over all rows before it (teaching scale).

FoReL  w_t = argmin_w sum_{s < t} loss_s(w) + ||w||^2 / (2 eta): the batch problem with C = eta, begun from the last
       round's dual variables (Shalev-Shwartz, Online learning and online convex optimization, 2012, sec. 2.3)
FTL    w_t = argmin of the past losses over the ball ||w|| <= B, without which there need not be one: the same with eta
       tuned until ||w|| = B; where the largest eta does not reach it, its loss is within ||u||^2 / (2 eta) of the least

A round costs a training: for some thousand rows, all in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.kernels.dual_cd import dual_cd_pass
from blocksvm.kernels.margins import add_rows, decision_values, sum_of_squares
from blocksvm.learners.loops import ASKED, LOSS_SUM, MISTAKES, NONZEROS, ROWS, TALLY_LENGTH
from blocksvm.learners.protocol import Setting, Settings, positive
from blocksvm.learners.solver import LAST, OnlineSettings, end_epoch, is_reported, progress_of
from blocksvm.problems.losses import LOSSES
from blocksvm.problems.problem import Problem
from blocksvm.solvers.protocol import PassResult, State, StateArray
from blocksvm.sources.block import Block

LOSS = Setting("loss", "what is made least", "hinge", kind=str, choices=tuple(LOSSES))
SETTINGS = {
    "forel-exact": Settings((LOSS, positive("step", "eta, the weight of the losses", 1.0))),
    "ftl": Settings((LOSS, positive("radius", "of the ball ||w|| <= B", 1.0, metavar="B"))),
}
GAP = 1e-10  # relative to the primal, to which each round's problem is solved
MOST_PASSES = 50_000
PASSES_BETWEEN = 20  # two looks at the gap, which cost more than a pass over few rows
LEAST_ETA, MOST_ETA = 1e-6, 1e3  # between which ftl looks for its eta
NEAR = 1e-7  # relative, of ||w|| to the ball's radius


class ExactSolver:
    """The ``Solver`` of both; it is no learner of constant cost a row, but learns and reports as they do."""

    visit_arrays = ()
    has_dual = False
    needs_weights_buffer = False
    online = True
    copies = 1
    state_arrays = (
        StateArray("w", "feature", in_model=False),
        StateArray("alpha", "row"),
        StateArray("seen", "row", dtype=np.uint8),
        StateArray("tally", "scalar", TALLY_LENGTH),
        StateArray("epochs", "scalar", 3),
    )

    def __init__(self, name: str, problem: Problem, settings: OnlineSettings, source):
        if not source.labels.binary:
            raise InputError(f"{name}: learns two classes; {source.name} has {len(source.labels.values)}")
        for setting in ("average", "multiclass", "query"):
            if getattr(settings, setting) not in (None, False):
                raise InputError(f"{called(setting)}: {name} has no use for it")
        self.name = name
        self.problem = problem
        self.told = SETTINGS[name].resolve(settings.learner, name)
        self.loss = LOSSES[self.told["loss"]]
        self.prior = np.empty(0)
        self.eta = 1.0

    def start(self, state: State) -> None:
        state["epochs"][LAST] = -1.0

    def warm_start(self, state, saved: dict, lengths: dict, load, blocks: Iterable[Block], name: str) -> None:
        raise InputError(f"--warm-start: {self.name} begins with no rows")

    def start_visit(self, visit: State) -> None:
        pass

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult:
        if block.n_samples < self.problem.n_samples:
            raise InputError(f"{self.name}: needs all rows in memory at once; raise --memory, or take fewer rows")
        tally, seen = state["tally"], state["seen"]
        before, reports = tally[LOSS_SUM], []
        scores = np.empty(block.n_samples)
        for i in order.tolist():
            decision_values(*block.matrix, state["w"], self.problem.bias, scores)
            margin = float(block.y[i]) * scores[i]
            tally[ROWS] += 1
            tally[ASKED] += 1
            tally[LOSS_SUM] += max(0.0, 1.0 - margin) ** self.loss.power
            tally[MISTAKES] += margin <= 0.0
            tally[NONZEROS] += block.indptr[i + 1] - block.indptr[i]
            seen[i] = 1
            self._follow(block, state)
            if is_reported(int(tally[ROWS])):
                reports.append(progress_of(tally))
        return PassResult(len(order), block.n_nonzeros, float(tally[LOSS_SUM] - before), True, tuple(reports))

    def _follow(self, block: Block, state: State) -> None:
        """w of the rows seen so far."""
        rows = np.flatnonzero(state["seen"]).astype(np.int32)
        if self.name == "forel-exact":
            self._minimise(block, state, rows, self.told["step"])
            return
        # ||w|| rises with eta: look for the eta at which it meets the ball, from the last one outwards
        radius = self.told["radius"]
        low, high = LEAST_ETA, MOST_ETA
        self._minimise(block, state, rows, high)
        if math.sqrt(sum_of_squares(state["w"])) <= radius:
            return
        for _ in range(80):
            eta = min(max(self.eta, low), high) if low < self.eta < high else math.sqrt(low * high)
            self._minimise(block, state, rows, eta)
            norm = math.sqrt(sum_of_squares(state["w"]))
            self.eta = 0.0  # the guess is spent: halve from here on
            if abs(norm - radius) <= NEAR * radius:
                break
            low, high = (eta, high) if norm < radius else (low, eta)
        self.eta = eta

    def _minimise(self, block: Block, state: State, rows: np.ndarray, eta: float) -> None:
        """Dual coordinate descent over ``rows`` with C = eta, until the gap is ``GAP`` of the primal."""
        cost = np.full(2, eta)
        upper, diagonal = self.loss.box(cost)
        alpha, w = state["alpha"], state["w"]
        np.minimum(alpha, upper[0], out=alpha)
        w[:] = 0.0
        add_rows(*block.matrix, alpha * block.y, self.problem.bias, w)
        active, rest = np.ones(block.n_samples, np.uint8), np.zeros(block.n_samples, np.uint8)
        scores = np.empty(block.n_samples)
        for done in range(MOST_PASSES):
            dual_cd_pass(
                *block.matrix, block.y, block.sq_norms, rows, self.problem.bias, upper, diagonal, cost,
                self.loss.power, np.inf, -np.inf, np.inf, 0, w, alpha, active, rest,
            )  # fmt: skip
            if done >= PASSES_BETWEEN and done % PASSES_BETWEEN:
                continue
            decision_values(*block.matrix, w, self.problem.bias, scores)
            m, a = (scores * block.y)[rows], alpha[rows]
            loss = eta * np.maximum(0.0, 1.0 - m) ** self.loss.power
            # the gap is a sum of one term >= 0 a row (Fenchel-Young)
            gap = float((loss + a * m - a + 0.5 * diagonal[0] * a * a).sum())
            if gap <= GAP * (0.5 * sum_of_squares(w) + float(loss.sum())):
                break

    def end_outer(self, state: State, outer: int) -> None:
        end_epoch(state)

    def at_rest(self, state: State) -> bool:
        return False

    def verdict(self, state: State, max_norm: float) -> str:
        return ""

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"]

    def estimated_primal(self, state: State, loss_sum: float) -> None:
        return None

    def estimated_dual(self, state: State) -> None:
        return None
