"""The run of a learner over rows in a fixed order, and its sums up to chosen rounds, which bounds ask for."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from blocksvm.losses import DEFAULT, get_loss
from blocksvm.online.exact import ExactSolver
from blocksvm.online.runner import Runner
from blocksvm.theory import rounds_kernels as rounds
from blocksvm.theory.rows import ReplayRows
from blocksvm.theory.theories import THEORIES, Theory, variant_of

RECORD_BYTES = 96  # of a round: label, scores of learner and comparator, norms, and sums under way
MOST_STEPS = 20_000_000_000  # rounds times features where all weights are read in each round: some minutes
READ_BYTES = 56, 8 * rounds.OF_ROUND + 32  # of a feature and of a round, where weights are read


class Losses:
    """A loss by its name, with its own settings, of these; function: as kernels take it; smooth: it has second
    derivatives."""

    def __init__(self, name: str, settings: dict):
        self.name, self.loss = name, get_loss(name)
        self.settings = {setting: settings[setting] for setting in self.loss.settings.names()}
        self.function, self.smooth = self.loss.at(self.settings), self.loss.has("second_derivative")

    def at(self, scores: np.ndarray, y: np.ndarray, width: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(losses, slopes), each (T,), of scores and labels; those of a loss with a conjugate smoothed within a width
        above 0."""
        losses, slopes = np.empty(len(scores)), np.empty(len(scores))
        rounds.losses_of(scores, y.astype(np.float64), width, self.function, losses, slopes)
        return losses, slopes

    def dual(self, slopes: np.ndarray, y: np.ndarray) -> float:
        """-sum conjugate, for slopes that the loss has."""
        return -rounds.sum_of_conjugates(slopes, y.astype(np.float64), self.function)


