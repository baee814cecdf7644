"""Models of other programs and for them: LIBLINEAR, scikit-learn and ONNX predict what we predict, and back; Pipelines
of scikit-learn score raw texts and tables as ``predict`` does."""

import csv
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pyarrow import parquet
from sklearn import datasets, linear_model
from sklearn.svm import LinearSVC
from support.training_cases import make_store, random_rows, svmlight

import blocksvm
from blocksvm import InputError, InputWarning, Matrix, estimators, fit, load_model
from blocksvm.exchange import liblinear
from blocksvm.exchange.forms import model_bytes, name_bytes
from blocksvm.exchange.linear import Linear, linear_of, model_of
from blocksvm.model.model_file import describe_model
from blocksvm.store.descriptions import PlattMeta

N, D = 150, 12
MEMORY = 10**9


def model_with(k, labels, loss="hinge", seed=0, bias=True, ids=None, multiclass=None):
    """A linear model of k vectors; ids: of its features (default 1 .. D - 1)."""
    rng = np.random.default_rng(seed)
    ids = np.arange(1, D) if ids is None else np.asarray(ids)
    intercept = rng.standard_normal(k) if bias else np.zeros(k)
    linear = Linear(ids, rng.standard_normal((k, len(ids))), intercept, labels, loss, multiclass)
    return model_of(linear, "a test")


def rows(n=N, d=D, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    X[:, 0] = 0.0
    X[0] = 0.0  # a row without entries
    return scipy.sparse.csr_matrix(X)


CASES = {"two classes": (1, (-1.0, 1.0), "hinge"), "two classes, no bias": (1, (3.0, 7.0), "logistic"),
         "four classes": (4, (-5.0, 0.0, 2.0, 9.0), "squared-hinge"), "crammer-singer": (3, (1.0, 2.0, 3.0), "hinge"),
         "numbers": (1, (), "epsilon-insensitive")}  # fmt: skip


def case(name):
    k, labels, loss = CASES[name]
    multiclass = "crammer-singer" if name == "crammer-singer" else None
    return model_with(k, labels, loss, bias="no bias" not in name, multiclass=multiclass)


@pytest.mark.parametrize("name", CASES)
def test_liblinear_predicts_what_we_predict(name, tmp_path):
    util = pytest.importorskip("liblinear.liblinearutil")
    model, X, path = case(name), rows(), tmp_path / "model.txt"
    blocksvm.export_model(model, path, "liblinear")
    theirs = util.load_model(str(path))
    labels, _, values = util.predict([], X[:, 1:], theirs, "-q")
    ours = model.decision_function(X)
    assert np.allclose(np.array(values), ours.reshape(len(ours), -1), rtol=1e-12, atol=1e-12)
    assert not model.labels or np.array_equal(labels, model.predict(X))
    # and back, bit by bit
    again = blocksvm.import_model(path)
    assert again.labels == model.labels
    assert np.array_equal(again.feature_ids, model.feature_ids)
    assert np.array_equal(again.weights, model.weights) and np.array_equal(again.intercept, model.intercept)
    assert linear_of(again).loss == linear_of(model).loss and linear_of(again).multiclass == linear_of(model).multiclass


TWO, CLASSES = [(1, -1), (-1, 1)], (4, 2, 9)
TRAINED = [("-s 3 -c 1", TWO[0]), ("-s 3 -B 2", TWO[1]), ("-s 0 -B 1", TWO[0]), ("-s 0 -B 1", CLASSES),
           ("-s 4 -B 1", CLASSES), ("-s 11 -B 1 -p 0.01", ())]  # fmt: skip


@pytest.mark.parametrize(("options", "labels"), TRAINED)
def test_what_liblinear_trained_is_ours(options, labels, tmp_path):
    """Whichever label comes first, with two classes, more and numbers, its constant feature of any value."""
    util = pytest.importorskip("liblinear.liblinearutil")
    X, rng = rows(), np.random.default_rng(5)
    scores = X @ rng.standard_normal((D, len(labels) or 1))
    y = np.array(labels)[scores.argmax(axis=1)] if labels else scores[:, 0] + 0.3
    y[: len(labels)] = labels  # LIBLINEAR orders labels by their first rows
    theirs = util.train(y, X[:, 1:], options + " -q")
    util.save_model(str(tmp_path / "their.model"), theirs)
    model = blocksvm.import_model(tmp_path / "their.model")
    assert model.labels == tuple(sorted(map(float, labels)))
    told, _, values = util.predict([], X[:, 1:], theirs, "-q")
    if not labels:
        np.testing.assert_allclose(model.predict(X), told, rtol=1e-12, atol=1e-12)
        return
    decided = np.abs(np.array(values)).max(axis=1) > 1e-12  # a row of no features is anybody's
    assert decided.sum() >= N - 5
    assert np.array_equal(model.predict(X)[decided], np.array(told)[decided])
    if options.startswith("-s 0"):
        _, _, chances = util.predict([], X[:, 1:], theirs, "-q -b 1")
        order = np.argsort(theirs.get_labels())
        assert np.allclose(model.predict_proba(X), np.array(chances)[:, order], atol=1e-9)


@given(weights=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=6, max_size=6),
       ids=st.lists(st.integers(1, 3000), min_size=3, max_size=3, unique=True),
       classes=st.sampled_from([0, 2, 3]), piece=st.sampled_from([1, 7, 100, 1 << 20]))  # fmt: skip
