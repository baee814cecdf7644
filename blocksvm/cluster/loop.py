"""The outer loop where workers read: they screen the rows of a batch at one w, and this process moves those that can
move, each by its exact step at the w of its turn, holds w, alpha and the working set, and passes over that.

    for each reading:
        for each batch of its chunks:
            have the next batch screened, near w as it is now
            take this one's answers part by part, in order: move the rows, offer them to the working set
            pass over the working set, where the schedule wants it
        a certificate is a reading at one w, whose sums workers add up

So a batch is screened near the w of one batch before, which costs no reading, and nobody waits: small changes of w are
sent once they have added up.  Of Newton's method they add up their rows, and this process adds up theirs.  Batches and
parts are made by counts alone, and answers taken in order: the bits depend neither on how many workers there are, nor
on what becomes of them.  Predictions are parts of such a kind, too: chunks of a store, or whole files.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.vectors import as_columns, on_lines
from blocksvm.cluster.dask import Cluster, ClusterLost, Parts, StoppedWaiting
from blocksvm.cluster.part import Answer, File, Job, TrainingPart, scoring, training, writing
from blocksvm.cluster.plan import LARGEST_PART, MOST_UNDER_WAY, ClusterPlan, PartsOfBatches, cut, part_size
from blocksvm.files.output import TemporaryFolder
from blocksvm.files.paths import ObjectUrl, absolute_name
from blocksvm.problems.certificate import Certificate, CertificateSums
from blocksvm.solvers.solver import PassResult
from blocksvm.sources.block import Arena, rows_of
from blocksvm.sources.source import Source
from blocksvm.training.loop import OuterLoop
from blocksvm.training.visit import VisitResult, VisitTask, of_axis, part_of, put_rows
from blocksvm.training.working_set import WorkingSet

if TYPE_CHECKING:
    from blocksvm.model.measures import Measures
    from blocksvm.model.scoring import ScoreChunks, ScoredRows, StoreScorer, TextScorer
    from blocksvm.model.shards import Shards
    from blocksvm.store.reader import Store

# In the state: w at which the batch at work and the following one are screened, and the rows of the set, which are not.
BEFORE, AHEAD, LEFT_OUT = "screened at", "screened ahead at", "left out"
AT = "batch at work"  # outer iteration and number
LEAST = "least share sent"  # of the gap, of a row that is visited
LEAST_SHARE = 0.1  # of the mean share of the last reading
TINY = float(np.finfo(np.float64).tiny)
AT_ONCE = 1 << 12  # members of which the gap is added up at once
NUMBER, SMALL = 8, 1 << 20  # bytes, of measures but for the ROC curve
ANSWERS = 1 / 4  # of the memory that is left, at most, for scores that have come


def on_cluster(cluster: Any, source: Source) -> tuple[Cluster, type[ClusterPlan], Callable[..., OuterLoop]]:
    """The cluster that reads a store for a call from Python, at an address, as ``Cluster`` has it, or that of a
    ``distributed.Client``; and what makes the plan and the loop of its runs."""
    if source.in_memory:
        raise InputError(f"{option('cluster')}: reads a store; give one that open_store has opened")
    if isinstance(cluster, str):
        cluster = Cluster(cluster)
    elif not isinstance(cluster, Cluster):
        if not hasattr(cluster, "scheduler"):
            needs = "needs a scheduler's address, local:N, or a distributed.Client"
            raise InputError(f"{option('cluster', cluster)}: {needs}")
        cluster = Cluster(cluster.scheduler.address, cluster.security)
    return cluster, ClusterPlan, partial(cluster_loop, cluster=cluster)


def cluster_loop(plan: ClusterPlan, *watching, **more) -> ClusterLoop:
    """The loop that a plan takes."""
    return (ScreeningLoop if plan.screened else SummingLoop)(plan, *watching, **more)


def bring_near(near: np.ndarray, w: np.ndarray) -> None:
    """Let ``near`` follow w: it becomes w where they differ by the root mean square of all differences that are not 0,
    or by more.  The others add up until their turn comes (Stich, Cordonnier, Jaggi, NeurIPS 2018)."""
    difference = np.abs(w - near)
    squares = np.square(difference / max(difference.max(), TINY))
    np.copyto(near, w, where=np.count_nonzero(squares) * squares >= squares.sum())


class ClusterLoop(OuterLoop):
    """``OuterLoop`` of a ``ClusterPlan``."""

    plan: ClusterPlan
    parts: Parts

    def __init__(self, plan: ClusterPlan, *watching, cluster: Cluster, **more):
        super().__init__(plan, *watching, **more)
        self.cluster = cluster

    def run(self):
        if not hasattr(self, "state"):
            self.allocate()
        plan, source = self.plan, self.plan.source
        opened = partial(
            training, (absolute_name(source.name), source.fingerprint), plan.make,
            replace(plan.task, source=None, previous=None),  # each worker has its own, and need not know where w began
            self.state[plan.version_of].shape, plan.blocks.arena_bytes, None if plan.screened else plan.solver.slots,
        )  # fmt: skip
        with self.cluster.opened():
            self.parts = Parts(self.cluster, Job(plan.worker_bytes, opened), plan.blocks.under_way)
            try:
                return super().run()
            except ClusterLost as error:
                if self.checkpoint is None:
                    raise
                self.save()
                path = self.checkpoint.path
                raise ClusterLost(f"{error}; {path} has the state, and {option('resume')} goes on") from error

    def _read_ahead(self) -> None:
        """Workers read."""

    def _iterate(self) -> str:
        try:
            return super()._iterate()
        except StoppedWaiting:
            return "interrupted"

    def next_answer(self, chunks: np.ndarray) -> Answer:
        """The answer to the next part, of these chunks: counted, and with what certificates have filled in."""
        answer, tally = self.parts.take(self.watch.stop), self.tally
        tally.reading.bytes_read += answer.cost.bytes_read
        tally.reading.requests += answer.cost.requests
        tally.traffic.seconds_workers += answer.seconds
        put_rows(self.state, self.plan.source.chunks.rows(chunks), answer.of_rows)
        return answer


class SummingLoop(ClusterLoop):
    """The loop of Newton's method."""

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        state, parts, left = self.state, self.parts, blocks[self.progress.visit :]
        given = {"figures": state["figures"].copy()}
        parts.begin(self.tally.traffic)
        parts.want((TrainingPart(some, given) for some in left), *parts.version(state["trial"]))
        for chunks in left:
            answer, began = self.next_answer(chunks), time.perf_counter()
            for name, part in answer.sums.items():
                state[name] += part
            table = self.plan.source.chunks
            n_rows, n_nonzeros = (int(numbers[chunks].sum()) for numbers in (table.n_rows, table.nnz))
            result = VisitResult([PassResult(n_rows, n_nonzeros, 0.0, True)], [time.perf_counter() - began])
            self.count(result, self.block_stats(n_nonzeros), n_nonzeros)
            yield


