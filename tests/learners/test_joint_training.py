"""Joint features of row and class over stores and streams: the same bits as from Python, models that predict again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
from support.joint_cases import INPUTS, Broken, K, prototypes, shared
from support.stream_cases import learned
from support.training_cases import make_store, stop_after, svmlight, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.commands import export, info, predict, stream
from blocksvm.commands import train as train_command
from blocksvm.learners.engine import joint_features
from blocksvm.learners.engine.joint import JointLearner
from blocksvm.model.model_file import describe_model, load_model
from blocksvm.streaming.stream_saving import save_stream

SHARED = "support.joint_cases:shared"
LABELS = np.arange(1.0, K + 1.0)
COSTS = np.array([[0.0, 0.5, 4.0, 1.0], [1.0, 0.0, 0.0, 2.0], [9.0, 1.0, 0.0, 0.25], [1.0, 1.0, 1.0, 0.0]])


def rows(n=150, seed=0, k=K):
    """(X (n, INPUTS) of float32 values, labels 1 .. k (n,)), a row without entries among them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, INPUTS)) * (rng.random((n, INPUTS)) < 0.5)
    X[n // 2] = 0.0
    y = np.argmax(X @ rng.standard_normal((INPUTS, k)) + 0.5 * rng.standard_normal((n, k)), axis=1) + 1.0
    return scipy.sparse.csr_matrix(X.astype(np.float32).astype(np.float64)), y


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """(folder, store, text, X, y): a few rows a chunk, ids those of the columns of X."""
    folder = tmp_path_factory.mktemp("joint")
    X, y = rows()
    store = make_store(folder, svmlight(X, y, first_id=0), chunk_nonzeros=128, keep_order=True)
    return folder, store, folder / "rows.svm", X, y


def from_python(X, y, joint=shared, labels=LABELS, **options):
    found = JointLearner(joint, labels, **options)
    found.learn(X, y)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["pa1"])
def test_stores_and_streams_learn_the_same_bits_as_python(given, learner):
    _, store, text, X, y = given
    expected = from_python(X, y, learner=learner)
    for chunks in (None, 1):
        run = train(store, learner=learner, joint=SHARED, order="stored", block_chunks=chunks)
        assert np.array_equal(run.w[:-1], expected.w)
        assert run.loop.plan.solver.progress(run.loop.state) == expected.progress
        right = expected.decision_function(X).argmax(axis=1) == y - 1.0
        assert run.result.certificate.accuracy == right.mean()
    streamed, _ = learned(text, learner, joint=SHARED, labels=tuple(LABELS))
    assert np.array_equal(streamed.leading.runner.weights(streamed.leading.state, np.empty(len(run.w))), run.w)


@pytest.mark.parametrize("at_once", [1, 40, joint_features.PIECE_ENTRIES])
def test_pieces_are_the_rows_of_the_map_in_any_order(at_once):
    """However many entries are made at once: the rows of all pieces are those of the whole."""
    X, _ = rows()
    order = np.random.default_rng(1).permutation(X.shape[0])
    features = joint_features.JointFeatures.of(shared, K)
    found = list(features.pieces((X.indptr, X.indices, X.data), order, at_once=at_once))
    assert [k for part, _ in found for k in range(part.start, part.stop)] == list(range(X.shape[0]))
    assert (len(found) == 1) is (at_once > X.nnz * K)
    phi = [scipy.sparse.csr_matrix((v, i, p), shape=(len(p) - 1, features.n_features)) for _, (p, i, v) in found]
    assert abs(scipy.sparse.vstack(phi) - shared.rows(X[order], K)).max() == 0.0


@pytest.mark.slow
def test_x_in_the_place_of_its_class_is_the_multi_prototype_rule():
    X, y = rows()
    for options in (
        {"learner": "pa1", "costs": COSTS, "cost_rule": "max-loss"},
        {"learner": "pa1", "average": True},
        {"learner": "pa1", "class_weight": {2.0: 3.0, 4.0: 0.5}},
    ):
        options["order"] = "stored"
        joint, plain = (fit(X, y, joint=place, **options) for place in ("support.joint_cases:prototypes", None))
        W = np.zeros((K, INPUTS))
        W[:, plain.model.feature_ids] = plain.model.weights
        np.testing.assert_allclose(joint.model.weights.reshape(K, INPUTS), W, rtol=1e-12, atol=1e-14)
        told = [fitted.loop.plan.solver.progress(fitted.loop.state) for fitted in (joint, plain)]
        assert told[0] == {**told[1], "cumulative_loss": pytest.approx(told[1]["cumulative_loss"])}
        assert joint.certificate.accuracy == plain.certificate.accuracy


