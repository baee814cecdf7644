"""What the process that trains decides before a row is read: the batches of a reading and their parts, by counts alone,
and its memory."""

from __future__ import annotations

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.sources.source import Source, block_bytes_of_chunks
from blocksvm.store.descriptions import PartitionMeta
from blocksvm.training.partition import (
    BlockPlan,
    Partition,
    StoredChunks,
    beside_the_set,
    row_work_bytes,
    set_bytes_within,
    take_set,
)
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings

PARTS = 32  # of all chunks, at least
LARGEST_PART = 1 << 23  # nonzeros and rows: 0.1 s of a worker's work, some ten times what it costs to hand them out
MOST_UNDER_WAY = 64  # parts
BATCHES = 8  # of a reading
FIRST = 1 / 256  # of the rows, the first batch of all; each is twice as large as the one before, until an eighth:
# at alpha = 0 every row moves, after a 256th most of the easy ones do not
GRADIENTS = 4  # nonzeros of a part for each number of a gradient, at least
VERSIONS = 5  # copies of w beside the one that moves: two in the state, the last whole one, what differs, one sent


def part_size(sizes: np.ndarray, most: int = LARGEST_PART) -> int:
    """The size of a part of chunks of these sizes (nonzeros and rows)."""
    return min(max(1, int(sizes.sum()) // PARTS), most)


def cut(chunks: np.ndarray, sizes: np.ndarray, part: int) -> list[np.ndarray]:
    """Consecutive ones of some chunks, together of about the size ``part``, or one chunk; sizes: of all chunks."""
    ends = np.cumsum(sizes[chunks])
    numbers = (ends - sizes[chunks]) // part
    return np.split(chunks, np.flatnonzero(np.diff(numbers)) + 1)


class PartsOfBatches(Partition):
    """The blocks of an outer iteration are the parts of its batches, of redrawn chunks; least: nonzeros of a part."""

    def __init__(self, source: Source, seed: int, order: str, least: int = 1):
        n_rows = source.chunks.n_rows
        super().__init__(source.chunks.nnz, 0, 1, "redrawn", order, seed, StoredChunks(n_rows, source.shuffled))
        self.sizes = source.chunks.nnz + n_rows  # rows without entries, too, take time and memory
        self.part = max(part_size(self.sizes), least)
        self.stored = cut(np.arange(len(n_rows)), self.sizes, self.part)

    def bytes_of_part(self, source: Source, of_row: int) -> int:
        """Of the rows of the largest part, each with so many bytes besides."""
        sizes = block_bytes_of_chunks(source) + source.chunks.n_rows * of_row
        edges = source.shape.block_bytes(0, 0)
        return self.part * int(np.ceil((sizes / self.sizes).max())) + int(sizes.max()) + edges

    def blocks(self, outer: int) -> list[np.ndarray]:
        return [part for batch in self.batches(outer) for part in batch]

    def batches(self, outer: int) -> list[list[np.ndarray]]:
        """The parts of each batch."""
        n = len(self.sizes)
        chunks = np.arange(n) if self.order == "stored" else self.drawn(outer, n)
        shares = np.full(BATCHES, 1 / BATCHES)
        if outer == 1:
            doubled = FIRST * 2.0 ** np.arange(int(np.log2(1 / (FIRST * BATCHES))))
            shares = np.concatenate([doubled, np.full(BATCHES, (1 - doubled.sum()) / BATCHES)])
        ends = np.cumsum(self.sizes[chunks])
        bounds = np.searchsorted(ends, np.cumsum(shares)[:-1] * ends[-1]) + 1
        batches = np.split(chunks, np.minimum(bounds, n))
        return [cut(batch, self.sizes, self.part) for batch in batches if len(batch)]


class StoredParts(PartsOfBatches):
    """The blocks of an outer iteration are parts of the chunks, in the order of the source."""

    def blocks(self, outer: int) -> list[np.ndarray]:
        return self.stored


class ClusterPlan(Plan):
    """The plan of a run whose rows are read by workers."""

    def __init__(self, source: Source, settings: TrainSettings, **more):
        settings = settings.settled(source)
        needs, by_clock = settings.capabilities, settings.make_schedule().by_clock
        self.screened = needs.certifies and needs.working_set
        if by_clock or not (self.screened or needs.in_order):
            refused = option("schedule", settings.schedule) if by_clock else option("solver", settings.solver)
            raise InputError(
                f"{refused}: not on a cluster, which trains by dual-cd or newton as its workers answer; leave it out"
            )
        self.version_of = "w" if self.screened else "trial"  # the array of the state that workers have versions of
        super().__init__(source, settings, **more)

    def bytes_of(self, name: str) -> int:
        """Of an array of the state that no row has an entry of."""
        array = next(array for array in self.solver.state_arrays if array.name == name)
        return array.n_bytes(self.source.n_features, 0)

    def plan_rows(self, saved: PartitionMeta | None) -> BlockPlan:
        """Beside the copies of the weights the parts under way, with the working set, or answers as large as what they
        add up."""
        budget, source, solver, settings = self.budget, self.source, self.solver, self.settings
        memory, copies = budget.left, self.bytes_of(self.version_of)
        if not self.screened:
            # a gradient is to be a fraction of what has been read for it
            parts = StoredParts(source, settings.seed, "stored", GRADIENTS * (source.n_features + 1))
            budget.take("copies of the weights", 4 * copies)  # the last whole one, where it differs, two that are sent
            answer = copies + self.bytes_of("hessian")
            budget.require("two answers", 2 * answer)
            under_way = int(min(MOST_UNDER_WAY, budget.left // answer))
            budget.take("answers under way", under_way * answer)
            return BlockPlan(source, parts, parts.bytes_of_part(source, 0), None, memory, under_way=under_way)
        share = settings.working_set_share()
        if share is None:
            refused = option("working_set", "none")
            raise InputError(f"{refused}: a cluster sends rows for the working set; leave it out")
        batches = PartsOfBatches(source, settings.seed, settings.order)
        budget.take("copies of the weights", VERSIONS * copies)
        budget.take("rows left out", source.n_samples)
        part = batches.bytes_of_part(source, row_work_bytes(solver))
        budget.require("three parts", 4 * part)
        beside = beside_the_set(source, solver)
        set_bytes = set_bytes_within(budget, source, share, 4 * part, beside) if saved is None else saved.set_bytes
        take_set(budget, source, set_bytes, beside)
        budget.require("three parts", 4 * part)  # one is read here
        under_way = int(min(MOST_UNDER_WAY, budget.left // part - 2))
        budget.take("parts under way", (under_way + 2) * part)
        return BlockPlan(source, batches, part, set_bytes, memory, under_way=under_way)

    @property
    def worker_bytes(self) -> int:
        """Memory of each thread of a worker: a part and its answer, two versions and what they are made of; or a part
        to add up, and its sums as they are and as they are sent."""
        sums = 0 if self.screened else 2 * self.bytes_of("hessian")
        return 2 * self.blocks.arena_bytes + 4 * self.bytes_of(self.version_of) + sums

    def describe_blocks(self) -> dict:
        return super().describe_blocks() | {"on_cluster": True}
