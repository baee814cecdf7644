"""A learner replayed over rows in a fixed order: records of each round, and their sums up to chosen rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import scipy.sparse

from blocksvm.base.errors import InputError, one_of, option
from blocksvm.base.labels import label_text
from blocksvm.base.memory import Budget
from blocksvm.kernels.shuffle import windowed_order
from blocksvm.losses import DEFAULT, get_loss
from blocksvm.losses.hinge import HINGE
from blocksvm.losses.loss import Loss
from blocksvm.online import get_learner
from blocksvm.online.exact import ExactRunner
from blocksvm.online.runner import Runner
from blocksvm.sources.block import Block
from blocksvm.sources.block_reader import iterate_blocks
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import ChunkTable, Source
from blocksvm.theory import each_round, records
from blocksvm.theory.batches import BATCH_BYTES, replay_batches
from blocksvm.theory.each_round import WEIGHTS_BYTES
from blocksvm.theory.learner_theory import Regulariser, theory_of
from blocksvm.theory.mirror_maps import EUCLIDEAN, Euclidean
from blocksvm.theory.weight_sums import add_weight_sums
from blocksvm.training.partition import order_key

ORDERS = ("stored", "shuffled")
CHUNKS, ROWS = 101, 102  # kinds of orders, in their keys
RECORD_BYTES = 96  # of a round: label, scores of learner and comparator, norms, and sums under way


class ReplayRows:
    """The rows of a source in the order of a replay, block by block, in any number of passes.

    order 'stored', or 'shuffled': chunks in random order, and the rows of each block among themselves; blocks take
    ``memory`` bytes, two of them.  Iterating gives (block, order of its rows (n,) int32, rows before it).  scales: the
    scores of scaled weights are the scaled scores; stretched: a factor of weights that are compared, too; n_vectors:
    of fixed weights; solver: settings of the batch solver that finds them; uncertified: why these need not be
    the best, or ''.
    """

    scales, stretched, n_vectors, solver, uncertified = True, 1.0, 1, MappingProxyType({}), ""

    def __init__(self, source: Source, order: str, seed: int, memory: int):
        if order not in ORDERS:
            raise InputError(f"{option('order', order)}: {one_of(order, ORDERS)}")
        self.source = source
        self.order = order
        self.seed = seed
        self.memory = memory

    def __iter__(self) -> Iterator[tuple[Block, np.ndarray, int]]:
        shuffled = self.order == "shuffled"
        source = Permuted(self.source, self.seed) if shuffled else self.source
        first = 0
        for visit, block in enumerate(iterate_blocks(source, self.memory)):
            order = np.arange(block.n_samples, dtype=np.int32)
            if shuffled:
                shuffle(order_key(self.seed, ROWS, visit), order)
            yield block, order, first
            first += block.n_samples

    def fixed(self, tell: Callable[[str], None]) -> Iterator[tuple[str, np.ndarray]] | None:
        """(name, w) of the weights to compare with, None where the solver finds them."""
        return None

    def scores(self, w: np.ndarray, bias: float) -> np.ndarray:
        """<w, x> (T,) of all rows; w (d + 1,), the last entry that of the constant feature."""
        from blocksvm.kernels.margins import decision_values

        scores = np.empty(self.source.n_samples)
        for block, order, first in self:
            values = np.empty(block.n_samples)
            decision_values(*block.matrix, w, bias, values)
            scores[first : first + block.n_samples] = values[order]
        return scores


def shuffle(key: np.uint64, out: np.ndarray) -> np.ndarray:
    windowed_order(key, len(out), len(out), out, np.empty(1, np.int32))
    return out


class Permuted:
    """A source with its chunks in random order."""

    def __init__(self, source: Source, seed: int):
        self.source, self.seed = source, seed
        self.drawn = shuffle(order_key(seed, CHUNKS), np.empty(len(source.chunks), np.int32)).astype(np.int64)
        n_rows = source.chunks.n_rows[self.drawn]
        self.chunks = ChunkTable(np.cumsum(n_rows) - n_rows, n_rows, source.chunks.nnz[self.drawn])

    def reader(self, labels=None, real: bool = False) -> Permuted:
        return Permuted(self.source.reader(labels, real), self.seed)

    def read_block(self, chunks: np.ndarray, arena) -> Block:
        return self.source.read_block(self.drawn[chunks], arena)

    def __getattr__(self, name: str):
        return getattr(self.source, name)


def in_memory(rows: ReplayRows, n_rows: int, budget: Budget) -> Matrix:
    """The first ``n_rows`` rows in their order as a matrix in memory; InputError where they do not fit, or are all of
    one class."""
    source = rows.source
    share = n_rows / source.n_samples
    # while they are put together there are two copies
    budget.require("the rows in memory", int(2 * share * source.n_nonzeros * (4 + max(4, source.value_bytes))))
    parts, labels, n_read = [], [], 0
    for block, order, first in rows:
        order = order[: n_rows - first]
        values = np.ones(block.n_nonzeros, np.float32) if block.values is None else block.values
        entries = (values.copy(), block.indices.copy(), block.indptr.copy())
        parts.append(scipy.sparse.csr_matrix(entries, shape=(block.n_samples, block.n_features))[order])
        labels.append(block.y[order].astype(np.float64))
        n_read += len(order)
        if n_read == n_rows:
            break
    y = np.concatenate(labels)
    if not source.coding.real and (y == y[0]).all():
        label = source.labels.positive if y[0] > 0 else source.labels.negative
        raise InputError(
            f"{source.name}: the first {n_rows:,} rows all have the label {label_text(label)}; raise "
            f"{option('max_rows')}, or take {option('order', 'shuffled')}"
        )
    matrix = Matrix(scipy.sparse.vstack(parts, format="csr"), y).reader(real=source.coding.real)
    matrix.name = source.name
    budget.take("the rows in memory", matrix.n_nonzeros * (4 + matrix.value_bytes) + 32 * n_rows)
    return matrix


def log_spaced(T: int) -> np.ndarray:
    """1, 2, 5, 10, 20, 50, ... and T."""
    times = {T}
    scale = 1
    while scale <= T:
        times |= {factor * scale for factor in (1, 2, 5) if factor * scale <= T}
        scale *= 10
    return np.array(sorted(times))


class Losses(NamedTuple):
    """A loss with its settings p at labels y (T,) float64."""

    loss: Loss
    p: tuple
    y: np.ndarray

    @property
    def smooth(self) -> bool:
        """It has second derivatives."""
        return self.loss.second_derivative is not None

    def at(self, scores: np.ndarray, width: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(losses, slopes), each (T,); those of a loss with a conjugate smoothed within a width above 0."""
        losses, slopes = np.empty(len(scores)), np.empty(len(scores))
        self.loss.compiled(records.losses_of)(scores, self.y, width, self.p, losses, slopes)
        return losses, slopes

    def dual(self, slopes: np.ndarray) -> float:
        """-sum conjugate, for slopes that the loss has."""
        return -self.loss.compiled(records.sum_of_conjugates)(slopes, self.y, self.p)