class Run:
    """One learner's run.  Arrays (T,) hold a number a round, arrays (K,) sums over the rounds up to each of times.

    followed: the loss that the learner follows (hinge where it follows none); judging: that by which it is compared;
    regulariser: r of its objective, where it can be measured; ball: (1 or 2, radius) of the norm ball that it stays in,
    if it does; batch: rows of a round; scores z_t = <w_t, x_t> before the update; sq_norms ||x_t||^2, the constant
    feature included.

    Of the weights w_t, None where the bounds do not need it: penalty (K,): sums of r(w_t); weights (d,): of r(w) =
    sum_j weights_j |w_j|; low, high (d,): the range of each weight; norms (T,): ||w_t||; gradients (T,): squared norms
    of the gradients of loss + r at w_t; potential (K,): R*(-z_1:t) - R*(0) of a mirror map; roots (K,): sum_j
    sqrt(sum g_j^2) of AdaGrad; after (T,): <w_t+1, x_t> of exact minimisers; stepped (K,): sums of eta_t+1/2 r(w_t+1);
    of HF-FOBOS heights (K,): l1 ||h_t||; mean (n_vectors * (d + 1),): of w_t; lengths (T,): ||x_t|| in the norm that
    the theory's bounds are in; beside_zero: what ``all_weights`` has for u = 0.
    """

    def __init__(self, runner: Runner | ExactSolver, name: str | None = None):
        """name: of the learner in the registry, where this is not the runner's."""
        self.runner, self.name, self.settings = runner, runner.name, runner.settings
        self.real = runner.real and not runner.predicts_rows
        self.variant = variant_of(name or runner.name, runner.settings)
        self.theory = THEORIES.get(self.variant, Theory())
        self.regulariser = r = self.theory.regulariser(self.settings)
        self.truncated = r is not None and r.of_each_weight and r.weight > 0.0
        self.constant_step = self.settings.get("decay", "constant") == "constant"
        radius = self.settings.get("radius")
        if not runner.needs_all_rows:
            radius = runner.learner.rule.number_of(self.settings, "radius")
        bounded = self.theory.ball and radius is not None and radius < math.inf
        self.ball = (self.theory.ball, radius) if bounded else None
        followed = runner.learner.loss_of(self.settings) if self.real else self.settings.get("loss", DEFAULT)
        self.followed = self.judging = Losses(followed, self.settings)
        if other := self.followed.loss.judged_by:
            self.judging = Losses(other, get_loss(other).settings.resolve({}, other))

    def begin(self, rows: ReplayRows, times: np.ndarray, batch: int = 1) -> Run:
        """Make place for the records of these rows."""
        self.rows, self.times, self.batch = rows, times, batch
        self.T, self.d = rows.source.n_samples, rows.source.n_features
        self.y = np.empty(self.T, np.float64 if self.real else np.int8)
        self.scores, self.sq_norms = np.empty(self.T), np.empty(self.T)
        self.penalty, self.weights = np.zeros(len(times)), None
        self.low = self.high = self.norms = self.gradients = self.potential = self.roots = self.after = None
        self.stepped = self.heights = self.mean = self.lengths = self.beside_zero = None
        return self

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
        return (self.followed if self.real else Losses("hinge", {})).at(scores, self.y)[0]

    def is_mistaken(self, scores: np.ndarray) -> np.ndarray:
        """(T,) bool: the score is on the wrong side; of numbers, and of tasks (rows.py): a loss of 1 or more."""
        return self.hinge_of(scores) >= 1.0 if self.real else self.y * scores <= 0.0

    @cached_property
    def slopes(self) -> np.ndarray:
        return self.losses_of(self.scores)[1]

    @cached_property
    def loss(self) -> np.ndarray:
        """(K,) of the loss that the learner follows, the penalty included."""
        return self.at(self.losses_of(self.scores)[0]) + self.penalty

    @cached_property
    def judged(self) -> np.ndarray:
        """(K,) the same of the loss by which learner and comparators are judged."""
        return self.at(self.judging.at(self.scores, self.y)[0]) + self.penalty

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
        return 2.0 * self.at(self.steps() * self.losses_of(self.scores)[0]) + 2.0 * self.stepped

    @cached_property
    def tau(self) -> np.ndarray:
        """(T,) steps of a passive-aggressive learner; 0 for a row of zeros."""
        losses = self.hinge_of(self.scores)
        most, slack = (self.runner.learner.rule.number_of(self.settings, name) for name in ("most", "slack"))
        steps = np.divide(losses, self.sq_norms + slack, out=np.zeros(self.T), where=self.sq_norms > 0.0)
        return np.minimum(most, steps)

    def steps(self, ahead: int = 0) -> np.ndarray:
        """(T,) eta_t, or the step so many rounds later."""
        number = np.arange(1.0 + ahead, self.T + 1.0 + ahead)
        return self.settings["step"] / (np.ones(self.T) if self.constant_step else np.sqrt(number))

    def half_steps(self) -> np.ndarray:
        """(T,) eta_t+1/2, of the threshold of forward-backward splitting."""
        return self.steps(ahead=self.settings.get("half_steps") == "next")

    def penalty_of(self, w: np.ndarray) -> np.ndarray:
        """(K,) t r(w)."""
        r = self.regulariser
        if r is None:
            return np.zeros(len(self.times))
        if self.weights is not None:
            return float(self.weights @ np.abs(w[: self.d])) * self.times
        return r.weight * (0.5 * float(w @ w) if r.kind == "l2" else float(np.linalg.norm(w))) * self.times


def learner_bytes(run: Run) -> int:
    """Bytes of the learner and of what is read of its weights."""
    r, n, T = run.regulariser, run.d + 1, run.T
    of_feature, of_round = READ_BYTES
    if run.batch > 1:
        return 24 * n + 16 * T
    read = 0
    if r is not None:
        read = (8 * run.runner.learner.rule.width(False) + of_feature) * n + (of_round if r.of_each_weight else 16) * T
    return max(run.runner.state_bytes(run.d, T), read) + (8 * n if run.theory.dual_power(run.settings) else 0)
