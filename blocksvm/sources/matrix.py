"""A scipy CSR matrix in memory as a source of blocks of its own kind, so that one loop serves both."""

from os import PathLike
from typing import Self

import numpy as np
from xxhash import xxh3_128

from blocksvm.base.errors import InputError
from blocksvm.base.labels import NUMBERS, STRINGS, Coding, Labels, count_labels, encode_labels, kind_of, labels_of
from blocksvm.kernels.columns import row_sq_norms
from blocksvm.kernels.hash_table import count_small, find_small, order_by_count
from blocksvm.kernels.rows import Entries
from blocksvm.sources.block import Arena, Block, rows_of
from blocksvm.sources.block_kernels import INDEX_OUT_OF_RANGE, SOUND, check_entries
from blocksvm.sources.source import ChunkTable, Source, chunk_nonzeros

PIECE = 1 << 18  # dense entries that are compressed at once


class Matrix(Source):
    """CSR rows with labels.  Columns keep their numbers as feature ids.

    X (n, d) scipy CSR, or what else ``csr_of`` takes; y (n,) real numbers, booleans (0 and 1) or strings, nan or None
    where a row has no label, or sets (or tuples, lists) of numbers or of strings, an array (n, k) of 0 and 1, which
    rows have which of k labels, or None where nothing is trained; weights (n,) the importance of each row, 0 or more,
    or None: all 1.  The matrix is not copied where its indices are int32, sorted and without duplicates and its data
    float32 or float64; where all its data are 1 no values are kept.  chunk_rows: first rows of the chunks, for tests
    and to follow a store's own; by default chunks of about equal nonzeros.  numbered_by_frequency: the columns that
    occur are numbered by falling frequency, for which the indices are copied; which columns they are ``feature_ids``
    tells.  Raises InputError on values that are not finite, and on labels and weights that are none.

        >>> rows = blocksvm.Matrix([[0.0, 2.0], [1.0, 0.0]], ["no", "yes"], weights=[1.0, 3.0])
        >>> blocksvm.fit(rows, C=10.0).status
        'converged'
    """

    def __init__(
        self, X, y=None, chunk_rows: np.ndarray | None = None, weights=None, numbered_by_frequency: bool = False
    ):
        X = csr_of(X)
        if X.nnz and (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        n, d = X.shape
        if n == 0:
            raise InputError("the matrix has no rows; give at least one")
        if d > np.iinfo(np.int32).max:
            raise InputError(f"the matrix has {d} columns; at most 2,147,483,647 can be held")
        self.indptr = plain_array(X.indptr, np.int64)
        self.indices = plain_array(X.indices, np.int32)
        data = plain_array(X.data, X.data.dtype if X.data.dtype in (np.float32, np.float64) else np.float64)
        self.values = None if X.nnz and (data == 1).all() else data
        code = check_entries(self.indices, self.values, d)
        if code != SOUND:
            if code != INDEX_OUT_OF_RANGE:
                require_finite(X)
            raise InputError("the matrix is not sound: a column index is out of range")
        self.sq_norms, self.rows = np.empty(n), np.arange(n)
        row_sq_norms(self.indptr, self.indices, self.values, self.sq_norms)
        self.columns = None  # (d,) int64 of the features, None: their numbers
        if numbered_by_frequency:
            self.indices, self.columns = by_frequency(self.indices, d)
            d = len(self.columns)
        self.weights = _weights(weights, n)
        self.y_stored: np.ndarray = np.full(n, np.nan)
        label_table: tuple | None = None
        counts: list[tuple] | None = []
        unlabelled = n
        if y is not None:
            self.y_stored, label_table = encode_labels(y, n)
            counts, unlabelled = count_labels(self.y_stored, label_table)
        label_weights = None
        if self.weights is not None and counts is not None:
            values = [label if label_table is None else label_table.index(label) for label, _ in counts]
            label_weights = [float(self.weights[self.y_stored == value].sum()) for value in values]
        coding = Coding(labels_of(counts), label_table)
        self.y = coding.y(self.y_stored)
        if chunk_rows is None:
            ends = np.maximum(self.indptr[1:], np.arange(1, n + 1)) // chunk_nonzeros(int(self.indptr[-1]), n)
            chunk_rows = np.flatnonzero(np.append(True, np.diff(ends) > 0))
        first = np.asarray(chunk_rows, dtype=np.int64)
        last = np.append(first[1:], n)
        digest = xxh3_128()
        for array in (self.indptr, self.indices, self.columns, self.values, self.y, self.weights):
            if array is not None:
                digest.update(array.data)
        if counts is None:  # too many labels for codes
            digest.update(self.y_stored.data)
        super().__init__(
            name="the matrix", n_samples=n, n_features=d, n_nonzeros=int(self.indptr[-1]),
            value_bytes=0 if self.values is None else self.values.itemsize,
            max_norm=float(np.sqrt(self.sq_norms.max())),
            chunks=ChunkTable(first, last - first, self.indptr[last] - self.indptr[first]), coding=coding,
            label_kind=kind_of(label_table[0]) if label_table else NUMBERS if label_table is None else STRINGS,
            label_counts=counts, label_weights=label_weights, n_unlabelled=unlabelled,
            total_weight=float(n) if self.weights is None else float(self.weights.sum()),
            weighted=self.weights is not None, fingerprint=digest.hexdigest(), in_memory=True,
        )  # fmt: skip

    def reader(self, labels: Labels | None = None, real: bool = False, packed: bool = False) -> Self:
        other = super().reader(labels, real, packed)
        if other.coding is not self.coding:
            other.y = other.coding.y(self.y_stored)
        return other

    def working_bytes(self, memory: int = 0) -> int:
        return 0

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        self.cost.blocks += 1
        self.cost.nnz += int(self.chunks.nnz[chunks].sum())
        entries = Entries(self.indptr, self.indices, self.values)
        everything = Block(entries, self.y, self.sq_norms, self.rows, self.n_features, self.weights)
        if len(chunks) == len(self.chunks) and (np.diff(chunks) > 0).all():  # as it lies: no copy
            return everything
        return rows_of(everything, self.chunks.rows(chunks), arena)

    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop, dtype=np.int64) if self.columns is None else self.columns[start:stop]


