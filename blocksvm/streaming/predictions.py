"""Predictions of a stream, line by line: each row's label, or its decision values, before it is learned from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.labels import Labels, label_text
from blocksvm.model.decision_values import classes_of
from blocksvm.model.model_file import labels_predicted
from blocksvm.model.prediction_lines import label_lines, number_lines


class Predictions:
    """Writes predictions by ``write(text)``; scores: decision values, one a class, in the place of labels, as always
    where these are numbers; sets: labels are sets, of those with a decision value above 0."""

    def __init__(self, write: Callable[[str], None], scores: bool, sets: bool = False):
        self.write = write
        self.scores = scores
        self.sets = sets
        self.rows = 0

    def add(self, values: np.ndarray, labels: Labels | None) -> None:
        """Of consecutive rows: values (m,) or (m, k); labels: None where they are numbers."""
        if self.scores or labels is None:
            lines = number_lines(values)
        elif self.sets:
            lines = (label_text(label_set) + "\n" for label_set in labels_predicted(values, labels.values, sets=True))
        else:
            lines = label_lines(classes_of(np.atleast_2d(values.T)), labels.values)
        for text in lines:
            self.write(text)
        self.rows += len(values)
