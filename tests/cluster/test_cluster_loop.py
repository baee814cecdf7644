"""Training by workers: certified as on one machine, and not a bit depends on who they are or what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference
from support.class_cases import classes
from support.training_cases import asked, make_store, random_rows, rows_of_store, stop_after, train

from blocksvm.base.errors import InputError
from blocksvm.cluster.cluster_plan import ClusterPlan
from blocksvm.cluster.job import open_context, run_part
from blocksvm.cluster.workers import ThreadWorkers, WorkerEvent
from blocksvm.problems.several_problems import CERTIFIED, REL_GAP
from blocksvm.store.reader import Store
from blocksvm.training.train_settings import TrainSettings

SETTINGS = [
    {"loss": "hinge"},
    {"loss": "squared-hinge", "bias": 1.0, "class_weight": "balanced"},
    {"loss": "logistic", "C": 0.3},
    {"loss": "hinge", "bias": "free"},
    {"loss": "epsilon-insensitive"},
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    X, y = random_rows(n=600, d=40, seed=6)
    folder = tmp_path_factory.mktemp("stores")
    return {
        2: make_store(folder, X, y, "two", 128),
        11: make_store(folder, *classes(n=600, d=40, k=11), "eleven", 128),
    }


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_any_number_of_workers_trains_the_same(stores, settings):
    settings = {"tol": 1e-4, "seed": 3} | settings
    alone = train(stores[2], cluster=1, **settings)
    assert alone.result.status == "converged"
    assert alone.result.certificate.rel_gap <= 1e-4
    here = train(stores[2], **settings)
    assert max(alone.result.certificate.dual, here.result.certificate.dual) <= min(
        alone.result.certificate.primal, here.result.certificate.primal
    ) * (1 + 1e-12)
    for n in (2, 5):
        there = train(stores[2], cluster=n, **settings)
        assert there.same(alone)
        assert there.result.certificate == alone.result.certificate


@pytest.mark.parametrize("multiclass", [None, "crammer-singer"])
def test_many_classes(stores, multiclass):
    settings = {"tol": 1e-3, "multiclass": multiclass, "C": 0.5}
    alone, here = train(stores[11], cluster=1, **settings), train(stores[11], **settings)
    assert alone.result.certificate.rel_gap <= 1e-3
    assert alone.result.certificate.dual <= here.result.certificate.primal
    assert here.result.certificate.dual <= alone.result.certificate.primal
    assert train(stores[11], cluster=3, **settings).same(alone)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_the_certificate_is_that_of_the_saved_dual_variables(stores, loss):
    X, y, _ = rows_of_store(stores[2])
    run = train(stores[2], cluster=2, loss=loss, tol=1e-3)
    XB, C_rows = np.hstack([X.toarray(), np.zeros((X.shape[0], 1))]), np.ones(len(y))
    assert run.result.certificate.primal == pytest.approx(reference.primal(XB, y, run.w, C_rows, loss), rel=1e-12)
    assert run.result.certificate.dual == pytest.approx(reference.dual(XB, y, run.alpha, C_rows, loss), rel=1e-10)


@pytest.mark.parametrize("classes", [2, 11])
def test_a_run_that_is_stopped_anywhere_goes_on_to_the_same_bits(stores, tmp_path, classes):
    settings = {"tol": 1e-4, "seed": 1, "cluster": 2, "max_outer": 5}
    whole, questions = asked(stores[classes], **settings)
    for polls in range(1, questions, 1 + questions // 25):
        checkpoint = tmp_path / f"{polls}.ckpt"
        broken = train(stores[classes], stop=stop_after(polls), checkpoint=checkpoint, **settings)
        assert broken.result.status == "interrupted"
        again = train(stores[classes], checkpoint=checkpoint, resume=True, **settings)
        assert again.same(whole), polls
        assert again.result.certificate == whole.result.certificate


class Unreliable(ThreadWorkers):
    """Workers of which one fails at its third part, one leaves at its second, and one answers twice."""

    def __init__(self, n: int):
        super().__init__(n)
        self.parts = dict.fromkeys((f"thread {k + 1}" for k in range(n)), 0)

    def submit(self, worker, part, weights):
        self.parts[worker] += 1
        if worker == "thread 1" and self.parts[worker] == 3:
            self.events.put(WorkerEvent("failed", worker, part.number, text="MemoryError()"))
        elif worker == "thread 2" and self.parts[worker] == 2:
            self.events.put(WorkerEvent("left", worker))
        elif worker == "thread 2" and self.parts[worker] > 2:
            raise AssertionError("it has left")
        else:
            if worker == "thread 3":
                super().submit(worker, part, weights)
            super().submit(worker, part, weights)


def test_workers_may_fail_leave_and_repeat_themselves(stores):
    settings = {"tol": 1e-4, "seed": 3}
    assert train(stores[2], cluster=Unreliable(4), **settings).same(train(stores[2], cluster=1, **settings))


def test_what_no_cluster_trains_is_refused(stores):
    for settings, refused in (
        ({"solver": "pegasos"}, "pegasos"),
        ({"solver": "kernel"}, "kernel"),
        ({"schedule": "overlap"}, "overlap"),
        ({"working_set": "none"}, "working_set=none"),
        ({"memory": 10_000}, "is too small"),
    ):
        with pytest.raises(InputError, match=refused):
            train(stores[2], cluster=1, **settings)


def test_a_checkpoint_goes_on_only_where_it_was_begun(stores, tmp_path):
    for begun, resumed, whose in (({"cluster": 2}, {}, "a cluster"), ({}, {"cluster": 2}, "one machine")):
        checkpoint = tmp_path / f"{whose}.ckpt"
        train(stores[2], checkpoint=checkpoint, stop=stop_after(3), **begun)
        with pytest.raises(InputError, match=f"is of a run on {whose}"):
            train(stores[2], checkpoint=checkpoint, resume=True, **resumed)


def test_no_passes_are_replayed(stores):
    with Store(stores[2]) as store, pytest.raises(InputError, match="replay: not on a cluster"):
        ClusterPlan(store, TrainSettings.of(), replay=([1], [1]))


def test_workers_that_do_not_start_are_closed(stores):
    class Broken(ThreadWorkers):
        closed = False

        def start(self, job):
            raise KeyboardInterrupt

        def close(self):
            self.closed = True

    workers = Broken(1)
    with pytest.raises(KeyboardInterrupt):
        train(stores[2], cluster=workers)
    assert workers.closed


def test_problems_that_have_ended_are_left_out_at_the_same_weights(stores):
    """A worker that has screened at this w before they had ended answers as one that joins."""

    class Recorded(ThreadWorkers):
        def submit(self, worker, part, weights):
            if weights is not None and weights.places is None:
                self.last = part, weights
            super().submit(worker, part, weights)

    workers = Recorded(1)
    train(stores[11], cluster=workers, max_outer=2)
    part, weights = workers.last
    ended = part.scalars["certified"].copy()
    ended[REL_GAP :: len(CERTIFIED)][:5] = 0.0
    after = replace(part, scalars=part.scalars | {"certified": ended})
    totals = []
    for parts in ((part, after), (after,)):
        context = open_context(workers.job)
        answers = [run_part(workers.job, one, weights, context) for one in parts]
        totals.append(answers[-1].sums["totals"])
        context.close()
    np.testing.assert_array_equal(*totals)


def test_chunks_without_entries_take_no_more_memory_than_they_have(tmp_path):
    X, y = random_rows(n=3000, d=40, seed=6)
    X = X.tolil()
    X[:2000] = 0.0
    store = make_store(tmp_path, X.tocsr(), y, "half", 128, keep_order=True)
    with Store(store) as source:
        assert source.chunks.nnz[0] == 0
        blocks = ClusterPlan(source, TrainSettings.of()).blocks
        rows = [int(source.chunks.n_rows[part].sum()) for part in blocks.partition.blocks(2)]
        assert max(rows) <= 256
        assert blocks.arena_bytes < 100_000
    alone = train(store, cluster=1, tol=1e-4, memory=3_000_000)
    assert alone.result.certificate.rel_gap <= 1e-4
    assert train(store, cluster=3, tol=1e-4, memory=3_000_000).same(alone)
