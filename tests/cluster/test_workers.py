"""What is sent to workers, and what they make of it: predictions as one process has them; the w that was meant."""

import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from support.class_cases import classes
from support.refused import refused
from support.thread_cluster import ThreadCluster
from support.training_cases import make_store, random_rows

from blocksvm import InputError, fit
from blocksvm.cluster import part
from blocksvm.cluster.dask import Parts
from blocksvm.cluster.loop import bring_near, scoring_by
from blocksvm.cluster.part import file_at, make, scoring, size_of
from blocksvm.model.scoring import StoreScorer
from blocksvm.store.reader import Store, open_store

MEMORY = 50_000_000


@pytest.fixture(scope="module", params=[2, 11])
def trained(request, tmp_path_factory):
    """The paths of a store of so many classes and of a model."""
    folder = tmp_path_factory.mktemp("trained")
    rows = random_rows(n=900, d=40, seed=6) if request.param == 2 else classes(n=900, d=40, k=11)
    path = make_store(folder, *rows, "rows", 128)
    with open_store(path) as store:
        fit(store, tol=1e-2).save(folder / "model.h5")
    return path, str(folder / "model.h5")


def joined(pieces) -> list[np.ndarray]:
    pieces = list(pieces)
    arrays = [[p.classes for p in pieces], [p.labels for p in pieces], [p.values for p in pieces]]
    explained = [p.contributions for p in pieces if p.contributions is not None]
    arrays += [list(part) for part in zip(*explained, strict=True)]
    return [np.concatenate(array) for array in arrays if array[0] is not None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "at_once"),
    [({"with_values": True}, 130), ({"with_values": False}, 900), ({"with_values": True, "explain": 3}, 130)],
)
def test_workers_score_as_one_process_does(trained, more, at_once):
    path, model = trained
    more = {"explain": None} | more
    expected = joined(StoreScorer(model, path, MEMORY, **more).scores())
    scorer = StoreScorer(model, path, MEMORY, **more)
    scored = scorer.scores(small_memory(scorer, at_once, partial(scoring_by, ThreadCluster(3), scorer, model, more)))
    for array, of_workers in zip(expected, joined(scored), strict=True):
        np.testing.assert_array_equal(of_workers, array)


def small_memory(scorer: StoreScorer, at_once: int, sharing):
    """Sharing of the scorer's chunks with what is left of the memory for so many rows at once."""

    def shared(store):
        context = sharing(store)
        left = scorer.budget.left - scorer.row_bytes * at_once
        scorer.budget.take("the rest", left)
        return context

    return shared


def test_answers_are_counted_against_the_memory(trained):
    path, model = trained
    scorer = StoreScorer(model, path, MEMORY, True)
    left = scorer.budget.left
    with Store(path) as store, scoring_by(ThreadCluster(1), scorer, model, {"with_values": True}, store):
        assert 0 < scorer.budget.used["answers of workers"] <= left // 4


def test_a_model_that_is_another_one_is_refused(trained, tmp_path):
    path, model = trained
    with Store(path) as store:
        stored = str(path), store.fingerprint
        with scoring(stored, file_at(model), MEMORY, {}) as scored:
            answer = scored((np.arange(len(store.chunks)), 0, 100), None)
        assert sum(len(rows.source) for rows in answer) == 100 and size_of(answer) > 100 * (8 + 8)
        for other in ((model, "0"), (str(tmp_path / "none.h5"), file_at(model)[1])):
            refused("is not there, or is another model", scoring(stored, other, MEMORY, {}).__enter__)


def test_another_store_of_that_name_is_refused(trained, tmp_path):
    (path, model), other = trained, make_store(tmp_path, *random_rows(n=90, d=40, seed=7), "other", 128)
    with Store(path) as store, pytest.raises(InputError, match=r"other.h5: is another store"):
        scoring((str(other), store.fingerprint), file_at(model), MEMORY, {}).__enter__()


def test_what_cannot_be_is_refused(trained, tmp_path, refusal):
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    store, model, text = *map(str, trained), str(tmp_path / "rows.svm")
    for words, said in (
        ((store, "--cluster-timeout", "9"), "--cluster-timeout: is for --cluster"),
        ((text, "--cluster", "local:2"), "--cluster: its workers score a store, or files into a folder"),
        ((store, "--cluster", "local:2", "--threads", "2"), "--threads: workers have as many"),
        ((store, "--security", "a", "b", "c"), "--security: is for --cluster"),
    ):
        assert said in refusal("predict", model, *words)


@pytest.fixture
def new(monkeypatch):
    """A worker that has done nothing."""
    monkeypatch.setattr(part, "held", threading.local())
    monkeypatch.setattr(part, "check", lambda job: None)


def test_small_changes_are_made_in_the_end():
    near, w = np.zeros(500), np.random.default_rng(1).normal(size=500)
    w[:2] = 1e300, 0.0
    changed = []
    for _ in range(60):
        before = near.copy()
        bring_near(near, w)
        assert set(near[near != before]) <= set(w)
        changed.append(np.count_nonzero(near != before))
    assert changed[0] == 1 and 1 < len([n for n in changed if n])
    np.testing.assert_array_equal(near, w)


@pytest.mark.parametrize("changed", [0, 3, 40, 100])
def test_workers_make_the_version_that_was_meant(new, changed):
    """In any order, one that joins as well; and of few changes few bytes are sent."""
    rng = np.random.default_rng(changed)
    parts = Parts(SimpleNamespace(keep=lambda value: value), 1, 0, print)
    job = SimpleNamespace(key="a", opened=lambda: contextmanager(lambda: (yield lambda number, w: w))())
    w, versions = rng.normal(size=100), []
    for _ in range(8):
        w = w.copy()
        w[rng.permutation(100)[:changed]] = rng.normal(size=changed)
        versions.append((parts.version(w), w))
        assert size_of(versions[-1][0][1:]) <= w.nbytes // 2
    assert (parts.traffic.bytes_sent < 4 * w.nbytes) == (changed < 40)
    for number in [*range(8), 0, 2, 1, 7, 6, 3]:
        version, wanted = versions[number]
        np.testing.assert_array_equal(make(job, number, *version), wanted)


def test_a_thread_holds_the_store_of_one_job(new):
    closed = []

    @contextmanager
    def opened(key):
        yield lambda number, w: (number, key)
        closed.append(key)

    jobs = [SimpleNamespace(key=key, opened=partial(opened, key)) for key in "abc"]
    assert [make(job, k) for k, job in enumerate(jobs)] == [(0, "a"), (1, "b"), (2, "c")]
    assert closed == ["a", "b"]
    other = threading.Thread(target=make, args=(jobs[0], 0))
    other.start()
    other.join()
    assert closed == ["a", "b"]
