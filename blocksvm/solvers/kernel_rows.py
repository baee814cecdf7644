"""Rows in memory beside the blocks: those whose kernel matrix a solver has, and candidates for them."""

import numpy as np

from blocksvm.kernels.kernel_machine_loops import columns_of
from blocksvm.kernels.rows import Entries
from blocksvm.sources.block import Block, joined, rows_of

NO_ROWS = Block(Entries(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)), np.empty(0), np.empty(0),
                np.empty(0, np.int64), 0)  # fmt: skip


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
        best = self._best(standing, block.rows[chosen], block.lengths[chosen])
        if not len(best):
            return
        self.held = joined([self.held, rows_of(block, chosen[best])])
        self.standing = np.append(self.standing, standing[:, best], axis=1)
        if self.held.n_samples > 3 * self.most_rows or self.held.n_nonzeros > self.most_entries:
            self.prune()

    def prune(self) -> None:
        order = self._best(self.standing, self.held.rows, self.held.lengths)
        self.held, self.standing = rows_of(self.held, order), self.standing[:, order]

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
        some = self.held if chosen is None else rows_of(self.held, chosen)
        nnz = some.n_nonzeros
        columns = np.zeros(self.n_features + 2, np.int64), np.empty(nnz, np.int32), np.empty(nnz)
        columns_of(*some.matrix, *columns)
        return columns

    def exchange(self, gone: np.ndarray, candidates: Candidates, wanted: np.ndarray) -> np.ndarray:
        """Put some candidates into the positions of the rows that go, and behind the last one; where more go than come,
        the last rows move into what is left.  Returns the positions whose kernel values are to be computed."""
        n, n_new = self.held.n_samples, len(wanted)
        gone = np.sort(gone)
        positions = np.concatenate([gone[:n_new], np.arange(n, n + max(0, n_new - len(gone)))])
        source = np.arange(max(n, n + n_new - len(gone)))  # what comes to each position
        source[positions] = n + np.arange(n_new)
        empty = gone[n_new:]
        if len(empty):
            stay = n - len(empty)
            last = np.setdiff1d(np.arange(stay, n), empty)
            moved = empty[empty < stay]
            source[moved] = last
            source = source[:stay]
            self.matrix[moved] = self.matrix[last]
            self.matrix[:, moved] = self.matrix[:, last]
        self.held = rows_of(joined([self.held, rows_of(candidates.held, wanted)]), source)
        return positions
