"""The decision values of rows by the models that did not see them, kept as a certificate's reading passes."""

from __future__ import annotations

import numpy as np

from blocksvm.problems.several import SeveralSums
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source
from blocksvm.validation.folds import Folds


class HeldOutRows:
    """values (n_samples, n_C, classes) float64: of each row by the models of its own fold, at the weights of the last
    certificate; y (n_samples,) float64; weights (n_samples,), or None where all are 1."""

    def __init__(self, source: Source, folds: Folds, n_C: int, classes: int):
        self.folds = folds
        self.values = np.zeros((source.n_samples, n_C, classes))
        self.y = np.zeros(source.n_samples)
        self.weights = np.ones(source.n_samples) if source.weighted else None

    @staticmethod
    def n_bytes(source: Source, n_C: int) -> int:
        classes = 1 if source.labels is None or source.labels.binary else len(source.labels.values)
        return 8 * source.n_samples * (n_C * classes + 1 + source.weighted)

    def take(self, block: Block, scores: np.ndarray) -> None:
        """Keep a block's; scores (n, n_C * folds * classes)."""
        n_C, classes = self.values.shape[1:]
        by_fold = scores.reshape(block.n_samples, n_C, self.folds.count, classes)
        self.values[block.rows] = by_fold[np.arange(block.n_samples), :, self.folds.of_rows[block.rows]]
        self.y[block.rows] = block.y
        if self.weights is not None:
            self.weights[block.rows] = block.weights


class HeldOutSums(SeveralSums):
    """A certificate's sums, which keep the decision values, too."""

    def __init__(self, problem, w: np.ndarray, prior: np.ndarray | None, held: HeldOutRows):
        super().__init__(problem, w, prior)
        self.held = held

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray) -> None:
        super().add(scores, block, alpha)
        self.held.take(block, scores)
