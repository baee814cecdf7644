"""The run of a learner over rows in a fixed order, its sums up to chosen rounds, which bounds ask for, and what its
rounds do to its weights, read while it runs once more (rounds_kernels.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse

from blocksvm.kernels import specialised
from blocksvm.kernels.columns import add_rows
from blocksvm.losses import DEFAULT, get_loss
from blocksvm.model.decision_values import rows_of_piece
from blocksvm.online.exact import ExactSolver
from blocksvm.online.learner import Rule
from blocksvm.online.runner import Runner
from blocksvm.theory import rounds_kernels as rounds
from blocksvm.theory.rows import ReplayRows, matrix_of
from blocksvm.theory.theories import THEORIES, Theory, variant_of

RECORD_BYTES = 96  # of a round: label, scores of learner and comparator, norms, and sums under way
MOST_STEPS = 20_000_000_000  # rounds times features where all weights are read in each round: some minutes
READ_BYTES = 56, 8 * rounds.OF_ROUND + 32  # of a feature and of a round, where weights are read
PIECE = 1024  # rows of several rounds that are copied at once
SMALLEST_SCALE = 1e-9  # below it the scale of weights is multiplied in
LARGEST_RADIUS = 1e150  # no weights reach it, and a learner with a finite radius knows ||w||^2


class Losses:
    """A loss by its name, with its own of these settings; function: for kernels; smooth: it has second derivatives."""

    def __init__(self, name: str, settings: dict):
        self.name, self.loss = name, get_loss(name)
        self.settings = {setting: settings[setting] for setting in self.loss.settings.names()}
        self.function, self.smooth = self.loss.at(self.settings), self.loss.has("second_derivative")

    def at(self, scores: np.ndarray, y: np.ndarray, width: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(losses, slopes) (T,) of scores and labels; with a width above 0 those of the loss smoothed within it."""
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

    weights = low = high = norms = gradients = potential = roots = after = None
    stepped = heights = mean = lengths = beside_zero = None

    def __init__(self, runner: Runner | ExactSolver, name: str | None = None):
        """name: of the learner in the registry, where this is not the runner's."""
        self.runner, self.name, self.settings = runner, runner.name, runner.settings
        self.real = runner.real and not runner.predicts_rows
        self.variant = variant_of(name or runner.name, runner.settings)
        self.theory = THEORIES.get(self.variant, Theory())
        self.regulariser = r = self.theory.regulariser(self.settings)
        self.truncated = r is not None and r.of_each_weight and r.weight > 0.0
        self.constant_step = self.settings.get("decay", "constant") == "constant"
        radius = runner.learner.rule.number_of(self.settings, "radius")
        self.ball = (self.theory.ball, radius) if self.theory.ball and radius < math.inf else None
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
        self.penalty = np.zeros(len(times))
        return self

    def at(self, values: np.ndarray) -> np.ndarray:
        """(K,) sums of ``values`` (T,) over the rounds up to each time."""
        return np.cumsum([values[a:b].sum() for a, b in pairwise([0, *self.times.tolist()])])

    def largest(self, values: np.ndarray) -> np.ndarray:
        """(K,) the largest of ``values`` so far."""
        return np.maximum.accumulate([values[a:b].max() for a, b in pairwise([0, *self.times.tolist()])])

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


def replay(run: Run, tell: Callable[[str], None]) -> Run:
    """Let the learner run for one epoch."""
    runner = run.runner
    if runner.needs_all_rows or run.batch > 1:
        return (replay_exact if runner.needs_all_rows else replay_batches)(run, tell)
    state, power = runner.new_state(run.d), run.theory.dual_power(run.settings)
    rows, step = run.rows, rows_of_piece(runner.n_vectors)
    if power is not None:
        run.lengths = np.empty(run.T)
    for block, order, first in rows:
        y = block.y if rows.labelled else np.zeros(block.n_samples)
        for start in range(0, block.n_samples, step):
            part = order[start : start + step]
            values = np.empty((len(part), runner.n_vectors))
            runner.learn(block.matrix, y, part, run.d, state, scores=values, sets=rows.sets)
            if not np.isfinite(values).all():
                runner.diverged("in the rows learned from")
            run.scores[first + start : first + start + len(part)] = rows.margins(values, block, part, False)
        _note(run, block, order, first, tell)
        if power is not None:
            run.lengths[first : first + len(order)] = p_norms(matrix_of(block)[order].astype(np.float64), power)
    if runner.average:
        run.mean = runner.weights(state, np.empty(runner.n_vectors * (run.d + 1)))
    if power is not None and run.theory.mirror is not None:
        read_potential(run)
    if run.regulariser is not None:
        read_weights(run, state)
    return run


