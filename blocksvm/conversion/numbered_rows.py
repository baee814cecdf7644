"""Rows whose ids are numbered, and some rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from blocksvm.base.row_batch import RowBatch
from blocksvm.kernels.shuffle import gather_rows


@dataclass(frozen=True)
class NumberedBatch(RowBatch):
    """Rows whose ``ids`` (nnz,) int32 are places in ``distinct`` (d,) int64, their ids in order of first occurrence,
    each of which occurs ``counts`` (d,) uint32 times; names: of the distinct ids."""

    distinct: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))

    def plain(self) -> RowBatch:
        """The same rows by their ids."""
        names = self.names
        if names is not None:
            names = names[0], names[1][self.ids], names[2][self.ids]
        return RowBatch(
            self.labels, self.indptr, self.distinct[self.ids], self.values, self.origin, self.weights, names,
            self.fault, notes=self.notes,
        )  # fmt: skip


def rows_of(batch: RowBatch, order: np.ndarray) -> RowBatch:
    """The rows of a batch in ``order``."""
    lengths = np.empty(len(order), np.int64)
    nnz = int(np.diff(batch.indptr)[order].sum())
    ids = np.empty(nnz, np.int64)
    values = None if batch.values is None else np.empty(nnz, batch.values.dtype)
    _, ones = gather_rows(batch.indptr, batch.ids, batch.values, order, lengths, ids, values)
    indptr = np.append(0, np.cumsum(lengths))
    names = batch.names
    if names is not None:
        entries = np.arange(nnz) + np.repeat(batch.indptr[order] - indptr[:-1], lengths)
        names = (names[0], names[1][entries], names[2][entries])
    labels = batch.labels
    labels = labels[order] if isinstance(labels, np.ndarray) else [labels[row] for row in order.tolist()]
    weights = None if batch.weights is None else batch.weights[order]
    values = None if ones else values
    return replace(batch, labels=labels, indptr=indptr, ids=ids, values=values, weights=weights, names=names)
