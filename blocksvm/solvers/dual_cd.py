"""Dual coordinate descent as a block solver of k problems over the same rows: w = w0 + sum a_i direction_i x_i
maintained for each, shrinking inside a visit; one reading, one decoding and one set of rows in memory serve them all.

The rows that a working set keeps are those with the largest shares of the gaps, each problem's counted in units of its
own primal, so that small classes have their part in it.  For a problem whose certified gap is within the tolerance no
row is moved any more.  Of two classes, and of real targets, k = 1; or the k vectors are one problem (Crammer, Singer).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import Settings, plain
from blocksvm.base.vectors import LINE, width_of
from blocksvm.kernels.columns import add_rows
from blocksvm.kernels.loss_functions import AT_REST, NEAR, UNIT_ROUNDOFF
from blocksvm.losses import require
from blocksvm.problems.certificate import (
    ADDITIONS,
    CERTIFIED,
    DRIFT,
    LEAST,
    REL_GAP,
    Certificate,
    at_their_end,
    norms_of,
)
from blocksvm.problems.crammer_singer_kernels import crammer_singer_pass, crammer_singer_shares
from blocksvm.problems.problem import (
    CrammerSinger,
    Problem,
    constant_value,
    crammer_singer,
    has_classes,
    problem_settings,
)
from blocksvm.problems.problem_settings import MULTICLASS, WITH_CLASSES, learns_together
from blocksvm.solvers import dual_cd_kernels as kernels
from blocksvm.solvers.dual_cd_kernels import Limits, PassArrays
from blocksvm.solvers.screening import NO_PAUSES, NONE_MOVING, SHARES_SEEN, screened_pass
from blocksvm.solvers.solver import (
    SHARE,
    Capabilities,
    ColumnSolver,
    Method,
    PassResult,
    SavedRun,
    Solver,
    State,
    StateArray,
    Task,
    Visit,
)
from blocksvm.sources.block import Block

ONLY = np.zeros(1, np.int32)  # the live problems where there is one
SHARES = "shares"  # an array of a visit, (n,) for each lane
# entries of state["sums"]: outer iterations done, then a ring of the losses of the rows put to rest in each of the last
OUTERS, RESTING = range(2)

# Shrinking that outlasts a visit.  A row whose gradient lies farther than ``NEAR`` (in ``Problem.unit``) beyond its
# bound stays there for some time: it is left out of its next visits, else five data sets take 1.4 times as long.  With
# a working set each rest is more than twice as long as the one before (3, 9, 21, ... visits): the certificates see all
# rows, and bring back those that can move.
REST_VISITS = 3  # and as many outer iterations come before any row may rest: the first ones move everything

# Of a free bias: what the constant feature's weight is regularised towards, how far that was from it before the last
# outer iteration, and the multiple of that by which it moved.
MULTIPLIER = "multiplier"

LARGEST_FACTOR = 1e6  # by which a warm start's dual variables are multiplied, at most
QUADRATIC = 1e-6  # relative: nearer than this to a parabola the conjugates' sum is one


@dataclass
class Lane:
    """What the kernel takes of one lane (kernels/columns.py) in a visit.  above, below: the extremes of the last pass's
    projected gradients, beyond which a row at its bound is dropped (Hsieh et al., ICML 2008, section 3.2)."""

    rows: Block
    reals: np.ndarray | None
    live: np.ndarray  # (t,) int32: its live problems
    arrays: PassArrays
    order: np.ndarray | None = None  # (n,): its own, None where it is alone
    above: float = np.inf
    below: float = -np.inf
    dropped: int = 0  # how many rows have been


class DualCD(ColumnSolver):
    """Hsieh et al., ICML 2008, Alg. 3, on the rows of a block (Yu et al., KDD 2010, for blocks), for each problem by
    itself; threads share lanes of problems or, of one problem, the screening of its rows.  state["conjugates"],
    ["seen"], ["scale"] (k,): of each problem the sum of the conjugates, the gap that this reading has seen, and what
    its shares of the gap are multiplied by; ["certified"] (4 k,), ["history"] (3 k,): as ``Problem`` has them."""

    name = "dual-cd"
    packed = True
    capabilities = Capabilities(
        certifies=True, minimises=True, schedules=True, warm_starts=True, takes_prior=True, takes_weights=True,
        working_set=True, free_bias=True, default_max_outer=1000
    )  # fmt: skip

    def __init__(self, task: Task):
        self.settings = settings_of(task.settings).resolve(task.settings, self.name)
        super().__init__(task)
        k = self.n_vectors
        # Batches wait for all of their threads: shared on two processors beside decoding, runs took 0.97 to 1.45 times
        # as long.  Passes of several problems take longer than decoding.
        self.passes_like_decoding = k == 1
        self.tolerance, self.with_set = task.tolerance, task.working_set
        self.declare(-(-k // LINE), k)
        if task.free_bias:
            self.state_arrays += (StateArray(MULTIPLIER, "scalar", 3),)

    def stated(self, task: Task) -> Problem:
        require(self.settings["loss"], "conjugate", self.name)
        if self.settings["multiclass"] is not None and not has_classes(self.settings, task.source):
            raise InputError(f"{option('multiclass')}: is for more than two classes; leave it out")
        return super().stated(task)

    constant_value = staticmethod(constant_value)

    def declare(self, lanes: int, rests: int) -> None:
        """The arrays of the state and of a visit; rests: of a row."""
        k, self.n_lanes, several = self.n_vectors, lanes, lanes > 1
        self.state_arrays: tuple[StateArray, ...] = (
            StateArray("w", "feature", columns=width_of(k), in_model=False),
            StateArray("alpha", "row", columns=k),
            StateArray("rest", "row", columns=rests, dtype=np.uint8, in_model=False),
            StateArray("sums", "scalar", RESTING + REST_VISITS + 1, in_model=False),
            StateArray("conjugates", "scalar", k),
            StateArray("seen", "scalar", k, in_model=False),
            StateArray("scale", "scalar", k, in_model=False),
            StateArray("certified", "scalar", len(CERTIFIED) * k, in_model=False),
            StateArray("history", "scalar", 3 * k),
        )
        self.visit_bytes = lanes * (1 + several * 4)  # whether a row is active, and its position in the order
        if self.with_set:
            self.state_arrays += (StateArray("pauses", "row", columns=rests, dtype=np.uint8, in_model=False),)
            self.visit_bytes += 8 + several * lanes * 8  # its shares

    def problem_at(self, state: State) -> Problem:
        certified = state["certified"].reshape(-1, len(CERTIFIED))
        return replace(self.problem, certified=certified, history=self.history(state))

    def history(self, state: State) -> np.ndarray:
        return state["history"].reshape(3, -1)

    def live(self, state: State) -> np.ndarray:
        return ONLY if self.n_vectors == 1 else self.problem_at(state).live

    def start(self, state: State) -> None:
        """a = 0 is a feasible start, with w = 0 or the prior model's weights, which are laid side by side."""
        state["scale"][:] = 1.0
        state["certified"][REL_GAP :: len(CERTIFIED)] = np.inf
        w = self.columns(state, "w")
        self.begin_at_prior(w)
        if self.problem.free_bias:
            state[MULTIPLIER][:] = w[-1, 0], 0.0, 1.0

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's a, scaled in each problem and class by the ratio of C (Chu et al., KDD 2015), into each row's
        bounds; where the conjugates are quadratic, times the factor f that is best for the problem's dual, D(f a) =
        -sum conjugate(f a_i) - f^2/2 ||w(a)||^2."""
        if self.prior.size:
            raise InputError(f"{option('start_from')}: not together with {option('prior')}; leave one of them out")
        alpha, w, cost = state["alpha"], self.columns(state, "w"), self.problem.cost
        same = saved.lengths.get(self.name, {}).get("alpha") == alpha.size
        if saved.cost is None or not same or np.size(saved.cost) != cost.size:
            of = "" if self.n_vectors == 1 else f" of {self.n_vectors} classes"
            more = "" if self.n_vectors == 1 else f" on the same rows, with the same {option('multiclass')}"
            starts = f"dual-cd starts from a model or checkpoint of dual-cd{more}"
            raise InputError(f"{saved.name}: holds no dual variables{of}; {starts}")
        saved.load(self.name, "alpha", alpha)
        ratio = cost / np.reshape(saved.cost, cost.shape)
        # what is new in the rows is not the old ones: these need not all be seen before they may rest
        state["sums"][OUTERS] = REST_VISITS
        if take_weights(self, state, saved, ratio):
            return
        conjugates, largest = self._sum_rows(state, blocks, ratio)
        self.scale_dual(state, conjugates, largest)
        self.history(state)[LEAST] = np.maximum(0.0, -self.duals(state)[1])
        if self.problem.free_bias:
            if MULTIPLIER in saved.lengths[self.name]:
                saved.load(self.name, MULTIPLIER, state[MULTIPLIER])
            w[-1] += state[MULTIPLIER][0]

    def scale_dual(self, state: State, conjugates: np.ndarray, largest: np.ndarray) -> None:
        """Multiply each problem's a and w by its best factor; conjugates (k, 3): as ``dual_coefficients`` has them."""
        # through conjugate(0) = 0 and the values at 1/2 and 1: sum conjugate(f a_i) = square f^2 - linear f
        whole, half, quarter = conjugates.T
        square, linear = 2.0 * whole - 4.0 * half, whole - 4.0 * half
        curvature = self.norms(state)[:, 0] + 2.0 * square
        error = np.abs(square / 16.0 - linear / 4.0 - quarter)
        parabola = (curvature > 0.0) & (error <= QUADRATIC * (np.abs(square) + np.abs(linear)))
        best = np.divide(linear, curvature, out=np.zeros_like(linear), where=parabola)
        factors = np.where(parabola, np.clip(best, 0.0, largest), 1.0)
        alpha, w = self.columns(state, "alpha"), self.columns(state, "w")
        alpha *= factors
        w[:, : self.n_vectors] *= factors
        drift = self.history(state)[DRIFT]
        drift *= factors
        drift += UNIT_ROUNDOFF * np.sqrt(self.norms(state)[:, 0])
        state["conjugates"][:] = np.where(parabola, factors * (square * factors - linear), whole)

    def _sum_rows(self, state: State, blocks: Iterable[Block], ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """w = sum a_i direction_i x_i, of a times ratio (k, 2) and made feasible; (sums (k, 3) of conjugate(f a_i) for
        f = 1, 1/2 and 1/4, largest factors (k,))."""
        problem = self.problem
        conjugates, largest = np.zeros((self.n_vectors, 3)), np.full(self.n_vectors, LARGEST_FACTOR)
        w, alpha = self.columns(state, "w"), self.columns(state, "alpha")
        w[:] = 0.0
        for block in blocks:
            part = alpha[block.rows]
            problem.make_feasible(part, block, ratio, largest)
            alpha[block.rows] = part
            coefficients = problem.coefficients(part, block, conjugates)
            lengths = np.sqrt(self.norms(state)[:, 0])
            lengths += np.sqrt(block.sq_norms + problem.bias**2) @ np.abs(coefficients)
            self.history(state)[DRIFT] += 3.0 * UNIT_ROUNDOFF * block.n_samples * lengths
            add_rows(block.entries, coefficients, problem.bias, w)
        return conjugates, largest

    def lanes(self, block: Block, state: State, visit: Visit) -> list[Lane]:
        """Those in which there are live problems."""
        codes, reals, _, _ = self.problem.rows(block)
        rows, live, n, several = block._replace(y=codes), self.live(state), block.n_samples, self.n_lanes > 1
        w, alpha, rest = (self.columns(state, name) for name in ("w", "alpha", "rest"))
        lane_of = live // LINE if several else np.zeros_like(live)
        active = np.ones((self.n_lanes, n), np.uint8)
        shares = np.full((self.n_lanes, n if self.with_set else 0), AT_REST)  # of the rows that are not visited
        orders = np.empty((self.n_lanes, n), np.int32) if several else [None]
        pauses = NO_PAUSES
        if self.with_set:
            pauses = self.columns(state, "pauses")
            visit.arrays |= {SHARES: shares, SHARE: np.full(n, AT_REST) if several else shares[0]}
        lanes = []
        for g in np.unique(lane_of).tolist():
            arrays = PassArrays(
                w, alpha, active[g], rest, state["conjugates"], np.zeros(self.n_vectors),
                self.history(state)[ADDITIONS], state["scale"], pauses, shares[g],
            )  # fmt: skip
            lanes.append(Lane(rows, reals, live[lane_of == g], arrays, orders[g]))
        return lanes

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """That of each lane.  Rows and nonzeros visited are the mean of the lanes'."""
        if not visit.passes:
            visit.memo = self.lanes(block, state, visit)
        lanes, sums = visit.memo, state["sums"]
        done = self.threads.map(lambda lane: self._lane_pass(block, visit, lane, order, int(sums[OUTERS])), lanes)
        if self.with_set and self.n_lanes > 1:
            kernels.add_up_shares(order, visit.arrays[SHARES], visit.arrays[SHARE])
        for lane, (_, resting) in zip(lanes, done, strict=True):
            if not self.with_set:
                sums[RESTING + int(sums[OUTERS]) % (REST_VISITS + 1)] += resting
            elif not visit.of_the_set and not visit.passes:
                state["seen"] += lane.arrays.seen
        results, n = [result for result, _ in done], max(1, len(done))
        return PassResult(
            sum(r.rows_visited for r in results) // n, sum(r.nnz_visited for r in results) // n,
            sum(r.loss_sum for r in results), all(r.finished for r in results),
            gain=sum(r.gain for r in results), seen=sum(r.seen for r in results),
        )  # fmt: skip

    def _lane_pass(self, block: Block, visit: Visit, lane: Lane, order: np.ndarray, outers: int) -> tuple:
        """Visit the active rows in ``order``; rows that stay at a bound are dropped from the visit's later passes.
        Returns what was done, and the loss of the rows put to rest."""
        if lane.order is not None:
            mine = lane.order[: len(order)]
            mine[:] = order
            order = mine
        arrays = lane.arrays
        first, reading = visit.passes == 0, not visit.of_the_set
        if first:
            columns = lane.live if arrays.rest.shape[1] > 1 else None
            n_active = kernels.leave_resting(order, arrays.rest, columns, arrays.active, reading)
            lane.dropped += len(order) - n_active
            order = order[:n_active]
        elif lane.dropped > 0:
            order = order[arrays.active.view(bool)[order]]
        # of several passes over a block the first one tells what the other blocks have left of the gap
        shares_before = arrays.share.copy() if reading and not first else None
        longest = kernels.LONGEST_REST if self.with_set else REST_VISITS
        beyond = NEAR * self.problem.unit if reading and outers >= REST_VISITS else np.inf
        limits = Limits(lane.above, lane.below, beyond, longest, reading, first and reading)
        arrays.seen[:] = 0.0
        pg_max, pg_min, dropped, nnz, loss, resting, gain, shares, _ = self.visit_rows(
            block, order, limits, lane, outers > 0
        )
        if shares_before is not None:
            arrays.share[:] = shares_before
        lane.dropped += dropped
        # an extreme on the wrong side of 0 would drop rows that still move
        lane.above = pg_max if pg_max > 0.0 else np.inf
        lane.below = pg_min if pg_min < 0.0 else -np.inf
        finished = False
        if self.tolerance is not None and pg_max - pg_min <= self.tolerance:
            finished = lane.dropped == 0
            arrays.active[:] = 1  # rows that were dropped take part in the next pass
            lane.above, lane.below, lane.dropped = np.inf, -np.inf, 0
        result = PassResult(len(order), nnz, loss if first and reading else 0.0, finished, gain=gain, seen=shares)
        return result, resting

    def visit_rows(self, block: Block, order: np.ndarray, limits: Limits, lane: Lane, begun: bool) -> tuple:
        """The kernel's pass over a lane's rows; begun: an outer iteration has been made, as at a = 0 all rows move."""
        rows, reals, objective = lane.rows, lane.reals, self.problem.objective
        if self.n_vectors > 1:
            return kernels.lane_pass(rows, reals, order, objective, limits, lane.live, lane.arrays)
        if not limits.reading or not self.with_set:
            return kernels.one_problem_pass(rows, reals, order, objective, limits, lane.arrays, NONE_MOVING)

        def step(order: np.ndarray, limits: Limits, arrays: PassArrays, moving: np.ndarray) -> tuple:
            apart = arrays._replace(seen=np.zeros(1))  # threads share the other arrays
            return kernels.one_problem_pass(rows, reals, order, objective, limits, apart, moving)

        piece = max(1, self.threads.piece * block.n_samples // max(1, block.n_nonzeros))
        result = screened_pass(step, self.threads, order, piece, (limits, lane.arrays, begun))
        lane.arrays.seen[0] = result[SHARES_SEEN]
        return result

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        kernels.shares_of_gap(
            scores, *self.problem.rows(block), self.problem.columns(self.live(state)), self.columns(state, "alpha"),
            state["scale"], self.columns(state, "rest"), self.columns(state, "pauses"), out,
        )  # fmt: skip

    def begin_outer(self, state: State) -> None:
        """A free bias: the multiplier c moves by a multiple of u = B sum a_i direction_i, and the constant feature's
        weight c + u with it: by the secant's, at most twice the last one; by 1 where u has changed its sign."""
        state["seen"][:] = 0.0
        if self.problem.free_bias:
            w, multiplier = state["w"], state[MULTIPLIER]
            c, last, factor = multiplier.tolist()
            u = float(w[-1]) - c
            factor = factor / (1.0 - min(u / last, 0.5)) if u * last > 0.0 else 1.0
            multiplier[:] = c + factor * u, u, factor
            w[-1] += factor * u
            # D has fallen by the move of c: of the other weights it bounds the norm from here on
            least = self.history(state)[LEAST]
            np.maximum(least, 0.5 * w[-1] ** 2 - self.duals(state)[1], out=least)

    def end_outer(self, state: State, outer: int) -> None:
        """Count it; rows put to rest ``REST_VISITS`` + 1 iterations before are back, so their losses leave the ring."""
        sums = state["sums"]
        sums[OUTERS] += 1
        sums[RESTING + int(sums[OUTERS]) % (REST_VISITS + 1)] = 0.0

    def count_seen(self, state: State, added: Mapping) -> None:
        state["seen"][: len(added["totals"])] += added["totals"][:, 1]

    def certified(self, state: State, certificate: Certificate) -> float | None:
        """Store the figures of the problems that are at their end."""
        figures, live = state["certified"].reshape(-1, len(CERTIFIED)), self.live(state)
        certified = certificate.of_each
        ended = at_their_end(certified, self.problem.tol)
        figures[ended] = certified[ended]
        return half_below(certified[live, REL_GAP])

    def norms(self, state: State) -> np.ndarray:
        """(k, 4), as ``squared_norms`` has them, of the weights that are regularised."""
        part = slice(None, -1 if self.problem.free_bias else None)
        return norms_of(self.columns(state, "w")[part], self.n_vectors, self.prior[part])

    def duals(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(k,), (k,): 1/2 ||w - w0||^2, and D of the maintained w and sums of conjugates."""
        norms = self.norms(state)
        return 0.5 * norms[:, 1], -state["conjugates"] - 0.5 * norms[:, 1] - norms[:, 3]

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, float, float]:
        """Of all problems together.  Without a working set P has the losses as they were seen on the visits, those of
        rows at rest when they were put to it; with one, the gaps seen.  Then the relative gap is the one that half of
        the live problems are not above: a certificate is worth its reading where so many end by it."""
        distances, duals = self.duals(state)
        if seen is None:
            sums = state["sums"]
            now = int(sums[OUTERS]) % (REST_VISITS + 1)
            at_rest = sum(float(sums[RESTING + k]) for k in range(REST_VISITS + 1) if k != now)
            primal, dual = float(distances.sum()) + loss_sum + at_rest, float(duals.sum())
            return primal, dual, (primal - dual) / abs(primal) if primal else 0.0
        primals, live = duals + state["seen"], self.live(state)
        # so that the shares, over the sum of all primals, are the mean of the live problems' relative gaps
        if primals.min() > 0.0:
            state["scale"][:] = primals.sum() / (max(1, len(live)) * primals)
        gaps = np.divide(state["seen"], np.abs(primals), out=np.zeros(len(primals)), where=primals != 0.0)
        return float(primals.sum()), float(duals.sum()), half_below(gaps[live])

    def dual_variables(self, state: State) -> np.ndarray:
        return state["alpha"]


def half_below(gaps: np.ndarray) -> float:
    """The least number that half of these are not above; 0 of none."""
    return float(np.sort(gaps)[(len(gaps) - 1) // 2]) if len(gaps) else 0.0


def take_weights(solver: DualCD, state: State, saved: SavedRun, ratio: np.ndarray) -> bool:
    """Whether the other run's w and sums of conjugates are those of its a here, too, so that no reading is needed:
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
        and (space == solver.name or solver.n_vectors == 1)  # a model's vectors lie one after the other
        and saved.lengths.get(space, {}).get(name) == state["w"].size
        and "history" in lengths
    )
    if same:
        for array in ("conjugates", "history"):
            saved.load(solver.name, array, state[array])
        saved.load(space, name, state["w"])
    return same


def settings_of(values: Mapping) -> Settings:
    """Those of the problem, and of the loss that is given."""
    return problem_settings(values) + (MULTICLASS,)


class CrammerSingerCD(DualCD):
    """Keerthi et al., KDD 2008: a row's k dual variables move at once, the k vectors have one certificate and a row one
    rest.  state["conjugates"]: the sums of a_ik over the rows of other classes than k; ["seen"][0]: the gap seen."""

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
        alpha, rest, pauses = (self.columns(state, name) for name in ("alpha", "rest", "pauses"))
        crammer_singer_shares(scores, block.y, block.weights, alpha, self.problem.costs, rest, pauses, out)

    def certified(self, state: State, certificate: Certificate) -> float | None:
        return certificate.rel_gap

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, float, float]:
        if seen is None:
            return super().estimates(state, loss_sum)
        dual = float(self.duals(state)[1].sum())
        primal = dual + seen
        return primal, dual, seen / abs(primal) if primal else 0.0


def make(task: Task) -> Solver:
    """Each class against the rest, or all classes together."""
    settings = settings_of(task.settings).resolve(task.settings, DualCD.name)
    together = learns_together(settings["multiclass"]) and has_classes(settings, task.source)
    return (CrammerSingerCD if together else DualCD)(task)


METHOD = Method(
    "dual-cd", "dual coordinate descent in blocks, to a certified duality gap", WITH_CLASSES, DualCD.capabilities, make,
    ("loss",), settings_of,
)  # fmt: skip
AUTO = replace(METHOD, name="auto", summary="newton for smooth losses of rows with few, dense features; else dual-cd")
