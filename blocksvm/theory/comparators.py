"""Fixed weights that a learner is compared with: trained in hindsight, then measured on the rows of the replay.

Losses: the certified batch solver over a path of C, each from the one before.
loss + sum m_j |w_j|: L-BFGS (Liu, Nocedal, Math. Prog. 1989) on rows in memory for w = p - q with p, q >= 0; kinks are
smoothed (Nesterov, Math. Prog. 2005) within widths that fall until the gap is certified.  The slopes s of the losses at
any w, scaled to |X's|_j <= m_j, give -sum conjugate(s_i), which is no more than the least.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse
from scipy.optimize import minimize

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.base.memory import Budget
from blocksvm.files.output import TemporaryFolder
from blocksvm.sources.matrix import Matrix
from blocksvm.theory.rows import FixedWeights
from blocksvm.theory.run import Losses, Run, least_slack
from blocksvm.theory.theories import EUCLIDEAN

TOLERANCE = 1e-3  # certified relative gap of the batch solver
OUTERS = 100
# The path: C R^2 T from FIRST, C R^2 up to LAST, by factors of ten; it ends where a larger C lowers the loss no more.
# Hinge losses end it where the least margin is near to 1 too: a larger C changes such weights no more.
FIRST, LAST, LEAST_GAIN, NEAR = 1.0, 1e4, 1e-3, 0.99
STEPS = 500
CORRECTIONS = 5  # pairs of vectors that L-BFGS keeps
BESIDE = 25  # vectors under way here and in scipy
WIDTHS = (1.0, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4)  # within which kinks are smoothed, one after the other
EDGE_STEPS, EDGE, WEAKEST = 8, 0.99, 1e-6  # bisections towards the edge of a ball, how near it is enough, least of l1


# Vectors of all features beside those of a solver: the weights, their copy when scaled, feature ids, sums.
VECTORS = 6


class Comparator:
    """Fixed weights u, measured by their scores (T,): norms, and sums (K,) over the rounds up to each time as ``Run``
    has them.

    norm ||u||, norm_1 ||u||_1, norm_inf ||u||_inf, norm_without_bias: without the constant feature; distances: R(u) -
    min R at most and R(u) - R(w_1) of the mirror map; loss, judged: with the penalty t r(u); linear sum <z_t, u>;
    hinge, hinge_squares; tau_hinge sum tau_t hinge_t(u); margin: the least y <u, x> so far; distance: ||w_t - u|| is at
    most this, reach: ||w_t - u||_inf; weighted: sum 2 eta_t f_t(u) + 2 eta_t+1/2 r(u); slack: the least that is left
    in the inequality of one round; the others as ``FixedWeights`` has them.  Some are there if a bound needs them.
    """

    def __init__(self, run: Run, u: FixedWeights, scores: np.ndarray):
        w, of_features, mirror = u.w, u.w[: run.d], run.theory.mirror
        penalty, hinge, losses = run.penalty_of(w), run.hinge_of(scores), run.losses_of(scores)[0]
        self.name, self.C, self.status, self.rel_gap, self.floor = u.name, u.C, u.status, u.rel_gap, u.floor
        self.norm, self.norm_without_bias = float(np.linalg.norm(w)), float(np.linalg.norm(of_features))
        self.norm_1, self.norm_inf = float(np.abs(w).sum()), float(np.abs(w).max())
        self.distances = mirror.distances(w, run.settings) if mirror else (math.inf, math.inf)
        self.loss = run.at(losses) + penalty
        self.judged = run.at(run.judging.at(scores, run.y)[0]) + penalty
        self.mistakes = run.at(run.is_mistaken(scores))
        self.linear = run.at(run.slopes * scores)
        self.hinge, self.hinge_squares = run.at(hinge), run.at(hinge**2)
        self.margin = np.full(len(run.times), -np.inf) if run.real else -run.largest(-(run.y * scores))
        self.slack = least_slack(run, w, losses)
        if run.theory.passive_aggressive:
            self.tau_hinge = run.at(run.tau * hinge)
        if run.low is not None:
            apart = np.maximum(run.high - of_features, of_features - run.low)
            self.distance, self.reach = float(np.linalg.norm(apart)), float(apart.max(initial=0.0))
        if run.stepped is not None:
            threshold = run.half_steps() * run.regulariser.weight * float(np.abs(of_features).sum())
            self.weighted = 2.0 * run.at(run.steps() * losses + threshold)


def measured(run: Run, u: FixedWeights) -> Iterator[Comparator]:
    """The comparator, or scaled into the learner's ball, where it lies outside; also scaled to a least margin of 1,
    where it separates the rows, and the learner has no ball that this would leave."""
    scores = run.rows.scores(u.w, run.runner.bias)
    plain = Comparator(run, u, scores)
    if run.ball is not None:
        radius, length = run.ball[1], length_in(run, plain)
        if length > radius:
            yield _scaled(run, u, scores, radius / length * (1.0 - 1e-12), f"{u.name}, scaled to {radius:.4g}")
            return
    yield plain
    margin = float(plain.margin[-1])
    if run.ball is None and run.rows.scales and margin > 0.0 and run.runner.learner.acts_up_to < math.inf:
        yield _scaled(run, u, scores, (1.0 + 1e-12) / margin, f"{u.name}, scaled to margin 1")
    if run.rows.stretched != 1.0:
        yield _scaled(run, u, scores, run.rows.stretched, f"{u.name}, times {run.rows.stretched:.4g}")


def length_in(run: Run, u: Comparator) -> float:
    return u.norm if run.ball is None or run.ball[0] == 2 else u.norm_1


def _scaled(run: Run, u: FixedWeights, scores: np.ndarray, factor: float, name: str) -> Comparator:
    w = factor * u.w
    scores = factor * scores if run.rows.scales else run.rows.scores(w, run.runner.bias)
    return Comparator(run, FixedWeights(name, w, u.C, "scaled", floor=u.floor), scores)


def floor_in_ball(run: Run, least: float, C: float) -> float:
    """Of no weights in the ball is the loss smaller, where 1/2 ||u||^2 + C loss(u) >= ``least`` for all u: in it
    ||u||_2 <= ||u||_1 <= B, or ||u||_2 <= B."""
    return -math.inf if run.ball is None or run.regulariser else (least - 0.5 * run.ball[1] ** 2) / C


def path(run: Run) -> list[float]:
    R = float(run.R[-1])
    if R == 0.0:
        return []
    if run.regulariser is not None and run.regulariser.kind == "l2":
        return [1.0 / (run.regulariser.weight * run.T)]
    steps = round(math.log10(LAST * run.T / FIRST)) + 1
    values = [FIRST / (R * R * run.T) * 10.0**k for k in range(steps)]
    if run.theory.mirror is EUCLIDEAN and run.constant_step:
        values.append(run.settings["step"])  # makes ||u||^2 / (2 eta) + sum loss(u) least
    return sorted(C for C in set(values) if 1e-40 < C < 1e40)


def on_the_edge(
    run: Run, find: Callable[[float], FixedWeights], inside: float, outside: float
) -> Iterator[FixedWeights]:
    """Weights that come near to the edge of the learner's ball, which are the best in it: found at strengths between
    one at which they lie inside and one at which they lie outside."""
    power, radius = run.ball
    for _ in range(EDGE_STEPS):
        strength = math.sqrt(inside * outside)
        u = find(strength)
        length = float(np.linalg.norm(u.w, ord=power))
        yield u
        if length > radius:
            outside = strength
        elif length >= EDGE * radius:
            return
        else:
            inside = strength


def comparators(run: Run, memory: int, tell: Callable[[str], None]) -> list[Comparator]:
    """The zero vector and the trained ones, in the order of the path."""
    zero = FixedWeights("u = 0", np.zeros(run.rows.n_vectors * (run.d + 1)))
    result = [Comparator(run, zero, np.zeros(run.T) if run.rows.scales else run.rows.scores(zero.w, run.runner.bias))]
    given = run.rows.fixed(tell)
    if given is None and run.truncated:
        given = of_l1(run, memory, tell)
    if given is not None:
        return result + [one for u in given for one in measured(run, u)]
    least, idle, C, inside, outside = float(result[0].judged[-1]), 0, 0.0, 0.0, math.inf
    for u in certified(run, memory, tell, path(run)):
        new = list(measured(run, u))
        u_C = u.C
        if run.ball is not None and np.linalg.norm(u.w, ord=run.ball[0]) > run.ball[1]:
            outside = min(outside, u_C)
        else:
            inside = u_C
        del u  # before the next one is made
        result.extend(new)
        total = float(new[0].judged[-1])
        if total == 0.0 or new[0].margin[-1] >= NEAR * run.judging.loss.zero_from:
            break
        if u_C >= 5.0 * C:  # a whole step of the path
            idle = idle + 1 if least - total <= LEAST_GAIN * least and C > 0.0 else 0
            least, C = min(least, total), u_C
            if idle == 2:
                break
    more: Iterable[FixedWeights] = ()
    if run.ball is not None and run.ball[0] == 1 and run.rows.source.in_memory:
        more = lasso(run, memory, tell)
    elif 0.0 < inside < outside < math.inf:
        more = on_the_edge(run, lambda C: next(certified(run, memory, tell, [C])), inside, outside)
    return result + [one for u in more for one in measured(run, u)]


@contextmanager
def named(what: str):
    """Prefix errors about too little memory with what takes the rest of it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from error


