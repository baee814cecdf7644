"""TextClassifier: the model of split and train, whatever texts come as; more rows, weights, pickles."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import blocksvm
from blocksvm.estimators import TextClassifier

RANDOM = np.random.default_rng(4)
LABELS = ["ham", "spam"] * 30
BEGINS = ["see you", "win money"] * 30
TEXTS = [f"{one} {RANDOM.choice(['soon', 'now'])} {RANDOM.choice(['Ünü', 'x1', 'lunch'])}" for one in BEGINS]


def test_it_is_split_and_train(tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text("".join(f"{y}\t{x}\n" for y, x in zip(LABELS, TEXTS, strict=True)))
    (tmp_path / "f.txt").write_text("".join(f"__label__{y} {x}\n" for y, x in zip(LABELS, TEXTS, strict=True)))
    settings = {"ngrams": "word:1,char_wb:3", "idf": "smooth", "normalize": "l2", "accents": "strip"}
    blocksvm.write_store(tmp_path / "t.txt", tmp_path / "t.h5", format="documents", **settings)
    with blocksvm.open_store(tmp_path / "t.h5") as store:
        fitted = blocksvm.fit(store, loss="squared-hinge", C=2.0, bias=1.0)
    estimator = TextClassifier("squared_hinge", 2.0, **settings)
    for given in ((TEXTS, LABELS), (np.array(TEXTS), np.array(LABELS)), ([str(tmp_path / "f.txt")],)):
        estimator.fit(*given)
        assert np.array_equal(estimator.model_.weights, fitted.model.weights)
    assert estimator.dual_gap_ == fitted.certificate.rel_gap <= 1e-3 and estimator.classes_.tolist() == ["ham", "spam"]
    values = estimator.decision_function(TEXTS)
    for path in (str(tmp_path / "f.txt"), tmp_path / "f.txt", [tmp_path / "f.txt"]):
        assert values.tolist() == estimator.decision_function(path).tolist()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "win money").write_text("see you\n" * 2)
    assert estimator.predict(["win money"]).tolist() == ["spam"]  # a text, although there is a file of this name
    assert estimator.predict([]).tolist() == [] and len(estimator.decision_function([])) == 0
    assert estimator.score(TEXTS, LABELS) == 1.0 and not hasattr(estimator, "predict_proba")
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        TextClassifier(C=1e4, tol=1e-9, max_iter=1).fit(TEXTS, LABELS)


def test_probabilities_sets_and_weights():
    estimator = TextClassifier(C=10.0, class_weight="balanced").fit(TEXTS, LABELS)
    shares = estimator.predict_proba(["win money", "see you"])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares[0, 1] > 0.5 > shares[1, 1]
    twice = TextClassifier(tol=1e-9).fit(TEXTS + TEXTS[:7], LABELS + LABELS[:7])
    weights = np.where(np.arange(60) < 7, 2.0, 1.0)
    weighted = TextClassifier(tol=1e-9).fit(TEXTS, LABELS, sample_weight=weights)
    np.testing.assert_allclose(weighted.decision_function(TEXTS), twice.decision_function(TEXTS), atol=1e-3)
    sets = TextClassifier("hinge", 100.0).fit(TEXTS, [(y, "all") for y in LABELS])
    assert sets.predict(["win money now"])[0] == ("all", "spam")
    grid = GridSearchCV(TextClassifier(), {"C": [0.1, 10.0], "ngrams": ["word:1", "char:2"]}, cv=2).fit(TEXTS, LABELS)
    assert grid.best_score_ == 1.0


def test_more_rows():
    estimator = TextClassifier(C=10.0, tol=1e-8)
    estimator.partial_fit(TEXTS[:40], LABELS[:40])
    estimator.partial_fit(TEXTS[40:], LABELS[40:])
    whole = TextClassifier(C=10.0, tol=1e-8).fit(TEXTS, LABELS)
    np.testing.assert_allclose(estimator.decision_function(TEXTS), whole.decision_function(TEXTS), atol=1e-3)
    again = pickle.loads(pickle.dumps(estimator))
    assert again.decision_function(TEXTS).tolist() == estimator.decision_function(TEXTS).tolist()
    with pytest.raises(blocksvm.InputError, match="not in what was pickled; fit all rows again"):
        again.partial_fit(TEXTS, LABELS)


def test_what_is_refused():
    with pytest.raises(ValueError, match="X is no list of strings"):
        TextClassifier().fit(np.zeros((2, 2)), [0, 1])
    with pytest.raises(ValueError, match="row 1: is float, and texts are strings"):
        TextClassifier().fit(["a", 0.5], [0, 1])
    with pytest.raises(ValueError, match="intercept_scaling=0: must be a number above 0"):
        TextClassifier(intercept_scaling=0).fit(TEXTS, LABELS)


# scikit-learn has no checks of texts but those of parameters
@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_scikit_learns_checks():
    check_estimator(TextClassifier())
