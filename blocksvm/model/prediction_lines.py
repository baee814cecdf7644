"""Predictions as lines of text, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from blocksvm.base.labels import Labels, label_text
from blocksvm.model.decision_values import classes_of
from blocksvm.model.model_file import labels_predicted

AT_ONCE = 8_192  # numbers, or labels, of a piece: some 1 MB of text


def number_lines(numbers: np.ndarray) -> Iterator[str]:
    """Of numbers (n,) or (n, k), with all their digits."""
    values = numbers.reshape(len(numbers), -1)
    step = max(1, AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        yield "".join([" ".join([f"{v:.17g}" for v in row]) + "\n" for row in values[start : start + step].tolist()])


def label_lines(
    labels: Sequence, classes: np.ndarray, values: Any, sets: bool = False, ranks: bool = False
) -> Iterator[str]:
    """Of the labels at these positions (n,) among ``labels``; sets: of the sets that decision values (n, k) predict."""
    step = max(1, AT_ONCE // len(labels)) if sets else AT_ONCE
    lines = [label_text(label) + "\n" for label in labels]
    for start in range(0, len(classes), step):
        part = slice(start, start + step)
        if sets:
            predicted = labels_predicted(values[part], labels, True, ranks)
            yield "".join([label_text(label_set) + "\n" for label_set in predicted])
        else:
            yield "".join([lines[c] for c in classes[part].tolist()])


class Predictions:
    """Writes predictions of a stream, each made before its row is learned from, by ``write(text)``; scores: decision
    values, one a class, in the place of labels, as always where these are numbers; sets: labels are sets, of those with
    a decision value above 0."""

    def __init__(self, write: Callable[[str], None], scores: bool, sets: bool = False):
        self.write, self.scores, self.sets = write, scores, sets
        self.rows = 0

    def add(self, values: np.ndarray, labels: Labels | None) -> None:
        """Of consecutive rows: values (m,) or (m, k); labels: None where they are numbers."""
        if self.scores or labels is None:
            lines = number_lines(values)
        else:
            lines = label_lines(labels.values, classes_of(np.atleast_2d(values.T)), values, self.sets)
        for text in lines:
            self.write(text)
        self.rows += len(values)
