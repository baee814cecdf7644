"""Work of workers: certified and scored as on one machine, and not a bit depends on who they are or what becomes of
them."""

import threading
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from support.class_cases import classes
from support.refused import refused
from support.stream_cases import text_of
from support.thread_cluster import ThreadCluster
from support.training_cases import asked, assert_resumed, make_store, random_rows, rows_of_store, stop_after, train

from blocksvm import InputError, cross_validate, fit
from blocksvm.cluster import dask, part
from blocksvm.cluster.dask import ClusterLost, Parts
from blocksvm.cluster.loop import ClusterPlan, bring_near, scoring_by
from blocksvm.cluster.part import file_at, make, scoring, size_of
from blocksvm.model.scoring import StoreScorer
from blocksvm.problems.certificate import CERTIFIED, REL_GAP
from blocksvm.store.reader import Store, open_store
from blocksvm.training.settings import TrainSettings

NEWTON = {"solver": "newton", "loss": "logistic", "tol": 1e-5}
BALANCED = {"loss": "squared-hinge", "bias": 1.0, "class_weight": "balanced"}
RUNS = [(2, {"loss": "hinge"}), (2, BALANCED), (2, {"loss": "logistic", "C": 0.3}), (2, {"bias": "free"}),
        (2, {"loss": "epsilon-insensitive"}), (2, NEWTON), (2, NEWTON | BALANCED), (2, NEWTON | {"loss": "squared"}),
        (11, NEWTON | {"tol": 1e-3}), (11, {"C": 0.5, "tol": 1e-3}),
        (11, {"C": 0.5, "tol": 1e-3, "multiclass": "crammer-singer"})]  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    X, y = random_rows(n=600, d=40, seed=6)
    folder = tmp_path_factory.mktemp("stores")
    return {2: make_store(folder, X, y, "two", 128), 11: make_store(folder, *classes(n=600, d=40, k=11), "eleven", 128)}


def agree(store, **settings) -> tuple:
    """The runs by one worker and by none: certified both, so that one's dual is below the other's primal; by four
    workers the bits are those of one."""
    alone, here, there = (train(store, cluster=n, **settings) for n in (1, None, 4))
    found = [run.result.certificate for run in (alone, here)]
    assert alone.result.status == "converged" and found[0].rel_gap <= settings["tol"]
    assert max(one.dual for one in found) <= min(one.primal for one in found) * (1 + 1e-12)
    assert there.same(alone) and there.result.certificate == found[0]
    return alone, here


@pytest.mark.slow
@pytest.mark.parametrize(("k", "settings"), RUNS, ids=str)
def test_any_number_of_workers_trains_the_same(stores, k, settings):
    alone, here = agree(stores[k], **({"tol": 1e-4, "seed": 3} | settings))
    if "solver" in settings:  # the search is the same but for the order of additions
        assert abs(len(alone.outer()) - len(here.outer())) <= 1


SOLVERS = [{"solver": "newton", "loss": "squared-hinge"}, {"solver": "dual-cd", "loss": "squared-hinge"}]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SOLVERS, ids=str)
def test_a_prior_with_features_that_the_store_lacks(tmp_path, settings):
    X, y = random_rows(n=600, d=40, seed=6)
    old, new = (make_store(tmp_path, X[:300], y[:300], "old", 128),
                make_store(tmp_path, X[300:, :30], y[300:], "new", 128))  # fmt: skip
    with open_store(old) as store:
        fit(store, tol=1e-3).save(tmp_path / "prior.h5")
    for run in agree(new, **settings, prior=tmp_path / "prior.h5", tol=1e-6, bias=1.0):
        assert len(run.w) == 41


