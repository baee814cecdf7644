"""Training by workers: certified as on one machine, and not a bit depends on who they are or what becomes of them."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from support.class_cases import classes
from support.training_cases import asked, assert_resumed, make_store, random_rows, rows_of_store, stop_after, train

from blocksvm.base.errors import InputError
from blocksvm.cluster.cluster_plan import ClusterPlan
from blocksvm.cluster.job import open_context, run_part
from blocksvm.cluster.workers import ThreadWorkers, WorkerEvent
from blocksvm.problems.certificate import CERTIFIED, REL_GAP
from blocksvm.store.reader import Store
from blocksvm.training.settings import TrainSettings

SETTINGS = [{"loss": "hinge"}, {"loss": "squared-hinge", "bias": 1.0, "class_weight": "balanced"},
            {"loss": "logistic", "C": 0.3}, {"loss": "hinge", "bias": "free"},
            {"loss": "epsilon-insensitive"}]  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    X, y = random_rows(n=600, d=40, seed=6)
    folder = tmp_path_factory.mktemp("stores")
    return {2: make_store(folder, X, y, "two", 128), 11: make_store(folder, *classes(n=600, d=40, k=11), "eleven", 128)}


@pytest.mark.slow
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
    there = train(stores[2], cluster=4, **settings)
    assert there.same(alone)
    assert there.result.certificate == alone.result.certificate


@pytest.mark.slow
@pytest.mark.parametrize("multiclass", [None, "crammer-singer"])
def test_many_classes(stores, multiclass):
    settings = {"tol": 1e-3, "multiclass": multiclass, "C": 0.5}
    alone, here = train(stores[11], cluster=1, **settings), train(stores[11], **settings)
    assert alone.result.certificate.rel_gap <= 1e-3
    assert alone.result.certificate.dual <= here.result.certificate.primal
    assert here.result.certificate.dual <= alone.result.certificate.primal
    assert train(stores[11], cluster=3, **settings).same(alone)


@pytest.mark.parametrize("more", [{"loss": "hinge"}, {"loss": "squared-hinge"}])
def test_the_certificate_is_that_of_the_saved_dual_variables(stores, more):
    X, y, _ = rows_of_store(stores[2])
    settings = {"loss": "squared-hinge", "tol": 1e-3} | more
    run = train(stores[2], cluster=2, **settings)
    XB, C_rows = np.hstack([X.toarray(), np.zeros((X.shape[0], 1))]), np.ones(len(y))
    primal, dual = reference.primal, reference.dual
    assert run.result.certificate.primal == pytest.approx(primal(XB, y, run.w, C_rows, settings["loss"]), rel=1e-12)
    assert run.result.certificate.dual == pytest.approx(dual(XB, y, run.alpha, C_rows, settings["loss"]), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 11])
@pytest.mark.parametrize(
    "settings", [{"tol": 1e-4, "seed": 1, "max_outer": 5}, {"solver": "newton", "loss": "logistic", "max_outer": 4}]
)
def test_a_run_that_is_stopped_anywhere_goes_on_to_the_same_bits(stores, tmp_path, classes, settings):
    settings = {"tol": 1e-5, "cluster": 2} | settings
    whole, questions = asked(stores[classes], **settings)
    assert questions > 40
    assert_resumed(stores[classes], tmp_path, range(1, questions, 1 + questions // 8), whole, **settings)


class Silent(ThreadWorkers):
    """Workers that answer so many parts, and no more."""

    def __init__(self, answers: int):
        super().__init__(1)
        self.left = answers

    def submit(self, worker, part, weights):
        self.left -= 1
        if self.left >= 0:
            super().submit(worker, part, weights)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [0, 7, 40, 115])
def test_a_run_that_waits_is_stopped_as_well(stores, tmp_path, answers):
    settings = {"tol": 1e-4, "seed": 1}
    checkpoint = tmp_path / "c.ckpt"
    waiting = Silent(answers)
    broken = train(stores[2], cluster=waiting, stop=lambda: waiting.left < 0, checkpoint=checkpoint, **settings)
    assert broken.result.status == "interrupted"
    again = train(stores[2], cluster=2, checkpoint=checkpoint, resume=True, **settings)
    assert again.same(train(stores[2], cluster=1, **settings))


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
        elif worker != "thread 2" or self.parts[worker] < 2:  # what is given to one who has left is lost
            if worker == "thread 3":
                super().submit(worker, part, weights)
            super().submit(worker, part, weights)


@pytest.mark.parametrize("solver", [{}, {"solver": "newton", "loss": "logistic"}])
def test_workers_may_fail_leave_and_repeat_themselves(stores, solver):
    settings = {"tol": 1e-4, "seed": 3} | solver
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_certificate_sends_no_row_that_the_set_would_not_take(stores, monkeypatch):
    """And is the same with all rows that can move."""

    class Everything(ThreadWorkers):
        n_sent = n_all = 0

        def submit(self, worker, part, weights):
            if not part.leaves_out:
                part = replace(part, least=0.0)
            super().submit(worker, part, weights)

    with Store(stores[2]) as store:
        least = next(m for m in range(10_000, 10**6, 2_000) if planned(store, m))
    memory = {"memory": least + 6_000, "tol": 1e-3, "C": 10.0}  # the set holds some of the rows
    sent, everything = (train(stores[2], cluster=workers, **memory) for workers in (ThreadWorkers(1), Everything(1)))
    assert sent.same(everything)
    assert [event["set_share"] for event in sent.outer()] == pytest.approx([e["set_share"] for e in everything.outer()])
    received = [sum(event["bytes_received"] for event in run.outer()) for run in (sent, everything)]
    assert received[0] < received[1]


def planned(store, memory: int) -> bool:
    try:
        ClusterPlan(store, TrainSettings.of(memory=memory))
    except InputError:
        return False
    return True
