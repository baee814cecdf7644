"""forel-exact and ftl: each row is predicted by the exact minimiser over all rows before it (teaching scale).

FoReL  w_t = argmin_w sum_{s < t} loss_s(w) + ||w||^2 / (2 eta): the batch problem with C = eta
       (Shalev-Shwartz, Online learning and online convex optimization, 2012, sec. 2.3)
FTL    w_t = argmin of the past losses over the ball ||w|| <= B, without which there need not be one: the same with eta
       tuned until ||w|| = B, or until the loss is within 1e-7 of the least in the ball, relatively, or 0

A round costs some steps of an active-set method: for some thousand rows, all in memory.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import scipy.linalg
import scipy.sparse

from blocksvm.base.errors import InputError, option
from blocksvm.online.learner import Learner, Setting, Settings, positive
from blocksvm.online.loops import ROWS, note
from blocksvm.online.solver import RowSolver, require_two_classes
from blocksvm.solvers.solver import Capabilities, Method, State, StateArray, Task
from blocksvm.sources.block import Block

POWERS = {"hinge": 1, "squared-hinge": 2}
LOSS = Setting("loss", "the loss that is minimised", "hinge", kind=str, choices=tuple(POWERS))
GAP = 1e-10  # of each solution, relative to the primal
REFINEMENTS = 3
SINGULAR = 1e-11  # eigenvalues below it, relative to the largest, count as 0
DENSE = 1 << 21  # a matrix of at most so many entries is dense, which is faster for few features
NEAR = 1e-9  # relative: ||w|| to the ball's radius
SUBOPTIMAL = 1e-7  # relative: the loss of ftl to the least in the ball
NO_LOSS = 1e-10  # relative to the loss of w = 0: rows that are separated
GROWTH = 10.0  # of eta, at most, from one problem to the next
MOST_ETAS = 200
WORST_GAP, ETA = range(2)  # of state["leader"]
# (leader, settings, eta) -> (w of the rows so far, eta to start the next round)
Follow = Callable[["Leader", Mapping, float], tuple[np.ndarray, float]]


class Leader:
    """Dual variables and weights of the rows seen so far, of a matrix Z (n, d) whose rows are y_i x_i.

        P(w) = 1/2 ||w||^2 + eta sum_i max(0, 1 - y_i <w, x_i>)^power        over the rows so far
        D(a) = sum_i a_i - 1/2 ||w(a)||^2 - 1/2 D sum_i a_i^2,  w(a) = sum_i a_i y_i x_i,  0 <= a_i <= U

    (hinge: U = eta, D = 0; squared hinge: U = inf, D = 1 / (2 eta)) by an active-set method: with the dual variables at
    a bound fixed, the others solve a linear system.  A step towards its solution ends where one of them meets a bound;
    if none does, the most violated bound is released (Nocedal, Wright, Numerical Optimization, 2006, sec. 16.5).  A new
    row changes few of the bounds, so a round that starts from the last solution takes a few steps.

    power: 1 for hinge, 2 for squared hinge; alpha (n,): dual variables; seen (n,) bool: the rows so far.  gap: of the
    last solution, relative to its primal.
    """

    def __init__(self, Z: scipy.sparse.csr_matrix, power: int, alpha: np.ndarray, seen: np.ndarray):
        self.Z = Z.toarray() if Z.shape[0] * Z.shape[1] <= DENSE else Z
        self.power, self.alpha, self.seen = power, alpha, seen
        self.gap = 0.0
        self.solved = False  # the last step was a whole one, without a released bound

    def _box(self, eta: float) -> tuple[float, float]:
        """(U, D)."""
        return (eta, 0.0) if self.power == 1 else (np.inf, 0.5 / eta)

    def solve(self, eta: float) -> np.ndarray:
        """The w that minimises P at this eta.  ``alpha`` becomes the dual solution; its last values are the start."""
        upper, diagonal = self._box(eta)
        rows = np.flatnonzero(self.seen)
        Z, a = self.Z[rows], np.minimum(self.alpha[rows], upper)
        best, refined = np.inf, 0  # the least gap, and steps since that have changed no bound
        for _ in range(100 + 20 * len(rows)):
            w = Z.T @ a
            m = Z @ w
            loss = eta * np.maximum(0.0, 1.0 - m) ** self.power
            # a sum of one term >= 0 a row (Fenchel-Young)
            gap = float((loss + a * m - a + 0.5 * diagonal * a * a).sum())
            primal = 0.5 * float(w @ w) + float(loss.sum())
            self.gap = gap / primal if primal > 0.0 else gap
            refined = 0 if self.gap < 0.5 * best or not self.solved else refined + 1
            best = min(best, self.gap)
            done = self.gap <= GAP or refined > REFINEMENTS  # more steps change only roundings
            if done or not self._step(Z, a, 1.0 - m - diagonal * a, upper, diagonal):
                break
        self.alpha[rows] = a
        return w

    def _step(self, Z, a: np.ndarray, gradient: np.ndarray, upper: float, diagonal: float) -> bool:
        """Change ``a`` by one step.  Returns False where rounding allows no progress."""
        free = (a > 0.0) & (a < upper)
        working = np.flatnonzero(free)
        self.solved = False
        # with the free ones at their solution, release the most violated bound
        scale = np.abs(gradient[working]).max(initial=0.0)
        violation = np.where(a <= 0.0, gradient, np.where(a >= upper, -gradient, 0.0))
        worst = int(violation.argmax())
        if violation[worst] > scale:
            working = np.append(working, worst)
        if len(working) == 0:
            return False
        g = gradient[working]
        direction = self._direction(Z[working], g, diagonal)
        if not direction.any():
            return False
        start = a[working]
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.where(
                direction > 0.0, (upper - start) / direction, np.where(direction < 0.0, -start / direction, np.inf)
            )
        length = min(1.0 if self.bounded else np.inf, float(limits.min()))
        if not (0.0 < length < np.inf):
            # the direction points beyond the released bound: move along that row's variable alone
            direction = np.where(working == worst, g, 0.0)
            curvature = float(self._gram(Z[[worst]])[0, 0]) + diagonal
            length = 1.0 / curvature if curvature > 0.0 else np.inf
            limit = (upper - a[worst]) / g[-1] if g[-1] > 0.0 else -a[worst] / g[-1]
            length = min(length, limit)
            if working[-1] != worst or not (0.0 < length < np.inf):
                return False
        moved = start + length * direction
        near = 1e-14 * max(1.0, float(np.abs(start).max()))
        moved[moved <= near * (direction < 0.0)] = 0.0
        if upper < np.inf:
            moved[moved >= upper * (1.0 - 1e-14)] = upper
        if (moved == start).all():
            return False
        self.solved = length == 1.0 and violation[worst] <= scale
        a[working] = moved
        return True

    def _direction(self, Z, g: np.ndarray, diagonal: float) -> np.ndarray:
        """The direction towards the maximum of D over the working rows, or, where D is unbounded and ``bounded``
        becomes False, one along which it rises."""
        self.bounded = True
        if diagonal > 0.0:
            # (Z Z' + diagonal I)^-1 g, through the smaller of Z Z' and Z' Z (Sherman, Morrison, Woodbury)
            by_features = Z.shape[0] > Z.shape[1]
            H = self._gram(Z.T if by_features else Z)
            H[np.diag_indices_from(H)] += diagonal
            factor = scipy.linalg.cho_factor(H)
            if by_features:
                return (g - Z @ scipy.linalg.cho_solve(factor, Z.T @ g)) / diagonal
            return scipy.linalg.cho_solve(factor, g)
        H = self._gram(Z)
        values, vectors = scipy.linalg.eigh(H)
        regular = values > SINGULAR * max(values[-1], 1e-300)
        parts = vectors.T @ g
        flat = vectors[:, ~regular] @ parts[~regular]
        if np.abs(flat).max(initial=0.0) > 1e-9 * max(1.0, np.abs(g).max()):
            self.bounded = False
            return flat
        return vectors[:, regular] @ (parts[regular] / values[regular])

    @staticmethod
    def _gram(Z) -> np.ndarray:
        H = Z @ Z.T
        return H.toarray() if scipy.sparse.issparse(H) else H

    def slope(self, eta: float) -> tuple[np.ndarray, np.ndarray]:
        """(dw / d eta, da / d eta of the rows so far) at the solution for eta, as long as no bound changes."""
        upper, diagonal = self._box(eta)
        rows = np.flatnonzero(self.seen)
        a = self.alpha[rows]
        free = (a > 0.0) & (a < upper)
        Z = self.Z[rows]
        F = Z[np.flatnonzero(free)]
        if self.power == 1:
            fixed = np.asarray(Z[np.flatnonzero(a >= upper)].sum(axis=0)).ravel()
            right = -(F @ fixed)
        else:
            fixed = np.zeros(Z.shape[1])
            right = a[free] / (2.0 * eta * eta)
        change = np.where(a >= upper, 1.0, 0.0)
        if F.shape[0] == 0:
            return fixed, change
        change[free] = self._direction(F, right, diagonal)
        return fixed + F.T @ change[free], change

    def follow(self, change: np.ndarray, eta: float, after: float) -> None:
        """Move the dual variables along the change of ``slope`` from eta to ``after``, within their new bounds; those
        at a bound stay there."""
        rows = np.flatnonzero(self.seen)
        upper, _ = self._box(after)
        a = self.alpha[rows]
        at_upper = a >= eta if self.power == 1 else np.zeros(len(a), bool)
        moved = np.where(a > 0.0, np.clip(a + (after - eta) * change, 0.0, upper), 0.0)
        self.alpha[rows] = np.where(at_upper, upper, moved)

    def least_loss(self, change: np.ndarray, radius: float) -> float:
        """A lower bound of the hinge losses of the rows so far within ||w|| <= radius: sum a - radius ||Z' a||, for any
        a between 0 and 1, here the change of ``slope``."""
        a = np.clip(change, 0.0, 1.0)
        return float(a.sum()) - radius * float(np.linalg.norm(self.Z[np.flatnonzero(self.seen)].T @ a))


def follow_regularised(leader: Leader, settings: Mapping, eta: float) -> tuple[np.ndarray, float]:
    return leader.solve(settings["step"]), settings["step"]


def follow_in_ball(leader: Leader, settings: Mapping, eta: float) -> tuple[np.ndarray, float]:
    """||w|| rises with eta: Newton steps on ||w(eta)|| = B along dw / d eta, exact as long as no bound changes, and
    confined to the interval between the etas known to be too small and too large."""
    radius, power = settings["radius"], leader.power
    low, high = 0.0, math.inf
    for _ in range(MOST_ETAS):
        w = leader.solve(eta)
        norm = float(np.linalg.norm(w))
        if abs(norm - radius) <= NEAR * radius:
            break
        low, high = (eta, high) if norm < radius else (low, eta)
        if math.isfinite(high) and high - low <= 1e-15 * high:
            break
        slope, change = leader.slope(eta)
        if norm < radius:
            loss = float((np.maximum(0.0, 1.0 - leader.Z[np.flatnonzero(leader.seen)] @ w) ** power).sum())
            # (sum a - radius ||w||) / eta is a lower bound of the loss in the ball; P(w) = D(a) gives this excess
            excess = (radius - norm) * norm / eta
            if power == 1:
                excess = min(excess, loss - leader.least_loss(change, radius))
            if excess <= SUBOPTIMAL * loss or loss <= NO_LOSS * leader.seen.sum():
                break
        before, eta = eta, _next_eta(w, slope, eta, radius, low, high)
        leader.follow(change, before, eta)
    return w * min(1.0, radius / norm) if norm > 0.0 else w, eta


def _next_eta(w: np.ndarray, slope: np.ndarray, eta: float, radius: float, low: float, high: float) -> float:
    """The eta' with ||w + (eta' - eta) slope|| = radius, safeguarded."""
    a, b, c = float(slope @ slope), float(slope @ w), float(w @ w) - radius * radius
    result = math.nan
    if a > 0.0 and b * b - a * c >= 0.0:
        root = math.sqrt(b * b - a * c)
        result = eta + (-c / (b + root) if b + root > 0.0 else (root - b) / a)
    most = min(high, GROWTH * eta)
    if not low < result < high or result > most:
        if not math.isfinite(high):
            return most
        return math.sqrt(low * high) if low > 0.0 else high / GROWTH
    return result


class ExactSolver(RowSolver):
    state_arrays = (
        StateArray("w", "feature", in_model=False),
        StateArray("alpha", "row"),
        StateArray("seen", "row", dtype=np.uint8),
        *RowSolver.counts,
        StateArray("leader", "scalar", 2),
    )
    needs_output = average = real = False
    needs_all_rows = True
    capabilities = Capabilities(predicts_first=True)

    def __init__(self, learner: Learner, follow: Follow, task: Task):
        self.learner, self.name, self.follow = learner, learner.name, follow
        self.settings, self.bias = learner.settings.resolve(task.settings, learner.name), task.bias
        self.n_samples = task.source.n_samples
        require_two_classes(task.source, self.name)

    def start(self, state: State) -> None:
        super().start(state)
        state["leader"][ETA] = 1.0

    def learn(self, block: Block, weights: np.ndarray | None, order: np.ndarray, state: State,
              scores: np.ndarray | None = None, after: np.ndarray | None = None) -> Iterator[int]:  # fmt: skip
        """The same; scores, after (n,): of each row by the w before and after it."""
        if block.n_samples < self.n_samples:
            raise InputError(
                f"{self.name}: needs all rows in memory at once; raise {option('memory')}, or take fewer rows"
            )
        tally, power = state["tally"], POWERS[self.settings["loss"]]
        values = np.ones(block.n_nonzeros) if block.values is None else block.values.astype(np.float64)
        rows = scipy.sparse.csr_matrix((values, block.indices, block.indptr), (block.n_samples, len(state["w"]) - 1))
        constant = scipy.sparse.csr_matrix(np.full((block.n_samples, 1), self.bias))
        X = scipy.sparse.hstack([rows, constant], format="csr")
        y = block.y.astype(np.float64)
        leader = Leader(scipy.sparse.diags(y).tocsr() @ X, power, state["alpha"], state["seen"].view(bool))
        for position, i in enumerate(order.tolist()):
            margin = float((leader.Z[[i]] @ state["w"])[0])
            z = y[i] * margin
            below, length = margin <= 0.0, block.indptr[i + 1] - block.indptr[i]
            note(tally, max(0.0, 1.0 - margin) ** power, below, below, True, z, y[i], length)
            state["seen"][i] = 1
            state["w"][:], state["leader"][ETA] = self.follow(leader, self.settings, state["leader"][ETA])
            state["leader"][WORST_GAP] = max(state["leader"][WORST_GAP], leader.gap)
            if scores is not None and after is not None:
                scores[position], after[position] = z, y[i] * float((leader.Z[[i]] @ state["w"])[0])
            yield int(tally[ROWS])

    def state_bytes(self, d: int, n: int) -> int:
        return sum(array.n_bytes(d, n) for array in self.state_arrays)

    def new_state(self, d: int, n: int) -> State:
        """The initial state for n rows of d features, those that it learns from."""
        self.n_samples = n
        state = {array.name: np.zeros(array.shape(d, n), array.dtype) for array in self.state_arrays}
        self.start(state)
        return state

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"]

    def summary(self, state: State) -> str:
        worst = state["leader"][WORST_GAP]
        if worst <= GAP:
            return ""
        return f"some of the minimisers are exact to a relative gap of {worst:.1e} only, not to {GAP:g}"


def exactly(name: str, summary: str, setting: Setting, follow: Follow) -> Method:
    learner = Learner(name, summary, settings=Settings((LOSS, setting)))
    make = partial(ExactSolver, learner, follow)
    return Method(name, summary, learner.settings, ExactSolver.capabilities, make)


FOREL_EXACT = exactly(
    "forel-exact", "follow the regularised leader exactly (some thousand rows)",
    positive("step", "eta, the weight of the losses", 1.0, metavar="ETA"), follow_regularised,
)  # fmt: skip
FTL = exactly(
    "ftl", "follow the leader in the ball ||w|| <= B exactly (some thousand rows)",
    positive("radius", "keep w in the ball ||w|| <= B", 1.0, metavar="B"), follow_in_ball,
)  # fmt: skip
EXACT = {method.name: method for method in (FOREL_EXACT, FTL)}
