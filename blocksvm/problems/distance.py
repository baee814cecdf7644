"""Decision values that are distances of rows from w."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.kernels.columns import row_sq_norms

DISTANCE = "distance"  # under which a model's description has what ``Distance.of`` takes


@dataclass(frozen=True)
class Distance:
    """Makes ||w - x|| of <w, x>; sq_norm: ||w||^2, of all features, known to the rows or not."""

    sq_norm: float

    @classmethod
    def of(cls, description: Mapping) -> Distance | None:
        """Of a model so described; None where its decision values are no distances."""
        distance = description.get(DISTANCE)
        return None if distance is None else cls(distance["sq_norm"])

    def complete(self, matrix: tuple, rows: slice, values: np.ndarray) -> None:
        """``values`` (1, m), <w, x> of the rows ``rows`` of (indptr, indices, entries)."""
        indptr, indices, entries = matrix
        squares = np.empty(rows.stop - rows.start)
        row_sq_norms(indptr[rows.start : rows.stop + 1], indices, entries, squares)
        squares += self.sq_norm - 2.0 * values[0]
        np.sqrt(np.maximum(squares, 0.0, out=squares), out=values[0])
