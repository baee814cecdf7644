"""Decision values of rows in pieces of bounded size, the class that each row's values predict, and counts of these.

However many classes there are, no more than ``PIECE_VALUES`` decision values (or those of one row) are held at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from blocksvm.base.vectors import together
from blocksvm.kernels.columns import decision_values
from blocksvm.kernels.rows import Entries
from blocksvm.model.sparse_weights import WeightsByFeature
from blocksvm.problems.certificate import predicted

if TYPE_CHECKING:
    from blocksvm.problems.expansion import Expansion

Pieces = Iterator[tuple[slice, np.ndarray]]  # rows, and their decision values (k, m), or (1, m)
PIECE_VALUES = 1 << 15  # 256 kB of them


def rows_of_piece(n_classes: int) -> int:
    """Rows whose decision values, one a class (or one alone for two classes), fit in a piece."""
    return max(1, PIECE_VALUES // n_classes)


def piece_bytes(n_classes: int, further: int = 0) -> int:
    """Memory of a piece at most: its values, these by row, and once more for argmax; a class and a label a row; and
    ``further`` numbers a row."""
    more = 8 * max(PIECE_VALUES, further) if further else 0
    return 24 * max(PIECE_VALUES, n_classes) + 24 * rows_of_piece(n_classes + further) + more


def decision_pieces(
    entries: Entries, w: np.ndarray | WeightsByFeature, constant: float, completion: Expansion | None = None,
    further: int = 0,
) -> Pieces:  # fmt: skip
    """(rows, decision values (k, m) float64) of consecutive rows, in order.

    entries: of a Block, plain or packed; w (k, d + 1) float64: a vector for each class, or one alone (k = 1) for two
    classes, the constant feature's weight last; constant: the value of that feature; completion: what makes decision
    values of <w, x>, None where they are that; it is for plain rows; further: numbers that the caller makes of a row
    besides.  The values are overwritten by the next piece.  Vectors that lie side by side in memory (base/vectors.py)
    are read together, which is many times as fast.
    """
    n, k = len(entries.indptr) - 1, len(w)
    step = rows_of_piece(k + further)
    memory = np.empty(k * min(n, step))
    columns = None if isinstance(w, WeightsByFeature) else together(w)
    by_row = isinstance(w, WeightsByFeature) or columns is not None
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        piece, part = entries.of_rows(rows), memory[: k * (rows.stop - start)]
        values = part.reshape(-1, k).T if by_row else part.reshape(k, -1)
        if isinstance(w, WeightsByFeature):
            w.fill(piece, values.T)
        elif columns is not None:
            decision_values(piece, columns, constant, values.T)
        else:
            for weights, out in zip(w, values, strict=True):
                decision_values(piece, weights.reshape(-1, 1), constant, out.reshape(-1, 1))
        if completion is not None:
            completion.complete(piece, values)
        yield rows, values


def sets_of(values: np.ndarray, ranks: bool) -> np.ndarray:
    """(n, k) bool: the labels that decision values (n, k) predict of a row: those above 0; or, where they only rank
    the labels (``ranks``), the one of the largest value."""
    if not ranks:
        return values > 0.0
    first = np.zeros(values.shape, bool)
    first[np.arange(len(values)), values.argmax(axis=1)] = True
    return first


def misordered(values: np.ndarray, member: np.ndarray) -> np.ndarray:
    """(n,) int64: of each row the pairs of a label in its set and one outside whose decision values (n, k) do not put
    the first above the second; member (n, k) bool."""
    rows, positions = np.nonzero(member)
    outside, own = np.where(member, -np.inf, values), values[rows, positions]
    wrong, step = np.zeros(len(values), np.int64), rows_of_piece(values.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        np.add.at(wrong, rows[part], (outside[rows[part]] >= own[part, None]).sum(axis=1))
    return wrong


def classes_of(values: np.ndarray) -> np.ndarray:
    """The class (m,) int64 for decision values (k, m): of two classes 1 where the one value is above 0, else the
    first class of the largest value."""
    return values.argmax(axis=0) if len(values) > 1 else (values[0] > 0.0).astype(np.int64)


def count_right(pieces: Pieces, y: np.ndarray, member: np.ndarray | None, ranks: bool) -> int:
    """Rows whose label is predicted: the sign for two classes, the largest value for more.

    member (m, k) bool: what sets of labels hold, by the rows' codes y: counted are rows whose set is predicted, the
    labels of a decision value above 0; or, where the values only rank the labels, rows with every label of the set
    above all others.
    """
    correct = 0
    for rows, values in pieces:
        codes = y[rows]
        if member is None:
            right = predicted(values) == codes
        else:
            right = (
                misordered(values.T, member[codes]) == 0 if ranks else ((values.T > 0.0) == member[codes]).all(axis=1)
            )
            right &= codes >= 0
        correct += int(np.count_nonzero(right))
    return correct


def sum_squared_errors(pieces: Pieces, y: np.ndarray) -> float:
    """Sum of (z_i - y_i)^2 over the rows that have a target."""
    total = 0.0
    for rows, values in pieces:
        errors = values[0] - y[rows]
        total += float(np.square(errors[~np.isnan(errors)]).sum())
    return total


def area_under_curve(z: np.ndarray, positive: np.ndarray) -> float:
    """Of the ROC curve: the share of pairs of a positive and another row that z has in this order, ties by half; nan
    where there is no such pair."""
    positives, others = z[positive], np.sort(z[~positive])
    if not len(positives) or not len(others):
        return math.nan
    below, not_above = (np.searchsorted(others, positives, side) for side in ("left", "right"))
    return float((below + not_above).sum()) / (2.0 * len(positives) * len(others))