class ScreeningLoop(ClusterLoop):
    """The loop of dual coordinate descent."""

    working_set: WorkingSet
    certifying = False  # a certificate is under way, which chooses the set once more
    batch_ends = 0

    def allocate(self) -> None:
        super().allocate()
        for name in (BEFORE, AHEAD):
            self.state[name] = on_lines(self.state["w"].shape)
        self.state[LEFT_OUT] = np.zeros(self.plan.source.n_samples, bool)
        self.state[AT] = np.zeros(2, np.int64)
        self.state[LEAST] = np.zeros(1)
        self.arena = Arena(self.plan.blocks.arena_bytes)

    def save(self) -> None:
        """A certificate that is broken off has changed the state, but it was saved before."""
        if not self.certifying:
            super().save()

    # -- readings ----------------------------------------------------------------------------------------------

    def _begin_reading(self) -> None:
        if self.state[AT][0] != self.progress.outer:  # else begun before: a run may have ended while it waited
            self.state[LEAST][0] = LEAST_SHARE * self.working_set.seen / self.plan.source.n_samples
            super()._begin_reading()

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        """Visit the parts that are left of an outer iteration."""
        state, outer, visit = self.state, self.progress.outer, self.progress.visit
        before, ahead, least = state[BEFORE], state[AHEAD], float(state[LEAST][0])
        batches = cast(PartsOfBatches, self.plan.blocks.partition).batches(outer)
        ends = np.cumsum([0, *map(len, batches), 0]).tolist()
        self.parts.begin(self.tally.traffic)
        wanted = visit  # parts up to this one
        for k, (start, end, following) in enumerate(zip(ends, ends[1:], ends[2:], strict=False)):
            if end <= visit:
                continue
            if state[AT].tolist() != [outer, k]:
                # The batch at work was screened at what was ahead, the first one is at the newest; the following one is
                # near w as it is now, but few numbers are to be sent for that.  No row of the set is to be screened.
                if k:
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
            wanted, self.batch_ends = following, end
            for chunks in blocks[max(visit, start) : end]:
                self._move(chunks)
                yield

    def _visit_set(self, between: bool) -> None:
        if not between or self.progress.visit == self.batch_ends:
            super()._visit_set(between)

    def _want(self, parts: list[np.ndarray], name: str, least: float, certifies: bool = False) -> None:
        """Have parts screened at the w of this name.  The alpha that is sent is that of its turn: it changes meanwhile
        for rows that are left out alone."""
        state, arrays = self.state, self.plan.solver.state_arrays

        def part(chunks: np.ndarray) -> TrainingPart:
            rows = self.plan.source.chunks.rows(chunks)
            given, alpha = {a.name: state[a.name].copy() for a in arrays if a.axis == "scalar"}, state["alpha"][rows]
            if alpha.any():
                given["alpha"] = alpha
            return TrainingPart(chunks, given, np.packbits(state[LEFT_OUT][rows]), least, certifies, self.unchecked)

        if parts:
            self.parts.want(map(part, parts), *self.parts.version(state[name]))

    def _move(self, chunks: np.ndarray) -> None:
        """Move the rows of a part that can move."""
        progress, working_set = self.progress, self.working_set
        n_nonzeros = int(self.plan.source.chunks.nnz[chunks].sum())
        answer = self.next_answer(chunks)
        self.plan.solver.count_seen(self.state, answer.sums)
        stats = self.block_stats(n_nonzeros)
        done, seconds = PassResult(0, 0, 0.0, False), 0.0
        working_set.pass_over(answer.below)
        everyone = np.arange(answer.movers.n_samples, dtype=np.int32)
        if len(everyone):
            key = progress.outer, 1 + progress.visit
            result = self.visit(VisitTask(key, self.plan.schedule, stats, everyone, between=True), answer.movers)
            assert result.share is not None
            working_set.offer(answer.movers, result.share)
            (done,), seconds = result.passes, sum(result.seconds)
        self.count(VisitResult([replace(done, nnz_visited=n_nonzeros)], [seconds]), stats, n_nonzeros)

    def next_answer(self, chunks: np.ndarray) -> Answer:
        """With what the rows that can move have beside alpha brought into the state."""
        answer = super().next_answer(chunks)
        if answer.movers is None:
            block = self.plan.source.read_block(chunks, self.arena)
            answer = answer._replace(movers=rows_of(block, answer.chosen))
        put_rows(self.state, answer.movers.rows, answer.entries)
        return answer

    def _close(self) -> None:
        """What the set's rows have of the gap, which no worker has looked at, belongs to what was seen."""
        self.plan.solver.count_seen(self.state, self._sums_of_members().added())
        super()._close()

    # -- certificates ------------------------------------------------------------------------------------------

    def _sums(self) -> CertificateSums:
        """At w as it is, of no rows."""
        solver = self.plan.solver
        return solver.problem_at(self.state).sums(self.weights(), solver.prior)

    def _sums_of_members(self) -> CertificateSums:
        """The sums of the rows of the set that were left out: their shares are new, and which problems they are at rest
        for."""
        working_set, solver, state, sums = self.working_set, self.plan.solver, self.state, self._sums()
        block, members = working_set.block, working_set.members
        members = members[state[LEFT_OUT][block.rows[members]]]
        for start in range(0, len(members), AT_ONCE):
            some = rows_of(block, members[start : start + AT_ONCE])
            part, scores, share = part_of(solver, some, state), sums.scores(some), np.empty(some.n_samples)
            sums.add(scores, some, as_columns(part["alpha"]))
            solver.shares(some, scores, part, share)
            put_rows(state, some.rows, of_axis(solver, part, "row"))
            working_set.renew(some.rows, share)
        state[LEFT_OUT][:] = False
        return sums

    def _reading(self, working_set: WorkingSet | None) -> Certificate | None:
        """Of a reading at one w, of all rows, the working set's among them."""
        sums, state, blocks = self._sums(), self.state, self.following()
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
            try:
                answer = self.next_answer(chunks)
            except StoppedWaiting:
                return None
            sums.merge(answer.sums)
            if working_set is not None:
                working_set.offer(answer.movers, answer.share)
                working_set.pass_over(answer.below)
            if self.watch.stop():
                return None
        if working_set is not None:
            working_set.end_reading()
            self._sums_of_members()
        self.certifying = False
        return sums.certificate()


