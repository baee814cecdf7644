"""A visit is data in, data out: what it changes is brought into the state when it has ended."""

import numpy as np
import pytest
from support.training_cases import looped, opened, random_rows

from blocksvm.sources.matrix import Matrix
from blocksvm.training.loop import OuterLoop
from blocksvm.training.schedule import Fixed, PassStats
from blocksvm.training.visit import VisitTask, part_of, put_back, run_visit

CHUNK_ROWS = np.arange(0, 240, 8)


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=240, d=40, seed=6)


def begun(source, **settings) -> OuterLoop:
    loop = looped(source, **settings)
    loop.allocate()
    return loop


def task_of(key=(1, 0), passes=1, **more) -> VisitTask:
    return VisitTask(key, Fixed(passes), PassStats(), **more)


@pytest.mark.parametrize(
    "settings", [{}, {"loss": "squared-hinge"}, {"solver": "pegasos"}, {"solver": "arow", "average": True}], ids=str
)
def test_only_the_feature_arrays_are_touched_before_a_part_is_put_back(rows, settings):
    loop = begun(Matrix(*rows, chunk_rows=CHUNK_ROWS), **settings)
    solver, state = loop.plan.solver, loop.state
    block = loop.plan.source.read_block(np.arange(3), None)
    before = {a.name: state[a.name].copy() for a in solver.state_arrays if a.axis != "feature"}
    part = part_of(solver, block, state)
    result = run_visit(solver, loop.plan.blocks.partition, task_of(), block, part)
    assert len(result.passes) == len(result.seconds) == 1
    assert all(np.array_equal(array, state[name]) for name, array in before.items())
    put_back(solver, state, block, part)
    assert any(not np.array_equal(array, state[name]) for name, array in before.items())


def test_one_block_serves_several_problems(rows):
    """Each block is read once for three values of C; each result is that of a run of its own."""
    costs = (0.05, 1.0, 20.0)
    options = {"block_chunks": 6, "schedule": "2", "max_outer": 3, "tol": 0.0, "partition": "fixed", "seed": 3}
    options |= {"working_set": "none"}
    alone = [looped(Matrix(*rows, chunk_rows=CHUNK_ROWS), C=C, **options).run() for C in costs]
    source = Matrix(*rows, chunk_rows=CHUNK_ROWS)
    loops = [begun(source, C=C, **options) for C in costs]
    partition = loops[0].plan.blocks.partition
    for outer in range(1, 4):
        for number, chunks in enumerate(partition.blocks(outer)):
            block = source.read_block(chunks, None)
            for loop in loops:
                loop.visit(task_of((outer, number), 2), block)
        for loop in loops:
            loop.plan.solver.end_outer(loop.state, outer)
    assert source.cost.blocks == 3 * 5
    for loop, result in zip(loops, alone, strict=True):
        assert np.array_equal(loop.state["w"], result.w)
        assert np.array_equal(loop.state["alpha"], result.alpha)


def test_the_rows_of_the_set_come_in_another_order_at_every_visit(rows):
    """Whatever outer iteration they belong to: the visits to the set are counted through the run."""
    orders = []
    with opened(Matrix(*rows, chunk_rows=CHUNK_ROWS)) as source:
        loop = looped(source, block_chunks=6, tol=1e-9, C=10.0, max_outer=6, schedule="1")
        partition = loop.plan.blocks.partition
        plain = partition.set_order

        def noted(first, second, inner_pass, out):
            plain(first, second, inner_pass, out)
            if inner_pass == 0:
                orders.append(((first, second), tuple(out.tolist())))

        partition.set_order = noted
        loop.run()
    assert len(orders) > 6
    assert len({key for key, _ in orders}) == len(orders)
    assert len({order for _, order in orders}) == len(orders)