def test_any_weights_come_back_bit_by_bit(tmp_path, weights, ids, classes, piece):
    """Read in pieces of any size.  Features whose weights are all 0 aside: they are as good as unknown ones."""
    path, labels = tmp_path / "m", tuple(map(float, range(classes)))
    vectors = classes if classes > 2 else 1
    values = np.resize(np.array(weights), (vectors, 3)) + 0.0
    model = model_of(Linear(np.sort(ids), values, values[:, 0].copy(), labels, "hinge", None), "a test")
    with open(path, "wb") as file:
        liblinear.write(model, file)
    again = liblinear.read(path, MEMORY, piece)
    there = values.any(axis=0)
    if there.any():
        assert np.array_equal(again.feature_ids, np.sort(ids)[there])
        assert np.array_equal(np.atleast_2d(again.weights), values[:, there])
    assert np.array_equal(np.atleast_1d(again.intercept), values[:, 0])


GOOD = ["solver_type L2R_LR", "nr_class 2", "label 1 -1", "nr_feature 2", "bias 1", "w", "0.5 ", "-1 ", "0.25 "]


@pytest.mark.parametrize(
    ("number", "line", "words"),
    [(1, "solver_type ONECLASS_SVM", ":1: solver_type 'ONECLASS_SVM' is not what LIBLINEAR writes"),
     (1, "\x89HDF", ":1: is not a line of a LIBLINEAR model"),
     (2, "nr_class -2", ":2: nr_class '-2' is not"),
     (2, "nr_class 3", "names 2 labels of 3 classes"),
     (3, "label 1 1", ":3: label '1 1' is not"),
     (3, "nr_class 2", ":3: is not a line of a LIBLINEAR model ('nr_class')"),
     (4, "nr_feature 99999999999", ":4: nr_feature '99999999999' is not"),
     (4, "nr_feature 3", "has 3 of 4 weights; it is cut short"),
     (4, "nr_feature 1", "has more weights than its header says (2)"),
     (5, "bias nan", ":5: bias 'nan' is not"),
     (5, "w", "has no line bias before the weights"),
     (8, "inf", ":8: 'inf' is not a finite number")],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_line(tmp_path, number, line, words):
    path = tmp_path / "m"
    path.write_text("\n".join(GOOD) + "\n")
    assert liblinear.read(path, MEMORY).intercept == 0.25
    path.write_bytes("\n".join([*GOOD[: number - 1], line, *GOOD[number:]]).encode("latin-1"))
    with pytest.raises(InputError, match=re.escape(words)):
        liblinear.read(path, MEMORY)


def test_memory_is_asked_for_by_what_a_file_has_and_not_by_what_it_says(tmp_path):
    path = tmp_path / "m"
    path.write_text("\n".join([*GOOD[:3], "nr_feature 2000000000", *GOOD[4:]]))
    with pytest.raises(InputError, match="cut short"):
        liblinear.read(path, 10_000)
    path.write_text("\n".join([*GOOD[:3], "nr_feature 1000", *GOOD[4:6], *["1"] * 1001]))
    with pytest.raises(InputError, match="raise memory"):
        liblinear.read(path, 10_000)
    assert len(liblinear.read(path, 10**6).feature_ids) == 1000


def changed(model, text=None, **meta):
    """The model with another description; text: what is other about its recipe."""
    meta |= {"text": structs.replace(model.meta.text, **text)} if text else {}
    return replace(model, meta=structs.replace(model.meta, **meta))


PLAIN, FOUR = model_with(1, (-1.0, 1.0)), case("four classes")
SETS, CALIBRATED = changed(FOUR, multilabel=True), changed(PLAIN, calibration=PlattMeta(2.0, 0.5))
OUTSIDE, TILTED = model_with(1, (-1.0, 1.0), "my_losses:TILTED"), "no estimator of the loss my_losses:TILTED"
NAMED = ("LIBLINEAR has no solver of the loss my_losses:TILTED: the file names L2R_L1LOSS_SVC_DUAL, by which its "
         "predict gives the same decision values")  # fmt: skip


@pytest.mark.parametrize(
    ("model", "form", "n", "says"),
    [(PLAIN, "liblinear", 0, ""), (OUTSIDE, "liblinear", 1, NAMED), (SETS, "table", 1, "rows have sets of labels"),
     *((CALIBRATED, form, None, "its calibration is left out") for form in ("liblinear", "table", "sklearn")),
     (changed(FOUR, {"normalize": "l2"}), "liblinear", None, "rows are scaled to norm 1"),
     (OUTSIDE, "sklearn", None, TILTED)],
)  # fmt: skip
def test_what_another_program_lacks_is_noted(tmp_path, model, form, n, says):
    notes = blocksvm.export_model(model, tmp_path / "m", form)
    assert n is None or len(notes) == n
    assert n == 0 or any(says in note for note in notes)
    if form == "sklearn":
        with pytest.warns(InputWarning, match=says):
            blocksvm.to_estimator(model)


@pytest.mark.parametrize(
    ("model", "forms", "words"),
    [(SETS, "liblinear sklearn onnx", "rows have sets of labels"),
     (changed(FOUR, {"bits": 10}), "table", "its features are hashes of ids"),
     (model_with(1, (-1.0, 1.0), ids=[0, 3]), "liblinear", "has a feature with id 0"),
     (model_with(1, (-1.0, 1.0), ids=[1, 2**31]), "sklearn", "id is 2,147,483,648: .*; export it as table$"),
     (model_with(1, (-1.0, 1.0), ids=[1, 2**31]), "liblinear", "LIBLINEAR's ids end at"),
     (model_with(1, ("no", "yes")), "liblinear", "has the labels no, yes"),
     (model_with(1, (0.5, 1.0)), "liblinear", "has the labels 0.5, 1")],
)  # fmt: skip
def test_what_another_program_cannot_say(tmp_path, model, forms, words):
    for form in forms.split():
        with pytest.raises(InputError, match=words):
            blocksvm.export_model(model, tmp_path / "m", form)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_model_is_named(tmp_path):
    X, y = random_rows(n=30, d=6)
    for thing in (estimators.LinearSVC().fit(X, y), blocksvm.fit(X, y), None):
        with pytest.raises(InputError, match=r" is not a model of blocksvm; give one, .*; from_estimator makes one"):
            blocksvm.to_estimator(thing)
        with pytest.raises(InputError, match=" is not a model of blocksvm"):
            blocksvm.export_model(thing, tmp_path / "m.csv", "table")
    kernel = fit(Matrix(X, y), solver="kernel", gamma=0.5).model
    for form, words in (("table", "has a kernel"), ("pickle", "choose one of liblinear")):
        with pytest.raises(InputError, match=words):
            blocksvm.export_model(kernel, tmp_path / "m.csv", form)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "parquet"])
