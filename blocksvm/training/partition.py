"""The chunks of each block, and the order in which blocks and rows are visited: arithmetic on keys alone; and memory
before it is taken: everything that a run will allocate, and what is left for its blocks."""

import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.memory import Budget
from blocksvm.kernels.shuffle import windowed_order
from blocksvm.solvers.solver import Solver
from blocksvm.sources.source import Source, block_bytes_of_chunks
from blocksvm.store.descriptions import PartitionMeta
from blocksvm.training import working_set
from blocksvm.training.settings import AUTO, TrainSettings

# In a large block, rows that lie near in memory are visited near in time, which the caches reward.  With few such
# windows it converges more slowly (3,000 reviews: 10 outer iterations in place of 7 with two windows, more than 60 with
# six): then the whole block is shuffled.
WINDOW_ROWS = 2048
FEWEST_WINDOWS = 8

PARTITION, PASS, SET_PASS = 1, 2, 3  # what a key is for

TABLE_BYTES = 120  # of tables for each chunk
SET_SHARE = 0.5  # of what the blocks would get, for the working set
CHOOSING_BYTES = 48  # of a row of the block at work, while it is decided which of them the working set takes


def order_key(seed: int, purpose: int, *numbers: int) -> np.uint64:
    """A generator's key; numbers: outer, visit, pass."""
    return np.uint64(xxh3_64_intdigest(struct.pack(f"<{2 + len(numbers)}q", seed, purpose, *numbers)))


class Partition:
    """Blocks of chunks for each outer iteration.  cost (n_chunks,) int64: memory that each chunk takes in a block;
    capacity: the most a block may take, or block_chunks: exactly how many chunks form one.  kind: 'redrawn' (other
    chunks together each time) or 'fixed' (the same blocks, in another order; Yu et al., KDD 2010); order 'stored' keeps
    everything in the order of the source.  n_rows (n_chunks,) of each; shuffled: the rows are in random order already;
    units (n_units,) int64, rising from 0: the first chunks of those that are drawn together (None: each alone)."""

    def __init__(self, cost, capacity, block_chunks, kind, order, seed, n_rows, shuffled: bool, units=None):
        self.cost, n_chunks = np.asarray(cost, dtype=np.int64), len(cost)
        self.kind, self.order, self.seed, self.shuffled = kind, order, seed, shuffled
        self.n_rows = np.ascontiguousarray(n_rows, dtype=np.int64)
        self.units = np.arange(n_chunks) if units is None else units
        self.block_chunks, self.capacity = block_chunks, capacity
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
        self._draw(drawn, np.array([n]), 0, PARTITION, outer)
        return drawn.astype(np.int64)

    def row_order(self, outer: int, visit: int, inner_pass: int, out: np.ndarray) -> np.ndarray:
        """The order of a block's rows for one inner pass, in ``out`` (n,) int32."""
        n = len(out)
        near = self.shuffled and self.kind == "redrawn" and n >= FEWEST_WINDOWS * WINDOW_ROWS
        if near and self.resident and self.order != "stored":
            assert n == self.n_rows.sum()
            return self._draw(out, self.n_rows, WINDOW_ROWS, PASS, outer, visit, inner_pass)
        return self._ordered(WINDOW_ROWS if near else n, out, PASS, outer, visit, inner_pass)

    def set_order(self, outer: int, visit: int, inner_pass: int, out: np.ndarray) -> np.ndarray:
        """The order of the working set's members for one pass, in ``out`` (m,) int32."""
        return self._ordered(len(out), out, SET_PASS, outer, visit, inner_pass)

    def _ordered(self, window: int, out: np.ndarray, *key: int) -> np.ndarray:
        """0 to n - 1 in ``out``, shuffled within windows by the key, or as they are stored."""
        n = len(out)
        if self.order == "stored":
            out[:] = np.arange(n, dtype=np.int32)
            return out
        return self._draw(out, np.minimum(window, n - np.arange(0, n, max(1, window))), 0, *key)

    def _draw(self, out: np.ndarray, sizes: np.ndarray, window: int, *key: int) -> np.ndarray:
        windowed_order(order_key(self.seed, *key), sizes, window, out, np.empty(len(sizes), np.int32))
        return out


@dataclass(frozen=True)
class BlockPlan:
    """Where the blocks of an outer iteration come from, and the memory for them."""

    source: Source
    partition: Partition
    arena_bytes: int
    set_bytes: int | None  # of the working set, None where there is none
    memory: int  # what the solver's state leaves, of which reading takes its part
    unit_bytes: int | None = None  # of the chunks that are drawn together, None where each is alone
    under_way: int = 0  # of a cluster, how many parts it holds

    @property
    def work_of_reading(self) -> float:
        """Of all rows: each nonzero once where it is visited, and once where it is read."""
        return self.source.n_nonzeros * (1.0 if self.partition.resident else 2.0)


def row_work_bytes(solver: Solver) -> int:
    """What a row of the block at work takes beside it: its position in the order, its state; in a certificate its
    margins, and by how much they may be off, then its part of w(alpha)."""
    row_bytes = sum(array.entry_bytes for array in solver.state_arrays if array.axis == "row" and array.in_visits)
    choosing = CHOOSING_BYTES if solver.with_set else 0
    return 4 + row_bytes + solver.visit_bytes + (1 + 2 * solver.n_vectors) * 8 + choosing


