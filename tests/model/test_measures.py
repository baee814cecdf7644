"""Measures of predictions: every measure beside scikit-learn's, added up in pieces of any size; and predict --explain:
the largest contributions to each row's decision value, by name, beside the definition."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn import metrics
from support.training_cases import make_store, random_rows

from blocksvm import InputError, Matrix, fit, load_model, open_store
from blocksvm.kernels.rows import Entries
from blocksvm.model.explanations import MOST, largest_contributions
from blocksvm.model.measures import ClassMeasures, Probabilities, RealMeasures, SetMeasures, merge
from blocksvm.model.probabilities import each, logistic, one_of_several
from blocksvm.model.scoring import Scores, StoreScorer


def counted(measures, values, classes, labels, pieces=7):
    """The measures after the rows have come in pieces."""
    for part in np.array_split(np.arange(len(labels)), pieces):
        measures.count(Scores(None if values is None else values[part], classes[part], labels[part]))
    return measures


def binary(n=900, seed=0, ties=True):
    """(decision values, classes, labels 3 and 7)"""
    rng = np.random.default_rng(seed)
    labels = rng.choice([3.0, 7.0], n, p=[0.7, 0.3])
    values = rng.normal(size=n) * 3 + (labels == 7.0)
    if ties:
        values[: n // 2] = np.round(values[: n // 2])
        values[:5] = 0.0, -0.0, np.inf, -np.inf, 1e300
    return values, (values > 0.0).astype(np.int64), labels


@pytest.mark.parametrize("pieces", [1, 7])
def test_two_classes(pieces):
    values, classes, labels = binary()
    found = counted(ClassMeasures((3.0, 7.0)), values, classes, labels, pieces)
    predicted = np.array([3.0, 7.0])[classes]
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(labels, predicted)
    np.testing.assert_allclose(found.by_class(), (precision, recall, f1), rtol=1e-14)
    lines = found.sentences()
    assert lines[0].startswith(f"accuracy {metrics.accuracy_score(labels, predicted):.6f} (")
    balanced = metrics.balanced_accuracy_score(labels, predicted)
    macro = metrics.f1_score(labels, predicted, average="macro", pos_label=None)
    assert lines[1].startswith(f"balanced accuracy {balanced:.6f}, macro F1 {macro:.6f}, ROC AUC ")
    area, error = found.curve.area()
    expected = metrics.roc_auc_score(labels == 7.0, np.clip(values, -1e30, 1e30))
    assert abs(area - expected) <= error
    figures = [f"{figure[0]:.4f}" for figure in (precision, recall, f1)]
    assert lines[3].split() == ["3", *figures, str((labels == 3).sum())]


def test_the_area_under_the_curve_is_within_its_error():
    """Near values fall together, at every scale and sign; the bound holds, and is small where values spread."""
    for scale, seed in ((1e-30, 0), (1.0, 1), (1e25, 2)):
        values, classes, labels = binary(4000, seed, ties=False)
        found = counted(ClassMeasures((3.0, 7.0)), scale * values, classes, labels)
        area, error = found.curve.area()
        assert abs(area - metrics.roc_auc_score(labels == 7.0, values)) <= error < 2e-3
    same = counted(ClassMeasures((3.0, 7.0)), np.full(4000, 0.25), classes, labels)
    assert same.curve.area() == (0.5, 0.5) and "ROC AUC 0.500000 (within 0.5)" in same.sentences()[1]
    one = counted(ClassMeasures((3.0, 7.0)), values[labels == 3], classes[labels == 3], labels[labels == 3])
    assert one.curve.area() is None and "ROC AUC" not in one.sentences()[1]


def test_more_classes_labels_that_are_strings_and_some_unknown():
    rng = np.random.default_rng(1)
    names = np.array(["a", "b", "c", "d"], dtype=object)
    labels, classes = names[rng.integers(0, 3, 500)], rng.integers(0, 3, 500)
    labels[:20], labels[20:25] = "other", None
    found = counted(ClassMeasures(("a", "b", "c", "d")), None, classes, labels)
    there = np.array([label is not None for label in labels])
    true, predicted = labels[there].tolist(), names[classes][there].tolist()
    how = {"labels": ["a", "b", "c"], "zero_division": np.nan}
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(true, predicted, **how)
    np.testing.assert_allclose(np.array(found.by_class())[:, :3], (precision, recall, f1), rtol=1e-14)
    assert np.isnan(np.array(found.by_class())[:, 3]).all()
    lines = found.sentences()
    assert lines[0].startswith(f"accuracy {metrics.accuracy_score(true, predicted):.6f} (")
    assert "20 of 495 labelled rows have a label (other)" in lines[1]
    assert lines[-1].split() == ["d", "-", "-", "-", "0"]


def test_probabilities():
    values, classes, labels = binary(ties=False)
    found = counted(ClassMeasures((3.0, 7.0), logistic), values, classes, labels)
    p = 1.0 / (1.0 + np.exp(-values))
    lines = found.sentences()
    costs = metrics.log_loss(labels == 7, p), metrics.brier_score_loss(labels == 7, p)
    assert f"log-loss {costs[0]:.6f}, Brier score {costs[1]:.6f}" in lines
    np.testing.assert_allclose(logistic(np.array([-1e4, -30.0, 0.0, 2.0, 1e4]))[:, 1],
                               [0.0, np.exp(-30) / (1 + np.exp(-30)), 0.5, 1 / (1 + np.exp(-2)), 1.0],
                               rtol=1e-14)  # fmt: skip
    np.testing.assert_allclose(logistic(values).sum(axis=1), 1.0, rtol=1e-15)
    # one of 0 costs what scikit-learn has it cost
    found, probabilities = Probabilities(), np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]])
    found.count(probabilities, np.array([1, 1, 1]))
    expected = metrics.log_loss([1, 1, 1], probabilities, labels=[0, 1])
    assert found.figures()["log_loss"] == pytest.approx(expected, rel=1e-12)
    # those of several classes that vanish together
    values = np.array([[-800.0, -801.0, -900.0], [700.0, -700.0, 0.0]])
    found = one_of_several(values, logistic)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.argmax(axis=1).tolist() == [0, 0]
    assert each(values, logistic)[1].tolist() == [1.0, pytest.approx(0.0, abs=1e-300), 0.5]


def test_real_numbers_far_from_zero():
    rng = np.random.default_rng(0)
    targets = 1e6 + rng.normal(size=800)
    values = targets + 0.1 * rng.normal(size=800)
    labels = np.where(rng.random(800) < 0.1, np.nan, targets)
    found = counted(RealMeasures(), values, np.zeros(800, int), labels)
    there = ~np.isnan(labels)
    (line,) = found.sentences()
    figures = [float(x) for x in re.search(r"error (\S+), mean absolute error (\S+), R2 (\S+) ", line).groups()]
    assert figures == pytest.approx([
        metrics.root_mean_squared_error(labels[there], values[there]),
        metrics.mean_absolute_error(labels[there], values[there]), metrics.r2_score(labels[there], values[there]),
    ], abs=1e-6)  # fmt: skip
    assert counted(RealMeasures(), values, np.zeros(800, int), np.full(800, np.nan)).sentences() == []


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measures")
    X, y = random_rows(n=200, d=15, seed=2)
    for loss in ("logistic", "hinge"):
        with open_store(make_store(folder, X, y, name=loss)) as source:
            fit(source, loss=loss, tol=1e-4, bias=1.0).save(folder / f"{loss}.model.h5")
    return folder, X, y


def test_predict_writes_probabilities_and_says_what_they_are_worth(fitted, succeeds):
    folder, X, y = fitted
    model = load_model(folder / "logistic.model.h5")
    by_id = sparse.hstack([sparse.csr_matrix((200, 1)), X]).tocsr()
    expected = model.predict_proba(by_id)
    for source in (folder / "logistic.svm", folder / "logistic.h5"):
        out_file = folder / "p.txt"
        given = folder / "logistic.model.h5", source, out_file, "--probabilities", "--overwrite"
        out = succeeds("predict", *given).out
        np.testing.assert_allclose(np.loadtxt(out_file), expected, rtol=1e-6)
        told = float(out.partition("log-loss ")[2].split(",")[0].split()[0])
        assert told == pytest.approx(metrics.log_loss(y == 1, expected[:, 1]), abs=1e-5)
        assert f"ROC AUC {metrics.roc_auc_score(y, expected[:, 1]):.4f}"[:-1] in out
        assert out.splitlines()[-1] == f"200 predictions in {out_file}; columns: -1, 1"


def test_probabilities_of_a_loss_that_has_none(fitted, refusal):
    folder, X, *_ = fitted
    model = folder / "hinge.model.h5"
    given = "predict", model, folder / "hinge.svm", "--probabilities"
    assert re.search("its decision values are no probabilities; .*--loss logistic", refusal(*given))
    assert "are written one at a time" in refusal(*given, "--scores")
    of_numbers = fit(X, X @ np.arange(15.0), loss="squared-epsilon-insensitive").model
    for one, words in ((load_model(model), "loss=logistic"), (of_numbers, "probabilities")):
        with pytest.raises(InputError, match=words):
            one.predict_proba(X)


def test_little_memory_does_without_the_curve(fitted, succeeds):
    folder, *_ = fitted
    given = "predict", folder / "hinge.model.h5", folder / "hinge.svm", folder / "q.txt", "--overwrite", "--memory"
    for memory in ("1GB", "8MB"):
        told = succeeds(*given, memory).out
        assert ("ROC AUC" in told) == (memory == "1GB") and "balanced accuracy" in told


def test_probabilities_of_several_classes(tmp_path, succeeds):
    """Each class's own, divided by their sum; log-loss and Brier score by their definitions."""
    X, _ = random_rows(n=200, d=12, seed=4)
    y = np.asarray(X[:, :3].toarray().argmax(axis=1), float) + 1.0
    store, model = make_store(tmp_path, X, y), tmp_path / "m.h5"
    succeeds("train", store, model, "--loss", "logistic", "--tol", "1e-6")
    told = [succeeds("predict", model, one, "--probabilities") for one in (tmp_path / "rows.svm", store)]
    found = [np.array([line.split() for line in one.out.splitlines()], float) for one in told]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-9)
    loaded = load_model(model)
    ids = sparse.csr_matrix(np.column_stack([np.zeros(200), X.toarray()]))
    expected = 1.0 / (1.0 + np.exp(-loaded.decision_function(ids)))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(loaded.predict_proba(ids), expected, rtol=1e-12)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-7)
    one = np.eye(3)[y.astype(int) - 1]
    assert f"log-loss {metrics.log_loss(y, found[0]):.6f}" in told[0].err
    assert f"Brier score {np.square(found[0] - one).sum(axis=1).mean():.6f}" in told[0].err
    hinge = fit(Matrix(X, y), loss="hinge").model
    with pytest.raises(InputError, match="are no probabilities"):
        hinge.predict_proba(X)


