"""Online learners through the outer loop: epochs, any number of classes, going on later, prior models, predictions."""

import math

import numpy as np
import pytest
import scipy.sparse
from support.class_cases import classes
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import MultiPrototype, OneVsRest
from support.plain_learners import run as run_plainly
from support.refused import refused
from support.stream_cases import weights_by_id
from support.training_cases import assert_resumed, logged, make_store, random_rows, train

from blocksvm import Matrix, fit, load_model, open_store
from blocksvm.model.decision_values import area_under_curve

pytestmark = pytest.mark.usefixtures("plain_loops")


OF_CLASSES, OF_NUMBERS = ("perceptron-bias", "arow", "hf-fobos", "omd", "auto"), ("pa1", "nag", "adagrad-rda")


@pytest.mark.parametrize(
    ("name", "targets"), [*((name, None) for name in OF_CLASSES), *((name, "numbers") for name in OF_NUMBERS)]
)
def test_epochs_in_stored_order_learn_row_by_row_for_any_blocks(name, targets):
    X, y = random_rows(n=70, seed=1)
    y = y if targets is None else X @ np.linspace(-1.0, 2.0, X.shape[1]) + 0.3 * y
    known = {"max_norm": float(np.sqrt((X.toarray() ** 2).sum(axis=1).max()))} if name == "perceptron-bias" else {}
    _, expected, _ = run_plainly(PLAIN[name](X.shape[1], targets=targets, **known), X.toarray(), y, epochs=2)
    found = []
    for rows_a_chunk, blocks in ((1, 1), (7, 2), (70, None)):
        source = Matrix(X, y, chunk_rows=np.arange(0, 70, rows_a_chunk))
        run = train(source, learner=name, order="stored", max_outer=2, block_chunks=blocks, targets=targets)
        assert run.result.status in ("max-outer", "converged")
        found.append(run.w)
        np.testing.assert_allclose(run.w[:-1], expected, rtol=1e-9, atol=1e-9)
        certificate, last = run.result.certificate, run.outer()[-1]
        if targets is None:
            continue
        assert certificate.rmse == pytest.approx(np.sqrt(np.square(X @ run.w[:-1] - y).mean()), rel=1e-12)
        assert certificate.accuracy is None and last["mistakes"] is None and last["squared_errors"] > 0.0
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_an_epoch_reports_what_was_suffered_and_the_end_what_was_learned():
    X, y = random_rows(n=100, seed=2, zero_rows=0)
    run = train(Matrix(X, y), solver="pa1", order="stored", max_outer=3, C=0.5)
    scores, w, _ = run_plainly(PLAIN["pa1"](X.shape[1], C=0.5), X.toarray(), y, epochs=3)
    margins = np.tile(y, 3) * scores
    last = run.outer()[-1]
    assert last["rows"] == 300
    assert last["mistakes"] == (margins <= 0).sum()
    assert last["cumulative_loss"] == pytest.approx(np.maximum(0, 1 - margins).sum(), rel=1e-9)
    progress = [e for e in run.events if e["event"] == "progress"]
    assert [e["rows"] for e in progress] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert [e["mistakes"] for e in progress] == [(margins[: e["rows"]] <= 0).sum() for e in progress]
    certificate = run.result.certificate
    assert (certificate.primal, certificate.dual) == (None, None)
    assert certificate.accuracy == pytest.approx(np.mean(np.where(X @ w > 0, 1, -1) == y))


