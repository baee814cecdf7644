"""The rows of a replay: in their order, block by block, or as a matrix in memory.

Tasks: regret of the passive-aggressive learners where targets are not two classes, and the perceptron's with more of
them, by a loss of each round for each kind of targets, of the learner's decision values and of fixed weights u.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer (JMLR 2006) prove their bounds for every task alike: with the loss l_t of
the round, l*_t that of u, and the squared norm q_t of the direction of a step in the place of ||x_t||^2.  So a round
here is one of two classes whose label is +1 and whose score is 1 - l_t: its hinge loss is l_t, and a mistake a round
with a loss of 1 or more.

    classes    l = 1 - (<w_y, x> - <w_s, x>), s the highest wrong class; q = 2 ||x||^2 (sec. 7)
    sets       the same with the lowest class r of the set in the place of y; 0 for an empty or a complete set
    costs      l = <w_s, x> - <w_y, x> + sqrt(cost(y, s)), s the predicted class, 0 where that is y; or s of the largest
               such loss.  u is judged by the latter (sec. 8)
    rows       l = max(0, ||w - x|| - epsilon); q = 1 (sec. 6)

The loss of u is no smaller than that with the s of the learner's round, so every bound that grows with the losses of u
holds with it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import scipy.sparse

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import label_text
from blocksvm.base.memory import Budget
from blocksvm.kernels.columns import add_rows, decision_values
from blocksvm.kernels.shuffle import windowed_order
from blocksvm.model.decision_values import decision_pieces
from blocksvm.online.loops import SetTable
from blocksvm.online.runner import Runner
from blocksvm.sources.block import Block
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import Source, blocks_of
from blocksvm.theory.theories import THEORIES
from blocksvm.training.partition import order_key

CHUNKS, ROWS = 101, 102  # kinds of orders, in their keys
CENTRES = 10  # steps towards the best centre
NO_PAIR = 1e100
SEVERAL = "more than two labels"


@dataclass(frozen=True)
class FixedWeights:
    """Weights (d + 1,), the last of the constant feature, with the certificate of their training.  floor: by it no
    weights in the learner's ball have a smaller loss."""

    name: str
    w: np.ndarray
    C: float | None = None
    status: str = ""
    rel_gap: float | None = None
    floor: float = -math.inf


class ReplayRows:
    """The rows of a source in the order of a replay, block by block, in any number of passes.

    order 'stored', or 'shuffled': chunks in random order, and the rows of each block among themselves; blocks take
    ``memory`` bytes, two of them.  Iterating gives (block, order of its rows (n,) int32, rows before it).  scales: the
    scores of scaled weights are the scaled scores; stretched: a factor of weights that are compared, too; n_vectors:
    of fixed weights; solver: settings of the batch solver that finds them; uncertified: why these need not be
    the best, or ''; sets: the learner's table of them; labelled: w has labels to predict.
    """

    scales, stretched, n_vectors, solver, uncertified = True, 1.0, 1, MappingProxyType({}), ""
    sets: SetTable | None = None
    labelled = True

    def __init__(self, source: Source, order: str = "stored", seed: int = 0, memory: int = 1 << 60):
        self.source, self.order, self.seed, self.memory = source, order, seed, memory

    def __iter__(self) -> Iterator[tuple[Block, np.ndarray, int]]:
        first = 0
        chunks = self._ordered(len(self.source.chunks), CHUNKS).astype(np.int64)
        for visit, block in enumerate(blocks_of(self.source, self.memory, chunks)):
            yield block, self._ordered(block.n_samples, ROWS, visit), first
            first += block.n_samples

    def _ordered(self, n: int, *key: int) -> np.ndarray:
        order = np.arange(n, dtype=np.int32)
        if self.order == "shuffled":
            windowed_order(order_key(self.seed, *key), np.array([n]), 0, order, np.empty(1, np.int32))
        return order

    def up_to(self, times: np.ndarray) -> Iterator[tuple[Block, np.ndarray, int, int | None]]:
        """(block, order of some of its rows, rounds before them, k where they end with round times[k], else None)."""
        k = 0
        for block, order, first in self:
            start = 0
            while start < block.n_samples:
                stop = min(block.n_samples, int(times[k]) - first)
                ended = first + stop == times[k]
                yield block, order[start:stop], first + start, k if ended else None
                k, start = k + ended, stop

    def fixed(self, tell: Callable[[str], None]) -> Iterator | None:
        """The weights to compare with, ``FixedWeights``, None where the solver finds them."""
        return None

    def targets(self, block: Block) -> np.ndarray:
        """The labels (n,) of the rounds."""
        return block.y

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        """The scores (m,) of these rows of a block by their decision values (m, k), of a learner or fixed weights."""
        return values[:, 0]

    def squares(self, block: Block) -> np.ndarray:
        """||x||^2 (n,), without the constant feature."""
        return block.sq_norms

    def scores(self, w: np.ndarray, bias: float) -> np.ndarray:
        """(T,) of fixed w (n_vectors * (d + 1),), the last entry of each vector that of the constant feature."""
        vectors, scores = w.reshape(self.n_vectors, -1), np.empty(self.source.n_samples)
        for block, order, first in self:
            of_block = np.empty(block.n_samples)
            for rows, values in decision_pieces(block.entries, vectors, bias):
                values = values.T
                if not self.labelled:
                    values = distances(values, block.sq_norms[rows][:, None], float(w @ w))
                of_block[rows] = self.margins(values, block, rows, True)
            scores[first : first + block.n_samples] = of_block[order]
        return scores