@pytest.mark.parametrize("kind", ["numbers", "classes", "sets"])
def test_merged_measures_are_those_of_all_rows(kind):
    """As counted by one: what has been added up exactly, the others to rounding."""
    random = np.random.default_rng(3)
    if kind == "numbers":
        make = RealMeasures
        pieces = [Scores(random.normal(size=n), np.zeros(n, int), random.normal(1.0, 2.0, n)) for n in (40, 7)]
    elif kind == "classes":
        make, values = lambda: ClassMeasures((-1.0, 1.0), logistic), [random.normal(size=n) for n in (40, 7)]
        pieces = [Scores(z, (z > 0).astype(int), random.choice([-1.0, 1.0, 3.0], len(z))) for z in values]
    else:
        make, labels = lambda: SetMeasures(("a", "b", "c", "d")), np.empty(40, object)
        labels[:] = [("a", "d") if i % 3 else ("b",) for i in range(40)]
        pieces = [Scores(random.normal(size=(n, 4)), np.zeros(n, int), labels[:n]) for n in (40, 7)]
    whole, parts = make(), [make(), make()]
    for piece, part in zip(pieces, parts, strict=True):
        whole.count(piece)
        part.count(piece)
    merge(*parts)
    assert parts[0].rows == whole.rows == 47
    assert parts[0].figures() == pytest.approx(whole.figures(), rel=1e-12) and len(whole.figures()) >= 3
    # what one of two has not counted is left out
    mine, others = ClassMeasures((-1.0, 1.0)), ClassMeasures((-1.0, 1.0), ranked=False)
    merge(mine, others)
    assert mine.curve is None


ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])), max_size=9)