class ReplayedRun:
    """One learner's replay.  Arrays (T,) hold a number a round, arrays (K,) sums over the rounds up to each of times.

    name, settings: the learner's; loss: the one that it follows (hinge where it follows none); judged: the one that it
    is compared by; scores z_t = <w_t, x_t> before the update; sq_norms ||x_t||^2, the constant feature included;
    dual_norms: ||x_t|| in the norm that the mirror map's bounds are in; penalty (K,): sums of r(w_t), where the
    learner's objective has a regulariser r that is measured.
    """

    def __init__(self, runner: Runner | ExactRunner, source: Source, times: np.ndarray):
        self.runner, self.learner = runner, runner.learner
        self.name, self.settings, self.bias = runner.name, runner.settings, runner.bias
        self.T, self.d = source.n_samples, source.n_features
        self.times = times
        self.real = runner.real and not runner.predicts_rows
        # the variant of a learner for numbers has the theory of that for classes
        self.theory = theory_of(get_learner(self.name).of(self.settings) if runner.real else self.learner)
        self.loss_name = self.learner.loss_of(self.settings) if self.real else self.settings.get("loss", DEFAULT)
        self.loss_function = get_loss(self.loss_name)
        self.p = self.loss_function.parameters(self.settings)
        self.judged_name, self.judged_function, self.judged_p = self.loss_name, self.loss_function, self.p
        if self.loss_function.judged_by is not None:
            self.judged_name = self.loss_function.judged_by
            self.judged_function = get_loss(self.judged_name)
            self.judged_p = self.judged_function.parameters(self.judged_function.settings.resolve({}, self.judged_name))
        self.scores, self.sq_norms = np.empty(self.T), np.empty(self.T)
        self.y = np.empty(self.T, np.float64 if self.real else np.int8)
        self.dual_norms: np.ndarray | None = None
        self.penalty, self.zeros = np.zeros(len(times)), np.zeros(len(times))
        self.l1_weights: np.ndarray | None = None  # of r(w) = sum_j l1_weights_j |w_j|
        self.low = self.high = None  # the range of each weight over all rounds
        self.mean_weights: np.ndarray | None = None
        self.scores_after: np.ndarray | None = None  # (T,) <w_{t+1}, x_t>, of exact minimisers
        self.potential: np.ndarray | None = None  # (K,) R*(-z_1:t) - R*(0) of a mirror map
        # (K,) sum ||lambda w_t + z_t||^2 / t, and the largest such norm
        self.strong_squares = self.strong_largest = None
        # (T,) eta_t+1/2; the rows, of learners whose inequality of each round is checked
        self.halves = self.rows = None
        # (K,) of subgradient steps on loss + r: sums of squares of its gradients, and of these / sqrt(t)
        self.objective_squares = self.objective_falling_squares = None
        # of forward-backward splitting (weight_sums.py): eta_t and eta_t+1/2 l1 (T,), and (K,) sums of eta_t eta_t+1/2
        # and of eta_t+1/2 r(w_t+1), l1 ||h_t||, sum r_t(w_t); (d,) sum over all rounds of the weights of r_t
        self.steps = self.thresholds = self.step_products = self.stepped = self.heights_norm = self.varying = None
        self.l1_weights_of_rounds: np.ndarray | None = None
        self.batch = 1  # rows of a round
        self.longest = 0.0  # the largest ||w_t||, of a regulariser of it
        self.roots = self.largest_entries = None  # (K,) of AdaGrad (adaptive.py)

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
        return self._losses_of(self.loss_function, self.p, scores)

    def judged_of(self, scores: np.ndarray) -> np.ndarray:
        """(T,) losses by which learner and comparators are judged."""
        return self._losses_of(self.judged_function, self.judged_p, scores)[0]

    def hinge_of(self, scores: np.ndarray) -> np.ndarray:
        """(T,) hinge losses; of numbers the losses that the learner follows."""
        return self.losses_of(scores)[0] if self.real else self._losses_of(HINGE, (), scores)[0]

    def is_mistaken(self, scores: np.ndarray) -> np.ndarray:
        """(T,) bool: the score is on the wrong side; of numbers, and of tasks (task_rounds.py): a loss of 1 or more."""
        return self.hinge_of(scores) >= 1.0 if self.real else self.y * scores <= 0.0

    def _losses_of(self, loss: Loss, p: tuple, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return Losses(loss, p, self.y.astype(np.float64)).at(scores)

    @cached_property
    def slopes(self) -> np.ndarray:
        return self.losses_of(self.scores)[1]

    @cached_property
    def loss(self) -> np.ndarray:
        """(K,) of the loss that the learner follows, the penalty included."""
        return self.at(self.losses_of(self.scores)[0]) + self.penalty

    @cached_property
    def judged(self) -> np.ndarray:
        return self.at(self.judged_of(self.scores)) + self.penalty

    @cached_property
    def linear(self) -> np.ndarray:
        """(K,) sum <z_t, w_t> over the gradients z_t."""
        return self.at(self.slopes * self.scores)

    @cached_property
    def mistakes(self) -> np.ndarray:
        return self.at(self.is_mistaken(self.scores)).astype(np.float64)

    @cached_property
    def hinge_squares(self) -> np.ndarray:
        return self.at(self.hinge_of(self.scores) ** 2)

    @cached_property
    def stability(self) -> np.ndarray:
        """(K,) sum (f_t(w_t) - f_t(w_{t+1})) of a learner that minimises exactly."""
        return self.loss - self.at(self.losses_of(self.scores_after)[0])

    @cached_property
    def R(self) -> np.ndarray:
        """(K,) the largest ||x|| so far."""
        return np.sqrt(self.largest(self.sq_norms))

    @cached_property
    def gradient_squares(self) -> np.ndarray:
        """(K,) sum ||z_t||^2."""
        return self.at(self.slopes**2 * self.sq_norms)

    @cached_property
    def dual_squares(self) -> np.ndarray:
        """(K,) the same in the norm dual to the mirror map's."""
        return self.gradient_squares if self.dual_norms is None else self.at((self.slopes * self.dual_norms) ** 2)

    @cached_property
    def divergences(self) -> np.ndarray:
        """(K,) sum_t D_R*(-z_1:t || -z_1:t-1) = R*(-z_1:T) - R*(0) + sum <w_t, z_t>, w_t the gradient of R* there."""
        if self.potential is None:
            return self.settings["step"] / 2.0 * self.gradient_squares
        return self.potential + self.linear

    @cached_property
    def weighted(self) -> np.ndarray:
        """(K,) sum 2 eta_t f_t(w_t) + 2 eta_t+1/2 r(w_t+1), of forward-backward splitting."""
        return 2.0 * self.at(self.steps * self.losses_of(self.scores)[0]) + 2.0 * self.stepped

    def add_strong(self, sq_norms: np.ndarray, sq_gradients: np.ndarray) -> None:
        """The penalty of lambda/2 ||w||^2 and the gradients of the whole objective, by ||w_t||^2 and ||lambda w_t +
        z_t||^2 (T,) of each row's round."""
        self.penalty = 0.5 * self.settings["lam"] * self.at(sq_norms)
        self.strong_squares = self.at(sq_gradients / (np.arange(self.T) // self.batch + 1.0))
        self.strong_largest = np.sqrt(self.largest(sq_gradients))

    @property
    def rounds(self) -> np.ndarray:
        """(K,) how many rounds there were up to each time."""
        return self.times / self.batch

    @property
    def checks_rounds(self) -> bool:
        """The inequality of each round is checked: all weights in each round are not too many."""
        return self.T * self.d <= each_round.MOST_STEPS

    @cached_property
    def falling_squares(self) -> np.ndarray:
        """(K,) sum ||z_t||^2 / sqrt(t)."""
        return self.at(self.slopes**2 * self.sq_norms / np.sqrt(np.arange(1.0, self.T + 1.0)))

    @cached_property
    def G(self) -> np.ndarray:
        """(K,) the largest ||z_t|| so far."""
        return self.largest(np.abs(self.slopes) * np.sqrt(self.sq_norms))

    @cached_property
    def tau(self) -> np.ndarray:
        """(T,) steps of a passive-aggressive learner; 0 for a row of zeros."""
        losses = self.hinge_of(self.scores)
        most, slack = (self.learner.rule.number_of(self.settings, name) for name in ("most", "slack"))
        steps = np.divide(losses, self.sq_norms + slack, out=np.zeros(self.T), where=self.sq_norms > 0.0)
        return np.minimum(most, steps)

    @cached_property
    def progress(self) -> np.ndarray:
        """(K,) sum tau_t (2 l_t - tau_t ||x_t||^2)."""
        return self.at(self.tau * (2.0 * self.hinge_of(self.scores) - self.tau * self.sq_norms))

    # -- what the learner is -------------------------------------------------------------------------------------

    @property
    def mirror(self) -> Euclidean:
        """The learner's mirror map; Euclidean where it is no mirror descent."""
        return self.theory.mirror or EUCLIDEAN

    @property
    def constant_step(self) -> bool:
        return self.settings.get("decay", "constant") == "constant"

    @property
    def ball(self) -> tuple[int, float] | None:
        """(1 or 2, radius) of the norm ball that the learner stays in, if it does."""
        return self.theory.ball(self.settings)

    @cached_property
    def regulariser(self) -> Regulariser | None:
        """r of the learner's objective, where it can be measured."""
        return self.theory.regulariser(self.settings)

    @property
    def truncated(self) -> bool:
        """Judged with r = l1 sum h_j |w_j|."""
        r = self.regulariser
        return r is not None and r.truncates

    def penalty_of(self, w: np.ndarray) -> np.ndarray:
        """(K,) t r(w)."""
        if self.l1_weights is not None:
            return float(self.l1_weights @ np.abs(w[: self.d])) * self.times
        if self.regulariser is not None and self.regulariser.l2 is not None:
            return 0.5 * self.regulariser.l2 * float(w @ w) * self.times
        if self.regulariser is not None and self.regulariser.norm is not None:
            return self.regulariser.norm * float(np.linalg.norm(w)) * self.times
        return np.zeros(len(self.times))

    def dual_power(self) -> float | None:
        """p of the norm of gradients, None for the Euclidean one."""
        return self.mirror.gradient_norm(self.settings)


def learner_bytes(runner: Runner, run: ReplayedRun) -> int:
    """Bytes of the learner and of the sums over its weights."""
    r = run.regulariser
    if run.batch > 1:
        return BATCH_BYTES * run.d + 16 * run.T
    sums = (96 + WEIGHTS_BYTES) * (run.d + 1) + 96 * run.T if r is not None and r.sums is not None else 0
    if run.dual_power() is not None:
        sums = 24 * (run.d + 1)
    return runner.state_bytes(run.d, run.T) + sums


def replay(runner: Runner, rows: ReplayRows, run: ReplayedRun, tell: Callable[[str], None]) -> ReplayedRun:
    """Fill the run's records by one epoch."""
    if runner.needs_all_rows:
        return _replay_exact(runner, rows, run, tell)
    if run.batch > 1:
        return replay_batches(runner, rows, run, tell)
    state = runner.new_state(run.d)
    p = run.dual_power()
    if p is not None:
        run.dual_norms = np.empty(run.T)
    for block, order, first in rows:
        span = slice(first, first + block.n_samples)
        runner.learn(block.matrix, block.y, order, run.d, state, weights=block.weights, scores=run.scores[span])
        run.y[span] = block.y[order]
        run.sq_norms[span] = block.sq_norms[order] + run.bias**2
        if p is not None:
            records.row_p_norms(*block.matrix, order, float(p), run.dual_norms[span])
        tell(f"{runner.name}: {first + block.n_samples:,} of {run.T:,} rows")
    if runner.average:
        run.mean_weights = runner.weights(state, np.empty(run.d + 1))
    del state
    if not np.isfinite(run.scores).all():
        runner.diverged("in the rows learned from")
    r = run.regulariser
    if r is not None and r.l2 is not None:
        norms = np.empty(run.T)
        radius = math.inf if run.ball is None else run.ball[1]
        records.pegasos_sq_norms(run.scores, run.slopes, run.sq_norms, r.l2, radius, norms)
        # of the whole objective: ||lambda w_t + z_t||^2
        squares = r.l2**2 * norms + run.slopes * (2.0 * r.l2 * run.scores + run.slopes * run.sq_norms)
        run.add_strong(norms, np.maximum(squares, 0.0))
    if r is not None and r.norm is not None:
        steps = run.settings["step"] / (np.ones(run.T) if run.constant_step else np.sqrt(np.arange(1.0, run.T + 1.0)))
        norms = np.empty(run.T)
        records.group_norms(run.scores, run.slopes, run.sq_norms, steps, r.norm, norms)
        run.penalty, run.longest = r.norm * run.at(norms), float(norms.max())
    add_weight_sums(rows, run)
    return run


def _replay_exact(runner: ExactRunner, rows: ReplayRows, run: ReplayedRun, tell: Callable[[str], None]) -> ReplayedRun:
    """The same of a learner that minimises over all rows so far, which are one block."""
    for block, order, _ in rows:
        state = runner.new_state(run.d, block.n_samples)
        run.scores_after = np.empty(run.T)
        runner.learn(
            block, order, state, scores=run.scores, after=run.scores_after,
            after_row=lambda tally=state["tally"]: tell(f"{runner.name}: {int(tally[0]):,} of {run.T:,} rows"),
        )  # fmt: skip
        run.y[:] = block.y[order]
        run.sq_norms[:] = block.sq_norms[order] + run.bias**2
    return run