def test_a_table_takes_what_is_counted(tmp_path, form):
    """Refused before the weights are read where that is more than the memory."""
    lines = [f"{(-1) ** row} | {' '.join(f'{100 * row + k:050d}' for k in range(100))}\n" for row in range(600)]
    (tmp_path / "rows.vw").write_text("".join(lines))
    blocksvm.write_store(tmp_path / "rows.vw", tmp_path / "s.h5")
    with blocksvm.open_store(tmp_path / "s.h5") as store:
        fit(store, max_outer=1).save(tmp_path / "m.h5")
    need, names = model_bytes(describe_model(tmp_path / "m.h5")), name_bytes(tmp_path / "m.h5")
    blocksvm.export_model(tmp_path / "m.h5", tmp_path / "first", form)  # what is imported and cached
    for memory, peak in ((need + names, need + names), (need + names - 1, 10**6), (need - 1, 10**6)):
        tracemalloc.start()
        try:
            blocksvm.export_model(tmp_path / "m.h5", tmp_path / f"{memory}", form, memory=memory)
        except InputError as error:
            refused = str(error)
        assert tracemalloc.get_traced_memory()[1] <= peak
        tracemalloc.stop()
    # and is replaced
    blocksvm.export_model(tmp_path / "m.h5", tmp_path / "first", form, overwrite=True)
    assert (tmp_path / f"{need + names}").exists() and refused.startswith(f"memory={need - 1:_} is too small")


