"""Has the blocks of a run visited: which passes a visit gets, what it did, and a visit that is broken off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.solvers.protocol import State
from blocksvm.sources.block import Block
from blocksvm.training.feed import Feed
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress
from blocksvm.training.schedule import Replay, Situation
from blocksvm.training.visits import Change, Executor, Visit


class Visitor:
    """Makes the visits of a plan by an executor, asking the schedule after each pass whether another follows.

    stop(): asked after each pass, too; report(figures): gets the progress of a solver that predicts first; arrays: the
    solver's visit arrays of a visit that was broken off, None between visits.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        feed: Feed,
        executor: Executor,
        stop: Callable[[], bool],
        report: Callable[[dict], None],
    ):
        self.plan = plan
        self.progress = progress
        self.feed = feed
        self.executor = executor
        self.stop = stop
        self.report = report
        self.arrays: State | None = None
        self.pass_seconds = 0.0  # running mean, for the schedules that go by time
        self.first_pass = True

    def visit(self, block: Block, state: State) -> bool:
        """Have one block visited; False where the run was stopped meanwhile."""
        progress, schedule = self.progress, self.plan.schedule
        position = progress.position
        if isinstance(schedule, Replay):
            schedule.begin_visit(len(progress.passes))
        stopped = False

        def order(number: int, out: np.ndarray) -> None:
            self.plan.partition.row_order(position.outer, position.visit, number, out)

        def go_on(passes: int, finished: bool, seconds: float) -> bool:
            nonlocal stopped
            if seconds:
                self._learn_pace(seconds)
                stopped = self.stop()
            ready, disk = self.feed.ready(), self.feed.disk_seconds
            going = not stopped and schedule.go_on(Situation(passes, finished, ready, disk, self.pass_seconds))
            if going and seconds and self.plan.over_time():
                stopped = True
            return going and not stopped

        visit = Visit(order, go_on, position.passes, self.arrays, progress.finished)
        change = self.executor.make(self.plan.solver, visit, block, state)
        self._count(change)
        position.passes, progress.finished = change.passes, change.finished
        stopped = stopped or any(not result.whole for result in change.results)
        self.arrays = change.arrays if stopped else None
        if stopped:
            return False
        progress.tally.blocks += 1
        progress.tally.passes.append(change.passes)
        progress.passes.append(change.passes)
        position.visit += 1
        position.passes = 0
        return True

    def _learn_pace(self, took: float) -> None:
        """The running mean of a pass; the first one of a process also loads the kernel, and tells nothing."""
        if self.first_pass:
            self.first_pass = False
        else:
            self.pass_seconds = took if not self.pass_seconds else 0.8 * self.pass_seconds + 0.2 * took

    def _count(self, change: Change) -> None:
        tally = self.progress.tally
        for result, seconds in zip(change.results, change.seconds, strict=True):
            tally.inner_passes += 1
            tally.rows_visited += result.rows_visited
            tally.nnz_visited += result.nnz_visited
            tally.loss_sum += result.loss_sum
            tally.seconds_training += seconds
            for figures in result.reports:
                self.report(figures)
