"""Selective sampling: the rows without a label whose label a learner would query."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.row_batch import RecordCounter, RowBatch
from blocksvm.model.asking import margins_of


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
            self.on_query(counter.place(batch, record))
