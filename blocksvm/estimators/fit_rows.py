"""The rows that ``fit`` accepts, as sources: matrices, a store's path, or batches that may be larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, column_or_1d

from blocksvm.base.errors import InputError
from blocksvm.base.labels import numbers_of
from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.conversion.convert import SplitSettings, store_batches
from blocksvm.files.output import TemporaryFolder
from blocksvm.sources.matrix import Matrix, csr_of
from blocksvm.sources.source import Source
from blocksvm.store.reader import Store, open_store

PIECE = 1 << 18  # entries that are copied at once
FLOATS = (np.float64, np.float32)  # not converted; other dtypes become the first
MOST_COLUMNS = np.iinfo(np.int32).max


def is_store(X) -> bool:
    return isinstance(X, str | Path)


def is_batches(X, y) -> bool:
    """Whether X is an iterable of batches (X, y) or (X, y, sample_weight)."""
    if y is not None or is_store(X) or any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__")):
        return False
    if isinstance(X, list | tuple):
        first = X[0] if X else None
        return isinstance(first, tuple) and len(first) in (2, 3) and hasattr(first[0], "shape")
    return hasattr(X, "__iter__")


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
        self.n_features, self.label_dtype = None, None
        remaining = map(self._checked, batches)
        first = next(remaining, None)
        if first is None:
            raise InputError("the iterator gave no rows; give one that can be iterated again")
        self.dtype = first[0].dtype.name
        self.checked = chain([first], remaining)

    def __iter__(self) -> Iterator[RowBatch]:
        return map(self._as_rows, self.checked)

    def _checked(self, batch: tuple) -> tuple:
        if not (isinstance(batch, tuple) and len(batch) in (2, 3)):
            raise InputError("the iterator must give batches (X, y) or (X, y, sample_weight)")
        X, y, weights = (*batch, None)[:3]
        X = check_array(X, accept_sparse="csr", dtype=list(FLOATS))
        if y is None:
            raise InputError("a batch of the iterator has no labels; give (X, y)")
        y = column_or_1d(y)
        self.n_features, self.label_dtype = self.n_features or X.shape[1], self.label_dtype or y.dtype
        if X.shape[1] != self.n_features or len(y) != X.shape[0]:
            raise InputError(
                f"a batch of the iterator has {X.shape[1]} features and {len(y)} labels for {X.shape[0]} rows; "
                f"expected {self.n_features} features, and a label a row"
            )
        weights = None if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
        if weights is not None and len(weights) != len(y):
            raise InputError(f"a batch of the iterator has {len(weights)} weights for {len(y)} rows; give one a row")
        return X, y, weights

    def _as_rows(self, batch: tuple) -> RowBatch:
        X, y, weights = csr_of(batch[0]), *batch[1:]
        if (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        labels = numbers_of(y) if y.dtype.kind in "biuf" else [str(label) for label in y.tolist()]
        origin = Origin(self, None, len(y), np.arange(len(y)))
        return RowBatch(labels, X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data, origin, weights=weights)


@contextmanager
def opened_batches(batches: Batches, memory: int, temp: str | Path | None, seed: int, jobs: int) -> Iterator[Store]:
    """A temporary store of the batches, in the folder ``temp`` (None: the system's), within ``memory`` bytes, made by
    ``jobs`` threads."""
    parent = Path(tempfile.gettempdir() if temp is None else temp)
    if not parent.is_dir():
        raise InputError(f"temp={parent}: no such folder; name an existing one")
    with TemporaryFolder(parent) as folder:
        path = folder / "batches.h5"
        settings = SplitSettings(memory=memory, n_jobs=jobs, seed=seed, dtype=batches.dtype, temp=folder)
        store_batches(batches, path, settings)
        with open_store(path) as store:
            yield store


def columns_of(source: Source) -> np.ndarray | None:
    """The column (int64) of each feature of a matrix, None: its number; of a store: its id.  InputError where no matrix
    has so many."""
    if isinstance(source, Matrix):
        return source.columns
    ids = source.feature_ids(0, source.n_features)
    if len(ids) and ids.max() >= MOST_COLUMNS:
        raise InputError(
            f"{source.name}: has a feature {ids.max():,}, but estimators have a column for each id, at most "
            f"{MOST_COLUMNS:,}; split it with bits=22, or use blocksvm.fit"
        )
    return ids


def by_source(store: Store, values_of_chunk: Callable[[int], np.ndarray]) -> np.ndarray:
    """The results of ``values_of_chunk(chunk)`` for the rows of all chunks, in the order of the store's text."""
    chunks = range(len(store.chunks))
    order = np.argsort(np.concatenate([store.read_rows(chunk)["source"] for chunk in chunks]), kind="stable")
    return np.concatenate([values_of_chunk(chunk) for chunk in chunks])[order]


def rows_of_chunk(store: Store, chunk: int) -> sparse.csr_matrix:
    block = store.read_block(np.array([chunk]), None)
    values = np.ones(block.n_nonzeros) if block.values is None else block.values
    return sparse.csr_matrix((values, block.indices, block.indptr), (block.n_samples, block.n_features))


def labels_of(X) -> np.ndarray | None:
    """The labels of a store's rows in the order of its text; None of other rows."""
    if not is_store(X):
        return None
    with open_store(X) as store:
        return by_source(store, store.read_labels)
