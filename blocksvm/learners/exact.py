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

from blocksvm.errors import InputError
from blocksvm.kernels.dual_cd import dual_cd_pass, dual_coefficients, make_feasible
from blocksvm.kernels.margins import add_rows, certificate_sums, decision_values, sum_of_squares
from blocksvm.kernels.online.loops import ASKED, LOSS_SUM, MISTAKES, NONZEROS, ROWS, TALLY_LENGTH
from blocksvm.learners.protocol import LearnerSettings, check_setting, option_of
from blocksvm.learners.solver import LAST, OnlineSettings, end_epoch, is_reported, progress_of
from blocksvm.problems import LOSSES, get_loss
from blocksvm.problems.problem import Problem
from blocksvm.solvers.protocol import PassResult, State, StateArray
from blocksvm.sources.block import Block

SETTINGS = {
    "forel-exact": {"loss": "hinge", "step": 1.0},
    "ftl": {"loss": "hinge", "radius": 1.0},
}
UNIT = np.ones(3)
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
        for option in ("average", "multiclass", "query"):
            if getattr(settings, option) not in (None, False):
                raise InputError(f"--{option}: {name} has no use for it")
        self.name = name
        self.problem = problem
        self.told = resolve(name, settings.learner)
        self.loss = get_loss(self.told["loss"])
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
        losses_of = self.loss.compiled(certificate_sums)
        for i in order.tolist():
            decision_values(*block.matrix, state["w"], self.problem.bias, scores)
            margin = float(block.y[i]) * scores[i]
            tally[ROWS] += 1
            tally[ASKED] += 1
            tally[LOSS_SUM] += losses_of(scores[i : i + 1], block.y[i : i + 1], None, None, UNIT, ())[0]
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
        cost = np.full(3, eta)
        alpha, w = state["alpha"], state["w"]
        one_pass, sums_of = self.loss.compiled(dual_cd_pass), self.loss.compiled(certificate_sums)
        coefficients = np.empty(block.n_samples)
        self.loss.compiled(make_feasible)(alpha, block.y, None, cost, (), UNIT[:2], 1.0)
        self.loss.compiled(dual_coefficients)(alpha, block.y, None, cost, (), coefficients)
        w[:] = 0.0
        add_rows(*block.matrix, coefficients, self.problem.bias, w)
        active, rest = np.ones(block.n_samples, np.uint8), np.zeros(block.n_samples, np.uint8)
        scores = np.empty(block.n_samples)
        for done in range(MOST_PASSES):
            one_pass(
                *block.matrix, block.y, None, block.sq_norms, rows, self.problem.bias, cost, (),
                np.inf, -np.inf, np.inf, 0, w, alpha, active, rest,
            )  # fmt: skip
            if done >= PASSES_BETWEEN and done % PASSES_BETWEEN:
                continue
            decision_values(*block.matrix, w, self.problem.bias, scores)
            loss, gap, _, _ = sums_of(scores[rows], block.y[rows], None, alpha[rows], cost, ())
            if gap <= GAP * (0.5 * sum_of_squares(w) + loss):
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


def resolve(name: str, given: LearnerSettings) -> dict:
    """All settings; InputError for one that it does not take or that is out of range."""
    takes = SETTINGS[name]
    for setting, value in given.given().items():
        if setting not in takes:
            options = ", ".join(option_of(own) for own in takes)
            raise InputError(f"{option_of(setting)}: {name} has no use for it; it takes {options}")
        check_setting(setting, value)
    found = takes | given.given()
    if found["loss"] not in LOSSES:
        raise InputError(f"--loss {found['loss']}: {name} has {' and '.join(LOSSES)}")
    return found
