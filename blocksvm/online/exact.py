"""forel-exact and ftl: each row is predicted by the exact minimiser over all rows before it (teaching scale).

FoReL  w_t = argmin_w sum_{s < t} loss_s(w) + ||w||^2 / (2 eta): the batch problem with C = eta
       (Shalev-Shwartz, Online learning and online convex optimization, 2012, sec. 2.3)
FTL    w_t = argmin of the past losses over the ball ||w|| <= B, without which there need not be one: the same with eta
       tuned until ||w|| = B, or until the loss is within 1e-7 of the least in the ball, relatively, or 0

A round costs some steps of an active-set method (active.py): for some thousand rows, all in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse

from blocksvm.base.errors import InputError, option
from blocksvm.online.active import GAP, Leader
from blocksvm.online.learner import LARGEST, Setting, Settings, positive
from blocksvm.online.loops import ROWS, note
from blocksvm.online.solver import RowSolver, require_two_classes
from blocksvm.solvers.solver import Capabilities, Method, State, StateArray, Task
from blocksvm.sources.block import Block

POWERS = {"hinge": 1, "squared-hinge": 2}
LOSS = Setting("loss", "the loss that is minimised", "hinge", kind=str, choices=tuple(POWERS))
NEAR = 1e-9  # relative: ||w|| to the ball's radius
SUBOPTIMAL = 1e-7  # relative: the loss of ftl to the least in the ball
NO_LOSS = 1e-10  # relative to the loss of w = 0: rows that are separated
GROWTH = 10.0  # of eta, at most, from one problem to the next
MOST_ETAS = 200
WORST_GAP, ETA = range(2)  # of state["leader"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactLearner:
    """A learner of this file.  follow(leader, settings, eta) -> (w of the rows so far, eta to start the next round)."""

    name: str
    summary: str
    source: str
    example: str
    settings: Settings
    follow: Callable[[Leader, Mapping, float], tuple[np.ndarray, float]]
    acts_up_to = math.inf


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


FOREL = ExactLearner(
    name="forel-exact",
    summary="follow the regularised leader exactly (some thousand rows)",
    source="Shalev-Shwartz 2012, section 2.3",
    example="forel-exact --step 0.1",
    settings=Settings((LOSS, positive("step", "eta, the weight of the losses", 1.0, metavar="ETA"))),
    follow=follow_regularised,
)
BALL = ExactLearner(
    name="ftl",
    summary="follow the leader in the ball ||w|| <= B exactly (some thousand rows)",
    source="Shalev-Shwartz 2012, section 2.2",
    example="ftl --radius 2",
    settings=Settings((LOSS, positive("radius", "keep w in the ball ||w|| <= B", 1.0, metavar="B"))),
    follow=follow_in_ball,
)
EXACT = {learner.name: learner for learner in (FOREL, BALL)}


class ExactRunner:
    """The counterpart of ``Runner`` for a learner of this file, on rows that are all in memory."""

    average = real = predicts_rows = False
    needs_all_rows = True
    n_vectors = 1

    def __init__(self, learner: ExactLearner, settings: Mapping, bias: float = 0.0):
        self.learner, self.name = learner, learner.name
        self.settings = learner.settings.resolve(settings, learner.name)
        if not 0.0 <= bias <= LARGEST:
            raise InputError(f"{option('bias', bias)}: must be from 0 to {LARGEST:g}")
        self.bias = bias

    def learn(self, block: Block, order: np.ndarray, state: State, scores: np.ndarray | None = None,
              after: np.ndarray | None = None) -> Iterator[int]:  # fmt: skip
        """Predict each row of ``order``, then learn from it.  Yields the number of rows after each; scores, after (n,):
        of each row by the w before and after it."""
        tally = state["tally"]
        power = POWERS[self.settings["loss"]]
        values = np.ones(block.n_nonzeros) if block.values is None else block.values.astype(np.float64)
        rows = scipy.sparse.csr_matrix((values, block.indices, block.indptr), (block.n_samples, len(state["w"]) - 1))
        constant = scipy.sparse.csr_matrix(np.full((block.n_samples, 1), self.bias))
        X = scipy.sparse.hstack([rows, constant], format="csr")
        y = block.y.astype(np.float64)
        leader = Leader(scipy.sparse.diags(y).tocsr() @ X, power, state["alpha"], state["seen"].view(bool))
        for place in range(len(order)):
            i = int(order[place])
            z = float(y[i] * (leader.Z[[i]] @ state["w"])[0])
            margin = y[i] * z
            below, length = margin <= 0.0, block.indptr[i + 1] - block.indptr[i]
            note(tally, max(0.0, 1.0 - margin) ** power, below, below, True, z, y[i], length)
            state["seen"][i] = 1
            state["w"][:], state["leader"][ETA] = self.learner.follow(leader, self.settings, state["leader"][ETA])
            state["leader"][WORST_GAP] = max(state["leader"][WORST_GAP], leader.gap)
            if scores is not None:
                scores[place] = z
            if after is not None:
                after[place] = float(y[i] * (leader.Z[[i]] @ state["w"])[0])
            yield int(tally[ROWS])

    def state_bytes(self, d: int, n: int) -> int:
        """Bytes of the state for n rows of d features."""
        return sum(array.n_bytes(d, n) for array in STATE)

    def new_state(self, d: int, n: int) -> State:
        state = {a.name: np.zeros(a.shape(d, n), a.dtype) for a in STATE}
        state["leader"][ETA] = 1.0
        return state


STATE = (
    StateArray("w", "feature", in_model=False),
    StateArray("alpha", "row"),
    StateArray("seen", "row", dtype=np.uint8),
    *RowSolver.counts,
    StateArray("leader", "scalar", 2),
)


class ExactSolver(RowSolver):
    """The ``Solver`` of both learners."""

    state_arrays = STATE
    needs_output = False
    capabilities = Capabilities(predicts_first=True)

    def __init__(self, learner: ExactLearner, task: Task):
        self.name = learner.name
        self.runner = ExactRunner(learner, task.settings, task.bias)
        self.settings, self.bias = self.runner.settings, task.bias
        self.n_samples = task.source.n_samples
        require_two_classes(task.source, self.name)

    def start(self, state: State) -> None:
        super().start(state)
        state["leader"][ETA] = 1.0

    def learn(self, block: Block, weights: np.ndarray | None, order: np.ndarray, state: State) -> Iterator[int]:
        if block.n_samples < self.n_samples:
            raise InputError(
                f"{self.name}: needs all rows in memory at once; raise {option('memory')}, or take fewer rows"
            )
        return self.runner.learn(block, order, state)

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"]

    def summary(self, state: State) -> str:
        worst = state["leader"][WORST_GAP]
        if worst <= GAP:
            return ""
        return f"some of the minimisers are exact to a relative gap of {worst:.1e} only, not to {GAP:g}"


FOREL_EXACT, FTL = (
    Method(one.name, one.summary, one.settings, ExactSolver.capabilities, partial(ExactSolver, one))
    for one in EXACT.values()
)