def take_state(budget: Budget, source: Source, solver: Solver, n_features: int) -> None:
    """Count the solver's state by shape and dtype, for so many features, and the source's tables."""
    n_bytes = {"feature": 0, "row": 0, "scalar": 0, "matrix": 0}
    for array in solver.state_arrays:
        n_bytes[array.axis] += array.n_bytes(n_features, source.n_samples)
    output = 8 * solver.n_vectors * (n_features + 1) if solver.needs_output else 0
    scalars = 2 * n_bytes["scalar"]  # a visit has a copy
    budget.take("weights", n_bytes["feature"] + output)
    budget.take("alpha", n_bytes["row"] + n_bytes["matrix"])
    budget.take("tables", TABLE_BYTES * len(source.chunks) + scalars)


def plan_blocks(
    budget: Budget, source: Source, solver: Solver, settings: TrainSettings, saved: PartitionMeta | None
) -> BlockPlan:
    """The blocks for what the budget leaves: all rows at once where they and a working set fit (clicks without one took
    six times as long as in blocks with one), else two blocks, the one at work and the one being read, and rows kept
    between readings.  saved: of the run that is resumed, whose blocks must be formed again.  Raises InputError with the
    whole need where not even the smallest blocks fit."""
    share = settings.working_set_share()
    chunks = source.chunks
    block = block_bytes_of_chunks(source)
    alone = chunks.n_rows * 8 if source.in_memory else block
    work = chunks.n_rows * row_work_bytes(solver)
    edges = source.shape.block_bytes(0, 0)  # each block's arrays begin on a cache line
    memory = budget.left
    budget.take("reading", source.working_bytes(memory) + edges)
    budget.require("the rows of one chunk", int((alone + work).max()))
    beside = beside_the_set(source, solver)
    n = settings.block_chunks
    order = "stored" if solver.capabilities.in_order else settings.order
    unit_bytes = source.unit_bytes(memory)
    if saved is not None:
        unit_bytes = saved.unit_bytes
    drawn = chunks.n_rows, source.shuffled, source.units(unit_bytes)
    arguments = (n, settings.partition, order, settings.seed, *drawn)
    need = int((alone + work).sum()) + (0 if share is None else working_set.MEMBER_BYTES * source.n_samples)
    copies, more = None, 0
    if share is not None:  # for copies of the set's rows where all are in memory: a pass finds them side by side
        some = (int(working_set.RESIDENT_SHARE * n) + 1 for n in (source.n_samples, source.size))
        copies = working_set.bytes_of_set(source, *some)
        more = copies + _of_visits(source, copies, beside)
    cost = 2 * block + work
    smallest = int(np.sort(cost)[-(n or 1) :].sum())
    # without a set where they just fit: who asks for one block of all rows, and who could not have two blocks
    alone_fits = need <= budget.left and (n is not None or smallest > budget.left - edges)
    resident = saved.resident if saved else alone_fits or need + more <= budget.left

    if resident and (n is None or n >= len(chunks)):
        set_bytes = saved.set_bytes if saved else copies if need + more <= budget.left else None
        take_set(budget, source, set_bytes, beside)
        budget.reserve("all rows", need)
        arena = 0 if source.in_memory else int(alone.sum()) + edges
        partition = Partition(alone + work, need, *arguments)
        return BlockPlan(source, partition, arena, set_bytes, memory, unit_bytes)
    budget.take("reading", edges)
    set_bytes = set_bytes_within(budget, source, share, smallest, beside) if saved is None else saved.set_bytes
    take_set(budget, source, set_bytes, beside)
    capacity = saved.capacity if saved else smallest if n else budget.left
    # a resumed run forms the blocks that it was begun with: what else is asked for needs memory beside them
    budget.require("two blocks as the run was begun with" if saved else "two blocks", max(smallest, capacity))
    used = min(capacity, int(cost.sum()))
    budget.take("two blocks", used)
    return BlockPlan(source, Partition(cost, capacity, *arguments), used // 2 + edges, set_bytes, memory, unit_bytes)


def beside_the_set(source: Source, solver: Solver) -> float:
    """Bytes that a visit to the working set takes for each byte of its rows; of one vector few."""
    if solver.n_vectors == 1:
        return 0.0
    return row_work_bytes(solver) / working_set.bytes_of_row(source)


def take_set(budget: Budget, source: Source, set_bytes: int | None, beside: float) -> None:
    """Count the working set, and what visits to it take beside it."""
    if set_bytes:
        budget.take("working set", set_bytes)
    budget.take("visits to the working set", _of_visits(source, set_bytes, beside))


def _of_visits(source: Source, set_bytes: int | None, beside: float) -> int:
    return int(beside * max(0, (set_bytes or 0) - working_set.TABLE_BYTES * source.n_samples))


def set_bytes_within(budget: Budget, source: Source, share: float | None, smallest: int, beside: float) -> int | None:
    """For the working set: what is asked for, as far as the ``smallest`` blocks leave it; at least for its table."""
    if share is None:
        return None
    table = working_set.TABLE_BYTES * source.n_samples
    wanted = int(SET_SHARE * budget.left if share == AUTO else share * budget.total)
    rows = source.shape.block_bytes(source.n_samples, source.size)
    largest = table + working_set.MEMBER_BYTES * source.n_samples + rows
    rows = int((min(wanted, budget.left - smallest) - table) / (1.0 + beside))
    return max(table, min(table + rows, largest))
