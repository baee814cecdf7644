"""The run of a learner over rows in a fixed order, and its sums up to chosen rounds, which bounds ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from blocksvm.losses import DEFAULT, get_loss
from blocksvm.losses.box import HINGE
from blocksvm.losses.loss import Loss
from blocksvm.online.exact import ExactRunner
from blocksvm.online.runner import Runner
from blocksvm.theory.each_round import MOST_STEPS, read_potential, read_weights
from blocksvm.theory.kernels import rounds
from blocksvm.theory.rows import ReplayRows, matrix_of
from blocksvm.theory.theories import THEORIES, Regulariser, Theory, variant_of

RECORD_BYTES = 96  # of a round: label, scores of learner and comparator, norms, and sums under way
READ_BYTES = 8 * rounds.READ + 40, 8 * rounds.OF_ROUND + 32  # of a feature and of a round, where weights are read
PIECE = 1024  # rows of several rounds that are copied at once
SMALLEST_SCALE = 1e-9  # below it the scale of weights is multiplied in


class Losses(NamedTuple):
    """A loss by its name, with its own settings; function: as kernels take it."""

    name: str
    loss: Loss
    settings: dict
    function: Any

    @classmethod
    def of(cls, name: str, settings: dict) -> Losses:
        loss = get_loss(name)
        own = {setting: settings[setting] for setting in loss.settings.names()}
        return cls(name, loss, own, loss.at(own))

    @property
    def smooth(self) -> bool:
        """It has second derivatives."""
        return self.loss.has("second_derivative")

    def at(self, scores: np.ndarray, y: np.ndarray, width: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(losses, slopes), each (T,), of scores and labels; those of a loss with a conjugate smoothed within a width
        above 0."""
        losses, slopes = np.empty(len(scores)), np.empty(len(scores))
        rounds.losses_of(scores, y.astype(np.float64), width, self.function, losses, slopes)
        return losses, slopes

    def dual(self, slopes: np.ndarray, y: np.ndarray) -> float:
        """-sum conjugate, for slopes that the loss has."""
        return -rounds.sum_of_conjugates(slopes, y.astype(np.float64), self.function)


@dataclass
class Read:
    """What was read of a learner's weights w_t; None where its bounds do not need it.

    penalty (K,): sums of r(w_t); weights (d,): of r(w) = sum_j weights_j |w_j|; low, high (d,): the range of each
    weight; norms (T,): ||w_t||; gradients (T,): squared norms of the gradients of loss + r at w_t; potential (K,):
    R*(-z_1:t) - R*(0) of a mirror map; roots (K,): sum_j sqrt(sum g_j^2) of AdaGrad; after (T,): <w_t+1, x_t> of exact
    minimisers; stepped (K,): sums of eta_t+1/2 r(w_t+1); of HF-FOBOS heights (K,): l1 ||h_t||, varying (K,): sums of
    r_t(w_t), weights_of_rounds (d,): sums of the weights of r_t over all rounds; mean (n_vectors * (d + 1),): of w_t;
    lengths (T,): ||x_t|| in the norm that the theory's bounds are in; beside_zero: what ``all_weights`` has for u = 0.
    """

    penalty: np.ndarray
    weights: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    norms: np.ndarray | None = None
    gradients: np.ndarray | None = None
    potential: np.ndarray | None = None
    roots: np.ndarray | None = None
    after: np.ndarray | None = None
    stepped: np.ndarray | None = None
    heights: np.ndarray | None = None
    varying: np.ndarray | None = None
    weights_of_rounds: np.ndarray | None = None
    mean: np.ndarray | None = None
    lengths: np.ndarray | None = None
    beside_zero: np.ndarray | None = None


