"""THE objective of all benchmarks: P(w) = 1/2 ||w||^2 + C sum_i max(0, 1 - y_i <w, x_i>), no bias; and accuracy.

numpy and scipy only, nothing of any solver that is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy import sparse

PIECE = 4_000_000  # entries that are multiplied at a time


@dataclass(frozen=True)
class Rows:
    """CSR rows whose columns are feature ids: indptr (n + 1,) int64, indices int32, values, y (n,) of +-1."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    y: np.ndarray

    @classmethod
    def open(cls, folder: Path) -> Rows:
        """The rows that ``experiments.prepare`` left in a folder, mapped from their files, values in float64."""
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices", "values64", "y")))

    @cached_property
    def columns(self) -> int:
        """One more than the largest id."""
        return int(self.indices.max()) + 1 if len(self.indices) else 0

    def pieces(self, entries: int) -> Iterator[slice]:
        """Runs of rows with about so many entries each (at least one row)."""
        first, n = 0, len(self.y)
        while first < n:
            last = int(np.searchsorted(self.indptr, self.indptr[first] + entries, side="right")) - 1
            last = min(max(last, first + 1), n)
            yield slice(first, last)
            first = last


def margins(rows: Rows, w: np.ndarray, entries: int = PIECE) -> Iterator[np.ndarray]:
    """y_i <w, x_i> piece by piece, float64; ids beyond the end of w weigh nothing."""
    w = np.asarray(w, dtype=np.float64)
    if rows.columns > len(w):
        w = np.pad(w, (0, rows.columns - len(w)))
    for piece in rows.pieces(entries):
        start, stop = int(rows.indptr[piece.start]), int(rows.indptr[piece.stop])
        indptr = rows.indptr[piece.start : piece.stop + 1] - start
        X = sparse.csr_matrix(
            (rows.values[start:stop], rows.indices[start:stop], indptr), shape=(len(indptr) - 1, len(w))
        )
        yield rows.y[piece] * (X @ w)


def evaluate(rows: Rows, w: np.ndarray, C: float, entries: int = PIECE) -> tuple[float, float]:
    """(primal objective, share of rows on the right side; a decision value of 0 counts as the negative side)."""
    w = np.asarray(w, dtype=np.float64)
    losses: list[float] = []
    right = first = 0
    for m in margins(rows, w, entries):
        y = rows.y[first : first + len(m)]
        first += len(m)
        losses.append(float(np.maximum(0.0, 1.0 - m).sum()))
        right += int(np.count_nonzero((m > 0.0) | ((m == 0.0) & (y < 0))))
    return 0.5 * float(w @ w) + C * math.fsum(losses), right / len(rows.y)
