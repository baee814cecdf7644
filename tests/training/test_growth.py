"""What grows with rows, features or classes is counted against the memory, or made no more often than it must be."""

from __future__ import annotations

import math

import numpy as np
from support.training_cases import looped, random_rows, train

from blocksvm.problems import problem as problem_module
from blocksvm.sources.block_reader import BlockReader
from blocksvm.sources.matrix import Matrix
from blocksvm.training.working_set import WorkingSet


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


def test_members_are_listed_only_where_they_are_passed_over_or_chosen(monkeypatch):
    X, y = random_rows(n=400, d=40, seed=3)
    listed, chosen = [], []
    members, select = WorkingSet.members.fget, WorkingSet._select
    monkeypatch.setattr(WorkingSet, "members", property(lambda ws: listed.append(1) or members(ws)))
    monkeypatch.setattr(WorkingSet, "_select", lambda ws, *given: chosen.append(1) or select(ws, *given))
    run = train(Matrix(X, y, chunk_rows=np.arange(0, 400, 10)), block_chunks=1, C=5.0, tol=1e-4)
    visits = sum(passes > 0 for passes in run.result.set_passes)
    blocks = len(run.result.passes)
    assert 0 < visits < blocks
    assert len(listed) == visits + len(chosen) < blocks


def test_the_gap_seen_so_far_is_no_new_sum_at_each_block(monkeypatch):
    X, y = random_rows(n=400, d=40, seed=3)
    exact = []
    fsum = math.fsum

    class Counting:
        def __getattr__(self, name):
            return getattr(math, name)

        def fsum(self, terms):
            exact.append(1)
            return fsum(terms)

    monkeypatch.setattr(problem_module, "math", Counting())
    counts = []
    for n in (100, 5):
        exact.clear()
        run = train(Matrix(X, y, chunk_rows=np.arange(0, 400, n)), block_chunks=1, max_outer=2, tol=0.0, schedule="1")
        assert run.events[0]["blocks"] == 400 // n
        counts.append(len(exact))
    assert counts[0] == counts[1] > 0


def test_no_block_is_read_in_vain():
    X, y = random_rows(n=200, d=20, seed=4)
    source = CountingMatrix(X, y, chunk_rows=np.arange(0, 200, 10))
    loop = looped(source, block_chunks=1, max_outer=1)
    with BlockReader(source, 0, resident=False) as loop.reader:
        assert sum(1 for _ in loop.every_row()) == source.n_read == 20
