"""Rows in memory beside the blocks: those whose kernel matrix a solver has, and candidates for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blocksvm.kernels.kernel_machine_loops import columns_of
from blocksvm.kernels.shuffle import gather_rows
from blocksvm.sources.block import Block


class RowCopies:
    """Copies of rows: rows (m,) int64, their places in the source; norms (m,): squared; csr: (indptr, indices int32,
    values float64)."""

    def __init__(self, rows: np.ndarray, norms: np.ndarray, csr: tuple[np.ndarray, np.ndarray, np.ndarray]):
        self.rows, self.norms, self.csr = rows, norms, csr

    @classmethod
    def of(cls, block: Block, chosen: np.ndarray) -> RowCopies:
        """Of some of a block's rows."""
        return cls(block.rows[chosen], block.sq_norms[chosen], copied(block.matrix, chosen))

    @classmethod
    def joined(cls, parts: Sequence[RowCopies]) -> RowCopies:
        """One after the other."""
        indptr = np.append(0, np.cumsum(np.concatenate([one.lengths for one in parts])))
        indices, values = (np.concatenate([one.csr[k] for one in parts]) for k in (1, 2))
        rows, norms = (np.concatenate([getattr(one, name) for one in parts]) for name in ("rows", "norms"))
        return cls(rows, norms, (indptr, indices, values))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.csr[0])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: np.ndarray) -> RowCopies:
        return RowCopies(self.rows[chosen], self.norms[chosen], copied(self.csr, chosen))


NO_ROWS = RowCopies(np.empty(0, np.int64), np.empty(0), (np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)))


