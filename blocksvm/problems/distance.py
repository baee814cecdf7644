"""Decision values that are distances of rows from w."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.kernels.columns import row_sq_norms
from blocksvm.kernels.rows import Entries

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

    def complete(self, entries: Entries, values: np.ndarray) -> None:
        """``values`` (1, m), <w, x> of so many plain rows."""
        squares = np.empty(values.shape[1])
        row_sq_norms(*entries[:3], squares)
        squares += self.sq_norm - 2.0 * values[0]
        np.sqrt(np.maximum(squares, 0.0, out=squares), out=values[0])
