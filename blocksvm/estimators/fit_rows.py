"""The rows that ``fit`` accepts, as sources: matrices, a store's path, or batches that may be larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, column_or_1d

from blocksvm.base.errors import InputError
from blocksvm.base.labels import numbers_of
from blocksvm.base.outputs.temporary import scratch_folder
from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.conversion.convert import SplitSettings, store_batches
from blocksvm.store.reader import Store, open_store

PIECE = 1 << 18  # entries that are made or copied at once
FLOATS = (np.float64, np.float32)  # not converted; other dtypes become the first
MOST_COLUMNS = np.iinfo(np.int32).max


def is_store(X) -> bool:
    return isinstance(X, str | Path)


def is_batches(X, y) -> bool:
    """Whether X is an iterator of XGBoost's kind, or an iterable of batches (X, y) or (X, y, sample_weight)."""
    if y is not None or is_store(X) or any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__")):
        return False
    if callable(getattr(X, "next", None)) and callable(getattr(X, "reset", None)):
        return True
    if isinstance(X, list | tuple):
        first = X[0] if X else None
        return isinstance(first, tuple) and len(first) in (2, 3) and hasattr(first[0], "shape")
    return hasattr(X, "__iter__")


def compressed(X) -> sparse.csr_matrix:
    """A dense array (n, d), row by row in pieces, or any scipy sparse matrix as CSR, of the same float dtype."""
    if sparse.issparse(X):
        return X.tocsr()
    n, d = X.shape
    indptr = np.zeros(n + 1, np.int64)
    at_once = max(1, PIECE // max(1, d))
    pieces = [slice(start, min(start + at_once, n)) for start in range(0, n, at_once)]
    for rows in pieces:
        indptr[rows.start + 1 : rows.stop + 1] = np.count_nonzero(X[rows], axis=1)
    np.cumsum(indptr, out=indptr)
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], X.dtype)
    for rows in pieces:
        row, column = np.nonzero(X[rows])
        entries = slice(indptr[rows.start], indptr[rows.stop])
        indices[entries], values[entries] = column, X[rows][row, column]
    result = sparse.csr_matrix((n, d), dtype=X.dtype)
    result.indptr, result.indices, result.data = indptr, indices, values
    return result


def pieces_of(X) -> Iterator[slice]:
    """Runs of rows of about ``PIECE`` entries."""
    n, d = X.shape
    mean = X.nnz / max(1, n) if sparse.issparse(X) else d
    at_once = max(1, int(PIECE / max(1.0, mean)))
    for start in range(0, n, at_once):
        yield slice(start, min(start + at_once, n))


class Batches:
    """Batches of rows for a conversion, readable once; n_features, dtype and label_dtype are those of the first one.
    Raises InputError for a batch that does not fit the first."""

    name = "the iterator"

    def __init__(self, batches):
        self.batches = batches
        self.n_features: int | None = None
        self.first: tuple | None = None
        self.label_dtype = None
        self.remaining = self._batches()
        self.first = next(self.remaining, None)
        if self.first is None:
            raise InputError("the iterator gave no rows; reset it, or give one that can be iterated again")

    @property
    def dtype(self) -> str:
        return self.first[0].dtype.name

    def _batches(self) -> Iterator[tuple]:
        if hasattr(self.batches, "next"):
            self.batches.reset()
            received: list[tuple] = []
            while self.batches.next(lambda data, label=None, weight=None: received.append((data, label, weight))):
                yield from map(self._checked, received)
                received.clear()
            return
        for batch in self.batches:
            if not (isinstance(batch, tuple) and len(batch) in (2, 3)):
                raise InputError("the iterator must give batches (X, y) or (X, y, sample_weight)")
            yield self._checked(batch)

    def _checked(self, batch: tuple) -> tuple:
        X, y = check_array(batch[0], accept_sparse="csr", dtype=list(FLOATS)), batch[1]
        if y is None:
            raise InputError("a batch of the iterator has no labels; give (X, y)")
        y = column_or_1d(y)
        weights = None if len(batch) == 2 or batch[2] is None else np.asarray(batch[2], dtype=np.float64).reshape(-1)
        self.n_features = self.n_features or X.shape[1]
        self.label_dtype = self.label_dtype or y.dtype
        if X.shape[1] != self.n_features or len(y) != X.shape[0]:
            raise InputError(
                f"a batch of the iterator has {X.shape[1]} features and {len(y)} labels for {X.shape[0]} rows; "
                f"expected {self.n_features} features, and a label a row"
            )
        if weights is not None and len(weights) != len(y):
            raise InputError(f"a batch of the iterator has {len(weights)} weights for {len(y)} rows; give one a row")
        return X, y, weights

    def __iter__(self) -> Iterator[RowBatch]:
        yield self._as_rows(*self.first)
        for batch in self.remaining:
            yield self._as_rows(*batch)

    def _as_rows(self, X, y: np.ndarray, weights: np.ndarray | None) -> RowBatch:
        X = compressed(X)
        if not X.has_canonical_format or (X.data == 0).any():
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        labels = numbers_of(y) if y.dtype.kind in "biuf" else [str(label) for label in y.tolist()]
        origin = Origin(self, None, len(y), np.arange(len(y)))
        return RowBatch(labels, X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data, origin, weights=weights)


@contextmanager
def opened_batches(batches: Batches, memory: int, temp: str | Path | None, seed: int, jobs: int) -> Iterator[Store]:
    """A temporary store of the batches, in the folder ``temp`` (None: the system's), within ``memory`` bytes, made by
    ``jobs`` threads."""
    place = Path(tempfile.gettempdir() if temp is None else temp)
    if not place.is_dir():
        raise InputError(f"temp={place}: no such folder; name an existing one")
    with scratch_folder(place) as folder:
        path = folder / "batches.h5"
        store_batches(
            batches, path, SplitSettings(memory=memory, n_jobs=jobs, seed=seed, dtype=batches.dtype, temp=folder)
        )
        with open_store(path) as store:
            yield store


def columns_of(source: Store) -> np.ndarray:
    """The column (int64) of each of a store's features: its id.  InputError where no matrix has so many."""
    ids = source.feature_ids(0, source.n_features)
    if len(ids) and ids.max() >= MOST_COLUMNS:
        raise InputError(
            f"{source.name}: has a feature {ids.max():,}, but estimators have a column for each id, at most "
            f"{MOST_COLUMNS:,}; split it with bits=22, or use blocksvm.fit"
        )
    return ids


def by_source(store: Store, values_of_chunk) -> np.ndarray:
    """The results of ``values_of_chunk(chunk)`` for the rows of all chunks, in the order of the store's text."""
    sources, parts = zip(
        *((store.read_rows(chunk)["source"], values_of_chunk(chunk)) for chunk in range(len(store.chunks))), strict=True
    )
    return np.concatenate(parts)[np.argsort(np.concatenate(sources), kind="stable")]