def p_norms(X: scipy.sparse.csr_matrix, p: float) -> np.ndarray:
    """||x||_p (n,) of rows, p = inf for the largest entry; scaled by it, so that no power overflows."""
    X = abs(X)
    largest = X.max(axis=1).toarray().ravel()
    if p == math.inf:
        return largest
    shares = scipy.sparse.diags(1.0 / np.where(largest > 0.0, largest, 1.0)) @ X
    return largest * np.asarray(shares.power(p).sum(axis=1)).ravel() ** (1.0 / p)


def _note(run: Run, block, order: np.ndarray, first: int, tell: Callable[[str], None]) -> None:
    span = slice(first, first + len(order))
    run.y[span] = run.rows.targets(block)[order]
    run.sq_norms[span] = run.rows.squares(block)[order] + run.runner.bias**2
    tell(f"{run.name}: {span.stop:,} of {run.T:,} rows")


def replay_exact(run: Run, tell: Callable[[str], None]) -> Run:
    """The same of a learner that minimises over all rows so far, which are one block."""
    run.after = np.empty(run.T)
    for block, order, first in run.rows:
        state = run.runner.new_state(run.d, block.n_samples)
        for rows in run.runner.learn(block, None, order, state, run.scores, run.after):
            tell(f"{run.name}: {rows:,} of {run.T:,} rows")
        _note(run, block, order, first, tell)
    return run


def replay_batches(run: Run, tell: Callable[[str], None]) -> Run:
    """Pegasos in rounds of several rows, by a rule that no learner here has (Shalev-Shwartz, Singer, Srebro, Cotter,
    Math. Prog. 2011, section 2): w <- (1 - 1/t) w - m / (lambda t), m the mean of the gradients of the losses at w,
    then the projection.  w = scale v; a round that a block breaks off goes on in the next one."""
    lam, size, radius = run.settings["lam"], run.batch, math.inf if run.ball is None else run.ball[1]
    v, scale, sq_norm, number = np.zeros(run.d), 1.0, 0.0, 0
    sq_norms, run.gradients = np.zeros(run.T), np.zeros(run.T)
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
            run.gradients[rows] = max(lam * (lam * sq_norm + 2.0 * along) + square, 0.0)
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
    run.penalty = 0.5 * lam * run.at(sq_norms)
    return run


def read_potential(run: Run) -> None:
    """R* of the sum of gradients at each time."""
    theta, run.potential = np.zeros(run.d + 1), np.empty(len(run.times))
    for block, order, first, k in run.rows.up_to(run.times):
        factors = np.zeros(block.n_samples)
        factors[order] = -run.slopes[first : first + len(order)]
        add_rows(block.entries, factors.reshape(-1, 1), 0.0, theta.reshape(-1, 1))
        if k is not None:
            run.potential[k] = run.theory.mirror.potential(theta[:-1], run.settings)


@cache
def compiled(loop: Callable, name: str, rule: Rule, varies: bool) -> Callable:
    """A loop of rounds_kernels.py with this learner's functions; varies: its regulariser has heights."""
    heights = rounds.height_of_powers if varies else rounds.height
    parts = {"score": rule.score, "update": rule.update, "current": rule.current, "height": heights}
    used = {named: part for named, part in parts.items() if named in loop.__code__.co_names}
    return specialised(loop, f"{loop.__name__}_{name}", **used)


class Reading:
    """The learner once more from its start, without means; loop(...): a loop of rounds_kernels.py with it; norm: the
    scalar that is ||w||^2, of those that keep it."""

    def __init__(self, run: Run):
        runner, rule = copy(run.runner), run.runner.learner.rule
        runner.average, runner.width = False, rule.width(False)
        runner.feature_numbers = runner.width
        state, parameters = runner.new_state(run.d), np.array(rule.packed(run.settings, False))
        self.columns, self.layout = state.columns.reshape(-1, runner.width), rule.columns
        if hasattr(rule.scalars, "norm"):
            self.norm, at = rule.scalars.norm, rule.parameters.radius
            parameters[at] = min(parameters[at], LARGEST_RADIUS)
        self.memory = runner.memory(state.columns, state.scalars)._replace(scalars=state.scalars, parameters=parameters)
        self.loop = lambda loop: compiled(loop, runner.name, rule, run.regulariser.kind == "heights")


