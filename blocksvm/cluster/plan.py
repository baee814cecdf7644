"""What the process that trains decides before a row is read: the batches of a reading and their parts, by counts alone,
and its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import Budget
from blocksvm.online.methods import get_method
from blocksvm.solvers.solver import Solver, Task
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

    def ranges(self, outer: int) -> list[range]:
        """Which of the parts of an outer iteration are each batch's."""
        ends = np.cumsum([len(batch) for batch in self.batches(outer)]).tolist()
        return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]

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


def bytes_of(solver: Solver, source: Source, name: str) -> int:
    """Of an array of the state that no row has an entry of."""
    return next(array for array in solver.state_arrays if array.name == name).n_bytes(source.n_features, 0)


def plan_sums(
    budget: Budget, source: Source, solver: Solver, settings: TrainSettings, saved: PartitionMeta | None
) -> BlockPlan:
    """Where ``plan_blocks`` plans the blocks of one machine: the answers under way."""
    memory = budget.left
    # an answer may be as large as the gradient, which is to be a fraction of what has been read for it
    parts = StoredParts(source, settings.seed, "stored", GRADIENTS * (source.n_features + 1))
    vectors, hessian = (bytes_of(solver, source, name) for name in ("trial", "hessian"))
    budget.take("copies of the weights", 4 * vectors)  # the last whole one, where it differs, and two that are sent
    answer = vectors + hessian
    budget.require("two answers", 2 * answer)
    under_way = int(min(MOST_UNDER_WAY, budget.left // answer))
    budget.take("answers under way", under_way * answer)
    return BlockPlan(source, parts, parts.bytes_of_part(source, 0), None, memory, under_way=under_way)


def plan_batches(
    budget: Budget, source: Source, solver: Solver, settings: TrainSettings, saved: PartitionMeta | None
) -> BlockPlan:
    """Where ``plan_blocks`` plans the blocks of one machine: the parts under way and the working set."""
    share = settings.working_set_share()
    if share is None:
        raise InputError(f"{option('working_set', 'none')}: a cluster sends rows for the working set; leave it out")
    memory = budget.left
    batches = PartsOfBatches(source, settings.seed, settings.order)
    budget.take("copies of the weights", VERSIONS * bytes_of(solver, source, "w"))
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


def plan_there(make: Callable[..., Solver], previous: tuple | None, source: Source, settings: TrainSettings, **more):
    """The plan of a run whose solver is made so, and begins at ``previous``, which workers need not know."""
    method = replace(get_method(settings.solver), make=partial(make, previous=previous))
    return ClusterPlan(source, settings, make, method=method, **more)


class ClusterPlan(Plan):
    """The plan of a run whose rows are read by workers; make: a solver of a task there, if another one than the
    settings name."""

    def __init__(self, source: Source, settings: TrainSettings, make: Callable[[Task], Solver] | None = None, **more):
        settings = settings.settled(source)
        self.make = make or get_method(settings.solver, settings.learner).make
        needs, by_clock = settings.capabilities, settings.make_schedule().by_clock
        self.screened = needs.certifies and needs.working_set
        if by_clock or not (self.screened or needs.in_order):
            refused = option("schedule", settings.schedule) if by_clock else option("solver", settings.solver)
            raise InputError(
                f"{refused}: not on a cluster, which trains by dual-cd or newton as its workers answer; leave it out"
            )
        self.version_of = "w" if self.screened else "trial"  # the array of the state that workers have versions of
        self.plan_rows = plan_batches if self.screened else plan_sums
        super().__init__(source, settings, **more)

    @property
    def worker_bytes(self) -> int:
        """Memory of each thread of a worker: a part and its answer, two versions and what they are made of; or a part
        to add up, and its sums as they are and as they are sent."""
        version = bytes_of(self.solver, self.source, self.version_of)
        sums = 0 if self.screened else 2 * bytes_of(self.solver, self.source, "hessian")
        return 2 * self.blocks.arena_bytes + 4 * version + sums

    def describe_blocks(self) -> dict:
        return super().describe_blocks() | {"on_cluster": True}