@pytest.mark.parametrize("name", [*CASES, "perceptron"])
def test_an_estimator_predicts_what_we_predict(name, tmp_path):
    model, X = case(name) if name in CASES else model_with(1, (-1.0, 1.0), name), rows()
    labels = model.labels
    blocksvm.export_model(model, tmp_path / "m.joblib", "sklearn")
    estimator = joblib.load(tmp_path / "m.joblib")
    X = X[:, : estimator.n_features_in_]
    theirs = estimator.decision_function(X) if labels else estimator.predict(X)
    assert np.allclose(theirs, model.decision_function(X), rtol=1e-12, atol=1e-12)
    assert not labels or np.array_equal(estimator.predict(X), model.predict(X))
    if "no bias" in name:  # and of the logistic loss
        assert np.allclose(estimator.predict_proba(X), model.predict_proba(X), atol=1e-12)
    again = blocksvm.from_estimator(estimator)
    assert again.labels == model.labels and np.array_equal(again.weights, model.weights)
    assert np.array_equal(again.intercept, model.intercept)
    assert np.array_equal(again.feature_ids, model.feature_ids)


def test_a_fitted_estimator_is_ours(tmp_path):
    X, y = random_rows(n=100, d=10, seed=2)
    words = np.where(y > 0, "spam", "ham")
    for estimator in (
        LinearSVC(), linear_model.LogisticRegression(), linear_model.SGDClassifier(random_state=0),
        LinearSVC(fit_intercept=False),
    ):  # fmt: skip
        estimator.fit(X, words)
        model = blocksvm.from_estimator(estimator)
        assert np.array_equal(model.predict(X), estimator.predict(X))
        model.save(tmp_path / "m.h5", overwrite=True)
        assert np.array_equal(load_model(tmp_path / "m.h5").predict(X), estimator.predict(X))
        if hasattr(estimator, "predict_proba"):
            assert np.allclose(load_model(tmp_path / "m.h5").predict_proba(X), estimator.predict_proba(X))
    ridge = linear_model.Ridge().fit(X, y + X[:, 0].toarray()[:, 0])
    assert np.allclose(blocksvm.from_estimator(ridge).predict(X), ridge.predict(X))
    with pytest.raises(InputError, match="LinearSVC: has no weights"):
        blocksvm.from_estimator(LinearSVC())
    with pytest.raises(InputError, match="has 2 vectors of weights for 0 classes"):
        blocksvm.from_estimator(linear_model.Ridge().fit(X, np.stack([y, -y], axis=1)))
    estimator.classes_ = np.array([2**53, 2**53 + 1])
    with pytest.raises(InputError, match="9007199254740993 is a whole number beyond"):
        blocksvm.from_estimator(estimator)


