"""The area under the ROC curve and the logarithmic loss of a stream's decision values so far."""

from __future__ import annotations

import numpy as np

from blocksvm.model.measures import RankCurve
from blocksvm.online.loops import NO_LABEL
from blocksvm.streaming.ranking_kernels import rank_rows

VALUE_BITS = 16  # of a float32 decision value: sign, exponent, and 7 bits after the leading one
RANKING_BYTES = 2 * 8 << VALUE_BITS  # of a curve
AREA_BYTES = 4 * 8 << VALUE_BITS  # while its area is computed


class Ranking:
    """Of rows of two classes, in memory that does not grow with them."""

    def __init__(self):
        self.curve = RankCurve(VALUE_BITS)
        self.rows = 0
        self.log_loss_sum = 0.0

    def add(self, values: np.ndarray, y: np.ndarray, order: np.ndarray) -> None:
        """Decision values (m,) of the rows ``order`` (m,) of labels y (n,), -1, +1 or NO_LABEL, made before the rows
        were learned from."""
        rows, loss = rank_rows(values, y, order, NO_LABEL, VALUE_BITS, self.curve.counts)
        self.log_loss_sum += loss
        self.rows += rows

    def area(self) -> float | None:
        """Under the ROC curve; None while there are rows of one class only."""
        area = self.curve.area()
        return None if area is None else area[0]

    def log_loss(self) -> float | None:
        """Mean of log(1 + e^-m) over the margins m: the values as log odds."""
        return self.log_loss_sum / self.rows if self.rows else None
