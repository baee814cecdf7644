"""Rows that a solver keeps in memory beside the blocks: those whose kernel matrix it has, and candidates for them."""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.kernel_machine import columns_of
from blocksvm.kernels.shuffle import gather_rows
from blocksvm.sources.block import Block


class Candidates:
    """Copies of the rows that violate optimality most: of those whose a y may rise the ones of the largest slopes,
    and of those where it may fall the ones of the smallest, ``most_rows`` of each as far as half of
    ``most_entries`` holds them. What stays does not depend on the order in which they come.

    rows (m,): places in the source; slopes (m,): y - score; up, down (m,): whether a y may rise, and fall; lengths
    (m,).
    """

    def __init__(self, most_rows: int, most_entries: int):
        self.most_rows = most_rows
        self.most_entries = most_entries
        self.clear()

    def clear(self) -> None:
        self.rows, self.lengths = np.empty(0, np.int64), np.empty(0, np.int64)
        self.slopes, self.norms = np.empty(0), np.empty(0)
        self.up, self.down = np.empty(0, bool), np.empty(0, bool)
        # of either direction the first row that found no room for its entries, as (rank, row): neither it nor any row
        # behind it can stay, whatever comes or goes before them
        self.barriers = [(np.inf, -1), (np.inf, -1)]
        self.indices, self.values = np.empty(0, np.int32), np.empty(0)

    def add(self, block: Block, chosen: np.ndarray, slopes: np.ndarray, up: np.ndarray, down: np.ndarray) -> None:
        """Copies of some of a block's rows."""
        lengths = np.diff(block.indptr)[chosen]
        kept = self._best(slopes, up, down, block.rows[chosen], lengths)  # of these alone no others can stay
        if not len(kept):
            return
        chosen, lengths = chosen[kept], lengths[kept]
        indices, values = copied(block, chosen)
        self.rows = np.concatenate([self.rows, block.rows[chosen]])
        self.lengths = np.concatenate([self.lengths, lengths])
        self.slopes = np.concatenate([self.slopes, slopes[kept]])
        self.norms = np.concatenate([self.norms, block.sq_norms[chosen]])
        self.up = np.concatenate([self.up, up[kept]])
        self.down = np.concatenate([self.down, down[kept]])
        self.indices = np.concatenate([self.indices, indices])
        self.values = np.concatenate([self.values, values])
        if len(self.rows) > 3 * self.most_rows or len(self.indices) > self.most_entries:
            self.prune()

    def prune(self) -> None:
        order = self._best(self.slopes, self.up, self.down, self.rows, self.lengths)
        self.indices, self.values = self.entries_of(order)
        self.rows, self.lengths, self.slopes = self.rows[order], self.lengths[order], self.slopes[order]
        self.norms, self.up, self.down = self.norms[order], self.up[order], self.down[order]

    def _best(self, slopes, up, down, rows, lengths) -> np.ndarray:
        """Positions of the rows that stay, rising."""
        kept = np.zeros(len(rows), bool)
        for k, order in enumerate(by_violation(slopes, up, down, rows)):
            ranks = slopes if k else -slopes
            rank, row = self.barriers[k]
            order = order[(ranks[order] < rank) | ((ranks[order] == rank) & (rows[order] < row))][: self.most_rows]
            fitting = max(1, int(np.searchsorted(np.cumsum(lengths[order]), self.most_entries // 2, side="right")))
            if fitting < len(order):
                self.barriers[k] = float(ranks[order[fitting]]), int(rows[order[fitting]])
            kept[order[:fitting]] = True
        return np.flatnonzero(kept)

    def entries_of(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(indices, values) of some of the rows, one behind the other."""
        indptr = np.append(0, np.cumsum(self.lengths))
        n = int(self.lengths[chosen].sum())
        indices, values = np.empty(n, np.int32), np.empty(n)
        _copy(indptr, self.indices, self.values, chosen, indices, values)
        return indices, values


def by_violation(slopes: np.ndarray, up: np.ndarray, down: np.ndarray, rows: np.ndarray) -> tuple:
    """Positions of the rows that may rise by falling slope, and of those that may fall by rising slope; of equal slopes
    the first in the source."""
    rising, falling = np.flatnonzero(up), np.flatnonzero(down)
    return (
        rising[np.lexsort((rows[rising], -slopes[rising]))],
        falling[np.lexsort((rows[falling], slopes[falling]))],
    )


def best_pairs(slopes, up, down, rows, lengths, most_rows: int, most_entries: int) -> np.ndarray:
    """Positions of the rows that are taken: in turn the next one that rises and the next that falls, as long as
    there is room for rows and entries. The pair that violates optimality most is always among them."""
    rising, falling = by_violation(slopes, up, down, rows)
    n = max(len(rising), len(falling))
    turns = np.full((n, 2), -1)
    turns[: len(rising), 0], turns[: len(falling), 1] = rising, falling
    in_turn = turns[turns >= 0]
    _, first = np.unique(in_turn, return_index=True)
    chosen = in_turn[np.sort(first)][:most_rows]
    return chosen[: max(2, int(np.searchsorted(np.cumsum(lengths[chosen]), most_entries, side="right")))]


def copied(block: Block, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(indices, values float64) of some of a block's rows, one behind the other."""
    n = int(np.diff(block.indptr)[chosen].sum())
    indices, values = np.empty(n, np.int32), np.empty(n)
    _copy(block.indptr, block.indices, block.values, chosen, indices, values)
    return indices, values


def _copy(indptr, indices, values, chosen, out_indices, out_values) -> None:
    lengths = np.empty(len(chosen), np.int64)
    typed = None if values is None else np.empty(len(out_indices), values.dtype)
    gather_rows(np.ascontiguousarray(indptr), indices, values, chosen.astype(np.int64), lengths, out_indices, typed)
    out_values[:] = 1.0 if typed is None else typed


class KeptRows:
    """Rows with their kernel matrix.

    rows (q,): places in the source, in the order of the matrix; norms (q,): squared; csr: (indptr, indices, values) of
    them; matrix (most_rows, most_rows), of which the first q rows and columns count.
    """

    ROW_BYTES = 3 * 80  # of a row in memory or among twice as many candidates, beside its entries and the matrix
    # copies of an entry at the same time: here, as a candidate, in columns, and while rows are exchanged
    ENTRY_BYTES = 8 * 12

    def __init__(self, n_features: int, most_rows: int, most_entries: int):
        self.n_features = n_features
        self.most_rows, self.most_entries = most_rows, most_entries
        self.rows, self.norms = np.empty(0, np.int64), np.empty(0)
        self.csr = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
        self.matrix = np.empty((most_rows, most_rows))

    @staticmethod
    def n_bytes(n_rows: int, n_entries: int) -> int:
        return 8 * n_rows * n_rows + KeptRows.ROW_BYTES * n_rows + KeptRows.ENTRY_BYTES * n_entries

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.csr[0])

    def columns(self, chosen: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(first, owner, held) of some of the rows (None: all), see kernels/kernel_machine.py."""
        indptr, indices, values = self.csr
        if chosen is not None:
            lengths = self.lengths[chosen]
            n = int(lengths.sum())
            part = np.empty(n, np.int32), np.empty(n)
            _copy(indptr, indices, values, chosen, *part)
            indptr, (indices, values) = np.append(0, np.cumsum(lengths)), part
        first = np.zeros(self.n_features + 2, np.int64)
        owner, held = np.empty(len(indices), np.int32), np.empty(len(indices))
        columns_of(indptr, indices, values, first, owner, held)
        return first, owner, held

    def exchange(self, gone: np.ndarray, candidates: Candidates, wanted: np.ndarray) -> np.ndarray:
        """Put some candidates into the places of the rows that go, and behind the last one; where more go than come,
        the last rows move into the places that are left.  Returns the places whose kernel values are to be computed."""
        n, n_new = len(self.rows), len(wanted)
        gone = np.sort(gone)
        places = np.concatenate([gone[:n_new], np.arange(n, n + max(0, n_new - len(gone)))])
        source = np.arange(max(n, n + n_new - len(gone)))  # what comes to each place
        source[places] = n + np.arange(n_new)
        empty = gone[n_new:]
        moved = np.empty(0, np.int64)
        if len(empty):
            stay = n - len(empty)
            last = np.setdiff1d(np.arange(stay, n), empty)
            moved = empty[empty < stay]
            source[moved] = last
            source = source[:stay]
            self.matrix[moved] = self.matrix[last]
            self.matrix[:, moved] = self.matrix[:, last]
        self._assemble(source, candidates, wanted)
        return places

    def _assemble(self, source: np.ndarray, candidates: Candidates, wanted: np.ndarray) -> None:
        indices, values = candidates.entries_of(wanted)
        lengths = np.concatenate([self.lengths, candidates.lengths[wanted]])
        both = (
            np.append(0, np.cumsum(lengths)),
            np.concatenate([self.csr[1], indices]),
            np.concatenate([self.csr[2], values]),
        )
        out = np.empty(int(lengths[source].sum()), np.int32), np.empty(int(lengths[source].sum()))
        _copy(*both, source, *out)
        self.csr = np.append(0, np.cumsum(lengths[source])), *out
        self.rows = np.concatenate([self.rows, candidates.rows[wanted]])[source]
        self.norms = np.concatenate([self.norms, candidates.norms[wanted]])[source]
