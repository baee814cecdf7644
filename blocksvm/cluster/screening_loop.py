"""The outer loop where workers read: they screen the rows of a batch at one w, and this process moves those that can
move, each by its exact step at the w of its turn, holds w, alpha and the working set, and passes over that.

    for each reading:
        for each batch of its chunks:
            have the next batch screened, near w as it is now
            take this one's answers part by part, in order: move the rows, offer them to the working set
            pass over the working set, where the schedule wants it
        a certificate is a reading at one w, whose sums workers add up

So a batch is screened near the w of one batch before, which costs no reading, and nobody waits: small changes of w are
sent once they have added up.  Batches and parts are made by counts alone, and answers taken in order: the bits depend
neither on how many workers there are, nor on what becomes of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from blocksvm.base.vectors import as_columns, on_lines
from blocksvm.cluster.cluster_loop import ClusterLoop
from blocksvm.cluster.cluster_plan import ScreenedBatches
from blocksvm.cluster.dispatcher import StoppedWaiting
from blocksvm.cluster.screening_job import Screened, ScreeningJob, ScreeningPart, rows_of
from blocksvm.cluster.version_kernels import bring_near
from blocksvm.problems.certificate import Certificate, CertificateSums
from blocksvm.solvers.solver import PassResult
from blocksvm.training.certificate import beyond_bounds
from blocksvm.training.visit import VisitResult, VisitTask, of_axis, part_of, put_rows
from blocksvm.training.working_set import WorkingSet

# In the state: w at which the batch at work and the following one are screened, and the rows of the set, which are not.
BEFORE, AHEAD, LEFT_OUT = "screened at", "screened ahead at", "left out"
AT = "batch at work"  # outer iteration and number
LEAST = "least share sent"  # of the gap, of a row that is visited
LEAST_SHARE = 0.1  # of the mean share of the last reading
AT_ONCE = 1 << 12  # members of which the gap is added up at once


class ScreeningLoop(ClusterLoop):
    """The loop of dual coordinate descent."""

    job_type = ScreeningJob
    certifying = False  # a certificate is under way, which chooses the set once more
    batch_ends = 0

    def allocate(self) -> None:
        super().allocate()
        for name in (BEFORE, AHEAD):
            self.state[name] = on_lines(self.state["w"].shape)
        self.state[LEFT_OUT] = np.zeros(self.plan.source.n_samples, bool)
        self.state[AT] = np.zeros(2, np.int64)
        self.state[LEAST] = np.zeros(1)
        self.version_numbers: dict[str, int] = {}

    def _begin_reading(self) -> None:
        if self.working_set is not None:
            self.state[LEAST][0] = LEAST_SHARE * self.working_set.seen / self.plan.source.n_samples
        super()._begin_reading()

    def save(self) -> None:
        """A certificate that is broken off has changed the set, but ``_reading`` has saved what was before."""
        if not self.certifying:
            super().save()

    # -- readings ----------------------------------------------------------------------------------------------

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        """Visit the parts that are left of an outer iteration."""
        state, visit, dispatcher = self.state, self.progress.visit, self.dispatcher
        dispatcher.forget()
        ranges = self._batches.ranges(self.progress.outer)
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
        state, numbers = self.state, self.version_numbers
        ahead, w = state[AHEAD].reshape(-1), state["w"].reshape(-1)
        if not newest:
            state[BEFORE][:] = state[AHEAD]
            numbers.pop(BEFORE, None)
            if AHEAD in numbers:  # not where a run goes on from a checkpoint
                numbers[BEFORE] = numbers.pop(AHEAD)
        if state[AT].any():
            bring_near(ahead, w)
        else:
            ahead[:] = w
        if newest:
            state[BEFORE][:] = state[AHEAD]
            numbers.pop(AHEAD, None)
            numbers[BEFORE] = self._version(AHEAD)

    def _version(self, name: str) -> int:
        """The number of what the state has under this name."""
        if name not in self.version_numbers:
            self.version_numbers[name] = self.dispatcher.new_version(self.state[name])
        return self.version_numbers[name]

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
        """Have parts screened at the w of this name.  The alpha that is sent with them is that of their turn: it
        changes meanwhile for rows that are left out alone."""
        version = self._version(name)
        least = float(self.state[LEAST][0])
        self.dispatcher.want(partial(self._part, chunks, version, leaves_out=True, least=least) for chunks in parts)

    def _part(self, chunks: np.ndarray, version: int, number: int, leaves_out: bool, least: float) -> ScreeningPart:
        rows = self.plan.source.chunks.rows(chunks)
        alpha = self.state["alpha"][rows]
        members = self.state[LEFT_OUT][rows]
        scalars = {a.name: self.state[a.name] for a in self.plan.solver.state_arrays if a.axis == "scalar"}
        return ScreeningPart(
            number, version, chunks, int(self._batches.sizes[chunks].sum()), alpha if alpha.any() else None,
            np.packbits(members) if members.any() else None, scalars, leaves_out, least, self.unchecked is not None,
        )  # fmt: skip

    @property
    def _batches(self) -> ScreenedBatches:
        batches = self.plan.blocks.partition
        assert isinstance(batches, ScreenedBatches)
        return batches

    def _move(self, chunks: np.ndarray) -> None:
        """Move the rows of a part that can move."""
        progress, solver, working_set = self.progress, self.plan.solver, self.working_set
        assert working_set is not None
        n_nonzeros = int(self.plan.source.chunks.nnz[chunks].sum())
        answer = self.next_answer()
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

    def next_answer(self) -> Screened:
        """The next part, with what its rows have beside alpha brought into the state."""
        answer = super().next_answer()
        if not answer.allowed:
            assert self.unchecked is not None
            raise beyond_bounds(self.unchecked)
        put_rows(self.state, answer.movers.rows, answer.entries)
        return answer

    def _close(self) -> None:
        """What the set's rows have of the gap, which no worker has looked at, belongs to what was seen."""
        solver = self.plan.solver
        sums = solver.problem_at(self.state).sums(self.weights(), solver.prior)
        self._look_at_members(sums)
        solver.count_seen(self.state, sums.added())
        super()._close()

    def _look_at_members(self, sums: CertificateSums) -> None:
        """The rows of the set that were left out, added to ``sums`` at its w: their shares are new, and which problems
        they are at rest for."""
        working_set, solver, state = self.working_set, self.plan.solver, self.state
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

    def _reading(self, working_set: WorkingSet | None) -> Certificate | None:
        """Of a reading at one w, of all rows, the working set's among them."""
        solver = self.plan.solver
        sums = solver.problem_at(self.state).sums(self.weights(), solver.prior)
        if self.checkpoint is not None and working_set is not None:
            self.save()
        self.certifying = working_set is not None
        self.dispatcher.forget()
        self.state[AHEAD][:] = self.state["w"]
        self.version_numbers.pop(AHEAD, None)
        version, parts = self._version(AHEAD), self.following()
        left_out = self.state[LEFT_OUT]  # in its sums, too, a row of the set counts, but is not sent
        if working_set is not None:
            left_out[:] = False
            left_out[working_set.block.rows[working_set.members]] = True
            working_set.begin_reading(reset=False)
        # no row of a smaller share would be chosen
        least = math.inf if working_set is None else working_set.least
        self.dispatcher.want(partial(self._part, some, version, leaves_out=False, least=least) for some in parts)
        for _ in parts:
            try:
                answer = self.next_answer()
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
            self._look_at_members(solver.problem_at(self.state).sums(self.weights(), solver.prior))
        self.certifying = False
        return sums.certificate()
