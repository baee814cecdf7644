"""Which rows without a label a learner would ask the label of, so that somebody can give it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.row_batch import RecordCounter, RowBatch


class Asking:
    """Asks with probability b / (b + |margin|), b: ``query`` (Cesa-Bianchi, Gentile, Zaniboni, JMLR 2006), by draws of
    its own, one a row without a label; of several classes the margin is that between the two best ones."""

    def __init__(self, query: float, seed: int, on_asked: Callable[[str], None]):
        self.query = query
        self.draws = np.random.default_rng((seed, 1))
        self.on_asked = on_asked

    def look(self, values: np.ndarray, rows: np.ndarray, batch: RowBatch, counter: RecordCounter) -> None:
        """At decision values (m,) or (m, k) of rows (m,) of a batch that have no label."""
        if values.ndim == 2:
            best = np.partition(values, -2, axis=1)
            values = best[:, -1] - best[:, -2]
        asked = self.draws.random(len(rows)) * (self.query + np.abs(values)) < self.query
        for record in batch.origin.records[rows[asked]].tolist():
            self.on_asked(counter.place(batch, record))
