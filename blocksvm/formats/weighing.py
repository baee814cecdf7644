"""Inverse document frequencies: the factor of each feature's values, and a reader that multiplies by it.

Of n rows in which a feature occurs in df, the factor is ln((1 + n) / (1 + df)) + 1 ('smooth'), or ln(n / df) + 1
('plain'), as in scikit-learn's TfidfTransformer; both are counted over the rows that a model is trained on, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from blocksvm.base.row_batch import RowBatch
from blocksvm.formats.recipe import SMOOTH
from blocksvm.formats.text.text_source import TextPiece
from blocksvm.kernels.idf_loops import weigh_rows


def idf_of(counts: np.ndarray, n_rows: int, kind: str) -> np.ndarray:
    """Factors (d,) float64 of features that occur in ``counts`` (d,) of ``n_rows`` rows, in each at least once."""
    more = 1.0 if kind == SMOOTH else 0.0
    factors = counts.astype(np.float64)
    factors += more
    np.divide(n_rows + more, factors, out=factors)
    np.log(factors, out=factors)
    factors += 1.0
    return factors


@dataclass(frozen=True)
class Idf:
    """Known features: ``find(ids)`` gives the positions (int32) of ids, -1 of unknown ones; factors (d,) float64."""

    find: Callable[[np.ndarray], np.ndarray]
    factors: np.ndarray


class WeighingReader:
    """Rows of another reader, whose values it neither scales nor weighs, by known features alone: each value times its
    feature's factor, then, where the recipe says so, each row divided by its norm."""

    def __init__(self, reader, recipe, idf: Idf):
        self.reader, self.recipe, self.idf = reader, recipe, idf
        self.expansion = reader.expansion
        self.buffer = reader.buffer

    def parse(self, piece: TextPiece, buffer=None) -> RowBatch:
        """As ``Reader.parse``."""
        recipe = self.recipe
        batch = self.reader.parse(piece, buffer)
        sq_norms, positions = np.empty(len(batch)), np.empty(0 if batch.names is None else len(batch.ids), np.int64)
        rows = weigh_rows(
            batch.indptr, batch.ids, self.idf.find(batch.ids), batch.values, self.idf.factors, recipe.l2, recipe.single,
            sq_norms, positions,
        )  # fmt: skip
        nnz, names = batch.indptr[rows], batch.names
        if names is not None:
            names = names[0], names[1][positions[:nnz]], names[2][positions[:nnz]]
        largest = float(sq_norms[:rows].max(initial=0.0))
        batch = replace(batch, ids=batch.ids[:nnz], values=batch.values[:nnz], names=names, largest=largest)
        return batch.until(rows, f"values times their idf lie beyond {recipe.dtype}; scale the features")
