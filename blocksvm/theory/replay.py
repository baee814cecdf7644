"""The run of a learner over the rows, and what its rounds do to its weights, read while it runs once more
(rounds_kernels.py)."""

import math
from collections.abc import Callable
from copy import copy
from functools import cache

import numpy as np
import scipy.sparse

from blocksvm.kernels import specialised
from blocksvm.kernels.columns import add_rows
from blocksvm.model.decision_values import rows_of_piece
from blocksvm.online.learner import Rule
from blocksvm.theory import rounds_kernels as rounds
from blocksvm.theory.rows import matrix_of
from blocksvm.theory.run import Run

PIECE = 1024  # rows of several rounds that are copied at once
SMALLEST_SCALE = 1e-9  # below it the scale of weights is multiplied in
LARGEST_RADIUS = 1e150  # no weights reach it, and a learner with a finite radius knows ||w||^2


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
    functions = {part: getattr(rule, part) for part in ("score", "update", "current")}
    parts = functions | {"height": rounds.height_of_powers if varies else rounds.height}
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
    G_t = max(||z_t||, l1 ||h||); None for other learners."""
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