@pytest.mark.parametrize("kind", ["weights", "sets"])
@pytest.mark.parametrize("settings", SOLVERS, ids=str)
def test_rows_with_weights_or_sets_of_labels(tmp_path, settings, kind):
    X, y = random_rows(n=400, d=20, seed=2, density=0.3)
    rows = [line.partition(" ")[2] for line in text_of(tmp_path, X, y).read_text().splitlines()]
    if kind == "weights":
        lines, format_ = [f"{int(label)} {1 + i % 3} |f {rows[i]}" for i, label in enumerate(y)], "vw"
    else:
        second = X[:, 0].toarray().ravel() > 0
        sets = ["1,2" if a > 0 and b else "1" if a > 0 else "2" for a, b in zip(y, second, strict=True)]
        lines, format_ = [f"{one} {row}" for one, row in zip(sets, rows, strict=True)], "multilabel"
    store = make_store(tmp_path, "".join(f"{line}\n" for line in lines), kind, 128, format=format_)
    with Store(store) as source:
        assert (source.weighted, source.label_kind) == ((True, "numbers") if kind == "weights" else (False, "sets"))
    agree(store, **settings, tol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 11])
@pytest.mark.parametrize("settings", [{"C": (0.1, 1.0)}, NEWTON | {"C": (1.0,)}], ids=str)
def test_cross_validation(stores, k, settings):
    """Problems of the certified gap as on one machine, and the same bits for any number of workers."""
    settings = settings | {"folds": 3, "tol": 1e-4}
    with open_store(stores[k]) as rows:
        clusters = None, ThreadCluster(1), ThreadCluster(3)
        here, alone, there = (cross_validate(rows, cluster=cluster, **settings) for cluster in clusters)
    assert (alone.rel_gap <= 1e-4).all()
    np.testing.assert_allclose(alone.accuracy, here.accuracy, atol=0.02)
    for name in ("accuracy", "loss", "auc", "rel_gap"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(there, name))


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
    for settings, says in (
        ({"solver": "pegasos"}, "pegasos"),
        ({"solver": "kernel"}, "kernel"),
        ({"schedule": "overlap"}, "overlap"),
        ({"working_set": "none"}, "working_set=none"),
        ({"memory": 10_000}, "is too small"),
    ):
        refused(says, train, stores[2], cluster=1, **settings)


def test_a_checkpoint_goes_on_only_where_it_was_begun(stores, tmp_path):
    for begun, resumed, whose in (({"cluster": 2}, {}, "a cluster"), ({}, {"cluster": 2}, "one machine")):
        checkpoint = tmp_path / f"{whose}.ckpt"
        train(stores[2], checkpoint=checkpoint, stop=stop_after(3), **begun)
        refused(f"is of a run on {whose}", train, stores[2], checkpoint=checkpoint, resume=True, **resumed)


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
    after = part._replace(given=part.given | {"certified": ended})
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
                part = part._replace(least=0.0)
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


def test_answers_are_counted_against_the_memory(stores):
    with Store(stores[2]) as source:
        ample = ClusterPlan(source, TrainSettings.of(**NEWTON, memory=10_000_000))
        table = source.chunks
        sizes = [int((table.nnz + table.n_rows)[part].sum()) for part in ample.blocks.partition.blocks(1)]
        assert len(sizes) > 10 and min(sizes[:-1]) >= 4 * 41 - 128
        assert ample.blocks.under_way == 64
        answers = ample.budget.used["answers under way"]
        assert answers >= 64 * 2 * 41 * 8
        others = sum(ample.budget.used.values()) - answers
        tight = ClusterPlan(source, TrainSettings.of(**NEWTON, memory=others + answers // 8))
        assert tight.blocks.under_way == 8
        refused("two answers", ClusterPlan, source, TrainSettings.of(**NEWTON, memory=others + answers // 64))


MEMORY = 50_000_000


@pytest.fixture(scope="module", params=[2, 11])
def trained(request, stores, tmp_path_factory):
    """The paths of a store of so many classes and of a model."""
    path, model = stores[request.param], str(tmp_path_factory.mktemp("trained") / "model.h5")
    with open_store(path) as store:
        fit(store, tol=1e-2).save(model)
    return path, model


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


def test_scores_are_counted_against_the_memory(trained):
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


def test_what_no_cluster_scores_is_refused(trained, tmp_path, refusal):
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
