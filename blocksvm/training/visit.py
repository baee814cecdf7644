"""A visit: inner passes over one block, or over the working set, from a state to what they change.

    part = part_of(solver, block, state)
    result = run_visit(solver, partition, task, block, part)
    put_back(solver, state, block, part)

``part`` is what the solver knows of the state, and changes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blocksvm.solvers.solver import SHARE, PassResult, Solver, State, Visit
from blocksvm.sources.block import Block
from blocksvm.training.partition import Partition
from blocksvm.training.schedule import PassStats, Schedule


@dataclass(frozen=True)
class VisitTask:
    key: tuple[int, int]  # that the order of its rows is drawn from
    schedule: Schedule
    stats: PassStats  # what the schedule knows before the first pass
    members: np.ndarray | None = None  # (m,) int32: of the working set's rows, positions in its block; None: of a block
    between: bool = False  # other blocks of this reading are to come
    last_worth: float = 1.0  # of the last pass over the set
    most: float = float("inf")  # passes

    def go_on(self, stats: PassStats, ready: bool) -> bool:
        """Whether another pass is made; the first one over a block always is."""
        if self.members is None:
            return stats.passes < self.most and self.schedule.block(stats, ready)
        return (
            self.schedule.between(stats, ready, self.last_worth) if self.between else self.schedule.after_reading(stats)
        )


@dataclass
class VisitResult:
    passes: list[PassResult]
    stats: PassStats  # at its end
    seconds: float = 0.0
    share: np.ndarray | None = None  # (n,) float64: of a solver with a working set each row's share of the gap


def run_visit(solver: Solver, partition: Partition, task: VisitTask, block: Block, part: State,
              ready: Callable[[], bool] = lambda: False) -> VisitResult:  # fmt: skip
    """Make a visit to a block, which updates the arrays of ``part``; ready(): the next block has been read."""
    visit, result = Visit(of_the_set=task.members is not None), VisitResult([], task.stats)
    order = np.empty(block.n_samples if task.members is None else len(task.members), np.int32)
    while not visit.passes or task.go_on(result.stats, ready()):
        began = time.perf_counter()
        if task.members is None:
            partition.row_order(*task.key, visit.passes, order)
        else:
            partition.set_order(*task.key, visit.passes, order)
            order[:] = task.members[order]
        done = solver.inner_pass(block, part, visit, order)
        visit.passes += 1
        result.stats = result.stats.after(done)
        result.passes.append(done)
        result.seconds += time.perf_counter() - began
    result.share = visit.arrays.get(SHARE)
    return result


def part_of(solver: Solver, block: Block, state: State) -> State:
    """The state for a visit: feature arrays and matrices themselves, copies of scalars and of the block's rows."""
    part = {}
    for array in solver.state_arrays:
        if array.in_visits:
            whole = state[array.name]
            part[array.name] = (
                whole[block.rows] if array.axis == "row" else whole.copy() if array.axis == "scalar" else whole
            )
    return part


def put_back(solver: Solver, state: State, block: Block, part: State) -> None:
    """Bring what a visit to a block has changed into the state that ``part`` is of."""
    for array in solver.state_arrays:
        if array.in_visits and array.axis in ("row", "scalar"):
            state[array.name][block.rows if array.axis == "row" else ...] = part[array.name]


def offer_shares(solver: Solver, state: State, block: Block, scores: np.ndarray, offer: Callable) -> None:
    """offer(block, shares) the rows that can still move, by their decision values; they are at rest no longer."""
    part, share = part_of(solver, block, state), np.empty(block.n_samples)
    solver.shares(block, scores, part, share)
    put_back(solver, state, block, part)
    offer(block, share)