@pytest.mark.slow
def test_sets_of_labels_and_two_classes():
    X, y = rows(seed=3)
    sets = [{int(c), int(c + i) % K + 1} if i % 5 else set() for i, c in enumerate(y)]
    own = from_python(X, sets, labels=range(1, K + 1), sets=True)
    fitted = fit(X, sets, learner="pa1", joint=SHARED, order="stored")
    assert np.array_equal(fitted.model.weights, own.w)
    assert fitted.model.ranks and fitted.model.decision_function(X).shape == (X.shape[0], K)
    X, y = rows(seed=4, k=2)
    own = from_python(X, y, labels=(1.0, 2.0))
    fitted = fit(X, y, learner="pa1", joint=SHARED, order="stored")
    assert np.array_equal(fitted.model.weights, own.w)
    values = own.decision_function(X)
    np.testing.assert_array_equal(fitted.model.decision_function(X), values[:, 1] - values[:, 0])
    assert np.array_equal(fitted.model.predict(X), own.predict(X))
    assert fitted.certificate.accuracy == np.mean(own.predict(X) == y)


@pytest.mark.slow
def test_a_run_is_resumed_and_a_model_continued_to_the_same_bits(given, tmp_path):
    _, store, text, X, y = given
    options = {"learner": "pa1", "joint": SHARED, "block_chunks": 1, "max_outer": 3}
    whole = train(store, **options)
    assert train(store, stop=stop_after(9), checkpoint=tmp_path / "c", **options).result.status == "interrupted"
    assert train(store, checkpoint=tmp_path / "c", resume=True, **options).same(whole)
    with pytest.raises(
        InputError, match="was begun with joint=support.joint_cases:shared, but support.joint_cases:prototypes is given"
    ):
        train(store, checkpoint=tmp_path / "c", resume=True, **options | {"joint": "support.joint_cases:prototypes"})
    twice = from_python(scipy.sparse.vstack([X, X], "csr"), np.tile(y, 2))
    fit(X, y, learner="pa1", joint=SHARED, order="stored").save(tmp_path / "m.h5")
    again = train(store, continue_from=tmp_path / "m.h5", joint=SHARED, order="stored")
    assert np.array_equal(again.w[:-1], twice.w)
    streamed, _ = learned(text, "", continue_from=tmp_path / "m.h5", joint=SHARED)
    save_stream(tmp_path / "s.h5", streamed)
    assert np.array_equal(load_model(tmp_path / "s.h5").weights, twice.w)
    for go_on in (lambda: train(store, continue_from=tmp_path / "m.h5"),
                  lambda: learned(text, "", continue_from=tmp_path / "m.h5")):  # fmt: skip
        with pytest.raises(InputError, match="if you trust it, give joint=support.joint_cases:shared"):
            go_on()


@pytest.mark.slow
def test_commands_from_text_to_predictions(given, tmp_path, run_in_process):
    _, store, text, X, y = given
    own = from_python(X, y)
    values = own.decision_function(X)
    learner = ("--learner", "pa1", "--joint", SHARED)
    done = run_in_process(train_command.main, store, tmp_path / "t.h5", *learner, "--order", "stored")
    assert done.code == 0, done.err
    done = run_in_process(
        stream.main, text, *learner, "--labels", "1,2,3,4", "--model", tmp_path / "s.h5", "--predictions",
        tmp_path / "p", "--scores",
    )  # fmt: skip
    assert done.code == 0, done.err
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "p"), JointLearner(shared, LABELS).learn(X, y))
    new, _ = rows(seed=7)
    new = scipy.sparse.hstack([new, np.ones((new.shape[0], 2))], format="csr")  # ids that the map does not take
    (tmp_path / "new.svm").write_text(svmlight(new, np.ones(new.shape[0]), first_id=0))
    for model in ("t.h5", "s.h5"):
        assert describe_model(tmp_path / model)["n_features"] == 3 * INPUTS
        for rows_in, expected in ((store, values), (text, values),
                                  (tmp_path / "new.svm", own.decision_function(new[:, :INPUTS]))):  # fmt: skip
            done = run_in_process(predict.main, tmp_path / model, rows_in, tmp_path / "out", "--scores", "--overwrite",
                                  "--joint", SHARED)  # fmt: skip
            assert done.code == 0, done.err
            np.testing.assert_allclose(np.loadtxt(tmp_path / "out"), expected, rtol=1e-12, atol=1e-12)
        loaded = load_model(tmp_path / model, joint=SHARED)
        np.testing.assert_allclose(loaded.decision_function(new), own.decision_function(new[:, :INPUTS]), atol=1e-12)
        done = run_in_process(predict.main, tmp_path / model, store, tmp_path / "labels", "--joint", SHARED, "--json")
        assert json.loads(done.out)["accuracy"] == np.mean(own.predict(X) == y)
        assert np.array_equal(np.loadtxt(tmp_path / "labels"), own.predict(X))
        (tmp_path / "labels").unlink()
        assert SHARED in run_in_process(info.main, tmp_path / model, "--top", "3").out
        for arguments, what in (
            ((predict.main, tmp_path / model, text, tmp_path / "no"), f"if you trust it, give --joint {SHARED}"),
            ((predict.main, tmp_path / model, text, tmp_path / "no", "--joint", "os:path"), "if you trust it"),
            ((export.main, tmp_path / model, tmp_path / "no", "--format", "liblinear"), "has joint features"),
            ((train_command.main, store, tmp_path / "no", "--learner", "pa1", "--prior", tmp_path / model),
             "no weights of features; name another model"),
            ((stream.main, text, "--learner", "pa1", "--prior", tmp_path / model, "--labels", "1,2,3,4"),
             "no weights of features; name another model"),
        ):  # fmt: skip
            done = run_in_process(*arguments)
            assert (done.code, done.out) == (2, "")
            assert what in done.last_line
            assert not (tmp_path / "no").exists()
        with pytest.raises(InputError, match="if you trust it, give joint=support.joint_cases:shared"):
            load_model(tmp_path / model).predict(X)
    fit(X, y, learner="pa1").save(tmp_path / "plain.h5")
    with pytest.raises(InputError, match="has no joint features"):
        load_model(tmp_path / "plain.h5", joint=SHARED)


