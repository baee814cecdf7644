"""A visit: inner passes over one block, or over the working set, from a state to what they change.  Data in, data out.

    result = run_visit(solver, partition, task, block, part)        anywhere: a thread, a process, another machine
    add(solver, state, result)                                      where the state is

``VisitTask`` says what is to be done, ``part`` is what the solver knows (``part_of``: feature and scalar arrays whole,
of row arrays the block's entries), ``VisitResult`` what has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from blocksvm.solvers.solver import SHARE, PassResult, Solver, State, Visit
from blocksvm.sources.block import Block
from blocksvm.training.partition import Partition
from blocksvm.training.schedule import PassStats, Schedule


def never() -> bool:
    return False


@dataclass(frozen=True)
class VisitTask:
    """The task of a visit.

    chunks: of the source, which form the block; members (m,) int32: of a visit to the working set its rows, as places
    in the set's block, else None; key: two numbers that the order of its rows is drawn from; stats: what the schedule
    knows before the first pass; between: other blocks of this reading are to come; last_worth: of the last pass over
    the set; most: passes at most.
    """

    chunks: np.ndarray
    key: tuple[int, int]
    schedule: Schedule
    stats: PassStats
    members: np.ndarray | None = None
    between: bool = False
    last_worth: float = 1.0
    most: float = float("inf")

    def go_on(self, stats: PassStats, ready: bool) -> bool:
        """Whether another pass is made; the first one over a block always is."""
        if self.members is None:
            return stats.passes < self.most and self.schedule.block(stats, ready)
        return (
            self.schedule.between(stats, ready, self.last_worth) if self.between else self.schedule.after_reading(stats)
        )


@dataclass
class VisitResult:
    """The changes that a visit has made.

    rows (n,) int64: numbers of the block's rows in the source; entries: {row array: their new entries}; scalars:
    {array: new values}; features: {array: new values}, None where the arrays that the visit was given are the run's
    own; share (n,) float64: of a solver with a working set each row's share of the gap; passes, seconds: what each pass
    did.
    """

    rows: np.ndarray
    entries: State
    scalars: State
    features: State | None
    share: np.ndarray | None
    passes: list[PassResult] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def run_visit(
    solver: Solver, partition: Partition, task: VisitTask, block: Block, part: State, ready: Callable[[], bool] = never
) -> VisitResult:
    """Make a visit to a block; part: as ``part_of`` gives it, whose arrays are updated.  ready(): the next block has
    been read."""
    arrays = {array.name: array.zeros(block.n_samples) for array in solver.visit_arrays}
    visit = Visit(arrays, task.members is not None)
    solver.start_visit(visit)
    entries, scalars = (of_axis(solver, part, axis) for axis in ("row", "scalar"))
    result = VisitResult(block.rows, entries, scalars, None, visit.arrays.get(SHARE))
    order = np.empty(block.n_samples if task.members is None else len(task.members), np.int32)
    stats = task.stats
    going = True
    while going:
        began = time.perf_counter()
        if task.members is None:
            partition.row_order(*task.key, visit.passes, order)
        else:
            partition.set_order(*task.key, visit.passes, order)
            order[:] = task.members[order]
        done = solver.inner_pass(block, part, visit, order)
        visit.passes += 1
        stats = stats.after(done)
        result.passes.append(done)
        result.seconds.append(time.perf_counter() - began)
        going = task.go_on(stats, ready())
    return result


def part_of(solver: Solver, block: Block, state: State) -> State:
    """The state for a visit to the block: the feature arrays themselves, copies of all else that it may change."""
    part = {}
    for array in solver.state_arrays:
        if array.in_visits:
            whole = state[array.name]
            part[array.name] = (
                whole[block.rows] if array.axis == "row" else whole if array.axis == "feature" else whole.copy()
            )
    return part


def of_axis(solver: Solver, part: State, axis: str) -> State:
    """Of what a visit got, the arrays of an axis."""
    return {array.name: part[array.name] for array in solver.state_arrays if array.in_visits and array.axis == axis}


def put_rows(state: State, rows: np.ndarray, entries: State) -> None:
    """Bring new entries of row arrays, those of ``rows`` (n,), into the state."""
    for name, values in entries.items():
        state[name][rows] = values


def add(solver: Solver, state: State, result: VisitResult) -> None:
    """Bring the result of a visit into the state that it began from."""
    put_rows(state, result.rows, result.entries)
    for name, values in result.scalars.items():
        state[name][:] = values
    for name, values in (result.features or {}).items():
        state[name][:] = values


class ThisProcess:
    """Makes visits here and now, on the run's own feature arrays."""

    def __init__(self, solver: Solver, partition: Partition, state: State, ready: Callable[[], bool] = never):
        self.solver, self.partition, self.state, self.ready = solver, partition, state, ready

    def visit(self, task: VisitTask, block: Block) -> VisitResult:
        part = part_of(self.solver, block, self.state)
        result = run_visit(self.solver, self.partition, task, block, part, self.ready)
        add(self.solver, self.state, result)
        return result
