"""Has the blocks of a run visited, and its working set: which passes a visit gets, what it did, and a visit that is
broken off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.errors import InputError
from blocksvm.solvers.protocol import SHARE, PassResult, State
from blocksvm.sources.block import Block
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress
from blocksvm.training.schedule import READING_WORK, Replay, SetSituation, Situation
from blocksvm.training.supply import Supply
from blocksvm.training.visits import Change, Executor, Visit
from blocksvm.training.working_set import WorkingSet

OF_ANOTHER_RUN = "the checkpoint's visit is of another run: it has other rows; start afresh"
# Of the gap that the tolerance allows: passes that have less to gain end; and from this pass over the working set on,
# since a step along what they have done (solvers/extrapolation.py), with the passes that must follow it, costs half as
# much again as all before it.
SPARED, SPARED_LATE, LATE = 0.25, 0.5, 15


class Visitor:
    """Makes the visits of a plan by an executor, asking the schedule after each pass whether another follows.

    stop(): asked after each pass, too; report(figures): gets the progress of a solver that predicts first; arrays: the
    solver's visit arrays of a visit that was broken off, None between visits.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        supply: Supply,
        executor: Executor,
        stop: Callable[[], bool],
        report: Callable[[dict], None],
    ):
        self.plan = plan
        self.progress = progress
        self.supply = supply
        self.executor = executor
        self.stop = stop
        self.report = report
        self.arrays: State | None = None

    def packed(self, working_set: WorkingSet | None) -> State | None:
        """``arrays`` for a checkpoint: of a visit to the working set, what its members have, wherever they lie."""
        if self.arrays is None or not self.progress.position.of_the_set:
            return self.arrays
        return {name: a[working_set.members] if name in self._by_row else a for name, a in self.arrays.items()}

    def unpack(self, arrays: State | None, working_set: WorkingSet | None) -> None:
        """Take ``arrays`` from a checkpoint, the other way round."""
        if arrays is not None and self.progress.position.of_the_set:
            for name in self._by_row:
                packed, arrays[name] = arrays[name], np.zeros(working_set.block.n_samples, arrays[name].dtype)
                if len(packed) != len(working_set.members):
                    raise InputError(OF_ANOTHER_RUN)
                arrays[name][working_set.members] = packed
        self.arrays = arrays

    def _fit(self, n_rows: int) -> State | None:
        """The arrays that a visit to so many rows goes on with; InputError where a checkpoint's are of another one."""
        wanted = {a.name: (np.dtype(a.dtype), a.length or n_rows) for a in self.plan.solver.visit_arrays}
        if self.arrays is not None and {n: (a.dtype, a.size) for n, a in self.arrays.items()} != wanted:
            raise InputError(OF_ANOTHER_RUN)
        return self.arrays

    @property
    def _by_row(self) -> list[str]:
        return [array.name for array in self.plan.solver.visit_arrays if not array.length]

    def visit(self, block: Block, state: State, working_set: WorkingSet | None) -> bool:
        """Have one block visited, which was taken last, and its rows gathered; False where the run was stopped
        meanwhile."""
        progress, schedule = self.progress, self.plan.schedule
        position = progress.position
        if not position.passes:
            resident = self.supply.blocks.partition.resident
            progress.visit_gain, progress.visit_work = 0.0, 0.0 if resident else READING_WORK * block.n_nonzeros
            progress.cycle_work += progress.visit_work
        if isinstance(schedule, Replay):
            schedule.begin_visit(len(progress.passes))

        def order(number: int, out: np.ndarray) -> None:
            self.supply.blocks.partition.row_order(position.outer, position.visit, number, out)

        share, tol = block.n_samples / self.plan.source.n_samples, self.plan.settings.tol
        most = self.plan.settings.passes_left(progress.passes_made)

        def wanted(passes: int, result: PassResult | None, seconds: float) -> bool:
            if result is not None:
                progress.work = result.nnz_visited
                progress.visit_gain += result.gain
                progress.visit_work += progress.work
                progress.cycle_gain += result.gain
                progress.cycle_work += progress.work
                if passes == 1:
                    # before the first reading is whole, the losses on it, which are not below what they come to
                    last = progress.estimates[-1] if progress.estimates else None
                    allowed = tol * (result.loss_sum if last is None else abs(last) * share)
                    progress.allowed = self.plan.solver.gain_of_gap * allowed
                progress.gain = result.gain
            situation = Situation(
                passes,
                progress.finished if result is None else result.finished,
                progress.gain,
                progress.work,
                progress.visit_gain,
                progress.visit_work,
                progress.allowed,
                working_set is not None,
                working_set is not None and working_set.idle,
                progress.warm_started and not progress.outers_done(),
                self.supply.feed.ready(),
            )
            return passes < most and schedule.go_on(situation)

        visit = Visit(order, wanted, position.passes, self._fit(block.n_samples), progress.finished)
        change = self._make(visit, block, state)
        self._count(change)
        if self.arrays is not None:
            return False
        progress.tally.blocks += 1
        progress.nnz_since_set += block.n_nonzeros
        progress.tally.passes.append(change.passes)
        progress.passes.append(change.passes)
        position.passes = 0
        if working_set is not None:
            working_set.gather(block, change.arrays[SHARE])
        return True

    def visit_set(self, working_set: WorkingSet, state: State, between_blocks: bool) -> bool:
        """Have the rows of the working set visited, if the schedule wants it; False where the run was stopped.
        between_blocks: blocks of this reading are still to come."""
        progress, schedule = self.progress, self.plan.schedule
        position = progress.position
        if isinstance(schedule, Replay):
            schedule.begin_visit(len(progress.set_passes))

        def order(number: int, out: np.ndarray) -> None:
            self.supply.blocks.partition.set_order(position.outer, position.visit, number, out)
            out[:] = members[out]

        primal = abs(progress.estimates[-1]) if progress.estimates else 0.0
        allowed = self.plan.settings.tol * primal
        read = progress.nnz_since_set / max(1, working_set.n_nonzeros) if between_blocks else 0.0

        def wanted(passes: int, result: PassResult | None, took: float) -> bool:
            if result is not None:
                progress.spread, progress.seen = result.spread, result.seen
                progress.cycle_gain += result.gain
                progress.cycle_work += result.nnz_visited
                progress.worth = (
                    result.gain * progress.cycle_work / max(progress.cycle_gain * result.nnz_visited, 1e-300)
                )
                progress.first_spread = result.spread if passes == 1 else progress.first_spread
                if result.further:
                    progress.further = passes - 1 + result.further
            # between blocks the visits smooth what a step has left rough
            if not between_blocks and passes < progress.further:
                return True
            enough = passes > 0 and progress.seen <= (SPARED if passes < LATE else SPARED_LATE) * allowed
            ready = self.supply.feed.ready()
            return schedule.go_on_with_set(
                SetSituation(
                    passes,
                    between_blocks,
                    progress.first_spread,
                    progress.spread,
                    enough,
                    progress.worth,
                    read,
                    ready,
                )
            )

        done = position.passes
        if not done:
            progress.further = 0
        # the members are listed only where they are passed over
        members = working_set.members if done or wanted(0, None, 0.0) else ()
        if len(members):
            visit = Visit(order, wanted, done, self._fit(working_set.block.n_samples), False, len(members))
            change = self._make(visit, working_set.block, state)
            working_set.share[members] = change.arrays[SHARE][members]
            self._count_set(change, done, between_blocks)
            if self.arrays is not None:
                return False
            done = change.passes
            progress.nnz_since_set = 0
        progress.tally.set_passes.append(done)
        progress.set_passes.append(done)
        position.passes = 0
        return True

    def _make(self, visit: Visit, block: Block, state: State) -> Change:
        """A visit of which ``visit.go_on`` tells whether the schedule wants another pass; ``arrays`` are kept where it
        was broken off."""
        progress, wanted, stopped = self.progress, visit.go_on, False
        if visit.arrays is not None:
            lengths = {array.name: array.length or block.n_samples for array in self.plan.solver.visit_arrays}
            if lengths != {name: len(array) for name, array in visit.arrays.items()}:
                raise InputError(OF_ANOTHER_RUN)

        def go_on(passes: int, result: PassResult | None, seconds: float) -> bool:
            nonlocal stopped
            if seconds:
                stopped = self.stop()
            going = wanted(passes, result, seconds) and not stopped
            if going and seconds and self.plan.over_time():
                stopped = True
            return going and not stopped

        visit.go_on = go_on
        change = self.executor.make(self.plan.solver, visit, block, state)
        progress.position.passes, progress.finished = change.passes, change.finished
        stopped = stopped or any(not result.whole for result in change.results)
        self.arrays = change.arrays if stopped else None
        return change

    def _count(self, change: Change) -> None:
        tally = self.progress.tally
        for result, seconds in zip(change.results, change.seconds, strict=True):
            tally.inner_passes += 1
            tally.rows_visited += result.rows_visited
            tally.nnz_visited += result.nnz_visited
            tally.loss_sum += result.loss_sum
            tally.gain += result.gain
            tally.seconds_training += seconds
            for figures in result.reports:
                self.report(figures)

    def _count_set(self, change: Change, done: int, between_blocks: bool) -> None:
        """done: passes of the visit before it was broken off.  Between two blocks a second pass and those after it are
        made while the next block is waited for: they are no work that other rows could have had."""
        tally = self.progress.tally
        for number, (result, seconds) in enumerate(zip(change.results, change.seconds, strict=True), done):
            if number == 0 or not between_blocks:
                tally.set_work += result.nnz_visited
            tally.set_rows_visited += result.rows_visited
            tally.set_nnz_visited += result.nnz_visited
            tally.set_gain += result.gain
            tally.set_seconds += seconds
