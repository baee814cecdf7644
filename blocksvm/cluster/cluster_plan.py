"""The batches of a reading by workers, and their parts: which chunks are screened at one w, by counts alone; and the
memory of the process that moves the rows."""

from __future__ import annotations

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import Budget
from blocksvm.cluster.chunk_parts import MOST_UNDER_WAY, cut, part_size
from blocksvm.solvers.solver import Solver
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

BATCHES = 16  # of a reading
FIRST = 1 / 256  # of the rows, the first batch of all; each is twice as large as the one before, until an eighth:
# at alpha = 0 every row moves, after a 256th most of the easy ones do not
GRADIENTS = 4  # nonzeros of a part for each number of a gradient, at least
VERSIONS = 7  # copies of w beside the one that moves: two in the state, three by version, two for what differs


class ScreenedBatches(Partition):
    """The blocks of an outer iteration are the parts of its batches, of redrawn chunks."""

    def __init__(self, source: Source, seed: int, order: str):
        n_rows = source.chunks.n_rows
        super().__init__(source.chunks.nnz, 0, 1, "redrawn", order, seed, StoredChunks(n_rows, source.shuffled))
        self.sizes = source.chunks.nnz + n_rows  # rows without entries, too, take time and memory
        self.part = part_size(self.sizes)
        self.stored = self.parts(np.arange(len(n_rows)))

    def blocks(self, outer: int) -> list[np.ndarray]:
        return [part for batch in self.batches(outer) for part in self.parts(batch)]

    def ranges(self, outer: int) -> list[range]:
        """Which of the parts of an outer iteration are each batch's."""
        ends = np.cumsum([len(self.parts(batch)) for batch in self.batches(outer)]).tolist()
        return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def batches(self, outer: int) -> list[np.ndarray]:
        """The chunks of each batch."""
        n = len(self.sizes)
        chunks = np.arange(n) if self.order == "stored" else self.drawn(outer, n)
        shares = np.full(BATCHES, 1 / BATCHES)
        if outer == 1:
            doubled = FIRST * 2.0 ** np.arange(int(np.log2(1 / (FIRST * BATCHES))))
            shares = np.concatenate([doubled, np.full(BATCHES, (1 - doubled.sum()) / BATCHES)])
        ends = np.cumsum(self.sizes[chunks])
        bounds = np.searchsorted(ends, np.cumsum(shares)[:-1] * ends[-1]) + 1
        batches = np.split(chunks, np.minimum(bounds, n))
        return [batch for batch in batches if len(batch)]

    def parts(self, chunks: np.ndarray) -> list[np.ndarray]:
        """Consecutive chunks of a batch, of about the size ``part`` or of one chunk."""
        return cut(chunks, self.sizes, self.part)


class StoredParts(Partition):
    """The blocks of an outer iteration are parts of the chunks, in the order of the source."""

    def __init__(self, source: Source, seed: int):
        chunks = StoredChunks(source.chunks.n_rows, source.shuffled)
        super().__init__(source.chunks.nnz, 0, 1, "fixed", "stored", seed, chunks)
        sizes = source.chunks.nnz + source.chunks.n_rows
        # an answer may be as large as the gradient, which is to be a fraction of what has been read for it
        self.part = max(part_size(sizes), GRADIENTS * (source.n_features + 1))
        self.parts = cut(np.arange(len(sizes)), sizes, self.part)

    def blocks(self, outer: int) -> list[np.ndarray]:
        return self.parts


def plan_gradients(
    budget: Budget, source: Source, solver: Solver, settings: TrainSettings, saved: PartitionMeta | None
) -> BlockPlan:
    """Where ``plan_blocks`` plans the blocks of one machine: the answers under way."""
    memory = budget.left
    parts = StoredParts(source, settings.seed)
    vectors, hessian = (_bytes_of(solver, source, name) for name in ("trial", "hessian"))
    budget.take("copies of the weights", 4 * vectors)  # three by version, and one that is sent
    answer = vectors + hessian
    budget.require("two answers", 2 * answer)
    under_way = int(min(MOST_UNDER_WAY, budget.left // answer))
    budget.take("answers under way", under_way * answer)
    sizes = block_bytes_of_chunks(source) + source.chunks.n_rows * row_work_bytes(solver)
    block = max(int(sizes[some].sum()) for some in parts.parts)
    return BlockPlan(source, parts, block, None, memory, under_way=under_way)


def _bytes_of(solver: Solver, source: Source, name: str) -> int:
    """Of an array of the state that no row has an entry of."""
    return next(array for array in solver.state_arrays if array.name == name).n_bytes(source.n_features, 0)


def plan_batches(
    budget: Budget, source: Source, solver: Solver, settings: TrainSettings, saved: PartitionMeta | None
) -> BlockPlan:
    """Where ``plan_blocks`` plans the blocks of one machine: the parts under way and the working set."""
    share = settings.working_set_share()
    if share is None:
        raise InputError(f"{option('working_set', 'none')}: a cluster sends rows for the working set; leave it out")
    memory = budget.left
    batches = ScreenedBatches(source, settings.seed, settings.order)
    budget.take("copies of the weights", VERSIONS * _bytes_of(solver, source, "w"))
    budget.take("rows left out", source.n_samples)
    chunks = source.chunks
    sizes = block_bytes_of_chunks(source) + chunks.n_rows * row_work_bytes(solver)
    part = batches.part * int(np.ceil((sizes / batches.sizes).max())) + int(sizes.max())
    budget.require("two parts", 3 * part)
    beside = beside_the_set(source, solver)
    set_bytes = set_bytes_within(budget, source, share, 3 * part, beside) if saved is None else saved.set_bytes
    take_set(budget, source, set_bytes, beside)
    budget.require("two parts", 3 * part)
    under_way = int(min(MOST_UNDER_WAY, budget.left // part - 1))
    budget.take("parts under way", (under_way + 1) * part)
    return BlockPlan(source, batches, part, set_bytes, memory, under_way=under_way)


class ClusterPlan(Plan):
    """The plan of a run whose rows are read by workers."""

    def __init__(self, source: Source, settings: TrainSettings, **more):
        settings = settings.settled(source)
        needs, by_clock = settings.capabilities, settings.make_schedule().by_clock
        screened = needs.certifies and needs.working_set
        if by_clock or not (screened or needs.in_order):
            refused = option("schedule", settings.schedule) if by_clock else option("solver", settings.solver)
            raise InputError(
                f"{refused}: not on a cluster, which trains by dual-cd or newton as its workers answer; leave it out"
            )
        self.screened = screened
        self.version_of = "w" if screened else "trial"  # the array of the state that workers have versions of
        self.plan_rows = plan_batches if screened else plan_gradients
        super().__init__(source, settings, **more)

    @property
    def worker_bytes(self) -> int:
        """Memory of each worker: two parts to screen, two versions and two that come; or a part to add up, two
        versions, and two sums as they are and as they are sent."""
        version = _bytes_of(self.solver, self.source, self.version_of)
        if self.screened:
            return 2 * self.blocks.arena_bytes + 4 * version
        return self.blocks.arena_bytes + 4 * version + 2 * _bytes_of(self.solver, self.source, "hessian")

    def describe_blocks(self) -> dict:
        return super().describe_blocks() | {"on_cluster": True}
