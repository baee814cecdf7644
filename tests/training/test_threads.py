"""Work shared by threads: not a bit depends on how many they are."""

import os

import numpy as np
import pytest
from support.training_cases import looped, opened

from blocksvm.base.threads import Threads, n_processors, slices
from blocksvm.sources.matrix import Matrix

SETTINGS = [
    *((2, {"loss": loss}) for loss in ("hinge", "squared-hinge", "logistic", "epsilon-insensitive")),
    (2, {"loss": "hinge", "schedule": "3", "bias": "free"}),
    (2, {"loss": "hinge", "working_set": "none"}),
    (2, {"solver": "pegasos", "dual": True}),
    (2, {"solver": "kernel"}),
    (3, {"loss": "logistic"}),
    (3, {"multiclass": "crammer-singer"}),
    (20, {"loss": "hinge"}),  # by threads are the lanes of eight classes
    (20, {"loss": "squared-hinge", "working_set": "none"}),
    (2, {"solver": "newton", "loss": "logistic", "bias": 1.0}),
    (2, {"solver": "newton", "loss": "squared-hinge", "C": 5.0}),
    (3, {"solver": "newton", "loss": "logistic"}),
    pytest.param(20, {"solver": "newton", "loss": "squared-hinge"}, marks=pytest.mark.slow),
]
# and no bit of newton's on how the rows are cut
BLOCKS = [(1, {"block_chunks": 1}), (2, {"block_chunks": 4}), (5, {"block_chunks": None}),
          (1, {"block_chunks": 3, "seed": 9, "partition": "fixed"})]  # fmt: skip


class Counting(Threads):
    """shared: how often work was shared."""

    shared = 0

    def map(self, work, parts):
        self.shared += len(parts) > 1 and self.n > 1
        return super().map(work, parts)


@pytest.mark.parametrize(("classes", "settings"), SETTINGS, ids=str)
def test_any_number_of_threads_trains_the_same(stores, classes, settings):
    def run(n: int, **blocks):
        with opened(stores[classes]) as source:
            loop = looped(source, **{"block_chunks": 10, "max_outer": 6, "tol": 1e-9, "seed": 3} | settings | blocks)
            loop.plan.solver.threads = threads = Counting(n, piece=50)
            result = loop.run()
            assert threads.pool is None  # they end with the run
            return loop.state, result, threads.shared

    state, result, shared = run(1)
    assert shared == 0
    for n, blocks in [(2, {}), (5, {}), *(BLOCKS if settings.get("solver") == "newton" else ())]:
        there, same, shared = run(n, **blocks)
        assert (shared > 0) == (n > 1)
        assert all(np.array_equal(array, there[name], equal_nan=True) for name, array in state.items())
        assert same.certificate == result.certificate
        assert blocks or (same.passes, same.set_passes) == (result.passes, result.set_passes)


def test_threads_start_with_work_to_share():
    threads = Threads(3)
    assert threads.map(lambda x: 2 * x, [4]) == [8]
    assert threads.pool is None
    assert threads.map(lambda x: 2 * x, range(9)) == list(range(0, 18, 2))
    assert threads.pool is not None
    with threads:
        pass
    assert threads.pool is None
    assert Threads(None).n == n_processors() >= 1
    with pytest.raises(ZeroDivisionError):
        threads.map(lambda x: 1 / x, [1, 0, 2])


def test_processors_are_those_that_a_process_may_use(tmp_path, monkeypatch):
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 4, 5}, raising=False)
    assert n_processors(limit) == 4
    for text, n in (("max 100000\n", 4), ("250000 100000\n", 3), ("50000 100000\n", 1), ("900000 100000\n", 4)):
        limit.write_text(text)
        assert n_processors(limit) == n
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert n_processors(limit) == 2


@pytest.mark.parametrize("lengths", [[3, 4, 0, 5], [0, 0, 0], [0, 9, 0, 0, 1], [100], []])
@pytest.mark.parametrize("first", [0, 7])
def test_slices_are_all_rows(lengths, first):
    ends = first + np.append(0, np.cumsum(lengths, dtype=np.int64))
    for each in (1, 4, 1000):
        parts = slices(ends, each)
        rows = [row for part in parts for row in range(part.start, part.stop)]
        assert rows == list(range(len(lengths)))
        assert all(ends[part.stop - 1] - ends[part.start] < each for part in parts if part.stop > part.start + 1)


def test_rows_without_entries_have_scores():
    from scipy import sparse

    X, y = sparse.csr_matrix((30, 5)), np.where(np.arange(30) % 2, 1.0, -1.0)
    loop = looped(Matrix(X, y), bias=1.0)
    loop.plan.solver.threads = Threads(2, piece=1)
    assert loop.run().status == "converged"