class Run:
    """One learner's run.  Arrays (T,) hold a number a round, arrays (K,) sums over the rounds up to each of times.

    followed: the loss that the learner follows (hinge where it follows none); judging: that by which it is compared;
    batch: rows of a round; scores z_t = <w_t, x_t> before the update; sq_norms ||x_t||^2, the constant feature
    included; read: what was read of the weights.
    """

    def __init__(self, runner: Runner | ExactRunner, name: str | None = None):
        """name: of the learner in the registry, where this is not the runner's."""
        self.runner = runner
        self.variant = variant_of(name or runner.name, runner.settings)
        self.theory = THEORIES.get(self.variant, Theory())
        followed = runner.learner.loss_of(self.settings) if self.real else self.settings.get("loss", DEFAULT)
        self.followed = self.judging = Losses.of(followed, self.settings)
        if other := self.followed.loss.judged_by:
            self.judging = Losses.of(other, get_loss(other).settings.resolve({}, other))

    def begin(self, rows: ReplayRows, times: np.ndarray, batch: int = 1) -> Run:
        """Make place for the records of these rows."""
        self.rows, self.times, self.batch = rows, times, batch
        self.y = np.empty(self.T, np.float64 if self.real else np.int8)
        self.scores, self.sq_norms = np.empty(self.T), np.empty(self.T)
        self.read = Read(np.zeros(len(times)))
        return self

    @property
    def T(self) -> int:
        return self.rows.source.n_samples

    @property
    def d(self) -> int:
        return self.rows.source.n_features

    @property
    def name(self) -> str:
        return self.runner.name

    @property
    def settings(self) -> dict:
        return self.runner.settings

    @property
    def real(self) -> bool:
        """Labels are numbers."""
        return self.runner.real and not self.runner.predicts_rows

    # -- sums --------------------------------------------------------------------------------------------------

    def at(self, values: np.ndarray) -> np.ndarray:
        """(K,) sums of ``values`` (T,) over the rounds up to each time."""
        ends = [0, *self.times.tolist()]
        return np.cumsum([values[a:b].sum() for a, b in zip(ends[:-1], ends[1:], strict=True)])

    def largest(self, values: np.ndarray) -> np.ndarray:
        """(K,) the largest of ``values`` so far."""
        ends = [0, *self.times.tolist()]
        return np.maximum.accumulate([values[a:b].max() for a, b in zip(ends[:-1], ends[1:], strict=True)])

    def losses_of(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(losses, slopes), each (T,), of the loss that the learner follows."""
        return self.followed.at(scores, self.y)

    def hinge_of(self, scores: np.ndarray) -> np.ndarray:
        """(T,) hinge losses; of numbers the losses that the learner follows."""
        return (self.followed if self.real else Losses("hinge", HINGE, {}, HINGE.at({}))).at(scores, self.y)[0]

    def is_mistaken(self, scores: np.ndarray) -> np.ndarray:
        """(T,) bool: the score is on the wrong side; of numbers, and of tasks (tasks.py): a loss of 1 or more."""
        return self.hinge_of(scores) >= 1.0 if self.real else self.y * scores <= 0.0

    @cached_property
    def slopes(self) -> np.ndarray:
        return self.losses_of(self.scores)[1]

    @cached_property
    def loss(self) -> np.ndarray:
        """(K,) of the loss that the learner follows, the penalty included."""
        return self.at(self.losses_of(self.scores)[0]) + self.read.penalty

    @cached_property
    def judged(self) -> np.ndarray:
        """(K,) the same of the loss by which learner and comparators are judged."""
        return self.at(self.judging.at(self.scores, self.y)[0]) + self.read.penalty

    @cached_property
    def linear(self) -> np.ndarray:
        """(K,) sum <z_t, w_t> over the gradients z_t."""
        return self.at(self.slopes * self.scores)

    @cached_property
    def mistakes(self) -> np.ndarray:
        return self.at(self.is_mistaken(self.scores)).astype(np.float64)

    @cached_property
    def R(self) -> np.ndarray:
        """(K,) the largest ||x|| so far."""
        return np.sqrt(self.largest(self.sq_norms))

    @cached_property
    def gradient_squares(self) -> np.ndarray:
        """(K,) sum ||z_t||^2."""
        return self.at(self.slopes**2 * self.sq_norms)

    @property
    def G(self) -> np.ndarray:
        """(K,) the largest ||z_t|| so far."""
        return self.largest(np.abs(self.slopes) * np.sqrt(self.sq_norms))

    @property
    def weighted(self) -> np.ndarray:
        """(K,) sum 2 eta_t f_t(w_t) + 2 eta_t+1/2 r(w_t+1), of forward-backward splitting."""
        return 2.0 * self.at(self.steps() * self.losses_of(self.scores)[0]) + 2.0 * self.read.stepped

    @cached_property
    def tau(self) -> np.ndarray:
        """(T,) steps of a passive-aggressive learner; 0 for a row of zeros."""
        losses = self.hinge_of(self.scores)
        most, slack = (self.runner.learner.rule.number_of(self.settings, name) for name in ("most", "slack"))
        steps = np.divide(losses, self.sq_norms + slack, out=np.zeros(self.T), where=self.sq_norms > 0.0)
        return np.minimum(most, steps)

    # -- what the learner is -------------------------------------------------------------------------------------

    def steps(self, ahead: int = 0) -> np.ndarray:
        """(T,) eta_t, or the step so many rounds later."""
        number = np.arange(1.0 + ahead, self.T + 1.0 + ahead)
        return self.settings["step"] / (np.ones(self.T) if self.constant_step else np.sqrt(number))

    def half_steps(self) -> np.ndarray:
        """(T,) eta_t+1/2, of the threshold of forward-backward splitting."""
        return self.steps(ahead=self.settings.get("half_steps") == "next")

    @property
    def constant_step(self) -> bool:
        return self.settings.get("decay", "constant") == "constant"

    @property
    def ball(self) -> tuple[int, float] | None:
        """(1 or 2, radius) of the norm ball that the learner stays in, if it does."""
        exact = self.runner.needs_all_rows
        radius = self.settings.get("radius") if exact else self.runner.learner.rule.number_of(self.settings, "radius")
        return None if not self.theory.ball or radius is None or radius == math.inf else (self.theory.ball, radius)

    @property
    def regulariser(self) -> Regulariser | None:
        """r of the learner's objective, where it can be measured."""
        return self.theory.regulariser(self.settings)

    @property
    def truncated(self) -> bool:
        """Judged with r = l1 sum h_j |w_j|."""
        r = self.regulariser
        return r is not None and r.truncates

    @property
    def checks_rounds(self) -> bool:
        """The inequality of each round is checked: all weights in each round are not too many."""
        return self.T * self.d <= MOST_STEPS

    def penalty_of(self, w: np.ndarray) -> np.ndarray:
        """(K,) t r(w)."""
        r = self.regulariser
        if r is None:
            return np.zeros(len(self.times))
        if self.read.weights is not None:
            return float(self.read.weights @ np.abs(w[: self.d])) * self.times
        return r.weight * (0.5 * float(w @ w) if r.kind == "l2" else float(np.linalg.norm(w))) * self.times


def learner_bytes(run: Run) -> int:
    """Bytes of the learner and of what is read of its weights."""
    r, n, T = run.regulariser, run.d + 1, run.T
    of_feature, of_round = READ_BYTES
    if run.batch > 1:
        return 24 * n + 16 * T
    whole = run.theory.reads_all or run.theory.splits
    read = (
        0 if r is None else (8 * run.runner.learner.rule.width(True) + of_feature) * n + (of_round if whole else 16) * T
    )
    return max(run.runner.state_bytes(run.d, T), read) + (8 * n if run.theory.dual_power(run.settings) else 0)


def replay(run: Run, tell: Callable[[str], None]) -> Run:
    """Let the learner run for one epoch."""
    runner = run.runner
    if runner.needs_all_rows or run.batch > 1:
        return (replay_exact if runner.needs_all_rows else replay_batches)(run, tell)
    state, power = runner.new_state(run.d), run.theory.dual_power(run.settings)
    if power is not None:
        run.read.lengths = np.empty(run.T)
    for block, order, first in run.rows:
        span = slice(first, first + block.n_samples)
        runner.learn(block.matrix, block.y, order, run.d, state, weights=block.weights, scores=run.scores[span])
        _note(run, block, order, first, tell)
        if power is not None:
            rounds.row_p_norms(*block.matrix, order, float(power), run.read.lengths[span])
    if runner.average:
        run.read.mean = runner.weights(state, np.empty(run.d + 1))
    if not np.isfinite(run.scores).all():
        runner.diverged("in the rows learned from")
    if power is not None and run.theory.mirror is not None:
        read_potential(run)
    if run.regulariser is not None:
        read_weights(run, state)
    return run


def _note(run: Run, block, order: np.ndarray, first: int, tell: Callable[[str], None]) -> None:
    """The labels and norms of rows of a block."""
    span = slice(first, first + len(order))
    run.y[span] = block.y[order]
    run.sq_norms[span] = block.sq_norms[order] + run.runner.bias**2
    tell(f"{run.name}: {span.stop:,} of {run.T:,} rows")


def replay_exact(run: Run, tell: Callable[[str], None]) -> Run:
    """The same of a learner that minimises over all rows so far, which are one block."""
    run.read.after = np.empty(run.T)
    for block, order, first in run.rows:
        state = run.runner.new_state(run.d, block.n_samples)
        for rows in run.runner.learn(block, order, state, run.scores, run.read.after):
            tell(f"{run.name}: {rows:,} of {run.T:,} rows")
        _note(run, block, order, first, tell)
    return run


def replay_batches(run: Run, tell: Callable[[str], None]) -> Run:
    """Pegasos in rounds of several rows, by a rule that no learner here has (Shalev-Shwartz, Singer, Srebro, Cotter,
    Math. Prog. 2011, section 2): w <- (1 - 1/t) w - m / (lambda t), m the mean of the gradients of the losses at w,
    then the projection.  w = scale v; a round that a block breaks off goes on in the next one."""
    lam, size, radius = run.settings["lam"], run.batch, math.inf if run.ball is None else run.ball[1]
    v, scale, sq_norm, number = np.zeros(run.d), 1.0, 0.0, 0
    sq_norms, run.read.gradients = np.zeros(run.T), np.zeros(run.T)
    X = scipy.sparse.csr_matrix((0, run.d))  # rows of the next rounds
    for block, order, first, _ in run.rows.up_to(np.append(np.arange(PIECE, run.T, PIECE), run.T)):
        _note(run, block, order, first, tell)
        X = scipy.sparse.vstack([X, matrix_of(block)[order]], format="csr")
        for begin in range(0, X.shape[0] - size + 1, size):
            part, rows, number = X[begin : begin + size], slice(number * size, (number + 1) * size), number + 1
            features, position = np.unique(part.indices, return_inverse=True)
            z = run.scores[rows] = scale * (part @ v)
            slopes = run.followed.at(z, run.y[rows])[1]
            entries = part.data * np.repeat(slopes / size, np.diff(part.indptr))
            m = np.bincount(position, entries, len(features))
            along, square = float(slopes @ z) / size, float(m @ m)
            sq_norms[rows] = sq_norm
            run.read.gradients[rows] = max(lam * (lam * sq_norm + 2.0 * along) + square, 0.0)
            shrink, step = 1.0 - 1.0 / number, 1.0 / (lam * number)
            sq_norm = max(shrink * (shrink * sq_norm - 2.0 * step * along) + step * step * square, 0.0)
            scale = scale * shrink if number > 1 else 1.0  # w is 0 before the first round
            v[features] -= step / scale * m
            if sq_norm > radius * radius:
                scale, sq_norm = scale * radius / math.sqrt(sq_norm), radius * radius
            if scale < SMALLEST_SCALE:
                v, scale = scale * v, 1.0
        X = X[X.shape[0] // size * size :]
    if not np.isfinite(run.scores).all():
        run.runner.diverged("in the rows learned from")
    run.read.penalty = 0.5 * lam * run.at(sq_norms)
    return run
