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
on what becomes of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import option
from blocksvm.base.vectors import as_columns, on_lines
from blocksvm.cluster.dask import Cluster, ClusterLost, Parts, StoppedWaiting
from blocksvm.cluster.part import Answer, TrainingJob, TrainingPart
from blocksvm.cluster.plan import ClusterPlan, PartsOfBatches
from blocksvm.files.paths import absolute_name
from blocksvm.problems.certificate import Certificate, CertificateSums
from blocksvm.solvers.solver import PassResult
from blocksvm.sources.block import Arena, rows_of
from blocksvm.training.certificate import beyond_bounds
from blocksvm.training.loop import OuterLoop
from blocksvm.training.record import Traffic
from blocksvm.training.visit import VisitResult, VisitTask, of_axis, part_of, put_rows
from blocksvm.training.working_set import WorkingSet

# In the state: w at which the batch at work and the following one are screened, and the rows of the set, which are not.
BEFORE, AHEAD, LEFT_OUT = "screened at", "screened ahead at", "left out"
AT = "batch at work"  # outer iteration and number
LEAST = "least share sent"  # of the gap, of a row that is visited
LEAST_SHARE = 0.1  # of the mean share of the last reading
TINY = float(np.finfo(np.float64).tiny)
AT_ONCE = 1 << 12  # members of which the gap is added up at once


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
        with self.cluster.opened():
            self.parts = Parts(self.cluster, self._job(), self.plan.blocks.under_way)
            try:
                return super().run()
            except ClusterLost as error:
                if self.checkpoint is None:
                    raise
                self.save()
                path = self.checkpoint.path
                raise ClusterLost(f"{error}; {path} has the state, and {option('resume')} goes on") from error

    def _job(self) -> TrainingJob:
        plan, source = self.plan, self.plan.source
        task = replace(plan.task, source=None)  # each worker has its own
        return TrainingJob(
            uuid4().hex, plan.worker_bytes, absolute_name(source.name), source.fingerprint, plan.make, task,
            self.state[plan.version_of].shape, plan.blocks.arena_bytes,
            None if plan.screened else plan.solver.slots,
        )  # fmt: skip

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
        tally.traffic += self.parts.traffic
        self.parts.traffic = Traffic()
        if answer.of_rows:
            put_rows(self.state, self.plan.source.chunks.rows(chunks), answer.of_rows)
        return answer


