"""Counts over the rows of a store for its description: labels, weights, nonzeros and norms, added up as rows are
written."""

from __future__ import annotations

import math

import numpy as np

from blocksvm.base.labels import MOST_LABELS, STRINGS, kind_of


class RowCounts:
    """Counts over records of rows (see schema.py).  weighted: they have weights."""

    def __init__(self, weighted: bool):
        self.weighted = weighted
        self.max_sq_norm = 0.0
        self.nnz = 0
        self.label_counts: dict[float, int] | None = {}  # of labels as they are kept, see blocksvm/base/labels.py
        self.label_weights: dict[float, float] = {}
        self.total_weight = 0.0
        self.n_unlabelled = 0

    def add(self, rows: np.ndarray) -> None:
        """Count the rows of a chunk: the sums of weights are the same however the rows came."""
        self.max_sq_norm = max(self.max_sq_norm, float(rows["sq_norm"].max()))
        self.nnz += int(rows["length"].sum(dtype=np.int64))
        self.n_unlabelled += int(np.isnan(rows["label"]).sum())
        if self.weighted:
            self.total_weight += float(rows["weight"].sum())
        if self.label_counts is None:
            return
        known, place = np.unique(rows["label"], return_inverse=True)
        weights = np.bincount(place, rows["weight"]) if self.weighted else np.zeros(len(known))
        counts = zip(known.tolist(), np.bincount(place).tolist(), weights.tolist(), strict=True)
        for label, count, weight in counts:
            if not math.isnan(label):
                self.label_counts[label] = self.label_counts.get(label, 0) + count
                self.label_weights[label] = self.label_weights.get(label, 0.0) + weight
        if len(self.label_counts) > MOST_LABELS:
            self.label_counts = None

    def labels(self, table: tuple | None) -> list | None:
        """Each label with its rows, rising; None where there are too many.  table: the labels, where they are not
        numbers."""
        if self.label_counts is None:
            return None
        counts = sorted(self.label_counts.items())
        return counts if table is None else [(table[int(place)], count) for place, count in counts]

    def beyond_numbers(self, table: tuple | None, named: bool) -> dict:
        """The entries for other labels than numbers, rows without one, weights and names, where there are any."""
        description: dict = {}
        if table is not None:
            description = {"label_kind": kind_of(table[0]) if table else STRINGS, "n_labels": len(table)}
        if self.n_unlabelled:
            description["n_unlabelled"] = self.n_unlabelled
        if self.weighted:
            description |= {"weighted": True, "total_weight": self.total_weight}
            if self.label_counts is not None:
                description["label_weights"] = [self.label_weights[label] for label in sorted(self.label_counts)]
        return description | ({"named": True} if named else {})