@pytest.mark.parametrize(("name", "rule"), [("hf-fobos", "prototype"), ("arow", "rest")])
def test_more_classes_from_store_to_prediction(tmp_path, name, rule, succeeds):
    X, y = classes(n=90, d=12)
    y = np.array([-3.0, 0.5, 7.0, 40.0])[y]
    store = make_store(tmp_path, X, y, dtype="float64", keep_order=True)
    model, out = tmp_path / "m.h5", tmp_path / "p.txt"
    options = ["--solver", name, "--order", "stored", "--multiclass", rule, "--bias", "1"]
    succeeds("train", store, model, *options)
    k, d = 4, X.shape[1]
    wide = np.hstack([X.toarray(), np.ones((len(y), 1))])
    labels = np.unique(y)
    dense = (MultiPrototype if rule == "prototype" else OneVsRest)(PLAIN[name], k, d + 1)
    for x, label in zip(wide, y, strict=True):
        dense.learn(x, int(np.searchsorted(labels, label)))
    by_id, loaded = weights_by_id(model, d + 1)
    assert loaded.labels == tuple(labels)
    np.testing.assert_allclose(by_id[:, 1:], dense.W[:, :d], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(loaded.intercept, dense.W[:, d], rtol=1e-9, atol=1e-10)
    expected = labels[[dense.predict(x) for x in wide]]
    text = tmp_path / "rows.svm"
    for source in (text, store):
        told = succeeds("predict", model, source, out, "--overwrite").out
        assert [float(line) for line in out.read_text().split()] == expected.tolist()
        assert f"accuracy {np.mean(expected == y):.6f}" in told
        succeeds("predict", model, source, out, "--overwrite", "--scores")
        values = np.array([line.split() for line in out.read_text().splitlines()], float)
        np.testing.assert_allclose(values, [dense.W @ x for x in wide], rtol=1e-9, atol=1e-9)
    columns = scipy.sparse.hstack([scipy.sparse.csr_matrix((len(y), 1)), X]).tocsr()
    assert loaded.predict(columns).tolist() == expected.tolist()
    told = succeeds("info", model).out
    assert "-3, 0.5, 7, 40" in told
    assert name in told


@pytest.mark.parametrize("name", ["arow", "hf-fobos", "omd", "perceptron"])
@pytest.mark.parametrize("order", ["stored", "shuffled"])
def test_continuing_is_as_if_it_had_not_stopped(tmp_path, name, order):
    X, y = random_rows(n=80, seed=4)
    source = Matrix(X, y, chunk_rows=np.arange(0, 80, 5))
    settings = {"solver": name, "order": order, "block_chunks": 4, "seed": 3}
    if name == "omd":
        settings |= {"mirror": "entropic", "radius": 2.0}
    whole = fit(source, max_outer=3, **settings)
    first = fit(source, max_outer=1, **settings)
    first.save(tmp_path / "first.h5")
    second = fit(source, max_outer=2, start_from=tmp_path / "first.h5", **settings)
    assert np.array_equal(second.result.w, whole.result.w)
    for array in ("features", "scalars", "tally"):
        assert np.array_equal(second.state[array], whole.state[array])
    assert second.result.outer == 2
    second.save(tmp_path / "second.h5")
    assert load_model(tmp_path / "second.h5").meta.outer == 3


def test_continuing_on_other_rows_keeps_what_only_the_model_knows(tmp_path):
    (X, y), (Z, v) = random_rows(n=40, d=12, seed=5), random_rows(n=50, d=12, seed=6)
    ids = [np.arange(1, 13), np.arange(9, 21)]  # four features are shared
    texts = []
    for rows, labels, own in ((X, y, ids[0]), (Z, v, ids[1])):
        wide = scipy.sparse.lil_matrix((rows.shape[0], 22))
        wide[:, own] = rows
        texts.append((wide.tocsr(), labels))
    one, two = (make_store(tmp_path, A[:, 1:], labels, name=f"s{k}", dtype="float64", keep_order=True)
                for k, (A, labels) in enumerate(texts))  # fmt: skip
    settings = {"solver": "arow", "order": "stored", "bias": 0.5}
    with open_store(one) as first, open_store(two) as second:
        fit(first, **settings).save(tmp_path / "one.h5")
        fit(second, start_from=tmp_path / "one.h5", **settings).save(tmp_path / "both.h5")
    dense = PLAIN["arow"](22)
    for A, labels in texts:
        rows = A.toarray()
        rows[:, 21] = 0.5
        run_plainly(dense, rows, labels)
    found, model = weights_by_id(tmp_path / "both.h5", 21)
    np.testing.assert_allclose(found, dense.w[:21], rtol=1e-9, atol=1e-10)
    assert model.intercept == pytest.approx(0.5 * dense.w[21], rel=1e-9)


def test_what_cannot_be_gone_on_with_is_refused(tmp_path):
    X, y = random_rows(seed=7)
    source, other = Matrix(X, y), Matrix(X, np.where(y > 0, 2.0, 1.0))
    fit(source, solver="pa1", C=0.5).save(tmp_path / "m.h5")
    fit(source, bias=1.0).save(tmp_path / "batch.h5")
    batch, prior = {"start_from": tmp_path / "batch.h5"}, {"prior": tmp_path / "batch.h5"}
    for rows, settings, what in [
        (source, {"solver": "pa2", "C": 0.5}, "was learned by pa1, not by pa2; leave solver out"),
        (source, {"solver": "pa1", "C": 0.3}, "was learned with C=0.5, but 0.3 is given now"),
        (source, {"C": 0.3}, "was learned with C=0.5, but 0.3 is given now"),
        (source, {"bias": 1.0}, "was learned with bias 0, but 1 is given now"),
        (source, {"solver": "dual-cd"}, "was learned by pa1, not by dual-cd"),
        (other, {"solver": "pa1", "C": 0.5}, "has the labels -1, 1, other ones"),
        (source, {"solver": "pa1"} | batch, "start_from: pa1 does not accept it"),
        (source, {"start_from": None} | prior, "has an intercept, but there is no constant feature"),
        (source, {"solver": "pegasos", "start_from": None} | prior,
         "prior: pegasos does not accept it; dual-cd and most learners take one"),
        (source, {"bias": 1.0} | batch | prior, "not together with prior"),
    ]:  # fmt: skip
        refused(what, fit, rows, **{"start_from": tmp_path / "m.h5"} | settings)


@pytest.mark.parametrize("average", [False, True])
def test_a_prior_model_is_what_a_learner_starts_from_and_is_pulled_towards(tmp_path, average):
    X, y = random_rows(n=60, seed=8)
    fit(Matrix(X, y), tol=1e-2).save(tmp_path / "prior.h5")
    w0, _ = weights_by_id(tmp_path / "prior.h5", X.shape[1])
    Z, v = random_rows(n=70, seed=9)
    run = train(Matrix(Z, v), solver="ogd", order="stored", prior=tmp_path / "prior.h5", average=average, radius=0.6)
    # the learner's own weights are what is added to the prior's: its rule sees the whole score
    w, total = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    for t, (x, label) in enumerate(zip(Z.toarray(), v, strict=True), 1):
        if label * ((w0 + w) @ x) < 1.0:
            w = w + label * x / math.sqrt(t)
            w = w * min(1.0, 0.6 / np.linalg.norm(w))
        total += w
    expected = w0 + (total / len(v) if average else w)
    np.testing.assert_allclose(run.w[:-1], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "settings",
    [{}, {"loss": "logistic", "solver": "newton"}, {"solver": "pa1", "average": True, "max_outer": 2},
     {"loss": "epsilon-insensitive"}, {"multiclass": "rest"}, {"multiclass": "crammer-singer"}],
    ids=str,
)  # fmt: skip
def test_a_prior_that_tells_nothing_of_the_rows_is_told_and_a_related_one_is_not(tmp_path, caplog, settings):
    rng = np.random.default_rng(3)
    W = rng.standard_normal((24, 3 if "multiclass" in settings else 1))

    def rows(features: slice):
        """Rows of these features alone, and their labels."""
        X = np.zeros((200, 24))
        X[:, features] = rng.standard_normal((200, 12))
        scores = X @ W
        if settings.get("loss") == "epsilon-insensitive":
            return X, 100.0 * scores[:, 0]
        return X, scores.argmax(axis=1) if "multiclass" in settings else np.where(scores[:, 0] > 4.0, 1.0, -1.0)

    mine, others = slice(12), slice(12, 24)
    fit(*rows(mine), **settings).save(tmp_path / "related.h5")
    fit(*rows(others), **settings).save(tmp_path / "unrelated.h5")
    X, y = rows(mine)
    related = fit(X, y, prior=tmp_path / "related.h5", **settings)
    assert "unrelated" not in caplog.text + related.result.note
    unrelated = fit(X, y, prior=tmp_path / "unrelated.h5", **settings)
    assert "unrelated.h5: tells hardly more of these rows than a guess (" in caplog.text
    assert "in 200 rows), so it seems to be of unrelated data; leave prior out" in unrelated.result.note


def test_the_area_under_the_curve_counts_pairs():
    rng = np.random.default_rng(4)
    values, positive = rng.integers(0, 6, 50) / 2.0, rng.random(50) < 0.3
    over, under = values[positive][:, None], values[~positive][None]
    expected = np.mean((over > under) + 0.5 * (over == under))
    assert area_under_curve(values, positive) == pytest.approx(expected)


def test_a_run_is_resumed_and_must_have_the_same_prior(tmp_path):
    source = Matrix(*random_rows(n=90, seed=8), chunk_rows=np.arange(0, 90, 6))
    learner = {"solver": "adagrad-fobos", "max_outer": 4, "block_chunks": 3, "l1": 0.01, "average": True}
    assert_resumed(source, tmp_path, (1, 7, 13), **learner)
    for k, C in enumerate((0.1, 5.0)):
        fit(source, C=C, tol=1e-2).save(tmp_path / f"prior{k}.h5")
    settings = {"tol": 1e-6, "schedule": "2", "block_chunks": 3, "prior": tmp_path / "prior0.h5"}
    assert_resumed(source, tmp_path, (5,), **settings)
    for prior, what in ((tmp_path / "prior1.h5", "with another prior"), (None, "with prior")):
        asked = settings | {"prior": prior, "checkpoint": tmp_path / "5.ckpt", "resume": True}
        refused(f"was begun {what}; resume with the same", train, source, **asked)


def test_a_perceptron_stops_when_it_makes_no_mistake_and_says_what_that_shows(tmp_path, succeeds):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    y = np.where(X @ np.ones(5) > 0, 1.0, -1.0)
    X += 0.3 * y[:, None]
    store = make_store(tmp_path, scipy.sparse.csr_matrix(X), y)
    out = succeeds("train", store, tmp_path / "m.h5", "--solver", "perceptron", "--max-outer", 500, "--log",
        tmp_path / "t.jsonl").out  # fmt: skip
    assert "the last epoch made no mistake: the rows are linearly separable, by these weights" in out
    end = logged(tmp_path / "t.jsonl")[-1]
    assert (end["status"], end["accuracy"]) == ("converged", 1.0)
    y[:3] *= -1
    store = make_store(tmp_path, scipy.sparse.csr_matrix(X), y, name="noisy")
    out = succeeds("train", store, tmp_path / "n.h5", "--solver", "perceptron", "--max-outer", 4).out
    assert "every epoch made mistakes, " in out and "this does not show whether the rows are separable" in out


def test_separable_by_the_last_weights_is_not_separable_by_their_mean():
    X, y = [[1.0, 0.1], [-0.2, 1.0], [0.9, -1.0]], [1, 1, -1]
    run = train(Matrix(scipy.sparse.csr_matrix(X), y), order="stored", solver="perceptron", max_outer=200, average=True)
    assert run.result.status == "converged"
    assert run.result.note.endswith("by the last weights, of which the model keeps the mean")


def test_a_learner_for_each_class_is_at_rest_when_none_of_them_moves():
    """A class may be told rightly while one of the learners against the rest is wrong, and goes on."""
    told_rightly_before = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((12, 14)), np.arange(12) % 3 * 1.0
        source = Matrix(scipy.sparse.csr_matrix(X), y)
        run = train(source, solver="perceptron", multiclass="rest", order="stored", max_outer=300)
        assert run.result.status == "converged"
        W = run.w.reshape(3, -1)[:, :-1]
        assert (np.where(y[:, None] == np.arange(3), 1.0, -1.0) * (X @ W.T) > 0.0).all()
        mistakes = [0, *(event["mistakes"] for event in run.outer())]
        told_rightly_before += mistakes[-2] == mistakes[-3]
    assert told_rightly_before, "no epoch told every class rightly while a learner was wrong"


def test_pegasos_as_a_learner_may_be_given_C():
    X, y = random_rows(n=80, d=10, seed=4, dtype=np.float32)
    run = {"learner": "pegasos", "order": "stored", "average": True}
    trained, by_C = (fit(X, y, **run | own).model.weights for own in ({"lam": 0.05}, {"C": 1.0 / (0.05 * 80)}))
    np.testing.assert_allclose(by_C, trained, rtol=1e-9, atol=1e-12)
    refused("lam and C say the same thing", fit, X, y, C=1.0, lam=0.1, **run)


@pytest.mark.parametrize(("learner", "n_classes"), [("pa1", 2), ("fobos", 2), ("arow", 3)])
def test_a_class_weighs_as_its_rows_would(learner, n_classes):
    X, y = random_rows(n=80, d=12, seed=6)
    y = y if n_classes == 2 else np.where(X @ np.arange(12.0) > 0, y, 3.0)
    given = {1.0: 2.5} if n_classes == 2 else {-1.0: 0.5, 3.0: 2.0}
    rows = np.array([given.get(label, 1.0) for label in y.tolist()])
    run = {"learner": learner, "max_outer": 2, "order": "stored"}
    by_class = fit(X, y, class_weight=given, **run)
    by_row = fit(X, y, sample_weight=rows, **run)
    np.testing.assert_array_equal(by_class.result.w, by_row.result.w)
    told = by_class.model.meta.method.settings["class_weight"]
    assert told == {f"{label:g}": factor for label, factor in given.items()}
    plain = fit(X, y, **run)
    assert not np.array_equal(plain.result.w, by_class.result.w)
    both = fit(X, y, class_weight=given, sample_weight=np.full(80, 2.0), **run)
    np.testing.assert_array_equal(both.result.w, fit(X, y, sample_weight=2.0 * rows, **run).result.w)


def test_balanced_classes_and_who_takes_no_weights(tmp_path, succeeds, refusal):
    X, y = random_rows(n=90, d=10, seed=2)
    y = np.where(X @ np.arange(10.0) > 1.0, "rare", np.where(y > 0, "a", "b"))
    names, counts = np.unique(y, return_counts=True)
    weights = {name: 90 / (3 * count) for name, count in zip(names.tolist(), counts.tolist(), strict=True)}
    own = {"learner": "arow", "order": "stored"}
    found, expected = (fit(X, y, class_weight=chosen, **own).result.w for chosen in ("balanced", weights))
    np.testing.assert_array_equal(found, expected)
    refused("class_weight: cw-var does not support class weights", fit, X, y, learner="cw-var", class_weight="balanced")
    store = make_store(tmp_path, *random_rows())
    succeeds("train", store, tmp_path / "m.h5", "--learner", "pa1", "--class-weight", "balanced", "--quiet")
    told = refusal("stream", tmp_path / "rows.svm", "--from", tmp_path / "m.h5", "--quiet")
    assert "was learned with --class-weight balanced, which a stream does not take" in told