class SummingLoop(ClusterLoop):
    """The loop of Newton's method."""

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        state, parts, left = self.state, self.parts, blocks[self.progress.visit :]
        parts.forget()
        given = {"figures": state["figures"].copy()}
        parts.want((TrainingPart(some, given) for some in left), parts.version(state["trial"]))
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

    certifying = False  # one is under way, which chooses the set once more
    batch_ends = 0

    def allocate(self) -> None:
        super().allocate()
        for name in (BEFORE, AHEAD):
            self.state[name] = on_lines(self.state["w"].shape)
        self.state[LEFT_OUT] = np.zeros(self.plan.source.n_samples, bool)
        self.state[AT] = np.zeros(2, np.int64)
        self.state[LEAST] = np.zeros(1)
        self.arena = Arena(self.plan.blocks.arena_bytes)

    def _begin_reading(self) -> None:
        if self.state[AT][0] == self.progress.outer:  # begun before: a run may have ended while it waited for a part
            return
        if self.working_set is not None:
            self.state[LEAST][0] = LEAST_SHARE * self.working_set.seen / self.plan.source.n_samples
        super()._begin_reading()

    def save(self) -> None:
        """A certificate that is broken off has changed the state, but it was saved before."""
        if not self.certifying:
            super().save()

    @property
    def batches(self) -> PartsOfBatches:
        batches = self.plan.blocks.partition
        assert isinstance(batches, PartsOfBatches)
        return batches

    # -- readings ----------------------------------------------------------------------------------------------

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        """Visit the parts that are left of an outer iteration."""
        state, visit = self.state, self.progress.visit
        self.parts.forget()
        ranges = self.batches.ranges(self.progress.outer)
        wanted = visit  # parts up to this one
        for k, batch in enumerate(ranges):
            if batch.stop <= visit:
                continue
            following = range(batch.stop, ranges[k + 1].stop if k + 1 < len(ranges) else batch.stop)
            if state[AT].tolist() != [self.progress.outer, k]:
                self._look_ahead(newest=k == 0)
                self._leave_out(blocks[batch.stop if k else 0 : following.stop])
                state[AT][:] = self.progress.outer, k
            self._want(blocks[wanted : batch.stop], BEFORE)
            self._want(blocks[max(wanted, batch.stop) : following.stop], AHEAD)
            wanted = following.stop
            self.batch_ends = batch.stop
            for number in range(max(visit, batch.start), batch.stop):
                self._move(blocks[number])
                yield

    def _look_ahead(self, newest: bool) -> None:
        """The batch at work was screened at what was ahead, if not at the newest as well; the following one is screened
        near w as it is now, but few numbers are to be sent for that."""
        before, ahead, w = (self.state[name] for name in (BEFORE, AHEAD, "w"))
        if not newest:
            before[:] = ahead
        bring_near(ahead, w)
        if newest:
            before[:] = ahead

    def _visit_set(self, between: bool) -> None:
        if not between or self.progress.visit == self.batch_ends:
            super()._visit_set(between)

    def _leave_out(self, parts: list[np.ndarray]) -> None:
        """The rows of the working set, as it is now, are not to be screened."""
        assert self.working_set is not None
        for chunks in parts:
            rows = self.plan.source.chunks.rows(chunks)
            self.state[LEFT_OUT][rows] = self.working_set.has(rows)

    def _want(self, parts: list[np.ndarray], name: str) -> None:
        """Have parts screened at the w of this name."""
        if parts:
            least = float(self.state[LEAST][0])
            self.parts.want(
                (self._part(some, least, certifies=False) for some in parts),
                self.parts.version(self.state[name]),
            )

    def _part(self, chunks: np.ndarray, least: float, certifies: bool) -> TrainingPart:
        """The alpha that is sent is that of its turn: it changes meanwhile for rows that are left out alone."""
        rows = self.plan.source.chunks.rows(chunks)
        alpha, members = self.state["alpha"][rows], self.state[LEFT_OUT][rows]
        scalars = {a.name: self.state[a.name].copy() for a in self.plan.solver.state_arrays if a.axis == "scalar"}
        known = alpha if alpha.any() else None, np.packbits(members) if members.any() else None
        return TrainingPart(chunks, scalars, *known, least, certifies, self.unchecked is not None)

    def _move(self, chunks: np.ndarray) -> None:
        """Move the rows of a part that can move."""
        progress, solver, working_set = self.progress, self.plan.solver, self.working_set
        assert working_set is not None
        n_nonzeros = int(self.plan.source.chunks.nnz[chunks].sum())
        answer = self.next_answer(chunks)
        solver.count_seen(self.state, answer.sums)
        stats = self.block_stats(n_nonzeros)
        done, seconds = PassResult(0, 0, 0.0, False), 0.0
        working_set.pass_over(answer.below)
        everyone = np.arange(answer.movers.n_samples, dtype=np.int32)
        if len(everyone):
            key = progress.outer, 1 + progress.visit
            task = VisitTask(key, self.plan.schedule, stats, everyone, between=True)
            result = self.visit(task, answer.movers)
            assert result.share is not None
            working_set.offer(answer.movers, result.share)
            (done,), seconds = result.passes, sum(result.seconds)
        result = VisitResult([replace(done, nnz_visited=n_nonzeros)], [seconds])
        self.count(result, stats, n_nonzeros)

    def next_answer(self, chunks: np.ndarray) -> Answer:
        """With what the rows that can move have beside alpha brought into the state."""
        answer = super().next_answer(chunks)
        if not answer.allowed:
            assert self.unchecked is not None
            raise beyond_bounds(self.unchecked)
        if answer.movers is None:
            block = self.plan.source.read_block(chunks, self.arena)
            answer = replace(answer, movers=rows_of(block, answer.chosen))
        put_rows(self.state, answer.movers.rows, answer.entries)
        return answer

    def _close(self) -> None:
        """What the set's rows have of the gap, which no worker has looked at, belongs to what was seen."""
        sums = self._sums_of_members()
        self.plan.solver.count_seen(self.state, sums.added())
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
        assert working_set is not None
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
        sums = self._sums()
        if self.checkpoint is not None and working_set is not None:
            self.save()
        self.certifying = True
        self.parts.forget()
        self.state[AHEAD][:] = self.state["w"]
        left_out = self.state[LEFT_OUT]  # in its sums, too, a row of the set counts, but is not sent
        if working_set is not None:
            left_out[:] = False
            left_out[working_set.block.rows[working_set.members]] = True
            working_set.begin_reading(reset=False)
        # no row of a smaller share would be chosen
        least = math.inf if working_set is None else working_set.least
        blocks = self.following()
        self.parts.want(
            (self._part(some, least, certifies=True) for some in blocks), self.parts.version(self.state["w"])
        )
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
