"""Held-out accuracy while training: another store's rows, matched by feature id and label value."""

from __future__ import annotations

import numpy as np

from blocksvm.block import Arena
from blocksvm.errors import InputError
from blocksvm.ingest.ids import IdIndex
from blocksvm.kernels.margins import decision_values
from blocksvm.outer.budget import Budget
from blocksvm.store.source import Labels, Source, bytes_of_blocks


class HeldOut:
    """A second source to score after each outer iteration, one chunk at a time."""

    def __init__(self, source: Source, labels: Labels, budget: Budget):
        counts = source.label_counts
        if counts is None or not any(label in (labels.negative, labels.positive) for label, _ in counts):
            raise InputError(
                f"{source.name}: has no row labelled {labels.negative:g} or {labels.positive:g}, "
                "as the training rows are; name a store of the same classes"
            )
        self.source = source
        source.labels = labels
        most_rows, most_nnz = int(source.chunks.n_rows.max()), int(source.chunks.nnz.max())
        self.arena_bytes = bytes_of_blocks(source, most_rows, most_nnz)
        # the mapping, the weights, and while these are gathered the known positions and their weights
        need = self.arena_bytes + 16 * most_rows + (4 + 8 + 1 + 4 + 8) * (source.n_features + 1)
        need += source.working_bytes() + 120 * len(source.chunks)
        budget.require("held-out rows", need)
        budget.take("held-out rows", need)
        self.mapping = np.empty(0, np.int32)

    def match(self, train: Source, budget: Budget) -> None:
        """Find each held-out feature among the training features (before the blocks are allocated)."""
        budget.require("matching of held-out features", IdIndex.n_bytes(train.n_features))
        index = IdIndex(train.n_features).fill(train.feature_id_pieces())
        self.mapping = np.empty(self.source.n_features, np.int32)
        for start, ids in self.source.feature_id_pieces():
            self.mapping[start : start + len(ids)] = index.find(ids)
        self.arena = Arena(self.arena_bytes)

    def accuracy(self, w: np.ndarray, bias: float) -> float:
        """Share of the held-out rows whose label is predicted; unseen features count nothing."""
        own = np.zeros(self.source.n_features + 1)
        known = self.mapping >= 0
        own[:-1][known] = w[self.mapping[known]]
        own[-1] = w[-1]
        correct = 0
        for chunk in range(len(self.source.chunks)):
            block = self.source.read_block(np.array([chunk]), self.arena)
            scores = np.empty(block.n_samples)
            decision_values(*block.matrix, own, bias, scores)
            correct += int(np.count_nonzero(np.where(scores > 0.0, 1, -1) == block.y))
        return correct / self.source.n_samples
