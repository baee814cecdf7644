"""Visits to the working set."""

from support.training_cases import looped, opened, random_rows

from blocksvm.sources.matrix import Matrix


def test_the_rows_of_the_set_come_in_another_order_at_every_visit():
    """Whatever outer iteration they belong to: the visits to the set are counted through the run."""
    orders = []
    with opened(Matrix(*random_rows(n=240, d=40, seed=6), chunk_rows=range(0, 240, 8))) as source:
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
