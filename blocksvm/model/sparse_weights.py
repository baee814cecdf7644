"""Weights that a model keeps one by one: of many classes, and where small ones are left out.

/sparse    ends int64 (k,), features int32 and values float64 (m,): class c has the weights ends[c - 1] .. ends[c] - 1,
           of features by their positions in /features, rising, d for the constant one
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import h5py
import numpy as np
from scipy import sparse

from blocksvm.kernels.columns import sparse_values
from blocksvm.kernels.rows import Entries
from blocksvm.store.arrays import Piecewise, read_array, read_range, write_arrays
from blocksvm.store.descriptions import ModelMeta
from blocksvm.store.hdf5_files import group

POSITIONS, WEIGHTS, ENDS = np.dtype(np.int32), np.dtype(np.float64), np.dtype(np.int64)
ENTRY_BYTES, BY_FEATURE_BYTES = 30, 12  # of a weight while it is read and put in its place, and there


@dataclass(frozen=True)
class Kept:
    """The weights that are kept of k vectors, made piece by piece: ends (k,) int64 as in the file; part(name, start,
    stop): some of the 'features' or 'values'; n_dropped: how many others there were."""

    ends: np.ndarray
    part: Callable[[str, int, int], np.ndarray]
    n_dropped: int


def kept_of(w: np.ndarray, least: float) -> Kept:
    """Of w (k, d + 1) the weights of at least this size, and that of the constant feature; none that are 0."""

    def positions(c: int) -> np.ndarray:
        kept = np.abs(w[c]) >= least if least > 0.0 else w[c] != 0.0
        kept[-1] = w[c, -1] != 0.0
        return np.flatnonzero(kept)

    ends = np.cumsum([len(positions(c)) for c in range(len(w))])

    def part(name: str, start: int, stop: int) -> np.ndarray:
        first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
        found = [(c, positions(c)) for c in range(first, last + 1)]
        begin = int(ends[first]) - len(found[0][1])
        arrays = [own if name == "features" else w[c, own] for c, own in found]
        return np.concatenate(arrays)[start - begin : stop - begin]

    return Kept(ends, part, sum(int(np.count_nonzero(v)) for v in w) - int(ends[-1]))


def kept_in(files: list[h5py.File]) -> Kept:
    """Of the classes of several models, one after the other."""
    ends = [read_array(group(file, "sparse"), "ends", ENDS, None) for file in files]
    begins = np.cumsum([0, *(own[-1] for own in ends)])

    def part(name: str, start: int, stop: int) -> np.ndarray:
        pieces = []
        for file, begin, end in zip(files, begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            low, high = max(start, begin), min(stop, end)
            if low < high:
                dtype = POSITIONS if name == "features" else WEIGHTS
                pieces.append(read_range(group(file, "sparse"), name, dtype, low - begin, high - begin))
        return np.concatenate(pieces)

    return Kept(np.concatenate([own + begin for own, begin in zip(ends, begins, strict=False)]), part, 0)


def write_sparse(file: h5py.File, kept: Kept) -> bytes:
    """Write them into a model file; returns their xxHashes."""
    n, parts = int(kept.ends[-1]), {"features": POSITIONS, "values": WEIGHTS}
    arrays = {name: Piecewise(n, dtype, partial(kept.part, name)) for name, dtype in parts.items()}
    return write_arrays(file.create_group("sparse"), arrays | {"ends": kept.ends})


def check_rows(what: str, n_columns: int, indptr: np.ndarray, indices: np.ndarray, *numbers: np.ndarray) -> None:
    """ValueError where the arrays of sparse rows, as CSR has them, contradict each other, or a number is not finite."""
    sound = indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all()
    sound &= all(np.isfinite(array).all() for array in numbers)
    if not sound or (len(indices) and not (0 <= indices.min() and indices.max() < n_columns)):
        raise ValueError(f"its {what} contradict each other")


def read_sparse(file: h5py.File, meta: ModelMeta) -> sparse.csr_matrix:
    """(k, d + 1): of each vector of weights those that are kept; ValueError where they are damaged."""
    assert meta.sparse is not None
    arrays, m, k, width = group(file, "sparse"), meta.sparse.n_weights, meta.n_vectors, meta.n_features + 1
    ends = np.append(0, read_array(arrays, "ends", ENDS, k))
    features, values = read_array(arrays, "features", POSITIONS, m), read_array(arrays, "values", WEIGHTS, m)
    check_rows("sparse weights", width, ends, features, values)
    return sparse.csr_matrix((values, features, ends), shape=(k, width))


class WeightsByFeature:
    """The weights of k classes, of each feature those that are not 0, as rows are scored by them."""

    def __init__(self, weights: sparse.csr_matrix, intercepts: np.ndarray, n_features: int):
        """weights (k, d); n_features: d or more."""
        k = weights.shape[0]
        by_feature = sparse.csr_matrix((weights.data, weights.indices, weights.indptr), (k, n_features)).tocsc()
        self.intercepts, self.shape = intercepts, (k, n_features)
        self.arrays = by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32), by_feature.data

    def __len__(self) -> int:
        return len(self.intercepts)

    def fill(self, entries: Entries, values: np.ndarray) -> None:
        sparse_values(entries, *self.arrays, self.intercepts, values)