def read_weights(run: Run, state) -> None:
    """What the bounds of a learner with a regulariser need; state: of the learner after all rows."""
    r = run.regulariser
    if r.of_each_weight:
        run.weights = np.full(run.d, r.weight)
        if r.kind == "heights":  # those of the last round
            end, heights = run.runner.memory(state.columns, state.scalars), np.empty(run.d)
            heights_after = compiled(rounds.heights_after, run.name, run.runner.learner.rule, True)
            heights_after(end._replace(scalars=state.scalars), heights)
            run.weights *= heights
        out, run.low, run.high = all_weights(run, np.zeros(run.d))
        run.beside_zero, run.penalty = out, run.at(out[rounds.LENGTH])
        run.heights = r.weight * np.sqrt(out[rounds.OF_HEIGHTS][run.times - 1])
        if run.theory.steps:
            run.gradients = out[rounds.MOVED] / run.steps() ** 2
        if run.theory.splits:
            run.stepped = run.at(run.half_steps() * r.weight * out[rounds.OF_W])
        return
    reading, sq_norms = Reading(run), np.empty(run.T)
    read_norms = reading.loop(rounds.read_norms)
    for block, order, first in run.rows:
        read_norms(*block.matrix, block.y, order, first, reading.norm, reading.memory, sq_norms)
    run.norms = np.sqrt(np.maximum(sq_norms, 0.0))
    if r.kind == "norm":
        run.penalty = r.weight * run.at(run.norms)
        return
    run.penalty = 0.5 * r.weight * run.at(sq_norms)
    squares = r.weight**2 * sq_norms + run.slopes * (2.0 * r.weight * run.scores + run.slopes * run.sq_norms)
    run.gradients = np.maximum(squares, 0.0)


def all_weights(run: Run, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the numbers of each round (OF_ROUND, T) that ``read_all`` has beside u (d,), the range of each weight):
    the learner once more, in as many steps as features have occurred, each round."""
    reading, d = Reading(run), run.d
    w, low, high, run.roots = np.zeros(d), np.zeros(d), np.zeros(d), np.empty(len(run.times))
    known = np.empty(d, np.int32), np.zeros(d, np.uint8), np.zeros(1, np.int64)
    out = np.empty((rounds.OF_ROUND, run.T))
    read_all = reading.loop(rounds.read_all)
    for block, order, first, k in run.rows.up_to(run.times):
        read_all(*block.matrix, block.y, order, first, reading.memory, u, run.weights, w, *known, low, high, out)
        if k is not None and hasattr(reading.layout, "squares"):
            run.roots[k] = np.sqrt(reading.columns[:-1, reading.layout.squares]).sum()
    return out, low, high


def least_slack(run: Run, w: np.ndarray, losses: np.ndarray) -> np.ndarray | None:
    """(K,) the least right minus left side so far, for weights w (d + 1,) with these losses (T,), of

        2 eta_t (f_t(w_t) - f_t(u)) + 2 eta_t+1/2 (r_t(w_t+1) - r_t(u))
            <= ||w_t - u||^2 - ||w_t+1 - u||^2 + 8 eta_t eta_t+1/2 G_t^2

    (Oiwa, Matsushima, Nakagawa, ECML PKDD 2011, Lemma A.2.1), r_t(w) = l1 sum h_j |w_j| with the heights of round t,
    G_t = max(||z_t||, l1 ||h||); None for other learners.
    """
    r = run.regulariser
    if not run.theory.splits or r is None:
        return None
    out = all_weights(run, np.ascontiguousarray(w[: run.d]))[0] if w.any() else run.beside_zero
    of_u, of_heights = out[rounds.OF_U], out[rounds.OF_HEIGHTS]
    if r.kind == "l1":  # heights are 1 where no gradient has been, too
        of_u, of_heights = np.abs(w[: run.d]).sum(), float(run.d)
    steps, halves = run.steps(), run.half_steps()
    left = 2.0 * steps * (run.losses_of(run.scores)[0] - losses)
    left += 2.0 * halves * r.weight * (out[rounds.OF_W] - of_u)
    largest = np.maximum(run.slopes**2 * run.sq_norms, r.weight**2 * of_heights)
    return -run.largest(left - out[rounds.NEARER] - 8.0 * steps * halves * largest)
