"""Which rows of a pool or stream to have labelled next: those whose label a model is least sure of, by margins.

Two classes: the least |<w, x>| (Tong, Koller, JMLR 2, 2001; Schohn, Cohn, ICML 2000).  More: the least difference of
the two best decision values.  Sets of labels: the least |decision value| of any label.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.row_batch import RecordCounter, RowBatch

ROW_BYTES = 64  # of a row that is kept: its number, its margin, and both once more while they are sorted


def margins_of(values: np.ndarray, apart: bool) -> np.ndarray:
    """(m,) by decision values (m,), or (m, k) of k classes; apart: these are of labels of which a row has any number,
    each predicted by itself."""
    if values.ndim == 1:
        return np.abs(values)
    if apart:
        return np.abs(values).min(axis=1)
    best = np.partition(values, -2, axis=1)
    return best[:, -1] - best[:, -2]


class SmallestMargins:
    """The n rows of the smallest margins among those that were added, of equal ones the first."""

    def __init__(self, n: int):
        self.n = n
        self.margins, self.rows = np.empty(0), np.empty(0, np.int64)
        self.n_added = 0

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

    One random number is drawn for each row without a label.  The margin of several classes is that between the two best
    ones.  on_query gets 'file:line' of each row.
    """

    def __init__(self, query: float, seed: int, on_query: Callable[[str], None]):
        self.query = query
        self.draws = np.random.default_rng((seed, 1))
        self.on_query = on_query

    def add(self, values: np.ndarray, rows: np.ndarray, batch: RowBatch, counter: RecordCounter) -> None:
        """Decision values (m,) or (m, k) of rows (m,) of a batch that have no label."""
        queried = self.draws.random(len(rows)) * (self.query + margins_of(values, False)) < self.query
        for record in batch.origin.records[rows[queried]].tolist():
            self.on_query(counter.location(batch, record))
