"""The outer loop where workers read: they screen the rows of a batch at one w, and this process moves those that can
move, each by its exact step at the w of its turn, holds w, alpha and the working set, and passes over that.

    for each reading:
        for each batch of its chunks:
            have the next batch screened, near w as it is now
            take this one's answers part by part, in order: move the rows, offer them to the working set
            pass over the working set, where the schedule wants it
        a certificate is a reading at one w, whose sums workers add up

So a batch is screened near the w of one batch before, and nobody waits: small changes of w are sent once they have
added up.  Of Newton's method workers add up their rows, and this process adds up theirs.  Batches and parts are made by
counts alone, and answers taken in order: the bits depend neither on how many workers there are, nor on what becomes of
them.  Predictions are parts of such a kind, too: chunks of a store, or whole files.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.vectors import as_columns, on_lines
from blocksvm.cluster.dask import Cluster, ClusterLost, Parts
from blocksvm.cluster.part import Answer, TrainingPart, file_at, scoring, training, writing
from blocksvm.files.output import TemporaryFolder, temporary_folder
from blocksvm.files.paths import absolute_name
from blocksvm.problems.certificate import Certificate, CertificateSums
from blocksvm.solvers.solver import PassResult
from blocksvm.sources.block import rows_of
from blocksvm.sources.source import Source, block_bytes_of_chunks
from blocksvm.store.descriptions import PartitionMeta
from blocksvm.training import partition
from blocksvm.training.loop import OuterLoop, Stopped
from blocksvm.training.plan import Plan
from blocksvm.training.schedule import PassStats
from blocksvm.training.settings import TrainSettings
from blocksvm.training.visit import VisitResult, VisitTask, offer_shares
from blocksvm.training.working_set import WorkingSet

PARTS = 32  # of all chunks, at least
LARGEST_PART = 1 << 23  # nonzeros and rows: 0.1 s of a worker's work, some ten times what it costs to hand them out
MOST_UNDER_WAY = 64  # parts
BATCHES = 8  # of a reading
FIRST = 1 / 256  # of the rows, the first batch of all; each is twice as large as the one before, until an eighth:
# at alpha = 0 every row moves, after a 256th most of the easy ones do not
GRADIENTS = 4  # nonzeros of a part for each number of a gradient, at least
VERSIONS = 5  # copies of w beside the one that moves: two in the state, the last whole one, what differs, one sent
# In the state: w at which the batch at work and the following one are screened, and the rows of the set, which are not.
BEFORE, AHEAD, LEFT_OUT = "screened at", "screened ahead at", "left out"
AT = "batch at work"  # outer iteration and number
LEAST = "least share sent"  # of the gap, of a row that is visited
LEAST_SHARE = 0.1  # of the mean share of the last reading
AT_ONCE = 1 << 12  # members of which the gap is added up at once
NUMBER, SMALL = 8, 1 << 20  # bytes, of measures but for the ROC curve
ANSWERS = 1 / 4  # of the memory that is left, at most, for scores that have come


def cluster_loop(plan: ClusterPlan, *watching, cluster: Cluster, **more) -> ClusterLoop:
    loop = (ScreeningLoop if plan.screened else ClusterLoop)(plan, *watching, **more)
    loop.cluster = cluster
    return loop


def cut(chunks: np.ndarray, sizes: np.ndarray, part: int) -> list[np.ndarray]:
    """Consecutive ones of some chunks, together of about the size ``part``, or one chunk; sizes: of all chunks."""
    ends = np.cumsum(sizes[chunks])
    numbers = (ends - sizes[chunks]) // part
    return np.split(chunks, np.flatnonzero(np.diff(numbers)) + 1)


class PartsOfBatches(partition.Partition):
    """The blocks of an outer iteration are the parts of its batches, of redrawn chunks; least: they are parts of the
    chunks in the order of the source, each of so many nonzeros or more."""

    def __init__(self, source: Source, seed: int, order: str, least: int = 0):
        table = source.chunks
        super().__init__(table.nnz, 0, 1, "redrawn", order, seed, table.n_rows, source.shuffled)
        self.sizes = table.nnz + table.n_rows  # rows without entries, too, take time and memory
        self.part, self.least = max(int(np.clip(self.sizes.sum() // PARTS, 1, LARGEST_PART)), least), least
        self.stored, self.resident = cut(np.arange(len(table)), self.sizes, self.part), False

    def bytes_of_part(self, source: Source, of_row: int) -> int:
        """Of the rows of the largest part, each with so many bytes besides."""
        sizes = block_bytes_of_chunks(source) + source.chunks.n_rows * of_row
        largest = self.part * int(np.ceil((sizes / self.sizes).max())) + int(sizes.max())
        return largest + source.shape.block_bytes(0, 0)

    def blocks(self, outer: int) -> list[np.ndarray]:
        return self.stored if self.least else [part for batch in self.batches(outer) for part in batch]

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


class ClusterPlan(Plan):
    def __init__(self, source: Source, settings: TrainSettings, **more):
        settings = settings.settled(source)
        needs, by_clock = settings.capabilities, settings.make_schedule().by_clock
        self.screened = needs.certifies and needs.working_set
        if by_clock or not (self.screened or needs.in_order):
            refused = option("schedule", settings.schedule) if by_clock else option("solver", settings.solver)
            only = "not on a cluster, which trains by dual-cd or newton as its workers answer; leave it out"
            raise InputError(f"{refused}: {only}")
        self.version_of = "w" if self.screened else "trial"  # the array of the state that workers have versions of
        super().__init__(source, settings, **more)

    def bytes_of(self, name: str) -> int:
        """Of an array of the state that no row has an entry of."""
        return next(a for a in self.solver.state_arrays if a.name == name).n_bytes(self.source.n_features, 0)

    def plan_rows(self, saved: PartitionMeta | None) -> partition.BlockPlan:
        """The copies of the weights, the working set, and the parts under way, or answers to them."""
        budget, source, solver, settings = self.budget, self.source, self.solver, self.settings
        memory, copies = budget.left, self.bytes_of(self.version_of)
        if not self.screened:
            # a gradient is to be a fraction of what has been read for it
            parts = PartsOfBatches(source, settings.seed, "stored", GRADIENTS * (source.n_features + 1))
            budget.take("copies of the weights", 4 * copies)  # the last whole one, where it differs, two that are sent
            answer = copies + self.bytes_of("hessian")
            budget.require("two answers", 2 * answer)
            under_way = int(min(MOST_UNDER_WAY, budget.left // answer))
            budget.take("answers under way", under_way * answer)
            return partition.BlockPlan(source, parts, parts.bytes_of_part(source, 0), None, memory, under_way=under_way)
        share = settings.working_set_share()
        if share is None:
            none = option("working_set", "none")
            raise InputError(f"{none}: a cluster sends rows for the working set; leave it out")
        batches = PartsOfBatches(source, settings.seed, settings.order)
        budget.take("copies of the weights", VERSIONS * copies)
        budget.take("rows left out", source.n_samples)
        part = batches.bytes_of_part(source, partition.row_work_bytes(solver))
        budget.require("three parts", 4 * part)
        beside = partition.beside_the_set(source, solver)
        set_bytes = saved.set_bytes if saved else partition.set_bytes_within(budget, source, share, 4 * part, beside)
        partition.take_set(budget, source, set_bytes, beside)
        budget.require("three parts", 4 * part)  # one is read here
        under_way = int(min(MOST_UNDER_WAY, budget.left // part - 2))
        budget.take("parts under way", (under_way + 2) * part)
        return partition.BlockPlan(source, batches, part, set_bytes, memory, under_way=under_way)

    @property
    def worker_bytes(self) -> int:
        """Memory of each thread of a worker: a part and its answer, two versions and what they are made of; or a part
        to add up, and its sums as they are and as they are sent."""
        sums = 0 if self.screened else 2 * self.bytes_of("hessian")
        return 2 * self.blocks.arena_bytes + 4 * self.bytes_of(self.version_of) + sums

    def describe_blocks(self) -> dict:
        return super().describe_blocks() | {"on_cluster": True}


def bring_near(near: np.ndarray, w: np.ndarray) -> None:
    """Let ``near`` follow w: it becomes w where they differ by the root mean square of all differences that are not 0,
    or by more.  The others add up until their turn comes (Stich, Cordonnier, Jaggi, NeurIPS 2018)."""
    difference = np.abs(w - near)
    squares = np.square(difference / max(difference.max(), np.finfo(np.float64).tiny))
    np.copyto(near, w, where=np.count_nonzero(squares) * squares >= squares.sum())


class ClusterLoop(OuterLoop):
    """``OuterLoop`` of a ``ClusterPlan``, of Newton's method."""

    def run(self):
        if not hasattr(self, "state"):
            self.allocate()
        plan, source = self.plan, self.plan.source
        opened = (
            training, (absolute_name(source.name), source.fingerprint), plan.make,
            replace(plan.task, source=None, previous=None),  # each worker has its own, and need not know where w began
            self.state[plan.version_of].shape, plan.blocks.arena_bytes, None if plan.screened else plan.solver.slots,
        )  # fmt: skip
        with self.cluster.opened():
            self.parts = Parts(self.cluster, plan.blocks.under_way, plan.worker_bytes, *opened)
            try:
                return super().run()
            except ClusterLost as error:
                if self.checkpoint is None:
                    raise
                self.save()
                saved = f"{self.checkpoint.path} has the state, and {option('resume')} goes on"
                raise ClusterLost(f"{error}; {saved}") from error

    def _read_ahead(self) -> None:
        """Workers read."""

    def next_answer(self, chunks: np.ndarray) -> Answer:
        """The answer to the next part, of these chunks: counted, with the rows that can move, and put into state."""
        answer, tally, state = self.parts.take(self.stop), self.tally, self.state
        tally.reading.bytes_read += answer.cost.bytes_read
        tally.reading.requests += answer.cost.requests
        tally.traffic.seconds_workers += answer.seconds
        for name, values in answer.of_rows.items():
            state[name][self.plan.source.chunks.rows(chunks)] = values
        if answer.movers is None and answer.chosen is not None:
            answer = answer._replace(movers=rows_of(self.reader.take(chunks), answer.chosen))
        for name, values in answer.entries.items():
            state[name][answer.movers.rows] = values
        return answer

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[bool]:
        state, parts, left = self.state, self.parts, blocks[self.progress.visit :]
        given = {"figures": state["figures"].copy()}
        parts.begin(self.tally.traffic)
        parts.want((TrainingPart(some, given) for some in left), state["trial"])
        table = self.plan.source.chunks
        for chunks in left:
            answer, began = self.next_answer(chunks), time.perf_counter()
            for name, part in answer.sums.items():
                state[name] += part
            n_rows, n_nonzeros = (int(numbers[chunks].sum()) for numbers in (table.n_rows, table.nnz))
            done = PassResult(n_rows, n_nonzeros, 0.0, True)
            stats, seconds = self.block_stats(n_nonzeros).after(done), time.perf_counter() - began
            self.count(VisitResult([done], stats, seconds), n_nonzeros)
            yield True


