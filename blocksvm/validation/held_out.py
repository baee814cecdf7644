"""The decision values of rows by the models that did not see them, kept as the readings of certificates pass by."""

from __future__ import annotations

import numpy as np

from blocksvm.problems.several import SeveralSums
from blocksvm.sources.block import Block
from blocksvm.validation.folds import Folds


class HeldOutSums(SeveralSums):
    """A certificate's sums; values (n_samples, n_C, classes) float64 gains, for each row, the decision values by the
    models of its own fold."""

    def __init__(self, problem, w: np.ndarray, prior: np.ndarray | None, folds: Folds, values: np.ndarray):
        super().__init__(problem, w, prior)
        self.folds, self.values = folds, values

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray) -> None:
        super().add(scores, block, alpha)
        _, n_C, classes = self.values.shape
        by_fold = scores.reshape(block.n_samples, n_C, self.folds.count, classes)
        self.values[block.rows] = by_fold[np.arange(block.n_samples), :, self.folds.of_rows[block.rows]]
