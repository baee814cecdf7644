"""A visit: inner passes over one block, or over the working set, from a state to what they change.  Data in, data out.

    result = run_visit(solver, partition, task, block, part)        anywhere: a thread, a process, another machine
    add(solver, state, result)                                      where the state is

``VisitTask`` says what is to be done, ``part`` is what the solver knows (``part_of``: feature and scalar arrays whole,
of row arrays the block's entries), ``VisitResult`` what has changed.  Results of several blocks that were visited from
one w are added up by ``merge``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from blocksvm.solvers.solver import SHARE, HoldsRows, PassResult, Solver, State, Visit
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
    the set; most: passes at most; sigma: so many blocks are visited from one w, and their changes added up.
    """

    chunks: np.ndarray
    key: tuple[int, int]
    schedule: Schedule
    stats: PassStats
    members: np.ndarray | None = None
    between: bool = False
    last_worth: float = 1.0
    most: float = float("inf")
    sigma: float = 1.0

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
    own; held: of a solver that holds rows, what it holds now (``HoldsRows.held``), None where it is the run's own;
    share (n,) float64: of a solver with a working set each row's share of the gap; passes, seconds: what each pass
    did.
    """

    rows: np.ndarray
    entries: State
    scalars: State
    features: State | None
    share: np.ndarray | None
    held: Any = None
    passes: list[PassResult] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def run_visit(
    solver: Solver, partition: Partition, task: VisitTask, block: Block, part: State, ready: Callable[[], bool] = never
) -> VisitResult:
    """Make a visit to a block; part: as ``part_of`` gives it, whose arrays are updated.  ready(): the next block has
    been read."""
    arrays = {array.name: array.zeros(block.n_samples) for array in solver.visit_arrays}
    visit = Visit(arrays, task.members is not None, task.sigma)
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
    if result.held is not None:
        assert isinstance(solver, HoldsRows)
        solver.hold(result.held, state)


def merge(solver: Solver, state: State, results: list[VisitResult], sigma: float) -> None:
    """Bring the results of visits to several blocks into the state that all of them began from, which has not changed
    since.  Each solved its own part of the dual with w moving by ``sigma`` times its changes, so that the sum of up to
    ``sigma`` of them does not overshoot, and D rises by at least what the parts have gained (Ma et al., Adding vs.
    Averaging in Distributed Primal-Dual Optimization, ICML 2015, lemma 3)."""
    assert solver.capabilities.merges and len(results) <= sigma
    features = {a.name: state[a.name].copy() for a in solver.state_arrays if a.axis == "feature" and a.in_visits}
    scalars = {a.name: state[a.name].copy() for a in solver.state_arrays if a.axis == "scalar" and a.in_visits}
    for result in results:
        assert result.features is not None
        put_rows(state, result.rows, result.entries)
        for name, before in features.items():
            state[name] += (result.features[name] - before) / sigma
        for name, before in scalars.items():
            state[name] += result.scalars[name] - before


class Executor(Protocol):
    """Makes visits, and leaves the state as they have changed it."""

    def visit(self, task: VisitTask, block: Block) -> VisitResult: ...


class ThisProcess:
    """Makes visits here and now, on the run's own feature arrays."""

    def __init__(self, solver: Solver, partition: Partition, state: State, ready: Callable[[], bool] = never):
        self.solver, self.partition, self.state, self.ready = solver, partition, state, ready

    def visit(self, task: VisitTask, block: Block) -> VisitResult:
        part = part_of(self.solver, block, self.state)
        result = run_visit(self.solver, self.partition, task, block, part, self.ready)
        add(self.solver, self.state, result)
        return result