def distances(products: np.ndarray, sq_norms: np.ndarray, sq_norm: float) -> np.ndarray:
    """||u - x|| by <u, x>, ||x||^2 and ||u||^2."""
    return np.sqrt(np.maximum(0.0, sq_norm - 2.0 * products + sq_norms))


def matrix_of(block: Block) -> scipy.sparse.csr_matrix:
    """A block's rows as they lie in its memory."""
    values = np.ones(block.n_nonzeros, np.float32) if block.values is None else block.values
    return scipy.sparse.csr_matrix((values, block.indices, block.indptr), (block.n_samples, block.n_features))


def in_memory(rows: ReplayRows, n_rows: int, budget: Budget) -> Matrix:
    """The first ``n_rows`` rows in their order as a matrix; InputError where they do not fit, or are of one class."""
    source = rows.source
    share = n_rows / source.n_samples
    # while they are put together there are two copies
    budget.require("the rows in memory", int(2 * share * source.n_nonzeros * (4 + max(4, source.value_bytes))))
    parts, labels, n_read = [], [], 0
    for block, order, first in rows:
        order = order[: n_rows - first]
        parts.append(matrix_of(block)[order])
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
    times = {factor * 10**k for k in range(len(str(T))) for factor in (1, 2, 5)}
    return np.array(sorted({T} | {t for t in times if t <= T}))


