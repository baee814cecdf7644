"""The table of distinct feature ids: each id's position and in how many rows it occurs, in counted memory."""

from __future__ import annotations

import numpy as np

from blocksvm.errors import InputError
from blocksvm.kernels.table import find, find_or_add, rebuild_slots

BYTES_AN_ID = 8 + 8  # the id and its count


class IdTable:
    """Distinct ids in order of first occurrence, within ``budget`` bytes.

    The order depends on the order of the rows alone.  Raises InputError, naming the need, when the table would
    outgrow the budget.
    """

    def __init__(self, budget: int):
        self.budget = budget
        self.known = np.empty(1 << 12, np.int64)
        self.counts = np.zeros(1 << 12, np.int64)
        self.slots = np.full(1 << 13, -1, np.int32)
        self.n_known = 0

    def __len__(self) -> int:
        return self.n_known

    @property
    def n_bytes(self) -> int:
        return self.known.nbytes + self.counts.nbytes + self.slots.nbytes

    def add(self, ids: np.ndarray, fraction: float | None = None) -> np.ndarray:
        """Positions (int32) of ``ids``, each counted once more; fraction of all input read, for the message."""
        positions = np.empty(len(ids), np.int32)
        done = 0
        while True:
            done, self.n_known = find_or_add(ids, done, self.slots, self.known, self.counts, self.n_known, positions)
            if done == len(ids):
                return positions
            self._grow(fraction)

    def _grow(self, fraction: float | None) -> None:
        capacity = len(self.known) + len(self.known) // 2
        n_slots = len(self.slots)
        while n_slots - n_slots // 4 < capacity:
            n_slots *= 2
        if capacity > np.iinfo(np.int32).max:
            raise InputError("more than 2,147,483,647 distinct feature ids; hash them to fewer")
        # while an array grows, its old copy is still there
        need = capacity * BYTES_AN_ID + 4 * n_slots + 8 * self.n_known
        if need > self.budget:
            seen = f", after {fraction:.0%} of the input" if fraction else ""
            raise InputError(
                f"the table of distinct feature ids holds {self.n_known:,} ids{seen}, and would need "
                f"{need / 1e6:,.0f} MB where --memory leaves {self.budget / 1e6:,.0f} MB; "
                "raise --memory, or hash the ids"
            )
        known = np.empty(capacity, np.int64)
        known[: self.n_known] = self.known[: self.n_known]
        self.known = known
        counts = np.zeros(capacity, np.int64)
        counts[: self.n_known] = self.counts[: self.n_known]
        self.counts = counts
        if n_slots != len(self.slots):
            self.slots = np.empty(0, np.int32)
            self.slots = np.full(n_slots, -1, np.int32)
            rebuild_slots(self.slots, self.known, self.n_known)

    def drop_slots(self) -> None:
        """Give back what only ``add`` needs."""
        self.slots = np.empty(0, np.int32)

    def ranking(self, min_count: int) -> tuple[np.ndarray, np.ndarray]:
        """(order, new_index): positions by falling count (ties: smaller id first) of the ids that occur in at least
        ``min_count`` rows; and for each position its rank, or -1."""
        known, counts = self.known[: self.n_known], self.counts[: self.n_known]
        order = np.lexsort((known, -counts)).astype(np.int32)
        order = order[: np.count_nonzero(counts >= min_count)]
        new_index = np.full(self.n_known, -1, np.int32)
        new_index[order] = np.arange(len(order), dtype=np.int32)
        return order, new_index

    @staticmethod
    def ranking_bytes(n_known: int) -> int:
        """Working memory of ``ranking``: the keys and order that lexsort holds, and its results."""
        return n_known * (8 + 8 + 8 + 4 + 4)


class IdIndex:
    """Positions of given distinct ids: what a model or another store is matched by.  25 bytes an id at most."""

    def __init__(self, n_ids: int):
        n_slots = 16
        while n_slots - n_slots // 4 < n_ids + 1:
            n_slots *= 2
        self.slots = np.full(n_slots, -1, np.int32)
        self.known = np.empty(n_ids, np.int64)

    @staticmethod
    def n_bytes(n_ids: int) -> int:
        return n_ids * (8 + 11)

    def fill(self, pieces) -> IdIndex:
        """Take ids from (start, ids) pieces."""
        for start, ids in pieces:
            self.known[start : start + len(ids)] = ids
        rebuild_slots(self.slots, self.known, len(self.known))
        return self

    def find(self, ids: np.ndarray) -> np.ndarray:
        """Positions (int32), -1 where an id is not among the given ones."""
        positions = np.empty(len(ids), np.int32)
        find(np.ascontiguousarray(ids, dtype=np.int64), self.slots, self.known, positions)
        return positions
