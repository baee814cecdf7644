"""How well a stream's decision values rank its rows so far: the area under the ROC curve, and the logarithmic loss."""

from __future__ import annotations

import numpy as np

KEPT_BITS = 16  # of a float32 decision value: sign, exponent, and 7 bits behind the leading one
BINS = 1 << KEPT_BITS


def bins_of(values: np.ndarray) -> np.ndarray:
    """Bins (m,) int64 of finite decision values (m,), rising with them: those of a bin differ by a 128th at most."""
    # 0 added: -0 and what float32 makes of tiny negative values are 0
    bits = (values.astype(np.float32) + np.float32(0.0)).view(np.uint32).astype(np.int64)
    ordered = np.where(bits >> 31, 0xFFFFFFFF - bits, bits | 0x80000000)  # as integers they are in the floats' order
    return ordered >> (32 - KEPT_BITS)


class Ranking:
    """Of rows of two classes; takes 1 MB however many rows come.

    The area is the share of pairs of a positive and a negative row whose values are in order, a pair in one bin
    counting half: it is wrong by at most half the share of the pairs that share a bin without being equal.
    """

    def __init__(self):
        self.counts = np.zeros((2, BINS), np.int64)
        self.log_loss_sum = 0.0

    def add(self, values: np.ndarray, y: np.ndarray) -> None:
        """Decision values (m,) and labels -1 or +1 (m,) of rows, made before the rows were learned from."""
        margins = np.where(y > 0, values, -values)
        self.log_loss_sum += float(np.logaddexp(0.0, -margins).sum())
        with np.errstate(over="ignore"):  # beyond float32 all are in the last bin
            bins = bins_of(values)
        for row, side in enumerate((y < 0, y > 0)):
            found, counts = np.unique(bins[side], return_counts=True)
            self.counts[row, found] += counts

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def area(self) -> float | None:
        """Under the ROC curve; None while there are rows of one class only."""
        negative, positive = self.counts.sum(axis=1).tolist()
        if not negative or not positive:
            return None
        below = np.cumsum(self.counts[0]) - 0.5 * self.counts[0]
        return float(self.counts[1] @ below) / (negative * positive)

    def log_loss(self) -> float | None:
        """Mean of log(1 + e^-m) of the margins m: what the values cost as log odds."""
        return self.log_loss_sum / self.rows if self.rows else None