def csr_of(X):
    """Rows as users give them, (n, d), as scipy CSR of float32 or float64 without duplicates, in rising order: any
    scipy sparse matrix or array, an array or a np.matrix, lists, a data frame; real numbers or booleans of any type
    and byte order (missing ones of a frame are nan).  A single row may have one dimension.  Not copied where it is one
    already.  Raises InputError for what is no matrix of numbers."""
    from scipy import sparse

    if isinstance(X, str | PathLike):
        cure = (
            "write_store makes a store of a file, open_store opens it for training, and predict_files predicts its rows"
        )
        raise InputError(f"{X}: is the name of a file, and a matrix of rows is needed; {cure}")
    if hasattr(X, "read_block"):
        cure = "predict_files predicts its rows, iterate_blocks gives its rows"
        raise InputError(f"{X.name}: is a store, and a matrix of rows is needed; {cure}")
    if not sparse.issparse(X):
        X = np.atleast_2d(_array_of(X))
        if X.ndim != 2:
            raise InputError(f"the matrix has {X.ndim} dimensions; give rows and columns")
        at_once = max(1, PIECE // max(1, X.shape[1]))  # scipy takes several times the memory of what it makes
        pieces = [sparse.csr_matrix(X[start : start + at_once]) for start in range(0, max(1, len(X)), at_once)]
        return sparse.vstack(pieces, format="csr")
    if X.ndim != 2:
        raise InputError(f"the matrix has {X.ndim} dimension; give rows and columns")
    wanted = _real(X.dtype)
    X = X.tocsr() if X.dtype == wanted else X.astype(wanted).tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _array_of(X) -> np.ndarray:
    """Dense rows as float32 or float64."""
    if np.ma.isMaskedArray(X) and np.ma.getmaskarray(X).any():
        raise InputError("the matrix has masked values; fill them, or leave their rows out")
    frame = X if hasattr(X, "dtypes") and hasattr(X, "to_numpy") else None
    if frame is not None:  # its columns of nullable types would be objects
        try:
            X = X.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            X = X.to_numpy()
    try:
        array = np.asarray(X)
        if array.ndim < 2 and array.size and isinstance(array.flat[0], str):
            raise InputError(
                "the matrix holds texts; write_store makes rows of a file of them, predict_files predicts those of a "
                "file, and load_model(path).predict(texts) those in memory"
            )
        return array.astype(_real(array.dtype), copy=False)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        if frame is not None:
            raise InputError(
                f"the column {_column_of_words(frame)} of the table holds what is no number; pandas.get_dummies(table) "
                "makes columns of 0 and 1 of words, and fit(table, label=COLUMN) takes words, and texts, as they are"
            ) from None
        raise InputError(f"the matrix holds what is no number ({str(error).splitlines()[0]}); give rows of "
                         "numbers, all of one length") from None  # fmt: skip


def _column_of_words(frame) -> str:
    """The first column of a data frame that is not made of numbers."""
    for name in frame.columns:
        try:
            np.asarray(frame[name]).astype(np.float64)
        except (TypeError, ValueError):
            return str(name)
    return str(frame.columns[0])


def _real(dtype) -> np.dtype:
    """The type that values of another one become; InputError where they are no real numbers."""
    if dtype.kind not in "biufO":
        what = "complex numbers" if dtype.kind == "c" else f"values of the type {dtype}"
        raise InputError(f"the matrix holds {what}; give real numbers")
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


def require_finite(X) -> None:
    """InputError for the first value of a CSR matrix that is not finite."""
    bad = np.flatnonzero(~np.isfinite(X.data))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        where = f"{X.data[bad[0]]} in row {row}, column {X.indices[bad[0]]}"
        raise InputError(f"the matrix is not sound: a value is not finite: {where}; fill it in, or leave the row out")


def rows_to_score(X):
    """``csr_of`` rows that are predicted; InputError also where a value is not finite or an index is no column."""
    X = csr_of(X)
    require_finite(X)
    if X.nnz and not 0 <= X.indices.min() <= X.indices.max() < X.shape[1]:
        raise InputError("the matrix is not sound: a column index is out of range")
    return X


class _SameMemory:
    """An array's memory as if it might be written, for kernels, which never write to rows; keeps it alive."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.ctypes.data, False)}


def plain_array(array: np.ndarray, dtype) -> np.ndarray:
    """The array as kernels take it, without a copy where it is so; kernels are not compiled again for arrays that may
    not be written, such as joblib's memory maps."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.writeable else np.asarray(_SameMemory(array))


def _weights(weights, n: int) -> np.ndarray | None:
    """Row weights as float64, None where all are 1; InputError where one is none."""
    if weights is None:
        return None
    try:
        weights = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("the weights must be numbers") from error
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise InputError(f"the weights must be {n} finite numbers of 0 or more, one a row")
    return None if (weights == 1.0).all() else weights


# Numbered by falling frequency, the weights that rows use most lie together in the cache.  Of equal ones the one that
# comes first comes first: the rare ones of a row, and those that rows of the same origin share, lie together, too.  A
# pass over 20 Newsgroups' words 1-3 takes 3.4 ns a nonzero where it took 6.0 with equal ones anywhere.


def by_falling_count(counts: np.ndarray) -> np.ndarray:
    """(n,) int32: positions of counts (n,) uint32 by falling count, of equal ones the smaller first."""
    order = np.empty(len(counts), np.int32)
    high = order_by_count(counts, np.empty(1 << 16, np.int64), order)
    order[:high] = order[:high][np.argsort(~counts[order[:high]], kind="stable")]
    return order


def by_frequency(indices: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """(indices, columns): int32 indices of d columns, renumbered by falling frequency, those of equal frequency as
    they come; and (m,) int64 which column each of the m that occur is."""
    numbered, small = np.empty_like(indices), np.zeros((d, 2), np.uint32)
    known = np.empty(min(d, len(indices)) + 1, np.int64)
    _, n = count_small(indices, 0, small, known, 0, numbered)
    order = by_falling_count(small[known[:n], 1])
    # of those that come, and not of all columns, so that what is looked up lies close together
    numbers = np.empty(n, np.int32)
    numbers[order] = np.arange(n, dtype=np.int32)
    find_small(numbered, numbers, numbered)
    return numbered, known[order]