class ScreeningLoop(ClusterLoop):
    """The loop of dual coordinate descent."""

    certifying = False  # a certificate is under way, which chooses the set once more

    def allocate(self) -> None:
        super().allocate()
        before, ahead = (on_lines(self.state["w"].shape) for _ in range(2))
        left_out = np.zeros(self.plan.source.n_samples, bool)
        self.state |= {BEFORE: before, AHEAD: ahead, LEFT_OUT: left_out, AT: np.zeros(2, np.int64), LEAST: np.zeros(1)}

    def save(self) -> None:
        """A certificate that is broken off has changed the state, but it was saved before."""
        if not self.certifying:
            super().save()

    def _begin_reading(self) -> None:
        if self.state[AT][0] != self.progress.outer:  # else begun before: a run may have ended while it waited
            self.state[LEAST][0] = LEAST_SHARE * self.working_set.seen / self.plan.source.n_samples
            super()._begin_reading()

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[bool]:
        state, outer, visit = self.state, self.progress.outer, self.progress.visit
        before, ahead, least = state[BEFORE], state[AHEAD], float(state[LEAST][0])
        ends = np.cumsum([0, *map(len, self.plan.blocks.partition.batches(outer)), 0]).tolist()
        self.parts.begin(self.tally.traffic)
        wanted = visit  # parts up to this one
        for k, (start, end, following) in enumerate(zip(ends, ends[1:], ends[2:], strict=False)):
            if end <= visit:
                continue
            if state[AT].tolist() != [outer, k]:
                # The batch at work was screened at what was ahead, the first one is at the newest; the next one is near
                # w as it is now, but few numbers are to be sent for that.  No row of the set is to be screened.
                before[:] = ahead
                bring_near(ahead, state["w"])
                if not k:
                    before[:] = ahead
                for chunks in blocks[end if k else 0 : following]:
                    rows = self.plan.source.chunks.rows(chunks)
                    state[LEFT_OUT][rows] = self.working_set.has(rows)
                state[AT][:] = outer, k
            self._want(blocks[wanted:end], BEFORE, least)
            self._want(blocks[max(wanted, end) : following], AHEAD, least)
            wanted = following
            for number in range(max(visit, start), end):
                self._move(blocks[number])
                yield number + 1 == end

    def _want(self, parts: list[np.ndarray], name: str, least: float, certifies: bool = False) -> None:
        """Have parts screened at the w of this name, by alpha as it is then: later it changes for rows left out."""
        state, arrays = self.state, self.plan.solver.state_arrays

        def part(chunks: np.ndarray) -> TrainingPart:
            rows = self.plan.source.chunks.rows(chunks)
            given = {a.name: state[a.name].copy() for a in arrays if a.axis == "scalar"}
            given["alpha"] = state["alpha"][rows]
            return TrainingPart(chunks, given, np.packbits(state[LEFT_OUT][rows]), least, certifies, self.unchecked)

        if parts:
            self.parts.want(map(part, parts), state[name])

    def _move(self, chunks: np.ndarray) -> None:
        progress, working_set = self.progress, self.working_set
        n_nonzeros = int(self.plan.source.chunks.nnz[chunks].sum())
        answer = self.next_answer(chunks)
        self.plan.solver.count_seen(self.state, answer.sums)
        stats = self.block_stats(n_nonzeros)
        result = VisitResult([PassResult(0, 0, 0.0, False)], stats)
        working_set.pass_over(answer.below)
        everyone = np.arange(answer.movers.n_samples, dtype=np.int32)
        if len(everyone):
            key = progress.outer, 1 + progress.visit
            result = self.visit(VisitTask(key, self.plan.schedule, stats, everyone, between=True), answer.movers)
            working_set.offer(answer.movers, result.share)
        result.passes[0] = replace(result.passes[0], nnz_visited=n_nonzeros)
        result.stats = reduce(PassStats.after, result.passes, stats)
        self.count(result, n_nonzeros)

    def _close(self) -> None:
        """What the set's rows have of the gap, which no worker has looked at, belongs to what was seen."""
        self.plan.solver.count_seen(self.state, self._sums_of_members().added())
        super()._close()

    def _sums_of_members(self) -> CertificateSums:
        """The sums of the rows of the set that were left out; their shares, and which of them rest, are told anew."""
        working_set, solver, state = self.working_set, self.plan.solver, self.state
        sums = solver.problem_at(state).sums(self.weights(), solver.prior)
        block, members = working_set.block, working_set.members
        members = members[state[LEFT_OUT][block.rows[members]]]
        for start in range(0, len(members), AT_ONCE):
            some = rows_of(block, members[start : start + AT_ONCE])
            scores = sums.scores(some)
            sums.add(scores, some, as_columns(state["alpha"][some.rows]))
            offer_shares(solver, state, some, scores, working_set.renew)
        state[LEFT_OUT][:] = False
        return sums

    def _reading(self, working_set: WorkingSet | None) -> Certificate:
        """Of a reading at one w, of all rows, the working set's among them."""
        solver, state, blocks = self.plan.solver, self.state, self.following()
        sums = solver.problem_at(state).sums(self.weights(), solver.prior)
        if self.checkpoint is not None and working_set is not None:
            self.save()
        self.certifying = True
        state[AHEAD][:] = state["w"]
        least = math.inf
        if working_set is not None:
            state[LEFT_OUT][:] = False  # in its sums, too, a row of the set counts, but is not sent
            state[LEFT_OUT][working_set.block.rows[working_set.members]] = True
            working_set.begin_reading(reset=False)
            least = working_set.least  # no row of a smaller share would be chosen
        self.parts.begin(self.tally.traffic)
        self._want(blocks, AHEAD, least, certifies=True)
        for chunks in blocks:
            answer = self.next_answer(chunks)
            sums.merge(answer.sums)
            if working_set is not None:
                working_set.offer(answer.movers, answer.share)
                working_set.pass_over(answer.below)
            if self.stop():
                raise Stopped
        if working_set is not None:
            working_set.end_reading()
            self._sums_of_members()
        self.certifying = False
        return sums.certificate()


