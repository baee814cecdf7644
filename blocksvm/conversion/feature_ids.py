"""The table of distinct feature ids: each id's position and in how many rows it occurs, in counted memory."""

from __future__ import annotations

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import runs
from blocksvm.kernels.hash_table import count_small, find_or_add, find_small, rebuild_slots
from blocksvm.sources.matrix import by_falling_count
from blocksvm.store.arrays import PIECE

BYTES_AN_ID = 8 + 4  # the id and its count
BYTES_A_SMALL_ID = 8  # of each that there can be: its position and its count
MOST_SMALL = 1 << 27  # what is touched of more takes longer than what it saves
FULLEST = 0.6  # share of slots that may be taken: beyond it, a new id is compared with many others first


class IdTable:
    """Distinct ids in order of first occurrence, within ``budget`` bytes, of which others may take some.  As long as
    ids are small, which the budget decides, an id is its own slot, and its count lies beside its position; the first
    that is larger makes it a hash table.  The order depends on the order of the rows alone.  Raises InputError, naming
    the need, when the ids do not fit."""

    def __init__(self, budget: int):
        self.budget = budget
        # memory that is not touched is not taken: the arrays have their largest size from the start, and never move
        most = min(np.iinfo(np.int32).max, max(1024, budget // BYTES_AN_ID))
        self.known = np.empty(most, np.int64)
        self.counts = np.empty(most, np.uint32)
        # so many that it fits however many of them occur, and while it becomes a hash table
        self.small = np.zeros((min(MOST_SMALL, budget // (BYTES_A_SMALL_ID + BYTES_AN_ID)), 2), np.uint32)
        self.n_small = min(8192, len(self.small))  # ids below may have been touched
        self.slots = np.full(8192, -1, np.int32)
        self.n_known = 0
        self.beside: dict[str, int] = {}  # bytes of the budget that others hold, by name

    def hold(self, name: str, n_bytes: int) -> None:
        """Let others hold ``n_bytes`` of the budget; InputError where it has not so many."""
        self.beside[name] = n_bytes
        if self.n_small and self._bytes(self.n_known, 0) > self.budget:
            self._hash()
        if self._bytes(self.n_known, len(self.slots)) > self.budget:
            taken, memory = f"{n_bytes / 1e6:,.0f} MB beside {self.n_known:,} distinct feature ids", option("memory")
            left = f"more than the {self.budget / 1e6:,.0f} MB that {memory} leaves for both; raise {memory}"
            raise InputError(f"{name} take {taken}, {left}")

    def __len__(self) -> int:
        return self.n_known

    def add(self, ids: np.ndarray) -> np.ndarray:
        """Positions (int32) of ``ids``, each counted once more."""
        positions = np.empty(len(ids), np.int32)
        done = 0
        while self.n_small:
            small = self.small[: self.n_small]
            done, self.n_known = count_small(ids, done, small, self.known, self.n_known, positions)
            if done == len(ids):
                return positions
            i = int(ids[done])  # ids as large as it may be small, or none
            n_small = min(len(self.small), 1 << i.bit_length())
            if self.n_small <= i < n_small and self._bytes(self.n_known, 0, n_small) <= self.budget:
                self.n_small = n_small
            else:
                self._hash()
        while True:
            limit = min(len(self.known), int(FULLEST * len(self.slots)))
            done, self.n_known = find_or_add(
                ids, done, self.slots, self.known, self.counts, self.n_known, limit, positions
            )
            if done == len(ids):
                return positions
            self._grow()

    def _hash(self) -> None:
        self._leave_small()
        self.slots = np.full(max(8192, 2 * self.n_known), -1, np.int32)
        rebuild_slots(self.slots, self.known, self.n_known)

    def _leave_small(self) -> None:
        for k in range(0, self.n_known if self.n_small else 0, PIECE):
            part = slice(k, min(k + PIECE, self.n_known))
            self.counts[part] = self.small[self.known[part], 1]
        self.small, self.n_small = np.empty((0, 2), np.uint32), 0

    def _grow(self) -> None:
        if self.n_known >= np.iinfo(np.int32).max:
            raise InputError("more than 2,147,483,647 distinct feature ids; hash them to fewer")
        n_slots = len(self.slots) + len(self.slots) // 2
        need = self._bytes(int(FULLEST * n_slots), n_slots)
        if need > self.budget or self.n_known >= len(self.known):
            known, memory = f"the table of distinct feature ids holds {self.n_known:,} ids", option("memory")
            left = f"MB where {memory} leaves {self.budget / 1e6:,.0f} MB for it"
            cure = f"raise {memory}, or hash the ids to fewer"
            raise InputError(f"{known}, and more would need {need / 1e6:,.0f} {left}; {cure}")
        self.slots = np.empty(0, np.int32)
        self.slots = np.full(n_slots, -1, np.int32)
        rebuild_slots(self.slots, self.known, self.n_known)

    def most_bytes(self) -> int:
        """Bytes it may hold before it grows the next time but one, and is asked again: at most its budget."""
        if self.n_small:
            n_small = min(2 * self.n_small, len(self.small))
            return min(self.budget, self._bytes(min(2 * self.n_known, n_small), 0, n_small))
        n_slots = len(self.slots) + len(self.slots) // 2
        return min(self.budget, self._bytes(int(FULLEST * n_slots), n_slots))

    def _bytes(self, n_ids: int, n_slots: int, n_small: int | None = None) -> int:
        n_small = self.n_small if n_small is None else n_small
        return n_ids * BYTES_AN_ID + 4 * n_slots + BYTES_A_SMALL_ID * n_small + sum(self.beside.values())

    def counted(self) -> np.ndarray:
        """In how many rows each id occurs, by position; no other is added afterwards."""
        self._leave_small()
        self.slots = np.empty(0, np.int32)
        return self.counts[: self.n_known]

    def ranking(self, min_count: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(order, new_index): positions by falling count (ties: first seen first) of ids in at least ``min_count``
        rows, after the ``first`` ids as they are; and of each position its rank or -1.  Gives slots and counts back."""
        counts = self.counted()
        order = by_falling_count(counts)
        order = order[: np.count_nonzero(counts >= min_count)]
        if first:
            order = np.concatenate([np.arange(first, dtype=np.int32), order[order >= first]])
        self.counts = np.empty(0, np.uint32)
        new_index = np.full(self.n_known, -1, np.int32)
        new_index[order] = np.arange(len(order), dtype=np.int32)
        return order, new_index


class NameTable:
    """The names of an ``IdTable``'s ids by position: that of the entry in which each was met first, '' for none."""

    def __init__(self, most: int):
        """most: ids that there can be."""
        self.text = bytearray()
        self.ends = np.empty(most, np.int64)  # memory that is not touched is not taken
        self.n_known = 0

    @staticmethod
    def bytes_of(text_bytes: int, n_ids: int) -> int:
        return text_bytes + text_bytes // 8 + 8 * n_ids

    @property
    def n_bytes(self) -> int:
        return self.bytes_of(len(self.text), self.n_known)

    def add(self, names: tuple | None, positions: np.ndarray, n_ids: int) -> None:
        """Name the ids that came with a batch: ``names`` of its entries (see ``RowBatch``), or None; positions (nnz,)
        of their ids; n_ids: how many ids there are now."""
        before, self.n_known = self.n_known, n_ids
        if n_ids == before:
            return
        lengths = np.zeros(n_ids - before, np.int64)
        if names is not None:
            text, first, last = names
            new = np.flatnonzero(positions >= before)
            named, at = np.unique(positions[new], return_index=True)
            entries = new[at]
            lengths[named - before] = last[entries] - first[entries]
            self.text += gather_spans(np.frombuffer(text, np.uint8), first[entries], last[entries]).tobytes()
        self.ends[before:n_ids] = np.cumsum(lengths) + (self.ends[before - 1] if before else 0)

    def in_order(self, order: np.ndarray):
        """(lengths, text_at) of the names of the ids at positions ``order``, as a store's writer takes them."""
        ends = self.ends[: self.n_known]
        lengths = np.diff(ends, prepend=0)[order]
        text = np.frombuffer(self.text, np.uint8)

        def text_at(first: int, last: int) -> np.ndarray:
            stops = ends[order[first:last]]
            return gather_spans(text, stops - lengths[first:last], stops)

        return lengths, text_at


def gather_spans(text: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """``text[first[k]:last[k]]`` for all k, one after the other."""
    bounds = np.append(0, np.cumsum(last - first))
    out = np.empty(int(bounds[-1]), np.uint8)
    for a, b in runs(bounds, PIECE):  # each byte's position takes 8 bytes
        ahead = np.repeat(first[a:b] - bounds[a:b], last[a:b] - first[a:b])
        out[bounds[a] : bounds[b]] = text[np.arange(bounds[a], bounds[b]) + ahead]
    return out


class IdIndex:
    """Positions of given distinct ids, by which a model or another store is matched; 14 bytes an id.  Where all are
    small an id is its own slot, for which ``spare`` more bytes may be taken (``more_bytes`` were)."""

    def __init__(self, n_ids: int, spare: int = 0):
        self.n_slots = max(16, n_ids + n_ids // 2)
        self.most_slots = self.n_slots + min(spare // 4, 32 * n_ids)  # a table of few ids stays in the cache
        self.known = np.empty(n_ids, np.int64)

    @staticmethod
    def n_bytes(n_ids: int) -> int:
        return n_ids * (8 + 6) + 64

    @property
    def more_bytes(self) -> int:
        return 4 * max(0, len(self.slots) - self.n_slots)

    def fill(self, pieces) -> IdIndex:
        for start, ids in pieces:
            self.known[start : start + len(ids)] = ids
        n, n_small = len(self.known), int(self.known.max(initial=-1)) + 1
        self.small = n_small <= self.most_slots and self.known.min(initial=0) >= 0
        self.slots = np.full(n_small if self.small else self.n_slots, -1, np.int32)
        if self.small:
            for k in range(0, n, PIECE):
                self.slots[self.known[k : k + PIECE]] = np.arange(k, min(k + PIECE, n))
            self.known = np.empty(0, np.int64)
        else:
            rebuild_slots(self.slots, self.known, n)
        return self

    def find(self, ids: np.ndarray) -> np.ndarray:
        """Positions (int32), -1 where an id is not among the given ones."""
        positions = np.empty(len(ids), np.int32)
        ids = np.ascontiguousarray(ids, dtype=np.int64)
        if self.small:
            find_small(ids, self.slots, positions)
        else:
            find_or_add(ids, 0, self.slots, self.known, np.empty(0, np.uint32), 0, 0, positions)
        return positions