def copied(matrix: tuple, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, indices, values float64) of some rows of another matrix, whose values may be None: all 1."""
    indptr, indices, values = matrix
    lengths = np.diff(indptr)[chosen]
    n = int(lengths.sum())
    copied_indices, typed = np.empty(n, np.int32), None if values is None else np.empty(n, values.dtype)
    gather_rows(indptr, indices, values, chosen.astype(np.int64), np.empty_like(lengths), copied_indices, typed)
    return (
        np.append(0, np.cumsum(lengths)),
        copied_indices,
        np.ones(n) if typed is None else typed.astype(np.float64, copy=False),
    )


class Candidates:
    """Copies of the rows that violate optimality most: of those whose a y may rise the ones of the largest slopes,
    and of those where it may fall the ones of the smallest, ``most_rows`` of each as far as half of
    ``most_entries`` holds them. What stays does not depend on the order in which they come.

    standing (3, m): as ``slopes_of`` has it.
    """

    def __init__(self, most_rows: int, most_entries: int):
        self.most_rows = most_rows
        self.most_entries = most_entries
        self.clear()

    def clear(self) -> None:
        self.held, self.standing = NO_ROWS, np.empty((3, 0))
        # of either direction the first row whose entries did not fit, as (rank, row): neither it nor any row
        # behind it can stay, whatever comes or goes before them
        self.barriers = [(np.inf, -1), (np.inf, -1)]

    def add(self, block: Block, chosen: np.ndarray, standing: np.ndarray) -> None:
        """Copies of some of a block's rows."""
        # of these alone no others can stay
        best = self._best(standing, block.rows[chosen], np.diff(block.indptr)[chosen])
        if not len(best):
            return
        self.held = RowCopies.joined([self.held, RowCopies.of(block, chosen[best])])
        self.standing = np.append(self.standing, standing[:, best], axis=1)
        if len(self.held) > 3 * self.most_rows or self.held.csr[0][-1] > self.most_entries:
            self.prune()

    def prune(self) -> None:
        order = self._best(self.standing, self.held.rows, self.held.lengths)
        self.held, self.standing = self.held[order], self.standing[:, order]

    def _best(self, standing: np.ndarray, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Positions of the rows that stay, rising."""
        best = np.zeros(len(rows), bool)
        for k, order in enumerate(by_violation(standing, rows)):
            ranks = standing[0] if k else -standing[0]
            rank, row = self.barriers[k]
            order = order[(ranks[order] < rank) | ((ranks[order] == rank) & (rows[order] < row))][: self.most_rows]
            fitting = max(1, int(np.searchsorted(np.cumsum(lengths[order]), self.most_entries // 2, side="right")))
            if fitting < len(order):
                self.barriers[k] = float(ranks[order[fitting]]), int(rows[order[fitting]])
            best[order[:fitting]] = True
        return np.flatnonzero(best)


def by_violation(standing: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows that may rise by falling slope, and of those that may fall by rising slope; of equal slopes
    the first in the source."""
    slopes, rising, falling = standing[0], np.flatnonzero(standing[1]), np.flatnonzero(standing[2])
    return (rising[np.lexsort((rows[rising], -slopes[rising]))], falling[np.lexsort((rows[falling], slopes[falling]))])


def best_pairs(standing, rows, lengths, most_rows: int, most_entries: int) -> np.ndarray:
    """Positions of the chosen rows: in turn the next one that rises and the next that falls, as long as rows and
    entries fit. The pair that violates optimality most is always among them."""
    rising, falling = by_violation(standing, rows)
    n = max(len(rising), len(falling))
    turns = np.full((n, 2), -1)
    turns[: len(rising), 0], turns[: len(falling), 1] = rising, falling
    in_turn = turns[turns >= 0]
    _, first = np.unique(in_turn, return_index=True)
    chosen = in_turn[np.sort(first)][:most_rows]
    return chosen[: max(2, int(np.searchsorted(np.cumsum(lengths[chosen]), most_entries, side="right")))]


class KernelRows:
    """Rows with their kernel matrix.

    held: the rows, in the order of the matrix; matrix (most_rows, most_rows), of which the first rows and columns
    count.
    """

    ROW_BYTES = 3 * 80  # of a row in memory or among twice as many candidates, beside its entries and the matrix
    # copies of an entry at the same time: here, as a candidate, in columns, and while rows are exchanged
    ENTRY_BYTES = 8 * 12

    def __init__(self, n_features: int, most_rows: int, most_entries: int):
        self.n_features = n_features
        self.most_rows, self.most_entries = most_rows, most_entries
        self.held = NO_ROWS
        self.matrix = np.empty((most_rows, most_rows))

    @staticmethod
    def n_bytes(n_rows: int, n_entries: int) -> int:
        return 8 * n_rows * n_rows + KernelRows.ROW_BYTES * n_rows + KernelRows.ENTRY_BYTES * n_entries

    def columns(self, chosen: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(first, owner, held) of some of the rows (None: all), see kernels/kernel_machine_loops.py."""
        csr = self.held.csr if chosen is None else copied(self.held.csr, chosen)
        columns = np.zeros(self.n_features + 2, np.int64), np.empty(len(csr[1]), np.int32), np.empty(len(csr[1]))
        columns_of(*csr, *columns)
        return columns

    def exchange(self, gone: np.ndarray, candidates: Candidates, wanted: np.ndarray) -> np.ndarray:
        """Put some candidates into the places of the rows that go, and behind the last one; where more go than come,
        the last rows move into the places that are left.  Returns the places whose kernel values are to be computed."""
        n, n_new = len(self.held), len(wanted)
        gone = np.sort(gone)
        places = np.concatenate([gone[:n_new], np.arange(n, n + max(0, n_new - len(gone)))])
        source = np.arange(max(n, n + n_new - len(gone)))  # what comes to each place
        source[places] = n + np.arange(n_new)
        empty = gone[n_new:]
        if len(empty):
            stay = n - len(empty)
            last = np.setdiff1d(np.arange(stay, n), empty)
            moved = empty[empty < stay]
            source[moved] = last
            source = source[:stay]
            self.matrix[moved] = self.matrix[last]
            self.matrix[:, moved] = self.matrix[:, last]
        self.held = RowCopies.joined([self.held, candidates.held[wanted]])[source]
        return places
