"""What grows with rows, features or classes is counted against the memory, or made no more often than it must be."""

import numpy as np
from support.training_cases import looped, random_rows

from blocksvm.sources.block_reader import BlockReader
from blocksvm.sources.matrix import Matrix


class CountingMatrix(Matrix):
    """A matrix that counts how many blocks are read of it."""

    n_read = 0

    def reader(self):
        return self

    def read_block(self, chunks, arena):
        self.n_read += 1
        return super().read_block(chunks, arena)


def test_the_sides_of_many_classes_are_counted():
    X, _ = random_rows(n=400, d=20, seed=1)
    y = (np.arange(400) % 40).astype(float)
    loop = looped(Matrix(X, y))
    table = loop.plan.solver.problem.sides.table
    assert table.nbytes <= 41 * 40  # a byte for a label and a class
    assert loop.plan.memory()["sides of the classes"] >= table.nbytes


def test_the_weights_that_a_certificate_of_pegasos_makes_are_counted():
    X, y = random_rows(n=60, d=25, seed=2)
    counted = looped(Matrix(X, y), solver="pegasos", dual=True).plan.memory()
    assert counted["weights of the dual variables"] == 8 * 26
    assert "weights of the dual variables" not in looped(Matrix(X, y), solver="pegasos").plan.memory()


def test_no_block_is_read_in_vain():
    X, y = random_rows(n=200, d=20, seed=4)
    source = CountingMatrix(X, y, chunk_rows=np.arange(0, 200, 10))
    loop = looped(source, block_chunks=1, max_outer=1)
    with BlockReader(source, 0, resident=False) as loop.reader:
        assert sum(1 for _ in loop.every_row()) == source.n_read == 20
