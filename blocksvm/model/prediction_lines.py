"""Predictions as lines of text, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from blocksvm.base.labels import label_text

AT_ONCE = 8_192  # numbers, or labels, of a piece: some 1 MB of text


def number_lines(numbers: np.ndarray) -> Iterator[str]:
    """Of numbers (n,) or (n, k), with all their digits."""
    values = numbers.reshape(len(numbers), -1)
    step = max(1, AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        yield "".join([" ".join([f"{v:.17g}" for v in row]) + "\n" for row in values[start : start + step].tolist()])


def label_lines(classes: np.ndarray, labels: Sequence) -> Iterator[str]:
    """Of the labels at these places (n,) among ``labels``."""
    lines = [label_text(label) + "\n" for label in labels]
    for start in range(0, len(classes), AT_ONCE):
        yield "".join([lines[c] for c in classes[start : start + AT_ONCE].tolist()])
