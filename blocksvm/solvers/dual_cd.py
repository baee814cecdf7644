"""Dual coordinate descent as a block solver: w = w0 + sum a_i direction_i x_i maintained, shrinking inside a visit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import Settings, plain
from blocksvm.base.vectors import width_of
from blocksvm.kernels.dual_cd_loops import (
    Limits,
    Objective,
    PassArrays,
    dual_cd_pass,
    dual_coefficients,
    leave_resting,
    make_feasible,
    shares_of_gap,
)
from blocksvm.kernels.loss_functions import AT_REST
from blocksvm.kernels.margins import add_rows, inner_with_difference, squared_distance, sum_of_squares
from blocksvm.kernels.shuffle import keep_active
from blocksvm.problems.free_bias import constant_value
from blocksvm.problems.problem import make_problem, problem_settings
from blocksvm.problems.problem_settings import MULTICLASS
from blocksvm.solvers.screening import MOVING, NO_SHARES, screened_pass
from blocksvm.solvers.solver import (
    SHARE,
    Capabilities,
    PassResult,
    SavedRun,
    State,
    StateArray,
    Task,
    TellsShares,
    Visit,
    VisitArray,
)
from blocksvm.sources.block import Block

CONJUGATE, OUTERS, RESTING = range(3)  # entries of state["sums"]: sum of the conjugates, outer iterations done, and
# from RESTING on a ring of the losses of the rows put to rest in each of the last outer iterations

# Shrinking that outlasts a visit.  A row whose gradient lies this far beyond its bound (in ``Problem.unit``) stays
# there for some time: it is left out of its next visits.  Measured on zipf data: as few outer iterations as without,
# and a fifth of the rows.
REST_BEYOND = 0.2
REST_VISITS = 3  # and as many outer iterations come before any row may rest: the first ones move everything
# With a working set each rest is more than twice as long as the one before (3, 9, 21, 31 visits): the certificates see
# all rows, and bring back those that can move.
LONGEST_REST = 31

# Of a free bias: what the constant feature's weight is regularised towards, how far that was from it before the last
# outer iteration, and the multiple of that by which it moved.
MULTIPLIER = "multiplier"
STANDING, FARTHEST = 0.8, 1e3

LARGEST_FACTOR = 1e6  # by which a warm start's dual variables are multiplied, at most
QUADRATIC = 1e-6  # relative: nearer than this to a parabola the conjugates' sum is one


@dataclass
class Shrinking:
    """What a visit's passes leave out (Hsieh et al., ICML 2008, section 3.2): the extremes of the last one's projected
    gradients, beyond which a row at its bound is dropped, and how many rows have been."""

    above: float = np.inf
    below: float = -np.inf
    dropped: int = 0


class DualCD(TellsShares):
    """Hsieh et al., ICML 2008, Alg. 3, on the rows of a block (Yu et al., KDD 2010, for blocks).

    tolerance: stop a visit when the projected gradients of all its rows lie within this range (None: never).
    """

    name = "dual-cd"
    problem: Any  # a ``Problem``, or of several vectors one that states theirs
    needs_output = False
    n_vectors = 1
    # Batches wait for all of their threads: shared on two processors beside decoding, runs took 0.97 to 1.45 times as
    # long.
    passes_like_decoding = True
    capabilities = Capabilities(
        certifies=True,
        cross_validates=True,
        minimises=True,
        schedules=True,
        tolerance=True,
        warm_starts=True,
        takes_prior=True,
        takes_weights=True,
        working_set=True,
        free_bias=True,
        default_max_outer=1000,
    )

    def __init__(self, task: Task):
        self.settings = settings_of(task.settings).resolve(task.settings, self.name)
        bias = constant_value(task.source) if task.free_bias else task.bias
        problem = make_problem(self.settings, bias, task.source)
        self.problem = replace(problem, free_bias=task.free_bias)
        self.bias, self.real_targets = self.problem.bias, self.problem.real
        self.objective = Objective(self.problem.bias, self.problem.cost_by_sign(), self.problem.function)
        self.prior = np.empty(0)
        self.declare(task)
        if task.free_bias:
            self.state_arrays += (StateArray(MULTIPLIER, "scalar", 3),)

    def declare(self, task: Task, rests: int = 1) -> None:
        """The arrays of ``n_vectors`` vectors, and how a visit ends; rests: of a row, one or one a vector."""
        self.tolerance, self.with_set = task.tolerance, task.working_set
        k = self.n_vectors
        self.state_arrays: tuple[StateArray, ...] = (
            StateArray("w", "feature", columns=width_of(k), in_model=False),
            StateArray("alpha", "row", columns=k),
            StateArray("rest", "row", columns=rests, dtype=np.uint8, in_model=False),
            StateArray("sums", "scalar", RESTING + REST_VISITS + 1),
        )
        self.visit_arrays: tuple[VisitArray, ...] = (VisitArray("active", np.uint8),)
        if self.with_set:
            self.state_arrays += (StateArray("pauses", "row", columns=rests, dtype=np.uint8, in_model=False),)
            self.visit_arrays += (VisitArray(SHARE),)

    def start(self, state: State) -> None:
        """a = 0 is a feasible start, with w = 0 or the prior model's weights."""
        if len(self.prior):
            state["w"][:] = self.prior
        if self.problem.free_bias:
            state[MULTIPLIER][:] = state["w"][-1], 0.0, 1.0
            self.prior[-1:] = 0.0  # it is no more than where the bias begins

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's a, scaled in each class by the ratio of C (Chu et al., KDD 2015), then into each row's own
        bounds; where the conjugates are quadratic, times the factor f that is best for the dual,
        D(f a) = -sum conjugate(f a_i) - f^2/2 ||w(a)||^2."""
        if len(self.prior):
            raise InputError(f"{option('warm_start')}: not together with {option('prior')}; leave one of them out")
        if saved.cost is None or saved.lengths.get(self.name, {}).get("alpha") != len(state["alpha"]):
            raise InputError(
                f"{saved.name}: holds no dual variables; dual-cd starts from a model or checkpoint of dual-cd"
            )
        alpha, w, sums = state["alpha"], state["w"], state["sums"]
        saved.load(self.name, "alpha", alpha)
        ratio = self.problem.cost / np.array(saved.cost)
        # what is new in the rows is not the old ones: these need not all be seen before they may rest
        sums[OUTERS] = REST_VISITS
        if take_weights(self, state, saved, ratio):
            return
        conjugates, largest = self._sum_rows(state, blocks, ratio)
        # through conjugate(0) = 0 and the values at 1/2 and 1: sum conjugate(f a_i) = square f^2 - linear f
        whole, half, quarter = conjugates.tolist()
        square, linear = 2.0 * whole - 4.0 * half, whole - 4.0 * half
        factor, curvature = 1.0, sum_of_squares(w) + 2.0 * square
        error = abs(square / 16.0 - linear / 4.0 - quarter)
        if curvature > 0.0 and error <= QUADRATIC * (abs(square) + abs(linear)):
            factor = min(max(linear / curvature, 0.0), largest)
        alpha *= factor
        w *= factor
        sums[CONJUGATE] = factor * (square * factor - linear)
        if self.problem.free_bias:
            if MULTIPLIER in saved.lengths[self.name]:
                saved.load(self.name, MULTIPLIER, state[MULTIPLIER])
            w[-1] += state[MULTIPLIER][0]

    def rebuild(self, state: State, blocks: Iterable[Block]) -> None:
        """w = w0 + sum a_i direction_i x_i from a alone, in one reading of all rows."""
        conjugates, _ = self._sum_rows(state, blocks)
        state["sums"][CONJUGATE] = conjugates[0]
        if len(self.prior):
            state["w"] += self.prior  # last: its weights may be large, and each addition to them rounds
        if self.problem.free_bias:
            state["w"][-1] += state[MULTIPLIER][0]

    def _sum_rows(self, state: State, blocks: Iterable[Block], ratio: np.ndarray | None = None) -> Any:
        """state["w"] = sum a_i direction_i x_i; (sums of conjugate(f a_i) for f = 1, 1/2 and 1/4, largest factor).

        ratio (2,): each class's a are multiplied by it first, and made feasible.
        """
        problem = self.problem
        conjugates, largest = np.zeros(3), LARGEST_FACTOR
        state["w"][:] = 0.0
        for block in blocks:
            alpha = state["alpha"][block.rows]
            row = (block.y, block.weights, self.objective.cost, problem.function)
            if ratio is not None:
                largest = make_feasible(alpha, *row, ratio, largest)
                state["alpha"][block.rows] = alpha
            coefficients = np.empty(len(alpha))
            conjugates += dual_coefficients(alpha, *row, coefficients)
            add_rows(*block.matrix, coefficients, problem.bias, state["w"])
        return conjugates, largest

    def start_visit(self, visit: Visit) -> None:
        visit.memo = Shrinking()
        visit.arrays["active"][:] = 1
        if self.with_set:
            visit.arrays[SHARE][:] = AT_REST  # of the rows that are not visited

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """Visit the active rows in ``order``; rows that stay at a bound are dropped from the visit's later passes."""
        shrinking, arrays, sums = visit.memo, visit.arrays, state["sums"]
        first, reading = visit.passes == 0, not visit.of_the_set
        if first:
            n_active = self.leave_resting(order, state, visit)
            shrinking.dropped += len(order) - n_active
            order = order[:n_active]
        elif shrinking.dropped > 0:
            order = order[: keep_active(order, arrays["active"])]
        outers = int(sums[OUTERS])
        # of several passes over a block the first one tells what the other blocks have left of the gap
        shares_before = arrays[SHARE].copy() if self.with_set and reading and not first else None
        longest = LONGEST_REST if self.with_set else REST_VISITS
        beyond = REST_BEYOND * self.problem.unit if reading and outers >= REST_VISITS else np.inf
        pg_max, pg_min, dropped, nnz, loss, resting, change, gain, shares = self.visit_rows(
            block, state, visit, order, Limits(shrinking.above, shrinking.below, beyond, longest)
        )
        if shares_before is not None:
            arrays[SHARE][:] = shares_before
        sums[CONJUGATE] += change
        if not self.with_set:
            sums[RESTING + outers % (REST_VISITS + 1)] += resting
        shrinking.dropped += dropped
        # an extreme on the wrong side of 0 would drop rows that still move
        shrinking.above = pg_max if pg_max > 0.0 else np.inf
        shrinking.below = pg_min if pg_min < 0.0 else -np.inf
        finished = False
        if self.tolerance is not None and pg_max - pg_min <= self.tolerance:
            finished = shrinking.dropped == 0
            self.look_at_all(visit)
        return PassResult(len(order), nnz, loss if first and reading else 0.0, finished, gain=gain, seen=shares)

    @staticmethod
    def look_at_all(visit: Visit) -> None:
        """Rows that were dropped take part in the next pass."""
        visit.arrays["active"][:] = 1
        visit.memo = Shrinking()

    def leave_resting(self, order: np.ndarray, state: State, visit: Visit) -> int:
        """Compact ``order`` to the rows that are not at rest; returns how many."""
        return len(order) if visit.of_the_set else leave_resting(order, state["rest"], visit.arrays["active"])

    def visit_rows(self, block: Block, state: State, visit: Visit, order: np.ndarray, limits: Limits) -> tuple:
        """Make the kernel's pass over the rows of ``order``; returns what the kernel does, but the rows that move."""
        arrays = self.pass_arrays(state, visit)

        def step(order: np.ndarray, limits: Limits, arrays: PassArrays, moving: np.ndarray | None) -> tuple:
            return dual_cd_pass(block.row_arrays, order, self.objective, limits, arrays, moving)

        if visit.of_the_set or not self.with_set:
            return step(order, limits, arrays, None)[:MOVING]
        first = limits, arrays, bool(state["sums"][OUTERS])  # at a = 0 all rows move
        piece = max(1, self.threads.piece * block.n_samples // max(1, block.n_nonzeros))
        return screened_pass(step, self.threads, order, piece, first)[:MOVING]

    @staticmethod
    def pass_arrays(state: State, visit: Visit) -> PassArrays:
        """What the kernel updates."""
        rest, arrays = state["rest"], visit.arrays
        return PassArrays(
            state["w"].reshape(-1), state["alpha"], arrays["active"], rest, state.get("pauses", rest[:0]),
            arrays.get(SHARE, NO_SHARES),
        )  # fmt: skip

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        _, cost, loss_settings = self.objective
        shares_of_gap(
            scores, block.y, block.weights, state["alpha"], cost, loss_settings, state["rest"], state["pauses"], out
        )

    def begin_outer(self, state: State) -> None:
        """A free bias: the multiplier c moves by a multiple of u = B sum a_i direction_i, and the constant feature's
        weight c + u with it.  Where u keeps its sign and hardly shrinks, c has far to go: the multiple is doubled."""
        if self.problem.free_bias:
            w, multiplier = state["w"], state[MULTIPLIER]
            c, last, factor = multiplier.tolist()
            u = float(w[-1]) - c
            same = u * last > 0.0
            factor = min(2.0 * factor, FARTHEST) if same and abs(u) > STANDING * abs(last) else factor if same else 1.0
            multiplier[:] = c + factor * u, u, factor
            w[-1] += factor * u

    def end_outer(self, state: State, outer: int) -> None:
        """Count it; rows put to rest ``REST_VISITS`` + 1 iterations before are back, so their losses leave the ring."""
        sums = state["sums"]
        sums[OUTERS] += 1
        sums[RESTING + int(sums[OUTERS]) % (REST_VISITS + 1)] = 0.0

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"]

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, float, float]:
        """D is that of the maintained w and sum of conjugates; P, without a working set, has the losses as they were
        seen on the visits, those of rows at rest when they were put to it."""
        sums = state["sums"]
        now = int(sums[OUTERS]) % (REST_VISITS + 1)
        at_rest = sum(float(sums[RESTING + k]) for k in range(REST_VISITS + 1) if k != now)
        distance_sq, cross = self.distances_of(state)
        dual = float(-sums[CONJUGATE] - 0.5 * distance_sq - cross)
        primal = 0.5 * distance_sq + loss_sum + at_rest if seen is None else dual + seen
        return primal, dual, (primal - dual) / abs(primal) if primal else 0.0

    def distances_of(self, state: State) -> tuple[float, float]:
        """(||w - w0||^2, <w0, w - w0>), of the weights that are regularised."""
        w, prior = state["w"], self.prior
        if self.problem.free_bias:
            w, prior = w[:-1], prior[:-1]
        if not len(prior):
            return sum_of_squares(w), 0.0
        return squared_distance(w, prior), inner_with_difference(prior, w, prior)

    def dual_variables(self, state: State) -> np.ndarray:
        return state["alpha"]


def take_weights(solver: DualCD, state: State, saved: SavedRun, ratio: np.ndarray) -> bool:
    """Whether the other run's w and sum of conjugates are those of its a here, too, so that no reading is needed:
    where it was the same problem, and rows have at most been added since, whose a = 0.  ratio: of the costs."""
    meta, lengths = saved.meta, saved.lengths[solver.name]
    space, name = (solver.name, "w") if "w" in lengths else ("", "weights")
    same = (
        meta is not None
        and not solver.problem.free_bias
        and (ratio == 1.0).all()
        and meta.method.settings == plain(solver.settings)
        and meta.constant == solver.bias
        and getattr(meta, "prior_fingerprint", None) is None
        and getattr(meta, "outer_of_weights", None) is None
        and not any(meta.earlier)
        and saved.lengths.get(space, {}).get(name) == len(state["w"])
        and "sums" in lengths
    )
    if same:
        before = np.empty(lengths["sums"])
        saved.load(solver.name, "sums", before)
        saved.load(space, name, state["w"])
        state["sums"][CONJUGATE] = before[CONJUGATE]
    return same


def settings_of(values: Mapping) -> Settings:
    """Those of the problem, and of the loss that is given."""
    return problem_settings(values) + (MULTICLASS,)
