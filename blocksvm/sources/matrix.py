"""A scipy CSR matrix in memory as a source of blocks of its own kind, so that one loop serves both."""

from __future__ import annotations

import numpy as np
from xxhash import xxh3_128

from blocksvm.errors import InputError
from blocksvm.kernels.check import INDEX_OUT_OF_RANGE, SOUND, check_entries
from blocksvm.kernels.margins import row_sq_norms
from blocksvm.kernels.shuffle import gather_rows
from blocksvm.sources.block import Arena, Block, block_bytes
from blocksvm.sources.source import ChunkTable, SourceBase, labels_of
from blocksvm.sources.store.schema import MOST_LABELS, chunk_nonzeros


class Matrix(SourceBase):
    """CSR rows with labels; a ``Source``.  Columns keep their numbers as feature ids.

    X (n, d) scipy CSR; y (n,) two distinct numbers, or None where nothing is trained.  The matrix is not copied where
    its indices are int32, sorted and without duplicates and its data float32 or float64; matrices whose data are all 1
    keep no values.  chunk_rows: first rows of the chunks, for tests and to follow a store's own; by default chunks of
    about equal nonzeros.  Raises InputError on values that are not finite, and on labels that are not numbers.
    """

    def __init__(self, X, y=None, chunk_rows: np.ndarray | None = None):
        from scipy import sparse

        if not sparse.issparse(X):
            X = sparse.csr_matrix(np.atleast_2d(np.asarray(X)))
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if X.nnz and (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        n, d = X.shape
        if n == 0:
            raise InputError("the matrix has no rows; give at least one")
        if d > np.iinfo(np.int32).max:
            raise InputError(f"the matrix has {d} columns; at most 2,147,483,647 can be held")
        self.indptr = np.ascontiguousarray(X.indptr, dtype=np.int64)
        self.indices = np.ascontiguousarray(X.indices, dtype=np.int32)
        data = X.data if X.data.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
        data = np.ascontiguousarray(data)
        self.values = None if X.nnz and (data == 1).all() else data
        code = check_entries(self.indices, self.values, d)
        if code != SOUND:
            what = "a column index is out of range" if code == INDEX_OUT_OF_RANGE else "a value is not finite"
            raise InputError(f"the matrix is not sound: {what}")
        self.sq_norms = np.empty(n)
        row_sq_norms(self.indptr, self.indices, self.values, self.sq_norms)
        labels, counts = self._label_counts(y, n)
        first = chunk_rows if chunk_rows is not None else self._cut(n)
        first = np.asarray(first, dtype=np.int64)
        last = np.append(first[1:], n)
        digest = xxh3_128()
        for array in (self.indptr, self.indices, self.values, self.codes):
            if array is not None:
                digest.update(array)
        super().__init__(
            name="the matrix",
            n_samples=n,
            n_features=d,
            n_nonzeros=int(self.indptr[-1]),
            value_bytes=0 if self.values is None else self.values.itemsize,
            max_norm=float(np.sqrt(self.sq_norms.max())),
            chunks=ChunkTable(first, last - first, self.indptr[last] - self.indptr[first]),
            labels=labels,
            label_counts=counts,
            fingerprint=digest.hexdigest(),
            in_memory=True,
        )

    def _label_counts(self, y, n: int):
        if y is None:
            self.codes = np.zeros(n, np.int16)
            return None, None
        try:
            y = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError("the labels must be numbers") from error
        if y.shape != (n,) or not np.isfinite(y).all():
            raise InputError(f"the labels must be {n} finite numbers, one a row")
        found, counts = np.unique(y, return_counts=True)
        counted = list(zip(found.tolist(), counts.tolist(), strict=True))
        labels = labels_of(counted if len(found) <= MOST_LABELS else None)
        self.codes = np.zeros(n, np.int16) if labels is None else labels.codes(y)
        return labels, counted

    def _cut(self, n: int) -> np.ndarray:
        size = chunk_nonzeros(int(self.indptr[-1]), n)
        ends = np.maximum(self.indptr[1:], np.arange(1, n + 1)) // size
        return np.flatnonzero(np.append(True, np.diff(ends) > 0))

    def working_bytes(self) -> int:
        return 0

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        first, n_rows = self.chunks.first_row[chunks], self.chunks.n_rows[chunks]
        self.cost.blocks += 1
        self.cost.nnz += int(self.chunks.nnz[chunks].sum())
        n = int(n_rows.sum())
        if n == self.n_samples and (np.diff(first) > 0).all():  # everything, as it lies: no copy
            rows = np.arange(n)
            return Block(self.indptr, self.indices, self.values, self.codes, self.sq_norms, rows, self.n_features)
        nnz = int(self.chunks.nnz[chunks].sum())
        if arena is None:
            arena = Arena(block_bytes(n, nnz, self.value_bytes))
        wanted = [(n + 1, np.int64), (n, np.float64), (n, np.int64), (n, np.int16), (nnz, np.int32)]
        if self.values is not None:
            wanted.append((nnz, self.values.dtype))
        carved = arena.carve(*wanted)
        indptr, sq_norms, rows, y, indices = carved[:5]
        values = carved[5] if self.values is not None else None
        row = 0
        for start, length in zip(first.tolist(), n_rows.tolist(), strict=True):
            rows[row : row + length] = np.arange(start, start + length)
            row += length
        indptr[0] = 0
        gather_rows(self.indptr, self.indices, self.values, rows, indptr[1:], indices, values)
        np.cumsum(indptr[1:], out=indptr[1:])
        sq_norms[:] = self.sq_norms[rows]
        y[:] = self.codes[rows]
        return Block(indptr, indices, values, y, sq_norms, rows, self.n_features)

    def help(self) -> None:
        pass

    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop, dtype=np.int64)

    def feature_id_pieces(self):
        yield 0, np.arange(self.n_features, dtype=np.int64)