def certified(run: Run, memory: int, tell: Callable[[str], None], costs: list[float]) -> Iterator[FixedWeights]:
    """The batch solver's weights along a path of C, each from the one before."""
    bias = run.runner.bias
    with TemporaryFolder() as folder:
        previous = None
        for number, C in enumerate(costs):
            tell(f"comparator for C = {C:.3g}")
            with named(f"beside the records of {run.T:,} rounds"):
                fitted = fit(
                    run.rows.source, C=C, loss=run.judging.name, bias=bias, tol=TOLERANCE, schedule="5",
                    max_outer=OUTERS, memory=memory, start_from=previous, **run.rows.solver, **run.judging.settings,
                )  # fmt: skip
            previous = folder / f"{number}.h5"
            fitted.save(previous)
            vectors, certificate = np.atleast_2d(fitted.model.weights), fitted.certificate
            constant = np.atleast_1d(fitted.model.intercept / bias if bias else np.zeros(len(vectors)))
            gap, least = (None, -math.inf) if certificate is None else (certificate.rel_gap, certificate.dual)
            w = np.column_stack([vectors, constant]).ravel()
            u = FixedWeights(f"C = {C:.4g}", w, C, fitted.status, gap, floor_in_ball(run, least, C))
            del fitted  # with its blocks
            yield u
            del u


