"""A visit: inner passes over one block, or over the working set, from a state to what they change.  Data in, data out.

    part = part_of(solver, block, state)
    result = run_visit(solver, partition, task, block, part)
    put_back(solver, state, block, part)

``VisitTask`` says what is to be done, ``part`` is what the solver knows and changes: feature arrays and matrices
themselves, copies of scalar arrays and of the block's entries of row arrays.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from blocksvm.solvers.solver import SHARE, PassResult, Solver, State, Visit
from blocksvm.sources.block import Block
from blocksvm.training.partition import Partition
from blocksvm.training.schedule import PassStats, Schedule


@dataclass(frozen=True)
class VisitTask:
    """The task of a visit.

    key: two numbers that the order of its rows is drawn from; stats: what the schedule knows before the first pass;
    members (m,) int32: of a visit to the working set its rows, as positions in the set's block, else None; between:
    other blocks of this reading are to come; last_worth: of the last pass over the set; most: passes at most.
    """

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
    """What a visit has shown.  passes, seconds: what each pass did; share (n,) float64: of a solver with a working set
    each row's share of the gap."""

    passes: list[PassResult] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    share: np.ndarray | None = None


def run_visit(
    solver: Solver,
    partition: Partition,
    task: VisitTask,
    block: Block,
    part: State,
    ready: Callable[[], bool] = lambda: False,
) -> VisitResult:
    """Make a visit to a block; part: as ``part_of`` gives it, whose arrays are updated.  ready(): the next block has
    been read."""
    visit, result = Visit(of_the_set=task.members is not None), VisitResult()
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
    result.share = visit.arrays.get(SHARE)
    return result


def part_of(solver: Solver, block: Block, state: State) -> State:
    """The state for a visit to the block: feature arrays and matrices themselves, copies of all else."""
    part = {}
    for array in solver.state_arrays:
        if array.in_visits:
            whole = state[array.name]
            part[array.name] = (
                whole[block.rows] if array.axis == "row" else whole.copy() if array.axis == "scalar" else whole
            )
    return part


def of_axis(solver: Solver, part: State, axis: str) -> State:
    """Of what a visit got, the arrays of an axis."""
    return {array.name: part[array.name] for array in solver.state_arrays if array.in_visits and array.axis == axis}


def put_rows(state: State, rows: np.ndarray, entries: State) -> None:
    """Bring new entries of row arrays, those of ``rows`` (n,), into the state."""
    for name, values in entries.items():
        state[name][rows] = values


def put_back(solver: Solver, state: State, block: Block, part: State) -> None:
    """Bring what a visit to a block has changed into the state that ``part`` is of."""
    put_rows(state, block.rows, of_axis(solver, part, "row"))
    for name, values in of_axis(solver, part, "scalar").items():
        state[name][:] = values
