"""A matrix in memory whose rows have weights, as a store of weighted rows gives them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blocksvm.sources.matrix import Matrix


class WeightedMatrix(Matrix):
    """Rows (X, y) with weights (n,) float64; a ``Source``."""

    def __init__(self, X, y, weights, **options):
        super().__init__(X, y, **options)
        self.row_weights = np.asarray(weights, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        self.class_weight_sums = {label: float(self.row_weights[y == label].sum()) for label in np.unique(y).tolist()}

    def read_block(self, chunks, arena):
        block = super().read_block(chunks, arena)
        return replace(block, weights=self.row_weights[block.rows])