def test_an_estimator_says_how_its_columns_are_read(tmp_path):
    """By the note's own call the estimator predicts what the command predicts."""
    model, X = model_with(1, (-1.0, 1.0), ids=[2, 5, 7]), rows()
    *_, note = blocksvm.export_model(model, tmp_path / "m.joblib", "sklearn")
    text = tmp_path / "rows.svm"
    datasets.dump_svmlight_file(X[:, :6], np.ones(X.shape[0]), str(text), zero_based=True)
    call = re.search(r"load_svmlight_file\(FILE, (n_features=\d+, zero_based=True)\)", note)[1]
    read, _ = datasets.load_svmlight_file(str(text), **eval(f"dict({call})"))
    assert read.shape[1] == 8
    estimator = joblib.load(tmp_path / "m.joblib")
    assert np.allclose(estimator.decision_function(read), model.decision_function(X[:, :6]))
    matrix = replace(model, meta=structs.replace(model.meta, text=structs.replace(model.meta.text, format="npz")))
    assert blocksvm.export_model(matrix, tmp_path / "x.joblib", "sklearn") == ()


@pytest.mark.parametrize("name", [*CASES, "words", "halves"])
def test_onnxruntime_gives_the_same_scores(name, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    if name in CASES:
        model = case(name)
    else:
        model = model_with(1, ("ham", "spam") if name == "words" else (0.5, 1.5))
    blocksvm.export_model(model, tmp_path / "m.onnx", "onnx")
    X = rows()[:, : int(model.feature_ids.max()) + 1]
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    told = session.run(None, {"X": X.toarray().astype(np.float32)})
    ours = model.decision_function(X)
    by_class = np.stack([-ours, ours], 1) if len(model.labels) == 2 else ours.reshape(N, -1)
    assert np.allclose(told[-1], by_class, atol=1e-5)
    if model.labels:
        sure = np.diff(np.sort(by_class, axis=1)[:, -2:])[:, 0] > 1e-5
        assert sure.sum() > N - 5
        known = model.predict(X)
        expected = [f"{label:g}" for label in known] if name == "halves" else known
        assert np.array_equal(np.array(told[0])[sure], np.array(expected)[sure])


def test_a_table_with_names(tmp_path, succeeds):
    """Names may hold anything that a csv reader must see as it was."""
    text = '1 |words a"b,c:2 red\n-1 |words blue red:3\n1 |words a"b,c\n-1 |words blue\n'
    store, model = make_store(tmp_path, text, format="vw"), tmp_path / "m.h5"
    with blocksvm.open_store(store) as source:
        fit(source, tol=1e-2, memory=10**6).save(model)
    succeeds("export", model, tmp_path / "m.csv", "--format", "table", "--names", store)
    with open(tmp_path / "m.csv", newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["id", "name", "weight"]
    found = {name: float(weight) for _, name, weight in lines}
    assert {name.rpartition("^")[2].rpartition("|")[2].rpartition(" ")[2] for name in found} == {'a"b,c', "red", "blue"}
    blocksvm.export_model(model, tmp_path / "own.csv", "table")
    assert (tmp_path / "own.csv").read_bytes() == (tmp_path / "m.csv").read_bytes()  # the model knows them, too
    loaded = load_model(model)
    by_id = dict(zip(loaded.feature_ids.tolist(), loaded.weights.tolist(), strict=True))
    assert {int(number): float(weight) for number, _, weight in lines} == by_id
    blocksvm.export_model(model, tmp_path / "m.parquet", "parquet", names=store)
    table = parquet.read_table(tmp_path / "m.parquet")
    assert table.column_names == head and table.column("name").to_pylist() == list(found)
    plain = make_store(tmp_path, "1 1:1\n-1 2:1\n", name="plain")
    with pytest.raises(InputError, match="have no names"):
        blocksvm.export_model(model, tmp_path / "x.csv", "table", names=plain)


def test_a_model_goes_out_and_comes_in_by_commands(tmp_path, refusal, succeeds):
    X, y = random_rows(n=80, d=15, seed=3, dtype=np.float32)
    model, text, back = (tmp_path / name for name in ("m.h5", "m.txt", "back.h5"))
    store = make_store(tmp_path, X, y)
    with blocksvm.open_store(store) as source:
        fit(source, tol=1e-3, memory=10**6, bias=1.0).save(model)
    assert "written to" in succeeds("export", model, text, "--format", "liblinear").out
    assert "labels -1, 1" in succeeds("import", text, back).out
    predicted = []
    for one in (model, back):
        path = tmp_path / f"{one.stem}.txt.out"
        succeeds("predict", one, tmp_path / "rows.svm", path, "--scores", "--quiet")
        predicted.append(np.loadtxt(path))
    assert np.allclose(*predicted, rtol=1e-12, atol=1e-14)
    assert f"trained by     LIBLINEAR ({text})" in succeeds("info", back, "--verify").out
    # as a prior, and against being replaced
    with blocksvm.open_store(store) as source:
        fit(source, tol=1e-1, memory=10**6, bias=1.0, prior=back)
    for arguments in (("export", model, text, "--format", "liblinear"), ("import", text, back)):
        assert "exists already" in refusal(*arguments)
        succeeds(*arguments, "--overwrite")
    text.write_text("mine")
    assert f"{text}:1: is not a line of a LIBLINEAR model ('mine')" in refusal("import", text, tmp_path / "new.h5")


@pytest.mark.parametrize(("factor", "kind", "normalize"), [("idf", "smooth", "none"), ("scale", "deviation", "l2")])
def test_a_table_of_a_model_with_factors_gives_its_scores(tmp_path, normalize, factor, kind, succeeds):
    """By the table's own note: counts times the factors, scaled where it says so, times weights."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.8, (60, 9)) * (rng.random((60, 9)) < 0.6)
    labels = np.where(counts[:, 0] + rng.random(60) > 0.8, 1, -1)
    text = tmp_path / "rows.svm"
    text.write_text(svmlight(scipy.sparse.csr_matrix(counts), labels))
    blocksvm.write_store(text, tmp_path / "s.h5", **{factor: kind}, normalize=normalize)
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--bias", "1")
    succeeds("predict", tmp_path / "m.h5", text, tmp_path / "scores", "--scores")
    done = succeeds("export", tmp_path / "m.h5", tmp_path / "w.csv", "--format", "table")
    assert f"values are multiplied by the {factor} of their features" in done.err
    assert ("scaled to norm 1" in done.err) == (normalize == "l2")
    with open(tmp_path / "w.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["id", factor, "weight"]
    factors, w, intercept = np.zeros(9), np.zeros(9), 0.0
    for line in lines:
        if not line["id"]:
            assert line[factor] == ""
            intercept = float(line["weight"])
        else:
            factors[int(line["id"]) - 1], w[int(line["id"]) - 1] = float(line[factor]), float(line["weight"])
    X = counts * factors
    if normalize == "l2":
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(X @ w + intercept, np.loadtxt(tmp_path / "scores"), rtol=1e-5, atol=1e-6)
    model = blocksvm.load_model(tmp_path / "m.h5")
    if normalize == "l2":
        with pytest.raises(InputError, match=f"scaled after the {factor} of.*export it as table"):
            blocksvm.export_model(model, tmp_path / "m.txt", "liblinear")
        return
    notes = blocksvm.export_model(model, tmp_path / "m.txt", "liblinear")
    assert any(f"the {factor} of the features is in their weights" in note for note in notes)
    again = blocksvm.import_model(tmp_path / "m.txt")
    found = again.decision_function(np.hstack([np.zeros((60, 1)), counts]))
    np.testing.assert_allclose(found, np.loadtxt(tmp_path / "scores"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "classes", [[0, 1], [-1, 1, 5], ["a", "b"], [False, True], np.array(["x", "y"], object), np.array([0.5, 1.5]),
                np.array([1, 2], np.uint8)]
)  # fmt: skip
def test_an_estimator_comes_back_as_it_was(tmp_path, classes):
    X = np.zeros((12, 6))
    X[:, :3] = np.random.default_rng(0).normal(size=(12, 3))
    y = np.asarray(classes)[np.arange(12) % len(classes)]
    # y is a label of its own type, as LogisticRegression takes it; 0.5 and 1.5 are none for scikit-learn
    codes = np.arange(12) % len(classes)
    estimator = LinearSVC(loss="hinge").fit(X, codes)
    estimator.classes_ = np.unique(y)
    model = blocksvm.from_estimator(estimator)
    model.save(tmp_path / "m.h5")
    for one in (model, blocksvm.load_model(tmp_path / "m.h5")):
        again = blocksvm.to_estimator(one)
        assert again.coef_.tolist() == estimator.coef_.tolist()
        assert again.n_features_in_ == 6
        assert again.classes_.dtype == estimator.classes_.dtype
        assert again.predict(X).tolist() == estimator.predict(X).tolist()


def test_a_table_of_weights(tmp_path):
    model = case("four classes")
    blocksvm.export_model(model, tmp_path / "m.csv", "table")
    with open(tmp_path / "m.csv", newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["id", "-5", "0", "2", "9"] and [line[0] for line in lines] == ["", *map(str, model.feature_ids)]
    weights = np.vstack([model.intercept, model.weights.T])
    assert np.array_equal(np.array([line[1:] for line in lines], float), weights)
    blocksvm.export_model(model, tmp_path / "m.parquet", "parquet")
    table = parquet.read_table(tmp_path / "m.parquet")
    assert table.column("id").to_pylist() == [None, *range(1, D)]
    assert np.array_equal(np.array([table.column(name).to_pylist() for name in head[1:]]).T, weights)


WORDS = ["good", "film", "dull", "ΣΟΦΟΣ", "σοφος", "İstanbul", "Ⓐnarchy", "été", "a", "x_1", "ϒ", "naïve", "七転び",
         "42"]  # fmt: skip
BLANKS = [" ", " ", "  ", "\u3000", ", ", "-", " \u00a0"]
LOADED_ELSEWHERE = """
import sys, joblib
sys.modules["blocksvm"] = None
print(*joblib.load(sys.argv[1]).decision_function(["good film", "dull"]).tolist())
"""


def texts(n: int, seed: int, words: list[str]) -> list[str]:
    draw = np.random.default_rng(seed)
    return ["".join(draw.choice(words) + draw.choice(BLANKS) for _ in range(draw.integers(1, 9))) for _ in range(n)]


def assert_alike(succeeds, model: Path, rows: list, text: Path) -> None:
    """The exported Pipeline, which holds nothing of this package, gives the scores and labels of predict."""
    out = model.with_suffix(".joblib")
    succeeds("export", model, out, "--format", "sklearn")
    assert b"blocksvm" not in out.read_bytes()
    pipeline = joblib.load(out)
    expected = np.loadtxt(succeeds("predict", model, text, "--scores").out.splitlines())
    np.testing.assert_allclose(pipeline.decision_function(rows), expected, rtol=1e-6, atol=1e-6)
    labels = succeeds("predict", model, text).out.split()
    assert np.array_equal(pipeline.predict(rows), np.array(labels, pipeline[-1].classes_.dtype))


@pytest.mark.parametrize(
    ("ngrams", "weighed"),
    [("word:1", ()), ("word:1-2,char_wb:2-4", ("--normalize", "l2")), ("char:2-3", ("--idf", "smooth")),
     ("char:3,char_wb:3,word:2", ("--idf", "plain", "--normalize", "l2"))],
)  # fmt: skip
def test_a_pipeline_scores_texts_as_predict_does(tmp_path, succeeds, ngrams, weighed):
    """With letters that str.lower treats otherwise, n-grams that the model does not know, and a text without any."""
    labels = ["sport", "arts", "other"] if weighed else ["spam", "ham"]
    rows = texts(60, 0, WORDS)
    (tmp_path / "t.tsv").write_text("".join(f"{labels[len(row) % len(labels)]}\t{row}\n" for row in rows))
    succeeds("split", tmp_path / "t.tsv", tmp_path / "s.h5", "--format", "documents", "--ngrams", ngrams,
            *weighed)  # fmt: skip
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--bias", "1", "--tol", "0.1")
    new = [*texts(40, 1, [*WORDS, "unseen", "ΦΩΣ", "İ"]), "?", "unknownest"]
    (tmp_path / "new.txt").write_text("".join(f"{row}\n" for row in new))
    assert_alike(succeeds, tmp_path / "m.h5", new, tmp_path / "new.txt")


@pytest.mark.parametrize(
    ("form", "weighed"),
    [("csv", ()), ("parquet", ("--idf", "smooth")), ("csv", ("--normalize", "l2")),
     ("parquet", ("--scale", "deviation", "--normalize", "l2"))],
)  # fmt: skip
def test_a_pipeline_scores_dicts_of_columns_as_predict_does(tmp_path, succeeds, form, weighed):
    """With missing cells and categories that the model does not know."""
    draw = np.random.default_rng(3)
    rows: list[dict] = []
    for k in range(90):
        row = {"size": round(float(draw.normal()), 3), "colour": str(draw.choice(["red", "dark blue", "a=b", "é"])),
               "zip": f"{draw.integers(5)}"}  # fmt: skip
        if k >= 60 and k % 3 == 0:
            row |= {"colour": "unseen"}
        if k % 7 == 0:
            del row["size"]
        rows.append(row)
    labels = [1 if row.get("size", 0.1) > 0 else -1 for row in rows]
    for name, part in (("train", slice(60)), ("new", slice(60, 90))):
        columns = {key: [row.get(key) for row in rows[part]] for key in ("size", "colour", "zip")}
        write = pyarrow.csv.write_csv if form == "csv" else parquet.write_table
        write(pa.table({"label": labels[part]} | columns), tmp_path / f"{name}.{form}")
    succeeds("split", tmp_path / f"train.{form}", tmp_path / "s.h5", "--categorical", "auto,zip", *weighed)
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--bias", "1", "--tol", "0.1")
    assert_alike(succeeds, tmp_path / "m.h5", rows[60:], tmp_path / f"new.{form}")
    if "--normalize" not in weighed:
        pipeline = joblib.load(tmp_path / "m.joblib")
        of_frame = pipeline.predict(pandas.DataFrame(rows[60:]).to_dict("records"))  # nan where a cell is missing
        assert np.array_equal(of_frame, pipeline.predict(rows[60:]))


def test_vowpal_wabbits_features_by_name(tmp_path, succeeds):
    (tmp_path / "t.vw").write_text("1 |a x:2 y |b x\n-1 |a z:0.5 |b y\n" * 10)
    succeeds("split", tmp_path / "t.vw", tmp_path / "s.h5")
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    names = blocksvm.load_model(tmp_path / "m.h5").feature_names
    ax, ay, bx = (next(name for name in names if re.fullmatch(pattern, name)) for pattern in ("a.x", "a.y", "b.x"))
    (tmp_path / "new.vw").write_text("1 |a x:2 y |b x\n|a x:0.25\n")
    rows = [{ax: 2.0, ay: 1.0, bx: 1.0}, {ax: 0.25}]
    assert_alike(succeeds, tmp_path / "m.h5", rows, tmp_path / "new.vw")


@pytest.mark.process
def test_names_from_a_store(tmp_path, succeeds):
    """A model of stream knows no names; a store of other texts not all of them.  The pipeline needs no blocksvm."""
    (tmp_path / "t.tsv").write_text("1\tgood film\n-1\tdull film\n" * 20)
    (tmp_path / "few.tsv").write_text("1\tgood\n-1\tdull\n")
    more = "--format", "documents", "--normalize", "l2"
    succeeds("stream", tmp_path / "t.tsv", *more, "--model", tmp_path / "m.h5")
    for name in ("t", "few"):
        succeeds("split", tmp_path / f"{name}.tsv", tmp_path / f"{name}.h5", *more)
    out = tmp_path / "m.joblib"
    with pytest.raises(InputError, match=r"does not name its n-grams.*\(names\); export it as table$"):
        blocksvm.export_model(tmp_path / "m.h5", out, "sklearn")
    with pytest.raises(InputError, match="1 of its 3 features have no name.*; export it as table$"):
        blocksvm.export_model(tmp_path / "m.h5", out, "sklearn", names=tmp_path / "few.h5")
    notes = blocksvm.export_model(tmp_path / "m.h5", out, "sklearn", names=tmp_path / "t.h5")
    assert "its rows are texts, as in predict(['a text'])" in notes
    (tmp_path / "n.txt").write_text("good film\ndull\n")
    expected = blocksvm.predict_files(tmp_path / "m.h5", tmp_path / "n.txt", "scores")
    done = subprocess.run([sys.executable, "-P", "-W", "error", "-c", LOADED_ELSEWHERE, out], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert np.allclose(np.array(done.stdout.split(), float), expected, rtol=1e-6)
