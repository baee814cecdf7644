"""The line of each row in its input, noted where rows and lines part: at comments, empty lines and the next input."""

from __future__ import annotations

import numpy as np

from blocksvm.base.row_batch import RowBatch


class LineTable:
    """Filled batch by batch; rows, lines: as a store has them (``store/tables.py``)."""

    def __init__(self):
        self.source = None
        self.records = 0  # of the input that were read before
        self.shift: int | None = None  # line less row number, of the row that came last
        self.parts: list[np.ndarray] = []
        self.n_known = 0

    @property
    def n_bytes(self) -> int:
        return 16 * self.n_known

    def add(self, first: int, batch: RowBatch) -> None:
        """The rows of a batch, whose numbers begin at ``first``."""
        origin = batch.origin
        if origin.source is not self.source:
            self.source, self.records, self.shift = origin.source, 0, None
        if len(batch):
            numbers = np.arange(first, first + len(batch))
            lines = origin.records[: len(batch)] + (self.records + 1)
            shifts = lines - numbers
            parted = np.flatnonzero(np.diff(shifts, prepend=shifts[0]))
            if self.shift != int(shifts[0]):
                parted = np.append(0, parted)
            if len(parted):
                self.parts.append(np.stack([numbers[parted], lines[parted]]))
                self.n_known += len(parted)
            self.shift = int(shifts[-1])
        self.records += origin.n_records

    def tables(self, previous: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(rows, lines), after those of the rows that were there before."""
        rows, lines = np.concatenate([np.stack(previous), *self.parts], axis=1)
        return rows, lines
