"""A visit: the inner passes over one block, as a function of the block and the state that returns what it changed.

    change = run_visit(solver, visit, block, state)

``visit`` names what is to be done, ``state`` what the solver knows: feature and scalar arrays whole, of row arrays the
block's part.  The change has the new values of the block's rows and of the scalars; the feature arrays are updated in
place, and belong to whoever made the state.  Who makes the visit is an executor's matter: ``ThisThread`` lets it update
the run's own feature arrays, another may give it copies and bring the change back from a thread, a process or another
machine (tests/test_visits.py has one).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from blocksvm.solvers.protocol import PassResult, Solver, State
from blocksvm.sources.block import Block


@dataclass
class Visit:
    """What a visit is to do.

    passes: inner passes done before (of a visit that was broken off); arrays: the solver's visit arrays, or None where
    it begins; order(number, out): the order of the rows in inner pass ``number``; go_on(passes, result, seconds):
    whether another pass follows, asked after each one with what it did, None where that was before the visit was broken
    off; finished: what the solver said of the last pass done before; n_rows: of a working set, how many rows of the
    block are visited; None: all.
    """

    order: Callable[[int, np.ndarray], np.ndarray]
    go_on: Callable[[int, PassResult | None, float], bool]
    passes: int = 0
    arrays: State | None = None
    finished: bool = False
    n_rows: int | None = None


@dataclass
class Change:
    """What a visit changed.

    rows: {array: new entries of the block's rows}; scalars: {array: new values}; features: {array: new values}, or None
    where the run's own arrays were updated; arrays: the solver's visit arrays, for a visit that is broken off; passes:
    done in all; finished: what the solver said last; results: of each pass made now, seconds: what each took.
    """

    rows: State
    scalars: State
    features: State | None
    arrays: State
    passes: int
    finished: bool
    results: list[PassResult] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def run_visit(solver: Solver, visit: Visit, block: Block, state: State) -> Change:
    """Make a visit.  state: feature arrays (updated in place), scalar arrays and the block's part of row arrays (both
    the visit's own)."""
    arrays = visit.arrays
    if arrays is None:
        arrays = {a.name: np.zeros(a.length or block.n_samples, a.dtype) for a in solver.visit_arrays}
        solver.start_visit(arrays, visit.n_rows is None)
    used = [array for array in solver.state_arrays if array.in_visits]
    rows, scalars = ({a.name: state[a.name] for a in used if a.axis == axis} for axis in ("row", "scalar"))
    change = Change(rows, scalars, None, arrays, visit.passes, visit.finished)
    order = np.empty(block.n_samples if visit.n_rows is None else visit.n_rows, np.int32)
    # a visit that was broken off between two passes: it is asked again what it would have been asked
    going = visit.go_on(visit.passes, None, 0.0) if visit.passes else True
    while going:
        began = time.perf_counter()
        visit.order(change.passes, order)
        result = solver.inner_pass(block, state, arrays, order)
        seconds = time.perf_counter() - began
        change.passes += result.whole
        change.finished = result.finished
        change.results.append(result)
        change.seconds.append(seconds)
        going = visit.go_on(change.passes, result, seconds) and result.whole
    return change


class Executor(Protocol):
    """Makes visits to the run's ``state`` (whole arrays), and brings the changes into it."""

    def make(self, solver: Solver, visit: Visit, block: Block, state: State) -> Change: ...


class ThisThread:
    """Makes visits here and now, on the run's own feature arrays."""

    def make(self, solver: Solver, visit: Visit, block: Block, state: State) -> Change:
        change = run_visit(solver, visit, block, part_of(solver, block, state))
        apply(solver, block, change, state)
        return change


def part_of(solver: Solver, block: Block, state: State) -> State:
    """What a visit to the block gets: the feature arrays themselves, copies of all else that it may change."""
    part = {}
    for array in solver.state_arrays:
        if not array.in_visits:
            continue
        own = state[array.name]
        part[array.name] = own if array.axis == "feature" else own[block.rows] if array.axis == "row" else own.copy()
    return part


def apply(solver: Solver, block: Block, change: Change, state: State) -> None:
    """Bring a change into the run's state."""
    put_rows(block, change.rows, state)
    for name, values in change.scalars.items():
        state[name][:] = values
    for name, values in (change.features or {}).items():
        state[name][:] = values


def put_rows(block: Block, entries: State, state: State) -> None:
    """Bring new entries of row arrays, those of the block's rows, into the run's state."""
    for name, values in entries.items():
        state[name][block.rows] = values
