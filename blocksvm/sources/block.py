"""Blocks: the rows that are in memory at once, the one data structure of all parts.

From text to certificate, every part of blocksvm takes or gives Blocks: the store and in-memory matrices are sources
of them, solvers minimise over them, certificates and predictions sum over them.  A Block is canonical (one dtype an
array, contiguous, checked), so that each kernel is compiled once for each kind of value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels.row_arrays import Rows

ROW_BYTES = 8 + 8 + 8  # indptr, sq_norms, rows; y and weights come on top
CODE_BYTES, REAL_BYTES, WEIGHT_BYTES = 2, 8, 8  # of y as codes, of y as real numbers, of a weight
INDEX_BYTES = 4
MOST_ROWS = 2**31  # orders of a block's rows are int32


@dataclass(frozen=True, slots=True)
class Block:
    """Rows in memory, in compressed sparse row form.

    indptr (n + 1,) int64, starting at 0; indices (nnz,) int32 < n_features, ascending in each row;
    values (nnz,) float32 or float64, or None: every value is 1; y (n,) int16, +-1, or 0 .. k - 1 of more classes (0 of
    two and -1 of more where a row has none of the labels), or the place of its set of labels (-1: it has none), or
    float64 where the targets are real numbers (nan: the row has none); sq_norms (n,) float64, ||x_i||^2; rows (n,)
    int64, each row's position in its source; weights (n,) float64, each row's importance, or None: all 1.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray | None
    y: np.ndarray
    sq_norms: np.ndarray
    rows: np.ndarray
    n_features: int
    weights: np.ndarray | None = None

    def __post_init__(self):
        expected: list[tuple[np.ndarray, type]] = [(self.indptr, np.int64), (self.indices, np.int32)]
        expected += [(self.sq_norms, np.float64), (self.rows, np.int64)]
        expected.append((self.y, np.float64 if self.y.dtype == np.float64 else np.int16))
        if self.weights is not None:
            expected.append((self.weights, np.float64))
        for array, dtype in expected:
            if array.dtype != dtype or not array.flags.c_contiguous:
                raise TypeError(f"a block's array is {array.dtype}, expected contiguous {np.dtype(dtype)}")
        if self.values is not None and (
            self.values.dtype not in (np.float32, np.float64) or not self.values.flags.c_contiguous
        ):
            raise TypeError(f"a block's values are {self.values.dtype}, expected contiguous float32 or float64")

    @property
    def n_samples(self) -> int:
        return self.y.shape[0]

    @property
    def n_nonzeros(self) -> int:
        return int(self.indptr[-1])

    @property
    def matrix(self) -> tuple:
        """(indptr, indices, values), as the kernels take them."""
        return self.indptr, self.indices, self.values

    @property
    def row_arrays(self) -> Rows:
        """The arrays that kernels read."""
        return Rows(self.indptr, self.indices, self.values, self.y, self.weights, self.sq_norms)

    def __getitem__(self, rows: slice) -> Block:
        """A Block of consecutive rows; down to one row.  Entries are views, the offsets are new."""
        start, stop, step = rows.indices(self.n_samples)
        if step != 1:
            raise ValueError("a block is sliced in steps of one row")
        stop = max(start, stop)
        first, last = self.indptr[start], self.indptr[stop]
        return Block(
            indptr=self.indptr[start : stop + 1] - first,
            indices=self.indices[first:last],
            values=None if self.values is None else self.values[first:last],
            y=self.y[start:stop],
            sq_norms=self.sq_norms[start:stop],
            rows=self.rows[start:stop],
            n_features=self.n_features,
            weights=None if self.weights is None else self.weights[start:stop],
        )


class Arena:
    """Memory for one block, allocated once and filled again at each visit.

    A block of n rows and nnz entries needs ``block_bytes(n, nnz, value_bytes)``.
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
            position += n_bytes + (-n_bytes) % 64
        return arrays


def row_bytes(real: bool = False, weighted: bool = False) -> int:
    """Bytes that a row of a block takes beside its entries; real: y is float64; weighted: rows have weights."""
    return ROW_BYTES + (REAL_BYTES if real else CODE_BYTES) + (WEIGHT_BYTES if weighted else 0)


def block_bytes(n_rows: int, nnz: int, value_bytes: int, real: bool = False, weighted: bool = False) -> int:
    """Bytes that an Arena needs for a block."""
    return n_rows * row_bytes(real, weighted) + 8 + nnz * (INDEX_BYTES + value_bytes) + (7 if weighted else 6) * 64


def carve_block(
    arena: Arena | None, n: int, nnz: int, value_dtype, n_features: int, real: bool = False, weighted: bool = False
) -> Block:
    """An unfilled Block of n rows and nnz entries in the arena's memory (None: in memory of its own)."""
    if n >= MOST_ROWS:
        raise InputError(f"a block of {n:,} rows is too many; lower {option('memory')}, so that blocks are smaller")
    value_bytes = 0 if value_dtype is None else np.dtype(value_dtype).itemsize
    if arena is None:
        arena = Arena(block_bytes(n, nnz, value_bytes, real, weighted))
    y_dtype = np.float64 if real else np.int16
    wanted = [(n + 1, np.int64), (n, np.float64), (n, np.int64), (n, y_dtype), (nnz, np.int32)]
    if value_dtype is not None:
        wanted.append((nnz, value_dtype))
    if weighted:
        wanted.append((n, np.float64))
    indptr, sq_norms, rows, y, indices, *rest = arena.carve(*wanted)
    values = rest[0] if value_dtype is not None else None
    indptr[0] = 0
    return Block(indptr, indices, values, y, sq_norms, rows, n_features, rest[-1] if weighted else None)