def compact(run: Run, memory: int) -> tuple[scipy.sparse.csr_matrix, np.ndarray, np.ndarray]:
    """(X float64 without the features that do not occur, y, which features do (d,) bool) of rows in memory; InputError
    where these do not fit beside the vectors of ``least_with_l1``."""
    source: Matrix = run.rows.source
    used = np.zeros(source.n_features, bool)
    used[source.indices] = True
    n_used = int(used.sum())
    with named(f"beside the records of {run.T:,} rounds"):
        needed = 8 * (4 * CORRECTIONS + BESIDE) * n_used + 20 * source.n_nonzeros + 13 * source.n_features
        Budget(memory).require("the best fixed weights", needed)
    position = np.cumsum(used, dtype=np.int32) - np.int32(1)
    values = np.ones(source.n_nonzeros) if source.values is None else source.values.astype(np.float64)
    X = scipy.sparse.csr_matrix((values, position[source.indices], source.indptr), (source.n_samples, n_used))
    return X, source.y.astype(np.float64), used


def whole(run: Run, used: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Weights (d + 1,) of all features by those that occur."""
    result = np.zeros(run.d + 1)
    result[:-1][used] = w
    return result


def found(name: str, w: np.ndarray, gap: float, floor: float = -math.inf) -> FixedWeights:
    return FixedWeights(name, w, None, "converged" if gap <= TOLERANCE else "max-steps", gap, floor)


def least_with_l1(
    X: scipy.sparse.csr_matrix, y: np.ndarray, losses: Losses, m: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """(w (d,), its loss + sum m_j |w_j|, how far that is from the least at most, relatively): certified to
    ``TOLERANCE``, unless all widths and steps are used up.  Where an m_j is 0 and its feature moves a loss there is no
    certificate, and the gap is 1."""
    columns, d = X.T.tocsr(), X.shape[1]
    both = np.concatenate([m, m])

    def evaluate(pair: np.ndarray, width: float) -> tuple[float, np.ndarray]:
        values, slopes = losses.at(X @ (pair[:d] - pair[d:]), y, width)
        gradient = columns @ slopes
        return values.sum() + float(both @ pair), np.concatenate([m + gradient, m - gradient])

    limits = dict(maxiter=STEPS, maxfun=2 * STEPS, maxcor=CORRECTIONS, ftol=1e-12, gtol=1e-12)
    more = dict(jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * (2 * d), options=limits)
    w = best = np.zeros(d)
    primal, dual = math.inf, 0.0
    for width in (0.0,) if losses.smooth else WIDTHS:
        pair = minimize(evaluate, np.maximum(np.concatenate([w, -w]), 0.0), width, **more).x
        w = pair[:d] - pair[d:]
        total = losses.at(X @ w, y)[0].sum() + float(m @ np.abs(w))
        if total < primal:
            primal, best = total, w
        slopes = losses.at(X @ w, y, width)[1]
        size = np.abs(columns @ slopes)
        scale = float(np.divide(m, size, out=np.ones(d), where=size > m).min(initial=1.0))
        dual = max(dual, losses.dual(scale * slopes, y))
        if primal - dual <= TOLERANCE * primal:
            break
    return best, primal, (primal - dual) / primal if primal > 0.0 else 0.0


def of_l1(run: Run, memory: int, tell: Callable[[str], None]) -> Iterator[FixedWeights]:
    X, y, used = compact(run, memory)
    tell(f"comparator: the least of loss + {run.regulariser.text}")
    w, _, gap = least_with_l1(X, y, run.judging, run.T * run.weights[used])
    yield found("least loss + r", whole(run, used, w), gap)


def lasso(run: Run, memory: int, tell: Callable[[str], None]) -> Iterator[FixedWeights]:
    """Weights in a 1-norm ball: those of the least loss + l1 ||w||_1 have the least loss of all that are no longer."""
    X, y, used = compact(run, memory)
    slopes = run.judging.at(np.zeros(run.T), y, 0.0 if run.judging.smooth else 1e-3)[1]
    most = float(np.abs(X.T @ slopes).max(initial=0.0))

    def find(strength: float) -> FixedWeights:
        l1 = most / strength
        tell(f"comparator for l1 = {l1:.3g}")
        w, total, gap = least_with_l1(X, y, run.judging, np.full(X.shape[1], l1))
        return found(f"l1 = {l1:.4g}", whole(run, used, w), gap, floor=(1.0 - gap) * total - l1 * run.ball[1])

    if most > 0.0:
        yield from on_the_edge(run, find, 1.0, 1.0 / WEAKEST)