@contextmanager
def scoring_by(cluster: Cluster, scorer, model: str, options: dict, store: Source) -> Iterator[Callable]:
    """What ``scores`` of a ``StoreScorer`` takes to have chunks scored by workers; options: what made it."""
    sizes = store.chunks.nnz + store.chunks.n_rows * -(-scorer.row_bytes // NUMBER)
    answers = int(ANSWERS * scorer.budget.left) // NUMBER
    part = int(np.clip(sizes.sum() // PARTS, 1, max(1, min(LARGEST_PART, answers // 4))))
    largest = part + int(sizes.max())
    most = max(2, min(MOST_UNDER_WAY, answers // largest))
    scorer.budget.take("answers of workers", NUMBER * most * largest)
    n_bytes, stored = scorer.budget.total, (absolute_name(store.path), store.fingerprint)
    with cluster.opened():
        parts = Parts(cluster, most, n_bytes, scoring, stored, file_at(model), n_bytes, options)

        def score_chunks(chunks: Sequence[int], low: int, high: int, take: Callable) -> None:
            some = cut(np.array(chunks), sizes, part)
            parts.want((these, low, high) for these in some)
            for _ in some:
                for rows in parts.take():
                    take(rows)

        yield score_chunks


def files_by(cluster: Cluster, shards, model: str, scorer, measures, options: dict) -> Iterator[tuple[str, int]]:
    """As ``Shards.score`` has them, of whole files that workers write; options: those that made the scorer."""
    from blocksvm.model.measures import RANK_BYTES, merge

    shards.begun()
    budget, n_bytes = scorer.budget, scorer.budget.total
    # what workers that died have left goes with the folder that they write in
    with cluster.opened(), TemporaryFolder(temporary_folder(shards.list)) as apart:
        shutil.copymode(apart.parent, apart)
        each = 2 * RANK_BYTES if getattr(measures, "curve", None) else SMALL
        most = max(1, min(MOST_UNDER_WAY, budget.left // each))
        budget.take("answers of workers", min(budget.left, most * each))
        apart = absolute_name(apart)
        parts = Parts(cluster, most, n_bytes, writing, file_at(model), n_bytes, options, shards.wanted, apart)
        parts.want((absolute_name(name), absolute_name(shards.outputs[name])) for name in shards.states)
        for name, _, _ in shards.files():
            of_file, selected, empty, counts = parts.take()
            merge(measures, of_file)
            if counts["entries"] is not None:
                scorer.coverage.count(counts["entries"], counts["unknown_entries"])
            scorer.empty += empty
            scorer.coverage.notes += [f"{name}: {note.removeprefix(f'{name}: ')}" for note in counts["notes"]]
            yield name, selected
