"""The rows of a replay: in their order, block by block, or as a matrix in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType

import numpy as np
import scipy.sparse

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import label_text
from blocksvm.base.memory import Budget
from blocksvm.kernels.shuffle import windowed_order
from blocksvm.model.decision_values import decision_pieces
from blocksvm.online.loops import SetTable
from blocksvm.sources.block import Block
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import Source, blocks_of
from blocksvm.training.partition import order_key

CHUNKS, ROWS = 101, 102  # kinds of orders, in their keys


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
        shuffled, first = self.order == "shuffled", 0
        chunks = np.arange(len(self.source.chunks), dtype=np.int32)
        if shuffled:
            shuffle(order_key(self.seed, CHUNKS), chunks)
        for visit, block in enumerate(blocks_of(self.source, self.memory, chunks.astype(np.int64))):
            order = np.arange(block.n_samples, dtype=np.int32)
            if shuffled:
                shuffle(order_key(self.seed, ROWS, visit), order)
            yield block, order, first
            first += block.n_samples

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
        """The scores (T,) of fixed w (n_vectors * (d + 1),), the last entry of each vector that of the constant
        feature."""
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


def shuffle(key: np.uint64, out: np.ndarray) -> None:
    windowed_order(key, np.array([len(out)]), 0, out, np.empty(1, np.int32))


def matrix_of(block: Block) -> scipy.sparse.csr_matrix:
    """A block's rows as they lie in its memory."""
    values = np.ones(block.n_nonzeros, np.float32) if block.values is None else block.values
    return scipy.sparse.csr_matrix((values, block.indices, block.indptr), (block.n_samples, block.n_features))


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
    times = {T}
    scale = 1
    while scale <= T:
        times |= {factor * scale for factor in (1, 2, 5) if factor * scale <= T}
        scale *= 10
    return np.array(sorted(times))