# -- predictions -------------------------------------------------------------------------------------------------------


def model_at(path: str) -> File:
    from blocksvm.formats.file_reader import fingerprint_of

    return absolute_name(path), fingerprint_of(path)


@contextmanager
def scoring_by(cluster: Cluster, scorer: StoreScorer, model: str, options: dict, store: Store) -> Iterator[ScoreChunks]:
    """What ``StoreScorer.scores`` takes to have chunks scored by workers; options: those that made the scorer."""
    sizes = store.chunks.nnz + store.chunks.n_rows * -(-scorer.row_bytes // NUMBER)
    answers = int(ANSWERS * scorer.budget.left) // NUMBER
    part = part_size(sizes, max(1, min(LARGEST_PART, answers // 4)))
    largest = part + int(sizes.max())
    most = max(2, min(MOST_UNDER_WAY, answers // largest))
    scorer.budget.take("answers of workers", NUMBER * most * largest)
    n_bytes, stored = scorer.budget.total, (absolute_name(store.path), store.fingerprint)
    with cluster.opened():
        parts = Parts(cluster, Job(n_bytes, partial(scoring, stored, model_at(model), n_bytes, options)), most)

        def score_chunks(chunks: Sequence[int], low: int, high: int, take: Callable[[ScoredRows], None]) -> None:
            some = cut(np.array(chunks), sizes, part)
            parts.want((these, low, high) for these in some)
            for _ in some:
                for rows in parts.take():
                    take(rows)

        yield score_chunks


def files_by(
    cluster: Cluster, shards: Shards, model: str, scorer: TextScorer, measures: Measures, options: dict
) -> Iterator[tuple[str, int]]:
    """As ``Shards.score`` has them, of whole files that workers write; options: those that made the scorer."""
    from blocksvm.model.measures import RANK_BYTES, merge

    shards.begun()
    budget, folder = scorer.budget, shards.folder
    # what workers that died have left goes with the folder that they write in
    with cluster.opened(), nullcontext() if isinstance(folder, ObjectUrl) else TemporaryFolder(folder) as apart:
        if apart is not None:
            shutil.copymode(folder, apart)
        within = None if apart is None else absolute_name(apart)
        job = Job(budget.total, partial(writing, model_at(model), budget.total, options, shards.wanted, within))
        each = 2 * RANK_BYTES if getattr(measures, "curve", None) else SMALL
        most = max(1, min(MOST_UNDER_WAY, budget.left // each))
        budget.take("answers of workers", min(budget.left, most * each))
        parts = Parts(cluster, job, most)
        names = {name: absolute_name(path) for name, path in shards.outputs.items() if name not in shards.done}
        parts.want((absolute_name(name), path) for name, path in names.items())
        for name, _, _ in shards.files():
            of_file, selected, empty, counts = parts.take()
            merge(measures, of_file)
            if counts["entries"] is not None:
                scorer.coverage.count(counts["entries"], counts["unknown_entries"])
            scorer.empty += empty
            scorer.coverage.notes += [f"{name}: {note.removeprefix(f'{name}: ')}" for note in counts["notes"]]
            yield name, selected
