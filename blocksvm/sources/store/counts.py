"""What a store's description says of its rows: their labels, weights, nonzeros and norms, added up as they are
written."""

from __future__ import annotations

import numpy as np

from blocksvm.labels import MOST_LABELS, STRINGS, kind_of


class RowCounts:
    """Of rows as records (see schema.py).  weighted: they have weights."""

    def __init__(self, weighted: bool):
        self.weighted = weighted
        self.max_sq_norm = 0.0
        self.nnz = 0
        self.label_counts: dict[float, int] | None = {}  # of labels as they are kept, see blocksvm/labels.py
        self.label_weights: dict[float, float] = {}
        self.total_weight = 0.0
        self.n_unlabelled = 0

    def add(self, rows: np.ndarray) -> None:
        """Count rows, in any pieces."""
        if len(rows) == 0:
            return
        self.max_sq_norm = max(self.max_sq_norm, float(rows["sq_norm"].max()))
        self.nnz += int(rows["length"].sum(dtype=np.int64))
        labels = rows["label"][~np.isnan(rows["label"])]
        self.n_unlabelled += len(rows) - len(labels)
        if self.label_counts is not None:
            for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
                self.label_counts[float(label)] = self.label_counts.get(float(label), 0) + int(count)
            if len(self.label_counts) > MOST_LABELS:
                self.label_counts = None

    def add_weights(self, rows: np.ndarray) -> None:
        """Add up the weights of a chunk's rows, which are the same however they came."""
        if not self.weighted:
            return
        self.total_weight += float(rows["weight"].sum())
        if self.label_counts is not None:
            labels, place = np.unique(rows["label"], return_inverse=True)
            for label, total in zip(labels.tolist(), np.bincount(place, rows["weight"]).tolist(), strict=True):
                self.label_weights[label] = self.label_weights.get(label, 0.0) + total

    def labels(self, table: tuple | None) -> list | None:
        """Each label with its rows, rising; None where there are too many.  table: the labels, where they are not
        numbers."""
        if self.label_counts is None:
            return None
        counts = sorted(self.label_counts.items())
        return counts if table is None else [(table[int(place)], count) for place, count in counts]

    def beyond_numbers(self, table: tuple | None, named: bool) -> dict:
        """What the description says of labels other than numbers, rows without one, weights and names; empty where
        there are none of these."""
        found: dict = {}
        if table is not None:
            found["label_kind"] = kind_of(table[0]) if table else STRINGS
            found["n_labels"] = len(table)
        if self.n_unlabelled:
            found["n_unlabelled"] = self.n_unlabelled
        if self.weighted:
            found["weighted"] = True
            found["total_weight"] = self.total_weight
            if self.label_counts is not None:
                found["label_weights"] = [self.label_weights[label] for label in sorted(self.label_counts)]
        if named:
            found["named"] = True
        return found
