"""The outer loop where workers read: they screen the rows of a batch at one w, and this process moves those that can
move, each by its exact step at the w of its turn, holds w, alpha and the working set, and passes over that.

    for each reading:
        for each batch of its chunks:
            have the next batch screened, at w as it is now
            take this one's answers part by part, in order: move the rows, offer them to the working set
            pass over the working set, where the schedule wants it
        a certificate is a reading at one w, whose sums workers add up

So a batch is screened at the w of one batch before, which costs no reading, and nobody waits.  Batches and parts are
made by counts alone, and answers taken in order: the bits depend neither on how many workers there are, nor on what
becomes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.vectors import on_lines
from blocksvm.cluster.batches import Batches, plan_batches
from blocksvm.cluster.part import Job, Part, Screened, rows_of
from blocksvm.cluster.screener import Screener
from blocksvm.cluster.workers import Workers
from blocksvm.problems.problem import CertificateSums
from blocksvm.solvers.solver import PassResult, SeveralProblemsSolver, Task
from blocksvm.training.certificate import Outcome, RejectedEarly, beyond_bounds
from blocksvm.training.loop import NO_CHUNKS, OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.visit import VisitResult, VisitTask, put_rows
from blocksvm.training.working_set import WorkingSet

BEFORE, LEFT_OUT = "screened at", "left out"  # in the state: w for the batch under way; which rows of the set it skips
AT_ONCE = 1 << 12  # members of which the gap is added up at once


@dataclass(frozen=True)
class Cluster:
    """Who reads, and how long the loop waits for the first of them, or for another one; say: of what happens to
    workers."""

    workers: Workers
    timeout: float
    say: Callable[[str], None]


def plan_on_cluster(source, settings, **more) -> Plan:
    """The plan of a run whose rows are read by workers; more: as ``Plan`` has it."""
    plan = Plan(source, settings, plan_rows=plan_batches, **more)
    solver, needs = plan.solver, plan.solver.capabilities
    if plan.schedule.by_clock or needs.needs_all_rows or not (needs.certifies and needs.working_set):
        refused = option("schedule", settings.schedule) if plan.schedule.by_clock else option("solver", solver.name)
        raise InputError(f"{refused}: not on a cluster, which trains by dual-cd; leave it out")
    return plan


class ClusterLoop(OuterLoop):
    """``OuterLoop`` of a plan by ``plan_on_cluster``."""

    def __init__(self, plan: Plan, *watching, cluster: Cluster, **more):
        super().__init__(plan, *watching, **more)
        self.cluster = cluster

    def allocate(self) -> None:
        super().allocate()
        self.state[BEFORE] = on_lines(self.state["w"].shape)
        self.state[LEFT_OUT] = np.zeros(self.plan.source.n_samples, bool)

    def run(self):
        if not hasattr(self, "state"):
            self.allocate()
        plan = self.plan
        task = {f.name: getattr(plan.task, f.name) for f in fields(Task) if f.name != "source"}
        method, path = (plan.method["name"], plan.method["learner"]), str(Path(plan.source.name).absolute())
        job = Job(
            uuid4().hex, path, plan.source.fingerprint, method, task,
            self.state["w"].shape, 2 * plan.blocks.arena_bytes + 3 * self.state["w"].nbytes,
        )  # fmt: skip
        cluster = self.cluster
        self.screener = Screener(cluster.workers, job, cluster.timeout, plan.blocks.under_way, cluster.say)
        with self.screener:
            return super().run()

    # -- readings ----------------------------------------------------------------------------------------------

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        visit = self.progress.visit
        self.screener.forget()
        n_parts = self._screen(blocks[visit], resumed=visit > 0)
        for number in range(visit, len(blocks)):
            following = self._screen(blocks[number + 1]) if number + 1 < len(blocks) else 0
            if not self._move(n_parts, int(self.plan.source.chunks.nnz[blocks[number]].sum())):
                return
            n_parts = following
            yield

    def _screen(self, chunks: np.ndarray, resumed: bool = False) -> int:
        """Have a batch screened, at w as it is, but for the rows of the working set; returns how many parts it has.
        resumed: at the w, and but for the rows, that the run had which is gone on with."""
        state, screener = self.state, self.screener
        if not resumed:
            state[BEFORE][:] = state["w"]
            rows = self._rows(chunks)
            state[LEFT_OUT][rows] = self._members(rows)
        version, parts = screener.new_version(state[BEFORE]), self._batches.parts(chunks)
        # alpha is that of later: it changes for rows that are left out alone
        screener.want(partial(self._part, some, version, leaves_out=True) for some in parts)
        return len(parts)

    def _part(self, chunks: np.ndarray, version: int, number: int, leaves_out: bool) -> Part:
        rows = self._rows(chunks)
        alpha = self.state["alpha"][rows]
        members = self.state[LEFT_OUT][rows]
        scalars = {a.name: self.state[a.name] for a in self.plan.solver.state_arrays if a.axis == "scalar"}
        return Part(
            number, version, chunks, int(self.plan.source.chunks.nnz[chunks].sum()), alpha if alpha.any() else None,
            np.packbits(members) if members.any() else None, scalars, leaves_out, self.unchecked is not None,
        )  # fmt: skip

    def _rows(self, chunks: np.ndarray) -> np.ndarray:
        """The rows of chunks, as a block has them."""
        table = self.plan.source.chunks
        first, n = table.first_row[chunks], table.n_rows[chunks]
        ends = np.cumsum(n)
        return np.arange(ends[-1]) + np.repeat(first - (ends - n), n)

    def _members(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows the working set has."""
        assert self.working_set is not None
        slots = self.working_set.slots[rows]
        return (slots >= 0) & (self.working_set.member[slots] > 0)

    @property
    def _batches(self) -> Batches:
        batches = self.plan.blocks.partition
        assert isinstance(batches, Batches)
        return batches

    def _move(self, n_parts: int, n_nonzeros: int) -> bool:
        """Move the rows of a batch that can move; False where the run is stopped meanwhile."""
        progress, solver, working_set = self.progress, self.plan.solver, self.working_set
        assert working_set is not None
        stats = progress.block_stats(n_nonzeros, working_set)
        moved = PassResult(0, n_nonzeros, 0.0, False)
        seconds = 0.0
        for number, answer in enumerate(self.screener.take(n_parts, self.watch.stop)):
            if answer is None:
                return False
            self._take_in(answer)
            if isinstance(solver, SeveralProblemsSolver):
                self.state["seen"] += answer.sums["totals"][:, 1]
            everyone = np.arange(answer.movers.n_samples, dtype=np.int32)
            if not len(everyone):
                continue
            key = progress.outer, 1 + (progress.visit << 20) + number
            result = self.executor.visit(
                VisitTask(NO_CHUNKS, key, self.plan.schedule, stats, everyone, between=True), answer.movers
            )
            assert result.share is not None
            working_set.offer(answer.movers, result.share)
            (done,), seconds = result.passes, seconds + sum(result.seconds)
            moved = replace(moved, rows_visited=moved.rows_visited + done.rows_visited, gain=moved.gain + done.gain)
        total = VisitResult(NO_CHUNKS, {}, {}, None, None, passes=[moved], seconds=[seconds])
        progress.count(total, stats, n_nonzeros)
        self.tally.count(total)
        return True

    def _take_in(self, answer: Screened) -> None:
        if not answer.allowed:
            assert self.unchecked is not None
            raise beyond_bounds(self.unchecked)
        self.tally.bytes_read += answer.bytes_read
        put_rows(self.state, answer.movers.rows, answer.entries)

    def _close(self) -> None:
        """What the set's rows have of the gap, which no worker has looked at, belongs to what was seen."""
        solver, working_set = self.plan.solver, self.working_set
        assert working_set is not None
        problem = solver.problem_at(self.state) if isinstance(solver, SeveralProblemsSolver) else solver.problem
        sums = problem.sums(self.weights(), solver.prior)
        block, members = working_set.block, working_set.members
        left_out = members[self.state[LEFT_OUT][block.rows[members]]]
        alpha = solver.dual_variables(self.state)
        assert alpha is not None
        for start in range(0, len(left_out), AT_ONCE):
            some = rows_of(block, left_out[start : start + AT_ONCE])
            sums.add(sums.scores(some), some, alpha[some.rows])
        if isinstance(solver, SeveralProblemsSolver):
            self.state["seen"] += sums.added()["totals"][:, 1]
        working_set.seen += sums.gap_so_far()
        self.state[LEFT_OUT][:] = False
        super()._close()

    def _reading(self, sums: CertificateSums, enough: float, working_set: WorkingSet | None) -> Outcome:
        """A reading at one w, of all rows, the working set's among them."""
        self.screener.forget()
        version = self.screener.new_version(self.state["w"])
        parts = [some for batch in self.following() for some in self._batches.parts(batch)]
        left_out = self.state[LEFT_OUT]  # in its sums, too, a row of the set counts, but is not sent
        if working_set is not None:
            left_out[:] = self._members(np.arange(len(left_out)))
            working_set.begin_reading(reset=False)
        self.screener.want(partial(self._part, some, version, leaves_out=False) for some in parts)
        seen, n_samples = 0, self.plan.source.n_samples
        for chunks, answer in zip(parts, self.screener.take(len(parts), self.watch.stop), strict=False):
            if answer is None:
                return None
            self._take_in(answer)
            sums.merge(answer.sums)
            if working_set is not None:
                rows = self._rows(chunks)
                working_set.renew(rows[left_out[rows]], answer.of_members)
                working_set.offer(answer.movers, answer.share)
            seen += int(self.plan.source.chunks.n_rows[chunks].sum())
            if seen < n_samples and sums.gap_so_far() > enough:
                return RejectedEarly(sums.gap_so_far(), seen / n_samples)
        if working_set is not None:
            working_set.end_reading()
            left_out[:] = False
        return sums.certificate(), sums.drift()
