"""The working set: rows that can still move, kept in memory between the readings of all rows and passed over there.

Rows are candidates where they lie between their bounds, violate one, or are near to it (NEAR in
kernels/loss_functions.py); where not all of them fit, those with the largest share of the gap are members (after
Dünner, Parnell, Jaggi, NIPS 2017; the shares add up to P(w) - D(a), losses/loss.py).  They are gathered while blocks
pass by.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source
from blocksvm.training.working_set_kernels import bring_back, compact, renew, take_in

# Of the nonzeros, where all rows are in memory: with a half, 21 million of noisy rows take 1.6 times as long at C = 10.
# Passes over rows that are marked where they lie, in place of copies, take 1.3 and 1.5 times as long on 27 million.
RESIDENT_SHARE = 0.2
# Of the least share in a reading, the least in the next: shares fall, but not all rows are copied again.  With 0 eleven
# data sets take 1.04 times as long, one of equal rows 1.4 times; with a half five take 1.3 times as many readings.
LOWERED = 0.25
BIN_BITS, BINS = 48, 1 << 15  # of a share's bits, those that are not looked at to find most of the largest ones
# Bytes of a row: of the source, where to find its slot; of one that may be a member, its share, its positions among the
# members and in their order, and what choosing them takes; of one in a slot, also whether it is a member.
TABLE_BYTES = 4
MEMBER_BYTES = 8 + 4 + 4 + 24
SLOT_BYTES = 1 + MEMBER_BYTES
SAVED = ("rows", "lengths", "share", "member", "sums")


def figures_of(working_set: WorkingSet | None) -> dict:
    """For a trace: members, their nonzeros, and their part of the gap that the last reading saw; null without a set."""
    if working_set is None:
        return {"set_rows": None, "set_nonzeros": None, "set_share": None}
    n, seen, nnz = working_set.n_members, working_set.seen, working_set.n_nonzeros
    share = 1.0 - working_set.left_out / seen if seen > 0.0 and n else 0.0
    return {"set_rows": n, "set_nonzeros": nnz, "set_share": share}


def largest_first(share: np.ndarray, sizes: np.ndarray, number: np.ndarray, most: float) -> tuple[np.ndarray, float]:
    """Of rows with these shares >= 0 and numbers, which fit into ``most``, largest shares first; (mask, least share
    chosen).  The numbers decide between equal shares."""
    bins = (share.view(np.int64) >> BIN_BITS).astype(np.int32)  # numbers >= 0 are ordered as their bits are
    filled = np.bincount(bins, sizes, BINS)[::-1].cumsum()
    last = BINS - 1 - int(np.searchsorted(filled, most, side="right"))  # the first bin that does not fit whole
    chosen = bins > last
    among = np.flatnonzero(bins == last)
    among = among[np.lexsort((number[among], -share[among]))]
    space_left = most - (filled[BINS - 2 - last] if last < BINS - 1 else 0.0)
    chosen[among[np.cumsum(sizes[among]) <= space_left]] = True
    return chosen, float(share[chosen].min()) if chosen.any() else float(np.inf)


def bytes_of_set(source: Source, n_rows: int, size: int) -> int:
    """Memory for a ``WorkingSet`` of so many rows and words or entries."""
    shape = source.shape
    return TABLE_BYTES * source.n_samples + shape.block_bytes(n_rows, size) + SLOT_BYTES * n_rows


def bytes_of_row(source: Source) -> float:
    """Memory that a ``WorkingSet`` has for each row that it may hold, where these are of the usual length."""
    shape, length = source.shape, max(1.0, source.size / source.n_samples)
    return length * shape.element_bytes + shape.row_bytes + SLOT_BYTES


class WorkingSet:
    """Rows copied out of a source's blocks, within ``n_bytes`` of memory.  block: the copies, of which ``members`` (m,)
    int32 are passed over; share (n,) float64: their shares of the gap when they were visited last; seen: the sum of all
    shares as the rows passed by in this reading, and left_out: of those that are no members."""

    def __init__(self, source: Source, n_bytes: int):
        shape, element = source.shape, source.shape.element_bytes
        usable = max(0, n_bytes - shape.block_bytes(0, 0) - TABLE_BYTES * source.n_samples)
        most = max(1, min(source.n_samples, int(usable / bytes_of_row(source))))
        of_entries = usable - most * (shape.row_bytes + SLOT_BYTES)
        self.capacity = int(max(0, min(source.size, of_entries // element)))  # words or entries
        self.held = shape.new_block(None, most, self.capacity, source.n_features)
        self.slots = np.full(source.n_samples, -1, np.int32)
        self.member = np.zeros(most, np.uint8)
        self.held_share = np.zeros(most)
        self.used = np.zeros(4, np.int64)
        self.least = self.reached = 0.0  # the least share of a member, now and when the last reading had ended
        self.seen = self.left_out = 0.0
        self._settle()

    def _settle(self) -> None:
        n = int(self.used[0])
        self.block = self.held.of_rows(slice(0, n))
        self.share = self.held_share[:n]

    @property
    def members(self) -> np.ndarray:
        return np.flatnonzero(self.member[: self.used[0]]).astype(np.int32)

    @property
    def n_members(self) -> int:
        return int(self.used[1])

    @property
    def n_nonzeros(self) -> int:
        """Of the members."""
        return int(self.used[3])

    def has(self, rows: np.ndarray) -> np.ndarray:
        """(n,) bool: which of these rows are members."""
        slots = self.slots[rows]
        return (slots >= 0) & (self.member[slots] > 0)

    def begin_reading(self, reset: bool) -> None:
        """All rows will pass by once more; reset: no row is a member before it has."""
        self.least = LOWERED * self.reached
        self.seen = self.left_out = 0.0
        if reset:
            self.member[:] = 0
            self.used[1:] = 0
            self.close_gaps()  # the same rows have the same positions if the reading is broken off and begun again
            self._settle()

    def renew(self, block: Block, share: np.ndarray) -> None:
        """Members, copies of which a block has, have passed by without being offered; share (m,) float64 as there."""
        self.held_share[self.slots[block.rows]] = share
        self.seen += float(np.maximum(share, 0.0).sum())

    def pass_over(self, share: float) -> None:
        """Rows whose shares add up to this have passed by without being offered, and are no members."""
        self.seen += share
        self.left_out += share

    def end_reading(self) -> None:
        self.reached = self.least

    def offer(self, block: Block, share: np.ndarray) -> None:
        """A block has been visited; share (n,) float64 of its rows' shares of the gap, below 0 for a row at rest."""
        wanted = np.empty(block.n_samples, np.int32)
        count, size, total, below = renew(
            block.indptr, block.lengths, block.rows, share, self.least, self.slots, self.used, self.member,
            self.held_share, wanted,
        )  # fmt: skip
        wanted = wanted[:count]
        self.seen += total
        self.left_out += below
        if self.used[1] + count > len(self.member) or self.used[2] + size > self.capacity:
            wanted = self._select(block, share, wanted)
        sizes = np.diff(block.indptr)
        new = wanted[self.slots[block.rows[wanted]] < 0]
        end = self.held.indptr[self.used[0]] + sizes[new].sum()
        if end > self.capacity or self.used[0] + len(new) > len(self.member):
            self.close_gaps()
        n_copied = take_in(
            block, wanted, block.lengths, share, self.slots, self.held, self.capacity, self.used, self.member,
            self.held_share,
        )  # fmt: skip
        assert n_copied == len(wanted)
        self._settle()

    def close_gaps(self) -> None:
        compact(self.slots, self.held, self.capacity, self.used, self.member, self.held_share)

    def _select(self, block: Block, share: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Keep, of the members and the wanted rows of a block, those of the largest shares; returns these rows."""
        members = self.members
        number = np.append(self.held.rows[members], block.rows[wanted])
        both = np.maximum(np.append(self.held_share[members], share[wanted]), 0.0)
        size = np.append(np.diff(self.held.indptr)[members], np.diff(block.indptr)[wanted])
        chosen, least = largest_first(both, size, number, self.capacity)
        # many short rows may fill the slots first
        if np.count_nonzero(chosen) > len(self.member):
            chosen, least = largest_first(both, np.ones(len(both)), number, len(self.member))
        self.least = max(self.least, least)
        self.left_out += float(both[~chosen].sum())
        retained = chosen[: len(members)]
        self.member[members[~retained]] = 0
        self._count(members[retained])
        return wanted[chosen[len(members) :]]

    def _count(self, members: np.ndarray) -> None:
        """These are all members that there are."""
        size, nnz = np.diff(self.held.indptr)[members].sum(), self.held.lengths[members].sum(dtype=np.int64)
        self.used[1:] = len(members), size, nnz

    def saved(self) -> dict[str, np.ndarray]:
        """The state for a checkpoint: the rows held in their order, members and others, without their entries."""
        n, held = self.used[0], self.held
        of_rows = held.rows[:n], np.diff(held.indptr[: n + 1]), self.held_share[:n], self.member[:n]
        sums = np.array([self.least, self.reached, self.seen, self.left_out])
        return dict(zip(SAVED, (*of_rows, sums), strict=True))

    def restore(self, saved: dict[str, np.ndarray], blocks: Iterable[Block]) -> None:
        none = np.empty(0, bool)  # which no array of ours is of
        rows, lengths, share, member, sums = arrays = [saved.get(name, none) for name in SAVED]
        n, most = len(rows), len(self.slots)
        sound: bool = [array.dtype for array in arrays] == [array.dtype for array in self.saved().values()]
        sound = sound and len(lengths) == len(share) == len(member) == n <= len(self.member) and len(sums) == 4
        sound = sound and not np.isnan(share).any() and not np.isnan(sums).any() and len(np.unique(rows)) == n
        wrong = not sound or (rows < 0) | (rows >= most) | (lengths < 0) | (lengths > self.capacity)
        if np.any(wrong) or lengths.sum() > self.capacity:
            raise InputError("the checkpoint's working set is of another run, or damaged; start afresh")
        self.held.rows[:n], self.held_share[:n], self.member[:n] = rows, share, member != 0
        self.held.indptr[: n + 1] = np.append(0, np.cumsum(lengths))
        self.slots[rows] = np.arange(n, dtype=np.int32)
        self.used[0] = n
        self.least, self.reached, self.seen, self.left_out = sums.tolist()
        counts = [bring_back(block, self.slots, self.held, self.capacity) for block in blocks] if n else []
        if sum(counts) != n or min(counts, default=0) < 0:
            raise InputError("the checkpoint's working set has rows that the source lacks; start afresh")
        self._count(self.members)
        self._settle()
