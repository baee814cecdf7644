"""Lists of candidates from another program: some outputs of each sentence with features, one of them to be chosen.

rho(i, y') is how far the candidate's quality lies below that of the best candidate of its list, which is the gold one.
"""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.sparse_rows import row_products
from blocksvm.structured.output_structure import Row, Structure


class CandidateLists(Structure):
    """Lists held as arrays.

    bounds (n_lists + 1,) int64: list i is the candidates bounds[i]:bounds[i + 1]; indptr (n_candidates + 1,) int64,
    indices (nnz,) int64, rising within a candidate, values (nnz,) float64: their features; quality (n_candidates,)
    float64, the more the better, or None.  An output is one number, the candidate's within its list.
    """

    oracle_sets = True

    def __init__(self, bounds, indptr, indices, values, quality, n_features: int):
        self.bounds, self.indptr, self.indices, self.values = bounds, indptr, indices, values
        self.quality = quality
        self.n_examples = len(bounds) - 1
        self.n_weights = n_features

    def choices(self, i):
        return int(self.bounds[i + 1] - self.bounds[i])

    def qualities(self, i: int) -> np.ndarray:
        return self.quality[self.bounds[i] : self.bounds[i + 1]]

    def gold(self, i):
        return _one(np.argmax(self.qualities(i)))

    def oracles(self, i, m):
        return [_one(j) for j in np.argsort(-self.qualities(i), kind="stable")[:m]]

    def loss(self, i, output):
        qualities = self.qualities(i)
        return float(qualities.max() - qualities[output[0]])

    def features(self, i, output):
        start, stop = self.indptr[self.bounds[i] + output[0] :][:2]
        return Row(self.indices[start:stop], self.values[start:stop])

    def scores(self, w: np.ndarray, i: int) -> np.ndarray:
        """(n_candidates of the list,) float64"""
        scores = np.empty(self.choices(i))
        row_products(self.indptr, self.indices, self.values, self.bounds[i], w, scores)
        return scores

    def best(self, w, i):
        return _one(np.argmax(self.scores(w, i)))

    def most_violating(self, w, i):
        return _one(np.argmax(self.scores(w, i) - self.qualities(i)))

    def k_best(self, w, i, k):
        return [_one(j) for j in np.argsort(-self.scores(w, i), kind="stable")[:k]]


def _one(number) -> np.ndarray:
    return np.array([number], np.int32)
