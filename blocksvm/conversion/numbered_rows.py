"""Some rows of a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blocksvm.base.row_batch import RowBatch
from blocksvm.kernels.shuffle import gather_rows


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
