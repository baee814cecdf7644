"""Dual coordinate descent as a block solver: w = sum a_i y_i x_i maintained, shrinking inside a visit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.kernels.dual_cd import dual_cd_pass, leave_resting
from blocksvm.kernels.margins import add_rows, inner_product, sum_of_squares
from blocksvm.kernels.shuffle import keep_active
from blocksvm.problems.problem import make_problem
from blocksvm.problems.settings import PROBLEM_SETTINGS
from blocksvm.solvers.protocol import (
    Capabilities,
    Method,
    PassResult,
    SavedRun,
    Solver,
    State,
    StateArray,
    Task,
    VisitArray,
)
from blocksvm.sources.block import Block

ABOVE, BELOW, PASSES, DROPPED = range(4)  # entries of visit["range"]
LINEAR, SQUARE, OUTERS, RESTING = range(4)  # entries of state["sums"]: sum a, sum diagonal a^2, outer iterations done,
# and from RESTING on a ring of the losses of the rows put to rest in each of the last outer iterations

# Shrinking that outlasts a visit.  A row whose gradient lies this far beyond its bound (in units of the margin) stays
# there for some time: it is left out of its next visits.  Measured on zipf data: as few outer iterations as without,
# and a fifth of the rows.
REST_BEYOND = 0.2
REST_VISITS = 3
REST_FROM = 3  # outer iterations done before any row may rest: the first ones move everything


class DualCD(Solver):
    """Hsieh et al., ICML 2008, Alg. 3, on the rows of a block (Yu et al., KDD 2010, for blocks).

    tolerance: stop a visit when the projected gradients of all its rows lie within this range (None: never).
    """

    name = "dual-cd"
    state_arrays = (
        StateArray("w", "feature", in_model=False),
        StateArray("alpha", "row"),
        StateArray("rest", "row", dtype=np.uint8, in_model=False),
        StateArray("sums", "scalar", RESTING + REST_VISITS + 1),
    )
    visit_arrays = (VisitArray("active", np.uint8), VisitArray("range", length=4))
    needs_output = False
    n_vectors = 1
    capabilities = Capabilities(
        certifies=True,
        minimises=True,
        schedules=True,
        tolerance=True,
        warm_starts=True,
        takes_prior=True,
        takes_weights=True,
        default_max_outer=1000,
    )

    def __init__(self, task: Task):
        self.settings = PROBLEM_SETTINGS.resolve(task.settings, self.name)
        self.problem = make_problem(self.settings, task.bias, task.source)
        self.bias = self.problem.bias
        self.upper, self.diagonal = self.problem.box()
        self.tolerance = task.tolerance
        self.prior = np.empty(0)

    def start(self, state: State) -> None:
        """a = 0 is a feasible start, with w = 0 or the prior model's weights."""
        if len(self.prior):
            state["w"][:] = self.prior

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's a, scaled into this problem's box (Chu et al., KDD 2015, scale a by the ratio of C), then by
        the factor that is best for the dual: D(f a) = f sum a - f^2/2 (||w(a)||^2 + sum diagonal a^2)."""
        if len(self.prior):
            raise InputError(f"{called('warm_start')}: not together with {called('prior')}; leave one of them out")
        if saved.lengths.get(self.name, {}).get("alpha") != len(state["alpha"]):
            raise InputError(
                f"{saved.name}: holds no dual variables; dual-cd starts from a model or checkpoint of dual-cd"
            )
        alpha, w, sums = state["alpha"], state["w"], state["sums"]
        saved.load(self.name, "alpha", alpha)
        alpha *= (self.problem.cost / np.array(saved.meta["cost"])).min()
        np.clip(alpha, 0.0, self.upper.min(), out=alpha)
        self.rebuild(state, blocks)
        curvature = sum_of_squares(w) + sums[SQUARE]
        largest = self.upper.min() / alpha.max() if alpha.any() else 1.0
        factor = min(float(sums[LINEAR] / curvature), largest) if curvature > 0.0 else 1.0
        alpha *= factor
        # rounding must not lead out of the box
        np.minimum(alpha, self.upper.min(), out=alpha)
        w *= factor
        sums[[LINEAR, SQUARE]] *= (factor, factor * factor)

    def rebuild(self, state: State, blocks: Iterable[Block]) -> None:
        """w = w0 + sum a_i y_i x_i anew from a, in one reading of all rows."""
        state["w"][:] = 0.0
        self.start(state)
        state["sums"][[LINEAR, SQUARE]] = 0.0
        for block in blocks:
            alpha = state["alpha"][block.rows]
            add_rows(*block.matrix, alpha * block.y, self.problem.bias, state["w"])
            state["sums"][[LINEAR, SQUARE]] += _alpha_sums(alpha, block.y, self.diagonal)

    def start_visit(self, visit: State) -> None:
        visit["active"][:] = 1
        visit["range"][:] = (np.inf, -np.inf, 0, 0)

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult:
        """Visit the active rows in ``order``; rows that stay at a bound are dropped from the visit's later passes."""
        problem = self.problem
        bounds = visit["range"]
        first = bounds[PASSES] == 0
        if first:
            kept = leave_resting(order, state["rest"], visit["active"])
            bounds[DROPPED] += len(order) - kept
            order = order[:kept]
        elif bounds[DROPPED] > 0:
            order = order[: keep_active(order, visit["active"])]
        alpha = state["alpha"]
        sums = state["sums"]
        before_linear, before_square = _alpha_sums(alpha, block.y, self.diagonal)
        outers = int(sums[OUTERS])
        beyond = REST_BEYOND if outers >= REST_FROM else np.inf
        pg_max, pg_min, dropped, nnz, loss, resting = dual_cd_pass(
            *block.matrix, block.y, block.sq_norms, order, problem.bias, self.upper, self.diagonal, problem.cost,
            problem.loss.power, bounds[ABOVE], bounds[BELOW], beyond, REST_VISITS,
            state["w"], alpha, visit["active"], state["rest"],
        )  # fmt: skip
        after_linear, after_square = _alpha_sums(alpha, block.y, self.diagonal)
        sums[LINEAR] += after_linear - before_linear
        sums[SQUARE] += after_square - before_square
        sums[RESTING + outers % (REST_VISITS + 1)] += resting
        bounds[PASSES] += 1
        bounds[DROPPED] += dropped
        # an extreme on the wrong side of 0 would drop rows that still move
        bounds[ABOVE] = pg_max if pg_max > 0.0 else np.inf
        bounds[BELOW] = pg_min if pg_min < 0.0 else -np.inf
        finished = False
        if self.tolerance is not None and pg_max - pg_min <= self.tolerance:
            finished = bounds[DROPPED] == 0
            visit["active"][:] = 1
            bounds[[ABOVE, BELOW, DROPPED]] = (np.inf, -np.inf, 0)
        return PassResult(len(order), nnz, loss if first else 0.0, bool(finished))

    def end_outer(self, state: State, outer: int) -> None:
        """Count it; rows put to rest ``REST_VISITS`` + 1 iterations before are back, so their losses leave the ring."""
        sums = state["sums"]
        sums[OUTERS] += 1
        sums[RESTING + int(sums[OUTERS]) % (REST_VISITS + 1)] = 0.0

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"]

    def estimates(self, state: State, loss_sum: float) -> tuple[float, float]:
        """(P, D) as the visits suggest them: D from the maintained w and sums of a, P with the losses as they were
        seen on the visits, those of rows at rest when they were put to it."""
        sums = state["sums"]
        now = int(sums[OUTERS]) % (REST_VISITS + 1)
        at_rest = sum(float(sums[RESTING + k]) for k in range(REST_VISITS + 1) if k != now)
        w = state["w"]
        norm = sum_of_squares(w)
        if len(self.prior):
            norm += sum_of_squares(self.prior) - 2.0 * inner_product(w, self.prior)
        primal = 0.5 * norm + loss_sum + at_rest
        constant = 0.5 * sum_of_squares(self.prior) if len(self.prior) else 0.0
        return primal, float(sums[LINEAR] - 0.5 * sums[SQUARE] - 0.5 * sum_of_squares(state["w"]) + constant)

    def dual_variables(self, state: State) -> np.ndarray:
        return state["alpha"]


METHOD = Method(
    "dual-cd", "dual coordinate descent in blocks, to a certified duality gap", PROBLEM_SETTINGS, DualCD.capabilities,
    DualCD,
)  # fmt: skip


def _alpha_sums(alpha: np.ndarray, y: np.ndarray, diagonal: np.ndarray) -> tuple[float, float]:
    """(sum a, sum diagonal_i a_i^2)."""
    squares = 0.0
    if diagonal.any():
        positive = y > 0
        squares = diagonal[1] * float(alpha[positive] @ alpha[positive])
        squares += diagonal[0] * float(alpha[~positive] @ alpha[~positive])
    return float(alpha.sum()), squares