def best_of_others(values: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """(m,) the largest of the values (m, k) that are not taken (m, k) bool."""
    return np.where(taken, -np.inf, values).max(axis=1)


class Classes(ReplayRows):
    """``ReplayRows`` of a task, of more than two classes; scores are 1 - l, squares q."""

    solver = MappingProxyType({"multiclass": "crammer-singer"})

    def __init__(self, runner: Runner, *of_rows):
        super().__init__(*of_rows)
        self.runner, self.n_vectors = runner, runner.n_vectors

    def targets(self, block: Block) -> np.ndarray:
        return np.ones(block.n_samples, np.int8)

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        own = np.arange(values.shape[1]) == block.y[rows][:, None]
        return values[own] - best_of_others(values, own)

    def squares(self, block: Block) -> np.ndarray:
        return 2.0 * block.sq_norms


class Sets(Classes):
    """member (m, k) bool: which classes each code of a row has."""

    solver = MappingProxyType({})
    uncertified = "each class is trained against the others"

    def __init__(self, runner: Runner, member: np.ndarray, *of_rows):
        super().__init__(runner, *of_rows)
        self.member, self.sets = member, SetTable.of(map(np.flatnonzero, member))

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        own = self.member[block.y[rows]]
        # the largest number where there is no pair: a loss of 0, however the weights are scaled
        return np.minimum(NO_PAIR, -best_of_others(-values, ~own) - best_of_others(values, own))


class Costs(Classes):
    uncertified = "it is trained without the costs"
    scales = False

    def __init__(self, runner: Runner, *of_rows):
        super().__init__(runner, *of_rows)
        self.stretched = float(runner.costs.roots.max()) or 1.0

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        y, each, costs = block.y[rows], np.arange(len(values)), self.runner.costs
        losses = values - values[each, y][:, None] + costs.roots[y]
        losses[each, y] = 0.0
        if fixed or costs.max_loss:
            return 1.0 - losses.max(axis=1)
        return 1.0 - losses[each, values.argmax(axis=1)]


class Unlabelled(Classes):
    """Rows without labels, which w predicts; values (m, 1): the distances."""

    solver = MappingProxyType({})
    uncertified = "steps towards the centre of the rows"
    scales = labelled = False

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        return 1.0 - np.maximum(0.0, values[:, 0] - self.runner.settings["epsilon"])

    def squares(self, block: Block) -> np.ndarray:
        return np.ones(block.n_samples)

    def fixed(self, tell: Callable[[str], None]) -> Iterator[FixedWeights]:
        """Fixed w (d + 1,) that lie near to the rows: their mean, and steps towards the least sum of max(0, ||w - x|| -
        epsilon), each the mean of the rows outside, weighed by 1 / ||w - x|| (Weiszfeld, Tohoku Mathematical Journal
        43, 1937)."""
        w, epsilon = np.zeros(self.source.n_features + 1), self.runner.settings["epsilon"]
        for step in range(CENTRES + 1):
            tell(f"comparator: centre {step + 1} of {CENTRES + 1}")
            total, weight = np.zeros(len(w)), 0.0
            for block, _, _ in self:
                factors = np.ones(block.n_samples)
                if step > 0:
                    decision_values(block.entries, w.reshape(-1, 1), 0.0, factors.reshape(-1, 1))
                    apart = distances(factors, block.sq_norms, float(w @ w))
                    factors = np.divide(1.0, apart, out=np.zeros(len(apart)), where=apart > epsilon)
                add_rows(block.entries, factors.reshape(-1, 1), 0.0, total.reshape(-1, 1))
                weight += float(factors.sum())
            if weight == 0.0:  # all rows lie inside
                return
            w = total / weight
            yield FixedWeights("the rows' mean" if step == 0 else f"centre {step}", w)


def task_of(runner: Runner, member: np.ndarray | None) -> Callable[..., Classes] | None:
    """What makes the rows of the runner's task, None of two classes or of numbers; member: of sets."""
    if runner.predicts_rows:
        return partial(Unlabelled, runner)
    if member is not None:
        return partial(Sets, runner, member)
    if runner.costs is not None:
        return partial(Costs, runner)
    return partial(Classes, runner) if runner.n_vectors > 1 else None


def check_task(learner: str, settings: Mapping, what: str, max_rows: int | None) -> None:
    """InputError for learners without bounds for a task, and for settings that are for two classes."""
    passive_aggressive = learner in THEORIES and THEORIES[learner].passive_aggressive
    if not (passive_aggressive or (learner == "perceptron" and what == SEVERAL)):
        which = f"{'perceptron, ' * (what == SEVERAL)}pa, pa1 and pa2"
        raise InputError(f"{learner}: with {what} regret is measured of {which}; choose one of them")
    if settings.get("learn_radius"):
        what = "begins at a weight that is not 0, and the bounds here are of learners that begin at 0"
        raise InputError(f"{option('learn_radius')}: {what}; leave it out")
    if max_rows is not None:
        raise InputError(f"{option('max_rows')}: with {what} all rows are replayed; leave it out, or split fewer rows")