@pytest.mark.parametrize(
    ("joint", "what"),
    [
        ("nowhere:at_all", "cannot be imported"),
        ("support.joint_cases", "cannot be imported"),
        ("support.joint_cases:INPUTS", "is no joint map; it must have n_features and rows(X, n_classes)"),
        ("support.joint_cases:no_inputs", "has no n_inputs"),
        ("support.joint_cases:endless", "has 1099511627776 as n_features; expected a whole number"),
        ("support.joint_cases:worded", "has many as n_features"),
        ("support.joint_cases:few_inputs", "but the joint map support.joint_cases:few_inputs takes ids below 4"),
        ("support.joint_cases:raising", "raised ValueError: no such class"),
        ("support.joint_cases:nothing", "gave a NoneType; expected a sparse matrix of shape"),
        ("support.joint_cases:dense", "gave a ndarray; expected a sparse matrix of shape"),
        ("support.joint_cases:narrow", "gave a matrix of shape"),
        ("support.joint_cases:larger", "gave a matrix of shape"),
        ("support.joint_cases:infinite", "a value that is not finite"),
        ("support.joint_cases:imaginary", "gave values of the type complex128; expected real numbers"),
    ],
)
def test_a_map_that_is_none_ends_in_a_sentence(given, tmp_path, run_in_process, joint, what):
    _, store, text, X, y = given
    own = ("--learner", "pa1", "--joint", joint)
    for arguments in (
        (train_command.main, store, tmp_path / "m.h5", *own),
        (stream.main, text, *own, "--labels", "1,2,3,4", "--model", tmp_path / "m.h5"),
    ):
        done = run_in_process(*arguments)
        assert (done.code, done.out) == (2, "")
        assert what in done.last_line and "Traceback" not in done.err
        assert not (tmp_path / "m.h5").exists()


def test_what_does_not_go_with_joint_features(given, tmp_path):
    _, store, text, X, y = given
    for options, what in (
        ({"multiclass": "rest"}, "leave one of them out"),
        ({"bias": 1.0}, "let the map add a constant one"),
        ({"targets": "numbers"}, "is for classes"),
        ({"learner": "mira"}, "does not support joint features"),
        ({"learner": "omd", "mirror": "entropic", "n_features": 20}, "n_features=20: the rows have 27 features"),
    ):
        chosen = {"learner": "pa1"} | options
        with pytest.raises(InputError, match=what):
            fit(X, y, joint=SHARED, **chosen)
        own = {name: chosen.pop(name) for name in ("mirror", "n_features") if name in chosen}
        with pytest.raises(InputError, match=f"{what}|has no classes"):
            learned(text, chosen.pop("learner"), settings=own, joint=SHARED, labels=tuple(LABELS), **chosen)
    with pytest.raises(InputError, match="score other rows with predict"):
        train(store, learner="pa1", joint=SHARED, valid=store)
    with pytest.raises(InputError, match=r"needed|are too small|is too small"):
        fit(X, y, learner="pa1", joint=SHARED, memory=1_000_000)
    fitted = fit(X, y, learner="pa1", joint=SHARED)
    fitted.save(tmp_path / "m.h5")
    shared_before = shared.n_features
    try:
        type(shared).n_features = 5
        with pytest.raises(InputError, match="has 5 now; use the map that it was trained with"):
            load_model(tmp_path / "m.h5", joint=SHARED)
    finally:
        type(shared).n_features = shared_before
    with pytest.raises(InputError, match="expected a sparse matrix of shape"):
        JointLearner(Broken(lambda X, k: None), LABELS).learn(X, y)
    assert prototypes.n_features == K * INPUTS
