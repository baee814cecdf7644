"""Blocks: the rows that are in memory at once, the one data structure of all parts.

From text to certificate, every part of blocksvm takes or gives Blocks: the store and in-memory matrices are sources
of them, solvers minimise over them, certificates and predictions sum over them.  A Block is canonical (one dtype an
array, contiguous), so that each kernel is compiled once for each kind of value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels.rows import Entries, packed_entries
from blocksvm.sources.block_kernels import copy_rows

ROW_BYTES = 8 + 8 + 8  # indptr, sq_norms, rows; y and weights come on top
LENGTH_BYTES = 4  # of a packed row
CODE_BYTES, REAL_BYTES, WEIGHT_BYTES = 2, 8, 8  # of y as codes, of y as real numbers, of a weight
INDEX_BYTES = 4
WORD_BYTES = 8
LINE_BYTES = 64  # on whose multiples the arrays of a block begin
MOST_ROWS = 2**31  # orders of a block's rows are int32


class Block(NamedTuple):
    """Rows in memory, as kernels take them.

    entries: compressed sparse rows (plain) or packed ones, as stores have them (kernels/rows.py), whose ``indptr`` (n +
    1,) int64 starts at 0; features are < n_features, and ascending in each row.  stored_lengths (n,) int32: how many
    entries each packed row has; None of plain ones.

    y (n,) int16, +-1, or 0 .. k - 1 of more classes (0 of two and -1 of more where a row has none of the labels), or
    the position of its set of labels (-1: it has none), or float64 where the targets are real numbers (nan: the row has
    none); sq_norms (n,) float64, ||x_i||^2; rows (n,) int64, each row's position in its source; weights (n,) float64,
    each row's importance, or None: all 1.  All are contiguous.
    """

    entries: Entries
    y: np.ndarray
    sq_norms: np.ndarray
    rows: np.ndarray
    n_features: int
    weights: np.ndarray | None = None
    stored_lengths: np.ndarray | None = None

    @property
    def indptr(self) -> np.ndarray:
        return self.entries.indptr

    @property
    def indices(self) -> np.ndarray | None:
        """(nnz,) int32 of plain rows."""
        return self.entries.indices

    @property
    def values(self) -> np.ndarray | None:
        """(nnz,) float32 or float64 of plain rows; None: every value is 1."""
        return None if self.packed else self.entries.values

    @property
    def packed(self) -> bool:
        return self.entries.longs is not None

    @property
    def words(self) -> np.ndarray:
        """(m,) uint64 of packed rows."""
        assert self.entries.longs is not None
        return self.entries.longs.view(np.uint64)

    @property
    def n_samples(self) -> int:
        return self.y.shape[0]

    @property
    def lengths(self) -> np.ndarray:
        """(n,): how many entries each row has."""
        return np.diff(self.indptr) if self.stored_lengths is None else self.stored_lengths

    @property
    def n_nonzeros(self) -> int:
        return int(self.indptr[-1] if self.stored_lengths is None else self.stored_lengths.sum(dtype=np.int64))

    @property
    def matrix(self) -> tuple:
        """(indptr, indices, values) of plain rows."""
        assert not self.packed
        return self.entries[:3]

    @property
    def shape(self) -> Shape:
        values = self.entries.values
        dtype = None if values is None else values.dtype.type
        return Shape(self.packed, dtype, self.y.dtype == np.float64, self.weights is not None)

    def of_rows(self, rows: slice) -> Block:
        """Some consecutive ones: views of their entries, with offsets of their own."""
        ends = self.indptr[rows.start : rows.stop + 1]
        here, indptr = slice(int(ends[0]), int(ends[-1])), ends - ends[0]
        if self.packed:
            entries = packed_entries(indptr, self.words[here], self.shape.value_dtype)
        else:
            entries = Entries(indptr, *(None if array is None else array[here] for array in self.entries[1:3]))
        weights, lengths = (None if a is None else a[rows] for a in (self.weights, self.stored_lengths))
        return Block(entries, self.y[rows], self.sq_norms[rows], self.rows[rows], self.n_features, weights, lengths)


class Arena:
    """Memory for one block, filled again at each visit; ``Shape.block_bytes`` tells how large it must be."""

    def __init__(self, n_bytes: int):
        self.memory = np.empty(n_bytes, dtype=np.uint8)

    def carve(self, *wanted: tuple[int, type]) -> list[np.ndarray]:
        """Arrays of (length, dtype) one after the other, each on a cache line of its own."""
        arrays: list[np.ndarray] = []
        position = 0
        for length, dtype in wanted:
            n_bytes = length * np.dtype(dtype).itemsize
            arrays.append(self.memory[position : position + n_bytes].view(dtype))
            position += n_bytes + (-n_bytes) % LINE_BYTES
        return arrays


class Shape(NamedTuple):
    """What the blocks of a source consist of: packed rows or plain ones; value_dtype: of the values (None: all are 1);
    real: y is float64; weighted: rows have weights."""

    packed: bool = False
    value_dtype: type | None = None
    real: bool = False
    weighted: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes that a row of a block takes beside its entries."""
        label_bytes = REAL_BYTES if self.real else CODE_BYTES
        return ROW_BYTES + label_bytes + LENGTH_BYTES * self.packed + WEIGHT_BYTES * self.weighted

    @property
    def element_bytes(self) -> int:
        """Of a word of packed rows, of an entry of plain ones."""
        value_bytes = 0 if self.value_dtype is None else np.dtype(self.value_dtype).itemsize
        return WORD_BYTES if self.packed else INDEX_BYTES + value_bytes

    def block_bytes(self, n_rows: int, size: int) -> int:
        """Bytes that an Arena needs for a block; size: its words or entries."""
        return n_rows * self.row_bytes + 8 + size * self.element_bytes + 7 * LINE_BYTES

    def new_block(self, arena: Arena | None, n: int, size: int, n_features: int) -> Block:
        """An unfilled Block of n rows in the arena's memory (None: in memory of its own)."""
        if n >= MOST_ROWS:
            raise InputError(f"a block of {n:,} rows is too many; lower {option('memory')}, so that blocks are smaller")
        if arena is None:
            arena = Arena(self.block_bytes(n, size))
        y_dtype = np.float64 if self.real else np.int16
        wanted: list[tuple[int, type]] = [(n + 1, np.int64), (n, np.float64), (n, np.int64), (n, y_dtype)]
        wanted.append((n if self.weighted else 0, np.float64))
        if self.packed:
            wanted += [(size, np.uint64), (n, np.int32)]
        else:
            wanted += [(size, np.int32), (0 if self.value_dtype is None else size, self.value_dtype or np.float32)]
        indptr, sq_norms, rows, y, weights, elements, more = arena.carve(*wanted)
        indptr[0] = 0
        known = y, sq_norms, rows, n_features, weights if self.weighted else None
        if self.packed:
            return Block(packed_entries(indptr, elements, self.value_dtype), *known, more)
        return Block(Entries(indptr, elements, None if self.value_dtype is None else more), *known)


def rows_of(block: Block, rows: np.ndarray, arena: Arena | None = None) -> Block:
    """Copies of some rows (m,) of a block, in the arena's memory (None: in memory of its own)."""
    size = int((block.indptr[rows + 1] - block.indptr[rows]).sum())
    copies = block.shape.new_block(arena, len(rows), size, block.n_features)
    copy_rows(block, rows, copies, size)
    return copies


def joined(blocks: Sequence[Block]) -> Block:
    """The plain rows of blocks, one after the other."""
    some = [block for block in blocks if block.n_samples] or blocks[:1]
    ends = np.cumsum(np.concatenate([block.lengths for block in some]))
    arrays = [(block.indices, block.values, block.y, block.sq_norms, block.rows) for block in some]
    together: list = [None if column[0] is None else np.concatenate(column) for column in zip(*arrays, strict=True)]
    indices, values, y, sq_norms, rows = together
    return Block(Entries(np.append(0, ends), indices, values), y, sq_norms, rows, some[0].n_features)