def largest(row, w, n):
    """The n terms (j, w_j x_j) of <w, x> that are largest in magnitude, those of 0 left out; row: [(j, x_j)]."""
    terms = [(j, w[j] * x) for j, x in row if w[j] * x != 0.0]
    return sorted(terms, key=lambda term: -abs(term[1]))[:n]  # of equals the first one first


@given(rows=st.lists(ENTRIES, min_size=1, max_size=4),
       w=st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]), min_size=18, max_size=18), n=st.integers(1, 6),
       several=st.booleans())  # fmt: skip
def test_contributions_are_what_the_definition_says(rows, w, n, several):
    weights = np.array(w).reshape(6, 3) if several else np.array(w[:6])[:, None]
    k = weights.shape[1]
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([j for row in rows for j, _ in row], np.int32)
    values = np.array([x for row in rows for _, x in row], np.float32)
    classes = np.arange(len(rows)) % k
    features, found, _ = largest_contributions(Entries(indptr, indices, values), weights.T, classes, n)
    for i, row in enumerate(rows):
        expected = largest(row, weights[:, classes[i]], n)
        rest = [(-1, 0.0)] * (n - len(expected))
        assert list(zip(features[i].tolist(), found[i].tolist(), strict=True)) == expected + rest


def make_texts(path: Path, n: int, seed: int, labels: list[str]) -> None:
    draw = np.random.default_rng(seed)
    words = ["good", "great film", "dull", "colon: here", "plot", "a\\tab", "naïve"]
    chosen = [draw.choice(len(words), 4, replace=False) for _ in range(n)]
    rows = (f"{labels[min(places) % len(labels)]}\t{' '.join(words[k] for k in places)}\n" for places in chosen)
    path.write_text("".join(rows))


