"""A visit is data in, data out: what it changes is brought into the state when it has ended."""

import numpy as np
import pytest
from support.training_cases import looped, opened, random_rows

from blocksvm.sources.matrix import Matrix
from blocksvm.training.schedule import Fixed, PassStats
from blocksvm.training.visit import VisitTask, part_of, put_back, run_visit

CHUNK_ROWS = np.arange(0, 240, 8)


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=240, d=40, seed=6)


@pytest.mark.parametrize(
    "settings", [{}, {"loss": "squared-hinge"}, {"solver": "pegasos"}, {"solver": "arow", "average": True}], ids=str
)
def test_only_the_feature_arrays_are_touched_before_a_part_is_put_back(rows, settings):
    loop = looped(Matrix(*rows, chunk_rows=CHUNK_ROWS), **settings)
    loop.allocate()
    solver, state = loop.plan.solver, loop.state
    block = loop.plan.source.read_block(np.arange(3), None)
    before = {a.name: state[a.name].copy() for a in solver.state_arrays if a.axis != "feature"}
    part = part_of(solver, block, state)
    result = run_visit(solver, loop.plan.blocks.partition, VisitTask((1, 0), Fixed(1), PassStats()), block, part)
    assert len(result.passes) == result.stats.passes == 1
    assert all(np.array_equal(array, state[name]) for name, array in before.items())
    put_back(solver, state, block, part)
    assert any(not np.array_equal(array, state[name]) for name, array in before.items())


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
