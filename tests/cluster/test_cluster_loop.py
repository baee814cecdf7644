"""Training by workers: certified as on one machine, and not a bit depends on who they are or what becomes of them."""

from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
import reference
from support.class_cases import classes
from support.thread_cluster import ThreadCluster
from support.training_cases import asked, assert_resumed, make_store, random_rows, rows_of_store, stop_after, train

from blocksvm.base.errors import InputError
from blocksvm.cluster import dask
from blocksvm.cluster.dask import ClusterLost
from blocksvm.cluster.plan import ClusterPlan
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
    assert questions > 30
    assert_resumed(stores[classes], tmp_path, range(1, questions, 1 + questions // 8), whole, **settings)


class Silent(ThreadCluster):
    """Workers that answer so many parts, and no more."""

    def __init__(self, answers: int):
        super().__init__(1)
        self.left = answers

    def submit(self, function, *given):
        self.left -= 1
        return super().submit(function, *given) if self.left >= 0 else Future()


@pytest.mark.slow
@pytest.mark.parametrize("bias", [0.0, "free"])
@pytest.mark.parametrize("answers", [0, 7, "those of a reading", 75])
def test_a_run_that_waits_is_stopped_as_well(stores, tmp_path, answers, bias):
    settings = {"tol": 1e-4, "seed": 1, "bias": bias}
    if answers == "those of a reading":
        with Store(stores[2]) as store:
            answers = len(ClusterPlan(store, TrainSettings.of(**settings)).blocks.partition.blocks(1))
    checkpoint = tmp_path / "c.ckpt"
    waiting = Silent(answers)
    broken = train(stores[2], cluster=waiting, stop=lambda: waiting.left < 0, checkpoint=checkpoint, **settings)
    assert broken.result.status == "interrupted"
    again = train(stores[2], cluster=2, checkpoint=checkpoint, resume=True, **settings)
    assert again.same(train(stores[2], cluster=1, **settings))


def test_a_run_without_an_answer_is_given_up_with_its_state_saved(stores, tmp_path, monkeypatch):
    said, checkpoint = [], tmp_path / "c.ckpt"
    monkeypatch.setattr(dask, "LOOK", 0.01)
    monkeypatch.setattr(dask, "ANSWER", 0.02)
    silent = Silent(9)
    vars(silent).update(timeout=0.1, say=said.append, n_workers=lambda: 0)
    with pytest.raises(ClusterLost, match="threads: no worker has answered.*c.ckpt has the state, and resume"):
        train(stores[2], cluster=silent, checkpoint=checkpoint)
    assert said == ["threads: has no workers; waiting for one"]
    assert train(stores[2], cluster=2, checkpoint=checkpoint, resume=True).same(train(stores[2], cluster=1))


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


class Recorded(ThreadCluster):
    """Keeps what it is given last for a whole w."""

    def submit(self, function, *given):
        if len(given) == 3:
            self.last = given
        return super().submit(function, *given)


def test_problems_that_have_ended_are_left_out_at_the_same_weights(stores):
    """A worker that has screened at this w before they had ended answers as one that joins."""
    workers = Recorded(1)
    train(stores[11], cluster=workers, max_outer=2)
    job, part, weights = workers.last
    ended = part.given["certified"].copy()
    ended[REL_GAP :: len(CERTIFIED)][:5] = 0.0
    after = replace(part, given=part.given | {"certified": ended})
    totals = []
    for parts in ((part, after), (after,)):
        with job.opened() as answer:
            totals.append([answer(one, weights) for one in parts][-1].sums["totals"])
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
        assert max(rows) <= 400
        assert blocks.arena_bytes < 100_000
    alone = train(store, cluster=1, tol=1e-4, memory=3_000_000)
    assert alone.result.certificate.rel_gap <= 1e-4
    assert train(store, cluster=3, tol=1e-4, memory=3_000_000).same(alone)


@pytest.mark.slow
def test_a_certificate_sends_no_row_that_the_set_would_not_take(stores):
    """And is the same with all rows that can move."""

    class Everything(ThreadCluster):
        def submit(self, function, job, part, *weights):
            if part.certifies:
                part = replace(part, least=0.0)
            return super().submit(function, job, part, *weights)

    with Store(stores[2]) as store:
        least = next(m for m in range(10_000, 10**6, 2_000) if planned(store, m))
    memory = {"memory": least + 6_000, "tol": 1e-3, "C": 10.0}  # the set holds some of the rows
    sent, everything = (train(stores[2], cluster=workers, **memory) for workers in (1, Everything(1)))
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