def explanations(text: str) -> list[tuple[str, list[tuple[str, float]], float]]:
    """(what is predicted, [(name, contribution)], bias) of each line."""
    rows = []
    for line in text.splitlines():
        predicted, *terms, bias = line.split("\t")
        name, _, value = bias.partition(":")
        assert name == "(bias)"
        pairs = [(term.rpartition(":")[0], float(term.rpartition(":")[2])) for term in terms]
        rows.append((predicted, pairs, float(value)))
    return rows


@pytest.fixture(params=["two classes", "three classes", "hashed"])
def trained(request, tmp_path, succeeds, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = ["a", "b", "c"] if request.param == "three classes" else ["a", "b"]
    make_texts(tmp_path / "t.tsv", 80, 0, labels)
    make_texts(tmp_path / "new.tsv", 30, 1, labels)
    more = ["--bits", "12"] if request.param == "hashed" else ["--idf", "smooth"]
    documents = ["--format", "documents", "--ngrams", "word:1-2,char:3", "--normalize", "l2"]
    succeeds("split", "t.tsv", "t.h5", *documents, *more)
    succeeds("split", "new.tsv", "new.h5", *(documents + more if "--bits" in more else ["--like", "t.h5"]))
    succeeds("train", "t.h5", "m.h5", "--bias", "1", "--tol", "0.1")
    return request.param


def test_all_contributions_and_the_bias_are_the_decision_value(trained, succeeds):
    """Of the predicted class, from text and from a store, by the names that the model knows."""
    model = load_model("m.h5")
    names = [str(i) for i in model.feature_ids] if model.feature_names is None else model.feature_names
    known = {name.replace("\t", "\\t") for name in names}
    scored = explanations(succeeds("predict", "m.h5", "new.tsv", "--scores", "--explain", MOST).out)
    labelled = explanations(succeeds("predict", "m.h5", "new.tsv", "--explain", MOST).out)
    plain = succeeds("predict", "m.h5", "new.tsv", "--scores").out.splitlines()
    assert [scores for scores, _, _ in scored] == plain and len(plain) == 30
    for (scores, terms, bias), (label, *explained) in zip(scored, labelled, strict=True):
        assert [terms, bias] == explained
        values = [float(value) for value in scores.split()]
        assert sum(value for _, value in terms) + bias == pytest.approx(max(values), rel=1e-12) or len(values) == 1
        k = model.labels.index(label)
        assert sum(value for _, value in terms) + bias == pytest.approx(values[k if len(values) > 1 else 0], abs=1e-12)
        assert bias == np.atleast_1d(model.intercept)[k if len(values) > 1 else 0]
        assert {name for name, _ in terms} <= known and len(terms) > 5
        sizes = [abs(value) for _, value in terms]
        assert sizes == sorted(sizes, reverse=True)
    few = explanations(succeeds("predict", "m.h5", "new.tsv", "--explain", "3").out)
    assert few == [(label, terms[:3], bias) for label, terms, bias in labelled]
    for threads in ("1", "2"):
        stored = explanations(succeeds("predict", "m.h5", "new.h5", "--explain", "3", "--threads", threads).out)
        assert [(label, bias) for label, _, bias in stored] == [(label, bias) for label, _, bias in few]
        for (_, mine, _), (_, theirs, _) in zip(stored, few, strict=True):
            assert [value for _, value in mine] == pytest.approx([value for _, value in theirs], abs=1e-12)


def test_features_of_a_store_are_told_by_their_own_names(tmp_path, succeeds, monkeypatch):
    """Of a model that knows but their hashes, too, of which two features may share one."""
    monkeypatch.chdir(tmp_path)
    Path("t.svm").write_text("".join(f"{1 if i % 2 else -1} {i % 7 + 1}:1 {i % 5 + 40}:2\n" for i in range(40)))
    succeeds("split", "t.svm", "t.h5", "--bits", "2")
    succeeds("split", "t.svm", "plain.h5", "--keep-order")
    succeeds("train", "t.h5", "m.h5", "--tol", "0.1")
    told = explanations(succeeds("predict", "m.h5", "plain.h5", "--scores", "--explain", MOST).out)
    for i, (score, terms, bias) in enumerate(told):
        assert {int(name) for name, _ in terms} <= {i % 7 + 1, i % 5 + 40}
        assert sum(value for _, value in terms) + bias == pytest.approx(float(score), abs=1e-12)
    assert max(len(terms) for _, terms, _ in told) == 2


@pytest.mark.slow
def test_contributions_of_a_store_are_counted_in_memory(trained):
    def pieces(n_bytes_for_rows):
        scorer = StoreScorer("m.h5", "new.h5", 10**9, explain=7)
        scorer.budget.total = scorer.budget.total - scorer.budget.left + n_bytes_for_rows
        return list(scorer.scores())

    explained, plain = (StoreScorer("m.h5", "new.h5", 10**9, explain=n).row_bytes for n in (7, None))
    assert explained > plain + 100
    whole, parts = pieces(10**8), pieces(2_000)
    assert len(whole) == 1 < len(parts)
    for k, array in enumerate(whole[0].contributions):
        np.testing.assert_array_equal(np.concatenate([part.contributions[k] for part in parts]), array)


def test_ids_where_features_have_no_names_and_targets(tmp_path, succeeds, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.svm").write_text("1.5 3:1 5:2\n0.5 3:2\n-1 5:1 9:1\n" * 5)
    succeeds("split", "t.svm", "t.h5")
    succeeds("train", "t.h5", "m.h5", "--loss", "squared", "--tol", "1e-3")
    model = load_model("m.h5")
    w = dict(zip(model.feature_ids.tolist(), model.weights.tolist(), strict=True))
    Path("new.svm").write_text("0 3:0.5 4:7 9:-2\n0\n")
    first, second = explanations(succeeds("predict", "m.h5", "new.svm", "--explain", "5").out)
    expected = largest([(3, 0.5), (9, -2.0)], w, 5)
    assert first[1] == [(str(j), value) for j, value in expected] and second[1] == [] and first[2] == 0.0


@pytest.mark.parametrize(("words", "n", "sentence"), [
    ("--solver kernel --gamma 1", "3", "has a kernel, so that its decision values are no sums over features"),
    ("", "0", "--explain 0: must be 1 or more"), ("", "10001", "--explain 10001: choose 1 to 10,000"),
])  # fmt: skip
def test_refusals(tmp_path, succeeds, refusal, monkeypatch, words, n, sentence):
    monkeypatch.chdir(tmp_path)
    Path("t.svm").write_text("1 3:1 5:2\n-1 3:2\n" * 5)
    succeeds("split", "t.svm", "t.h5")
    succeeds("train", "t.h5", "m.h5", *words.split())
    for given_ in ("t.svm", "t.h5"):
        assert sentence in refusal("predict", "m.h5", given_, "--explain", n)
