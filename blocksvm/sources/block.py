"""Blocks: the rows that are in memory at once, the one data structure of all parts.

From text to certificate, every part of blocksvm takes or gives Blocks: the store and in-memory matrices are sources
of them, solvers minimise over them, certificates and predictions sum over them.  A Block is canonical (one dtype an
array, contiguous, checked), so that each kernel is compiled once for each kind of value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels.rows import BlockRows, Entries, packed_entries
from blocksvm.sources.block_kernels import copy_rows

ROW_BYTES = 8 + 8 + 8  # indptr, sq_norms, rows; y and weights come on top
LENGTH_BYTES = 4  # of a packed row
CODE_BYTES, REAL_BYTES, WEIGHT_BYTES = 2, 8, 8  # of y as codes, of y as real numbers, of a weight
INDEX_BYTES = 4
WORD_BYTES = 8
LINE_BYTES = 64  # on whose multiples the arrays of a block begin
MOST_ROWS = 2**31  # orders of a block's rows are int32


@dataclass(frozen=True, slots=True)
class Block:
    """Rows in memory, as compressed sparse rows (plain) or packed, as stores have them (kernels/rows.py).

    indptr (n + 1,) int64, starting at 0: where a row's entries, or its words, begin and those of the last end.  Plain:
    indices (nnz,) int32 < n_features, ascending in each row; values (nnz,) float32 or float64, or None: every value is
    1.  Packed: these are None; words (m,) uint64; value_dtype: of the values in them, None where every value is 1;
    stored_lengths (n,) int32, how many entries each row has.

    y (n,) int16, +-1, or 0 .. k - 1 of more classes (0 of two and -1 of more where a row has none of the labels), or
    the position of its set of labels (-1: it has none), or float64 where the targets are real numbers (nan: the row has
    none); sq_norms (n,) float64, ||x_i||^2; rows (n,) int64, each row's position in its source; weights (n,) float64,
    each row's importance, or None: all 1.
    """

    indptr: np.ndarray
    indices: np.ndarray | None
    values: np.ndarray | None
    y: np.ndarray
    sq_norms: np.ndarray
    rows: np.ndarray
    n_features: int
    weights: np.ndarray | None = None
    words: np.ndarray | None = None
    stored_lengths: np.ndarray | None = None
    value_dtype: type | None = None

    def __post_init__(self):
        expected: list[tuple[np.ndarray | None, type]] = [(self.indptr, np.int64), (self.indices, np.int32)]
        expected += [(self.sq_norms, np.float64), (self.rows, np.int64), (self.weights, np.float64)]
        expected += [(self.words, np.uint64), (self.stored_lengths, np.int32)]
        expected.append((self.y, np.float64 if self.y.dtype == np.float64 else np.int16))
        for array, dtype in expected:
            if array is not None and (array.dtype != dtype or not array.flags.c_contiguous):
                raise TypeError(f"a block's array is {array.dtype}, expected contiguous {np.dtype(dtype)}")
        if self.values is not None and (
            self.values.dtype not in (np.float32, np.float64) or not self.values.flags.c_contiguous
        ):
            raise TypeError(f"a block's values are {self.values.dtype}, expected contiguous float32 or float64")

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
        assert self.words is None
        return self.indptr, self.indices, self.values

    @property
    def entries(self) -> Entries:
        """The entries as kernels take them, plain or packed."""
        if self.words is None:
            return Entries(self.indptr, self.indices, self.values)
        return packed_entries(self.indptr, self.words, self.value_dtype)

    @property
    def row_arrays(self) -> BlockRows:
        """The arrays that kernels read."""
        return BlockRows(self.entries, self.y, self.weights, self.sq_norms)

    def __getitem__(self, rows: slice) -> Block:
        """A Block of consecutive rows; down to one row.  Entries are views, the offsets are new."""
        start, stop, step = rows.indices(self.n_samples)
        if step != 1:
            raise ValueError("a block is sliced in steps of one row")
        stop = max(start, stop)
        first, last = int(self.indptr[start]), int(self.indptr[stop])

        def cut(array: np.ndarray | None, start: int = start, stop: int = stop) -> np.ndarray | None:
            return None if array is None else array[start:stop]

        return Block(
            self.indptr[start : stop + 1] - first, cut(self.indices, first, last), cut(self.values, first, last),
            self.y[start:stop], self.sq_norms[start:stop], self.rows[start:stop], self.n_features, cut(self.weights),
            cut(self.words, first, last), cut(self.stored_lengths), self.value_dtype,
        )  # fmt: skip


class Arena:
    """Memory for one block, allocated once and filled again at each visit.

    How large it must be ``Shape.block_bytes`` tells.
    """

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
            return Block(indptr, None, None, *known, elements, more, self.value_dtype)
        return Block(indptr, elements, None if self.value_dtype is None else more, *known)


def arrays_of(block: Block) -> tuple[tuple, np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """((indptr, elements, y, sq_norms, rows), values, weights, lengths), as kernels that copy rows take them; elements:
    indices or, of packed rows, words."""
    elements, values = (block.indices, block.values) if block.words is None else (block.words, None)
    of_rows = block.indptr, elements, block.y, block.sq_norms, block.rows
    return of_rows, values, block.weights, block.stored_lengths


def rows_of(block: Block, rows: np.ndarray, arena: Arena | None = None) -> Block:
    """Copies of some rows (m,) of a block, in the arena's memory (None: in memory of its own)."""
    size = int((block.indptr[rows + 1] - block.indptr[rows]).sum())
    packed, values = block.words is not None, block.values
    value_dtype = block.value_dtype if packed else None if values is None else values.dtype.type
    shape = Shape(packed, value_dtype, block.y.dtype == np.float64, block.weights is not None)
    copies = shape.new_block(arena, len(rows), size, block.n_features)
    assert copy_rows(*arrays_of(block), rows, *arrays_of(copies), size)
    return copies


def joined(blocks: Sequence[Block]) -> Block:
    """The plain rows of blocks, one after the other."""
    some = [block for block in blocks if block.n_samples] or blocks[:1]
    ends = np.cumsum(np.concatenate([block.lengths for block in some]))
    arrays = [(block.indices, block.values, block.y, block.sq_norms, block.rows) for block in some]
    together: list = [None if column[0] is None else np.concatenate(column) for column in zip(*arrays, strict=True)]
    indices, values, y, sq_norms, rows = together
    return Block(np.append(0, ends), indices, values, y, sq_norms, rows, some[0].n_features)
