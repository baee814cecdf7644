"""A sample of a store's rows, trained as the whole would be, and the rates of this machine on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from blocksvm.base.memory import memory_limit
from blocksvm.base.threads import Threads
from blocksvm.planning.forecast import Rates, WorkCounts
from blocksvm.solvers.solver import problem_of
from blocksvm.sources.block import Arena
from blocksvm.sources.block_reader import BlockReader
from blocksvm.sources.chosen_chunks import ChosenChunks
from blocksvm.sources.source import Source, block_bytes_of_chunks, bytes_of_blocks
from blocksvm.training.loop import NO_CHUNKS, OuterLoop
from blocksvm.training.memory_plan import row_work_bytes
from blocksvm.training.plan import Plan
from blocksvm.training.run import Watch
from blocksvm.training.schedule import PassStats
from blocksvm.training.visit import VisitTask, part_of, run_visit
from blocksvm.training.working_set import WorkingSet

SHARE = 1 / 256  # of the rows
# At least so many, as far as there are: fewer rows take other numbers of readings, and fewer nonzeros fit into caches,
# which makes all rates too high.
LEAST_ROWS, LEAST_NONZEROS = 4_000, 4_000_000
MOST_TOUCHED = 512_000_000  # bytes, to see how fast the system gives memory
PAGE = 4096
REPEATS = 3  # of a measurement, of which the median is taken


def sample_of(source: Source, least_rows: int = LEAST_ROWS, least_nonzeros: int = LEAST_NONZEROS) -> ChosenChunks:
    """Chunks at equal distances."""
    n = len(source.chunks)
    share = max(SHARE, least_rows / source.n_samples, least_nonzeros / source.n_nonzeros)
    k = min(n, max(1, round(share * n)))
    return ChosenChunks(source, ((np.arange(k) + 0.5) * n / k).astype(np.int64))


def scaled_blocks(whole: Plan, sample: Source) -> dict:
    """For the plan of a run on the sample: that part of each memory which the sample is of the rows, as a checkpoint
    describes it, so that its blocks and its working set are the same parts of the rows."""
    share, blocks = sample.n_nonzeros / whole.source.n_nonzeros, whole.blocks
    chunk = 2 * block_bytes_of_chunks(sample) + sample.chunks.n_rows * row_work_bytes(whole.solver)
    parts = {
        "resident": blocks.partition.resident,
        "capacity": max(int(share * blocks.partition.capacity), int(chunk.max())),
        "set_bytes": None if blocks.set_bytes is None else int(share * blocks.set_bytes),
    }
    return {"partition": parts}


class SampledRun:
    """A run on a sample, by one thread.  whole: the plan of the run on all rows, which have nonzeros."""

    def __init__(self, whole: Plan, sample: ChosenChunks | None = None):
        self.whole, self.sample = whole, sample or sample_of(whole.source)
        self.events: list = []

    def run(self) -> None:
        self.fresh = fresh_memory(min(sum(self.whole.memory().values()), MOST_TOUCHED))
        began = time.perf_counter()
        one = ChosenChunks(self.whole.source, self.sample.chosen[:1])
        self._train(one)  # kernels are loaded
        self.start = time.perf_counter() - began
        one.close()
        self._read()
        self.loop = self._train(self.sample)

    def _train(self, source: Source) -> OuterLoop:
        self.events.clear()
        plan = Plan(source, self.whole.settings, resume=scaled_blocks(self.whole, source))
        plan.share_work(Threads(1))
        loop = OuterLoop(plan, Watch(self.events.append))
        loop.run()
        return loop

    def _read(self) -> None:
        """Read the sample twice: as the system has it, and again."""
        sample = self.sample
        arena = Arena(bytes_of_blocks(sample, sample.n_samples, sample.n_nonzeros))
        arena.memory[:] = 0
        costs, chunks = [], np.arange(len(sample.chunks))
        for _ in range(2):
            before = replace(sample.cost)
            self.block = sample.read_block(chunks, arena)
            costs.append(sample.cost - before)
        self.first, self.again = costs
        with BlockReader(sample, len(arena.memory), resident=True) as reader:
            reader.arenas[0].memory[:] = 0
            began = time.perf_counter()
            reader.take(chunks)  # which is decoded by two threads
            alone = self.again.seconds_reading + self.again.seconds_decoding
            self.sharing = min(2.0, max(1.0, alone / (time.perf_counter() - began)))

    # -- what it has shown ------------------------------------------------------------------------------------

    def counts(self) -> WorkCounts:
        outers = self._of("outer")
        certificates = sum(event["share"] for event in self._of("certificate"))
        visited, of_set = (sum(e[name] for e in outers) for name in ("nnz_visited", "set_nnz_visited"))
        n = self.sample.n_nonzeros
        return WorkCounts(len(outers), certificates, visited / n, of_set / n)

    def rates(self) -> Rates:
        outers, n = self._of("outer"), self.sample.n_nonzeros
        training = sum(e["seconds_training"] for e in outers)
        visited = sum(e["nnz_visited"] for e in outers)
        read = self.first.bytes_read / max(1e-9, self.first.seconds_reading)
        again = self.again.bytes_read / max(1e-9, self.again.seconds_reading)
        if self.stored_bytes() > memory_limit()[0]:
            again = read  # the system can't have all of it in memory
        screening = self._seconds_of_screening()
        if self.loop.plan.solver.n_vectors > 1:  # they have ended; threads share all that is done for several problems
            screening = n * training / visited
        outer, offering = self._seconds_of_weights(), self._seconds_of_offering()
        visits = sum(e["blocks"] for e in outers)
        beside = self._seconds_beside() - len(outers) * (outer + offering)
        return Rates(
            read, again, self.fresh, n / self.again.seconds_decoding, visited / training, n / screening,
            self._set_pass(), n / max(1e-9, offering), max(0.0, beside / visits), outer, self.start, self.sharing,
        )  # fmt: skip

    def stored_bytes(self) -> int:
        """Of all rows."""
        return round(self.first.bytes_read * self.whole.source.n_nonzeros / self.sample.n_nonzeros)

    def _of(self, event: str) -> list:
        return [one for one in self.events if one["event"] == event]

    def _seconds_beside(self) -> float:
        """Of outer iterations, without passes, waiting and certificates."""
        beside = self.events[-1]["seconds"]
        for event in self.events:
            if event["event"] == "outer":
                beside -= event["seconds_training"] + event["set_seconds"] + event["seconds_waiting"]
            elif event["event"] == "certifying":
                beside += event["seconds"]
            elif event["event"] == "certificate":
                beside -= event["seconds"]
        return beside

    def _seconds_of_weights(self) -> float:
        """Of what an outer iteration adds up over all weights."""
        solver, state = self.loop.plan.solver, self.loop.state
        return timed(lambda: solver.estimates(state, 0.0, 0.0))

    def _seconds_of_screening(self) -> float:
        """Of the sample's rows at one w."""
        plan, state, block = self.loop.plan, self.loop.state, self.block
        solver: Any = plan.solver
        sums = problem_of(solver, state).sums(self.loop.weights(), solver.prior)
        part, self.share = part_of(solver, block, state), np.empty(block.n_samples)

        def screen() -> None:
            scores = sums.scores(block)
            sums.add(scores, block, part["alpha"])
            if plan.blocks.set_bytes is not None:
                solver.shares(block, scores, part, self.share)

        return timed(screen)

    def _seconds_of_offering(self) -> float:
        """Of choosing rows of the sample for the working set, and copying them."""
        plan, block = self.loop.plan, self.block
        if plan.blocks.set_bytes is None:
            return 0.0
        sets = iter([WorkingSet(self.sample, plan.blocks.set_bytes) for _ in range(REPEATS)])
        return timed(lambda: next(sets).offer(block, self.share))

    def _set_pass(self) -> float:
        """Nonzeros a second of a pass over as many rows as the working set may have, in random order; or of those that
        the run has made over fewer rows, of which more moved, where these were slower."""
        solver, state, block = self.loop.plan.solver, self.loop.state, self.block
        of_set = self.whole.blocks.set_bytes
        own = bytes_of_blocks(self.sample, block.n_samples, block.n_nonzeros)
        share = 1.0 if of_set is None else min(1.0, of_set / own)
        members = np.arange(max(1, int(share * block.n_samples)), dtype=np.int32)
        task = VisitTask(NO_CHUNKS, (0, 0), self.whole.schedule, PassStats(), members, between=True)
        done = []

        def visit() -> None:
            part = part_of(solver, block, state)
            done.append(run_visit(solver, self.loop.plan.blocks.partition, task, block, part))

        timed(visit)
        here = median(one.passes[0].nnz_visited / one.seconds[0] for one in done)
        visited, seconds = (sum(e[name] for e in self._of("outer")) for name in ("set_nnz_visited", "set_seconds"))
        rates = [rate for rate in (here, visited / max(1e-9, seconds)) if rate]  # several problems have ended by now
        return min(rates, default=1.0)  # no row is ever in the set


def timed(work: Callable[[], object]) -> float:
    """Seconds, the median of some repeats."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def fresh_memory(n_bytes: int) -> float:
    """Bytes a second of memory that the system has to find, which may be ten times slower where it is a guest's."""
    began = time.perf_counter()
    np.empty(max(PAGE, n_bytes), np.uint8)[::PAGE] = 1
    return n_bytes / (time.perf_counter() - began)
