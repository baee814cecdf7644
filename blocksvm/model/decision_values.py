"""Decision values of rows in pieces of bounded size; what they predict, how surely, and as lines of text.

However many classes there are, no more than ``PIECE_VALUES`` decision values (or those of one row) are held at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blocksvm.base.labels import label_text
from blocksvm.base.row_batch import RecordCounter, RowBatch
from blocksvm.base.vectors import together
from blocksvm.kernels.columns import decision_values
from blocksvm.kernels.rows import Entries
from blocksvm.model.sparse_weights import WeightsByFeature
from blocksvm.problems.certificate import predicted

if TYPE_CHECKING:
    from blocksvm.problems.kernel_problem import Expansion

Pieces = Iterator[tuple[slice, np.ndarray]]  # rows, and their decision values (k, m), or (1, m)
PIECE_VALUES = 1 << 15  # 256 kB of them
MARGIN_BYTES = 64  # of a row that is kept: its number, its margin, and both once more while they are sorted
AT_ONCE = 8_192  # numbers, or labels, of a piece of lines: some 1 MB of text


def rows_of_piece(n_classes: int) -> int:
    """Rows whose decision values, one a class (or one alone for two classes), fit in a piece."""
    return max(1, PIECE_VALUES // n_classes)


def piece_bytes(n_classes: int, further: int = 0) -> int:
    """Memory of a piece: its values, these by row and for argmax; a class and a label, and further numbers, a row."""
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
    besides.  The values are overwritten by the next piece.  Vectors that lie side by side are read together.
    """
    n, k, step = len(entries.indptr) - 1, len(w), rows_of_piece(len(w) + further)
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
    """(n, k) bool: the labels that decision values (n, k) predict: those above 0; where they only rank, the first."""
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
    """The class (m,) int64 of decision values (k, m): of two 1 where the one is above 0, else the first largest's."""
    return values.argmax(axis=0) if len(values) > 1 else (values[0] > 0.0).astype(np.int64)


def margins_of(values: np.ndarray, apart: bool) -> np.ndarray:
    """(m,) by decision values (m,), or (m, k) of k classes: how sure a model is of a row's label.

    Two classes: |<w, x>| (Tong, Koller, JMLR 2, 2001; Schohn, Cohn, ICML 2000).  More: the difference of the two best
    decision values.  Labels of which a row has any number (apart): the least |decision value| of any label.
    """
    if values.ndim == 1:
        return np.abs(values)
    if apart:
        return np.abs(values).min(axis=1)
    best = np.partition(values, -2, axis=1)
    return best[:, -1] - best[:, -2]


class SmallestMargins:
    """The n rows of the smallest margins among those that were added, of equal ones the first."""

    def __init__(self, n: int):
        self.n, self.n_added = n, 0
        self.margins, self.rows = np.empty(0), np.empty(0, np.int64)

    def add(self, margins: np.ndarray, rows: np.ndarray) -> None:
        """Rows of these margins and numbers (m,), which rise from call to call."""
        self.n_added += len(rows)
        if len(self.rows) == self.n:
            near = margins < self.margins[-1]
            margins, rows = margins[near], rows[near]
        margins, rows = np.append(self.margins, margins), np.append(self.rows, rows)
        first = np.argsort(margins, kind="stable")[: self.n]
        self.margins, self.rows = margins[first], rows[first]


class LabelQueries:
    """Queries a label with probability b / (b + |margin|), b: ``query`` (Cesa-Bianchi, Gentile, Zaniboni, JMLR 2006).

    One random number is drawn for each row without a label.  on_query gets 'file:line' of each row.
    """

    def __init__(self, query: float, seed: int, on_query: Callable[[str], None]):
        self.query, self.on_query, self.draws = query, on_query, np.random.default_rng((seed, 1))

    def add(self, values: np.ndarray, rows: np.ndarray, batch: RowBatch, counter: RecordCounter) -> None:
        """Decision values (m,) or (m, k) of rows (m,) of a batch that have no label."""
        queried = self.draws.random(len(rows)) * (self.query + margins_of(values, False)) < self.query
        for record in batch.origin.records[rows[queried]].tolist():
            self.on_query(counter.location(batch, record))


def count_right(pieces: Pieces, y: np.ndarray, member: np.ndarray | None, ranks: bool) -> int:
    """Rows whose label is predicted: the sign for two classes, the largest value for more.  member (m, k) bool: what
    sets of labels hold, by the rows' codes y: counted are rows whose set is that of the values above 0; or, where
    values only rank the labels, rows with every label of the set above all others."""
    correct = 0
    for rows, values in pieces:
        codes = y[rows]
        if member is None:
            right = predicted(values) == codes
        elif ranks:
            right = (codes >= 0) & (misordered(values.T, member[codes]) == 0)
        else:
            right = (codes >= 0) & ((values.T > 0.0) == member[codes]).all(axis=1)
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
    """Of the ROC curve: the share of pairs of a positive and another row in z's order, ties by half; nan: no pairs."""
    positives, others = z[positive], np.sort(z[~positive])
    if not len(positives) or not len(others):
        return math.nan
    below, not_above = (np.searchsorted(others, positives, side) for side in ("left", "right"))
    return float((below + not_above).sum()) / (2.0 * len(positives) * len(others))


def labels_predicted(values: np.ndarray, labels: tuple, sets: bool = False, ranks: bool = False) -> np.ndarray:
    """Labels (n,) for decision values (n,) of two classes or (n, k) of more; without labels the values themselves.
    sets: (n,) objects, the tuples of the labels that ``sets_of`` predicts."""
    if not labels:
        return values
    if sets:
        tuples = np.empty(len(values), dtype=object)
        tuples[:] = [tuple(labels[c] for c in np.flatnonzero(row).tolist()) for row in sets_of(values, ranks)]
        return tuples
    return np.array(labels)[classes_of(np.atleast_2d(values.T))]


def number_lines(numbers: np.ndarray) -> Iterator[str]:
    """Of numbers (n,) or (n, k), with all their digits."""
    values = numbers.reshape(len(numbers), -1)
    step = max(1, AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        yield "".join([" ".join([f"{v:.17g}" for v in row]) + "\n" for row in values[start : start + step].tolist()])


def prediction_lines(
    labels: Sequence, values: Any, classes: np.ndarray | None = None, sets: bool = False, ranks: bool = False
) -> Iterator[str]:
    """Of predictions by decision values (n,) or (n, k): without ``labels`` these values; else the labels at the
    positions ``classes`` (n,) among them (None: as the values say), or the sets that ``sets_of`` predicts."""
    if not labels:
        yield from number_lines(values)
        return
    step = max(1, AT_ONCE // len(labels)) if sets else AT_ONCE
    lines = [label_text(label) + "\n" for label in labels]
    for start in range(0, len(values if classes is None else classes), step):
        part = slice(start, start + step)
        if sets:
            yield "".join([label_text(one) + "\n" for one in labels_predicted(values[part], labels, True, ranks)])
        else:
            codes = classes_of(np.atleast_2d(values[part].T)) if classes is None else classes[part]
            yield "".join([lines[c] for c in codes.tolist()])
