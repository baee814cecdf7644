"""The chunks of each block, and the order in which blocks and rows are visited: arithmetic on keys alone."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.kernels.shuffle import windowed_order, windowed_rows

# In a large block, rows that lie near in memory are visited near in time, which the caches reward.  Where a block has
# few such windows, or the same rows share a window each time, it converges many times more slowly (3,000 reviews: 10
# outer iterations in place of 7 with two windows, more than 60 with six): then the whole block is shuffled.
WINDOW_ROWS = 2048
FEWEST_WINDOWS = 8

PARTITION, PASS, SET_PASS = 1, 2, 3  # what a key is for


def order_key(seed: int, purpose: int, *numbers: int) -> np.uint64:
    """A generator's key from (seed, outer, visit, pass)."""
    return np.uint64(xxh3_64_intdigest(struct.pack(f"<{2 + len(numbers)}q", seed, purpose, *numbers)))


@dataclass(frozen=True)
class StoredChunks:
    """The chunks that blocks are made of: n_rows (n_chunks,) of each; shuffled: the rows are in random order already;
    units (n_units,) int64, rising from 0: the first chunks of those that are drawn together (None: each alone)."""

    n_rows: np.ndarray
    shuffled: bool
    units: np.ndarray | None = None


class Partition:
    """Blocks of chunks for each outer iteration.

    cost (n_chunks,) int64: memory that each chunk takes in a block; capacity: the most a block may take, or
    block_chunks: exactly how many chunks form one.  kind: 'redrawn' (other chunks together at each outer iteration)
    or 'fixed' (the same blocks, in another order; Yu et al., KDD 2010); order 'stored' keeps everything in the order
    of the source.
    """

    def __init__(self, cost, capacity, block_chunks, kind, order, seed, chunks: StoredChunks):
        self.cost = np.asarray(cost, dtype=np.int64)
        self.kind = kind
        self.order = order
        self.seed = seed
        self.shuffled = chunks.shuffled
        self.n_rows = np.ascontiguousarray(chunks.n_rows, dtype=np.int64)
        n_chunks = len(self.cost)
        self.units = np.arange(n_chunks) if chunks.units is None else chunks.units
        self.block_chunks = block_chunks
        self.capacity = capacity
        self.resident = block_chunks >= n_chunks if block_chunks else int(self.cost.sum()) <= capacity
        self.stored = self._cut(np.arange(n_chunks))

    def _cut(self, chunks: np.ndarray) -> list[np.ndarray]:
        """Consecutive blocks of about equal cost, none above the capacity, as few as there can be."""
        if self.resident:
            return [chunks]
        if self.block_chunks:
            return [chunks[k : k + self.block_chunks] for k in range(0, len(chunks), self.block_chunks)]
        cost = self.cost[chunks]
        sums = np.append(0, np.cumsum(cost)).tolist()
        # where blocks begin of which each, from the last one on, is as full as can be: there are no fewer
        earliest = [len(chunks)]
        while earliest[-1] > 0:
            end = earliest[-1]
            earliest.append(min(bisect_left(sums, sums[end] - self.capacity), end - 1))
        n_blocks = len(earliest) - 1
        # a chunk belongs to the block in which its middle falls, where the capacity of this and of later ones allows
        share = (np.array(sums[1:]) - cost / 2) * (n_blocks / sums[-1])
        firsts = [0]
        for wanted, early in zip(share.searchsorted(np.arange(1, n_blocks)).tolist(), earliest[-2:0:-1], strict=True):
            latest = bisect_right(sums, sums[firsts[-1]] + self.capacity) - 1
            firsts.append(max(min(wanted, latest), early, firsts[-1] + 1))
        return np.split(chunks, firsts[1:])

    def blocks(self, outer: int) -> list[np.ndarray]:
        """The blocks of an outer iteration (from 1) in the order of their visits, each an array of chunk numbers."""
        if self.resident or self.order == "stored":
            return self.stored
        if self.kind == "fixed":
            return [self.stored[k] for k in self.drawn(outer, len(self.stored)).tolist()]
        drawn = self.drawn(outer, len(self.units))
        if len(drawn) == len(self.cost):
            return self._cut(drawn)
        first, n = self.units[drawn], np.diff(self.units, append=len(self.cost))[drawn]
        return self._cut(np.repeat(first - np.cumsum(n) + n, n) + np.arange(len(self.cost)))

    def drawn(self, outer: int, n: int) -> np.ndarray:
        """(n,) int64: 0 to n - 1 in the order that is drawn for an outer iteration."""
        drawn = np.empty(n, np.int32)
        windowed_order(order_key(self.seed, PARTITION, outer), n, n, drawn, np.empty(1, np.int32))
        return drawn.astype(np.int64)

    def row_order(self, outer: int, visit: int, inner_pass: int, out: np.ndarray) -> np.ndarray:
        """The order of a block's rows for one inner pass, in ``out`` (n,) int32."""
        n = len(out)
        near = self.shuffled and self.kind == "redrawn" and n >= FEWEST_WINDOWS * WINDOW_ROWS
        if near and self.resident and self.order != "stored":
            assert n == self.n_rows.sum()
            key = order_key(self.seed, PASS, outer, visit, inner_pass)
            windowed_rows(key, self.n_rows, WINDOW_ROWS, out, np.empty(len(self.n_rows), np.int32))
            return out
        return self._ordered(WINDOW_ROWS if near else n, out, PASS, outer, visit, inner_pass)

    def set_order(self, outer: int, visit: int, inner_pass: int, out: np.ndarray) -> np.ndarray:
        """The order of the working set's members for one pass, in ``out`` (m,) int32."""
        return self._ordered(len(out), out, SET_PASS, outer, visit, inner_pass)

    def _ordered(self, window: int, out: np.ndarray, *key: int) -> np.ndarray:
        """0 to n - 1 in ``out``, shuffled within windows by the key, or as they are stored."""
        n, window = len(out), max(1, window)
        if self.order == "stored":
            out[:] = np.arange(n, dtype=np.int32)
        else:
            windowed_order(order_key(self.seed, *key), n, window, out, np.empty(-(-n // window), np.int32))
        return out
