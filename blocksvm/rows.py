"""RowBatch: rows as a reader gives them, whatever the format, to whoever consumes them (split, predict, stream)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Origin:
    """Where the rows of a batch came from.

    source: name of the input ('-' is standard input); fraction: of all input read so far, None where it cannot be
    known; n_records: lines (or records) of the input that the batch covers; records (n,) int64: the record of each row,
    0-based within the batch.
    """

    source: object
    fraction: float | None
    n_records: int
    records: np.ndarray


@dataclass(frozen=True)
class RowBatch:
    """Rows in compressed sparse row form, named by the user's feature ids.

    labels: (n,) float64, nan where a row has none; or, of formats that have them, a list of n strings, or of n sets
    (tuples) of numbers or strings, None where a row has none.
    indptr (n + 1,) int64 from 0; ids (nnz,) int64, ascending and unique in each row; values (nnz,) float64, already
    rounded to the dtype wanted, or None: all 1; weights (n,) float64, the importance of each row, or None: all 1.
    names: of formats whose features have names, (bytes, first (nnz,) int64, last (nnz,) int64): the name of entry k is
    bytes[first[k]:last[k]], UTF-8; or None.
    fault: (record, sentence) of the first bad record, which comes after these rows; its record is 0-based within the
    batch.  largest: the largest ||x||^2 of the rows.
    """

    labels: np.ndarray | list
    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray | None
    origin: Origin
    weights: np.ndarray | None = None
    names: tuple | None = None
    fault: tuple[int, str] | None = None
    largest: float = 0.0

    def __len__(self) -> int:
        return len(self.indptr) - 1
