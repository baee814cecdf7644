"""A visit is a function of a block and a state: made here or elsewhere it changes the same, and one block may serve
several problems."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from training_cases import looped, random_rows

from blocksvm.sources.matrix import Matrix
from blocksvm.training.visit import Change, ThisThread, Visit, apply, part_of, run_visit

CHUNK_ROWS = np.arange(0, 240, 8)
SETTINGS = [
    {"schedule": "2"},
    {"loss": "squared-hinge", "schedule": "3", "bias": 0.7},
    {"solver": "pegasos", "batch": 4, "schedule": "2"},
    {"solver": "arow", "average": True},
]


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=240, d=40, seed=6)


class Elsewhere:
    """Makes visits as another machine would: on copies of the block and the state that were written and read again.

    Only what comes back in the change reaches the run.
    """

    def __init__(self):
        self.visits = 0

    def make(self, solver, visit: Visit, block, state) -> Change:
        self.visits += 1
        sent = pickle.dumps((block, part_of(solver, block, state)))
        block_there, state_there = pickle.loads(sent)
        change = run_visit(solver, visit, block_there, state_there)
        change.features = {a.name: state_there[a.name] for a in solver.state_arrays if a.axis == "feature"}
        change = pickle.loads(pickle.dumps(change))
        apply(solver, block, change, state)
        return change


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_visit_made_elsewhere_changes_the_same(rows, settings):
    options = settings | {"block_chunks": 6, "max_outer": 3, "tol": 0.0, "seed": 3}
    here = looped(Matrix(*rows, chunk_rows=CHUNK_ROWS), **options).run()
    executor = Elsewhere()
    there = looped(Matrix(*rows, chunk_rows=CHUNK_ROWS), executor=executor, **options).run()
    # the blocks of three outer iterations, and the working set after each where there is one
    assert executor.visits == 3 * 5 + sum(n > 0 for n in there.set_passes)
    assert np.array_equal(here.w, there.w)
    assert here.alpha is there.alpha is None or np.array_equal(here.alpha, there.alpha)
    assert here.certificate == there.certificate
    assert (here.passes, here.set_passes) == (there.passes, there.set_passes)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_only_the_feature_arrays_are_touched_before_a_change_is_applied(rows, settings):
    loop = looped(Matrix(*rows, chunk_rows=CHUNK_ROWS), **settings)
    loop.allocate()
    solver, state = loop.plan.solver, loop.state
    block = loop.plan.source.read_block(np.arange(3), None)
    before = {a.name: state[a.name].copy() for a in solver.state_arrays if a.axis != "feature"}
    visit = Visit(lambda number, out: np.copyto(out, np.arange(len(out))), lambda *done: False)
    change = run_visit(solver, visit, block, part_of(solver, block, state))
    assert change.passes == 1
    assert all(np.array_equal(array, state[name]) for name, array in before.items())
    apply(solver, block, change, state)
    assert any(not np.array_equal(array, state[name]) for name, array in before.items())


def test_one_block_serves_several_problems(rows):
    """Each block is read once for three values of C; each result is that of a run of its own."""
    costs = (0.05, 1.0, 20.0)
    options = {"block_chunks": 6, "schedule": "2", "max_outer": 3, "tol": 0.0, "partition": "fixed", "seed": 3}
    options |= {"working_set": "none"}
    alone = [looped(Matrix(*rows, chunk_rows=CHUNK_ROWS), C=C, **options).run() for C in costs]
    source = Matrix(*rows, chunk_rows=CHUNK_ROWS)
    loops = [looped(source, C=C, **options) for C in costs]
    for loop in loops:
        loop.allocate()
    partition = loops[0].plan.blocks.partition
    for outer in range(1, 4):
        for number, chunks in enumerate(partition.blocks(outer)):
            block = source.read_block(chunks, None)

            def order(inner, out, outer=outer, number=number):
                partition.row_order(outer, number, inner, out)

            for loop in loops:
                visit = Visit(order, lambda passes, *rest: passes < 2)
                ThisThread().make(loop.plan.solver, visit, block, loop.state)
        for loop in loops:
            loop.plan.solver.end_outer(loop.state, outer)
    assert source.cost.blocks == 3 * 5
    for loop, result in zip(loops, alone, strict=True):
        assert np.array_equal(loop.state["w"], result.w)
        assert np.array_equal(loop.state["alpha"], result.alpha)
