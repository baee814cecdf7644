"""The experiment on HF-FOBOS: its folds, its accuracies and zeros against dense learners, its table, on a few rows."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import reference_online as oracle
from support.places import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from experiments import hf_fobos  # noqa: E402

GRID = (0.001, 0.01, 0.1)
FOLDS, EPOCHS, SEED = 3, 4, 5


def counts(classes: int, n: int = 33, d: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Rows of counts, some features rare and the last one in no row but one, whose labels follow them in part."""
    rng = np.random.default_rng(classes)
    X = rng.poisson(np.linspace(1.5, 0.1, d), (n, d)).astype(float)
    X[:, -1] = 0.0
    X[0, -1] = 3.0
    y = np.argmax(X @ rng.standard_normal((d, classes)) + rng.standard_normal((n, classes)), axis=1)
    y[:classes] = np.arange(classes)
    return X, 2 * y - 1 if classes == 2 else y


def write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    rows = (
        " ".join([f"{label}", *(f"{j + 1}:{x[j]:g}" for j in np.nonzero(x)[0])]) for x, label in zip(X, y, strict=True)
    )
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture(params=[2, 3])
def corpus(request, tmp_path):
    write(tmp_path / "tiny.svm", *counts(request.param))
    return hf_fobos.load(tmp_path / "tiny.svm")


def test_every_row_is_in_one_fold_and_learnt_from_in_all_others():
    splits = hf_fobos.split(23, 4, 3, seed=1)
    assert sorted(np.concatenate([part.test for part in splits])) == list(range(23))
    for part in splits:
        assert sorted([*part.test, *part.train]) == list(range(23))
        epochs = part.order.reshape(3, -1)
        assert all(sorted(epoch) == list(part.train) for epoch in epochs)
        assert not np.array_equal(epochs[0], epochs[1])


def test_the_rows_are_those_of_the_text(tmp_path):
    X, y = counts(3)
    write(tmp_path / "tiny.svm", X, y)
    corpus = hf_fobos.load(tmp_path / "tiny.svm")
    falling = np.argsort(-np.count_nonzero(X, axis=0), kind="stable")
    assert np.array_equal(corpus.X.toarray(), X[:, falling])
    assert np.array_equal(corpus.y, y)
    scaled = hf_fobos.load(tmp_path / "tiny.svm", "counts-l2").X.toarray()
    assert np.allclose(scaled * np.linalg.norm(X, axis=1)[:, None], X[:, falling])
    weighted = X[:, falling] * np.log(len(X) / np.count_nonzero(X, axis=0)[falling])
    assert np.allclose(hf_fobos.load(tmp_path / "tiny.svm", "tf-idf").X.toarray(), weighted)
    lengths = np.linalg.norm(weighted, axis=1)[:, None]
    scaled = hf_fobos.load(tmp_path / "tiny.svm", "tf-idf-l2").X.toarray()
    assert np.allclose(scaled * lengths, weighted) and np.allclose((scaled**2).sum(axis=1), 1.0)


def dense(corpus, method: str, l1: float, part) -> tuple[float, float, np.ndarray]:
    """(accuracy, share of zeros, heights) by the dense learners."""
    X = corpus.X.toarray()
    d = X.shape[1]
    if method in hf_fobos.NORMS:
        make = partial(oracle.HFFOBOS, l1=l1, p=hf_fobos.NORMS[method], cap=500.0)
    else:
        make = partial(oracle.FOBOS, l1=l1)
    if corpus.classes == 2:
        learner = inner = make(d)
    else:
        learner = oracle.MultiPrototype(make, corpus.classes, d)
        inner = learner.learner
    for row in part.order:
        learner.learn(X[row], int(corpus.y[row]))
    if corpus.classes == 2:
        found = [1 if X[row] @ learner.w > 0 else -1 for row in part.test]
    else:
        found = [learner.predict(X[row]) for row in part.test]
    present = X[part.train].any(axis=0)
    zeros = np.mean(inner.w.reshape(-1, d)[:, present] == 0.0)
    return np.mean(found == corpus.y[part.test]), zeros, getattr(inner, "h", None)


def test_the_table_holds_what_dense_learners_find(corpus):
    """Each lambda on every fold, with all epochs."""
    found = hf_fobos.run_set(corpus, hf_fobos.METHODS, FOLDS, EPOCHS, SEED, GRID)
    splits = hf_fobos.split(len(corpus.y), FOLDS, EPOCHS, SEED)
    lines = {cells[0]: cells[1:] for cells in hf_fobos.rows_of("tiny", found, GRID)}
    for column, method in enumerate(hf_fobos.METHODS):
        again = np.array([[dense(corpus, method, l1, part)[:2] for part in splits] for l1 in GRID])
        assert found[method] == pytest.approx(again)
        means = again[..., 0].mean(axis=1)
        chosen = max(range(len(GRID)), key=lambda k, means=means: (round(means[k], 12), k))
        accuracy, zeros = again[chosen].T
        assert lines["lambda"][column] == f"{GRID[chosen]:g}"
        assert lines["accuracy %"][column] == f"{100 * accuracy.mean():.2f} ± {100 * accuracy.std(ddof=1):.2f}"
        assert lines["zero weights %"][column] == f"{100 * zeros.mean():.1f}"
    assert any(0.0 < share < 1.0 for one in found.values() for share in one[..., 1].ravel())


def test_the_lambda_of_a_fold_may_be_that_of_the_others():
    found = np.zeros((2, 3, 2))
    found[..., 0] = [[0.9, 0.5, 0.5], [0.6, 0.6, 0.7]]
    assert hf_fobos.best(found) == 1  # the means are equal: the larger lambda
    assert list(hf_fobos.by_other_folds(found)) == [0.6, 0.5, 0.5]


@pytest.mark.parametrize("method", hf_fobos.NORMS)
def test_heights_are_those_of_dense_learners(corpus, method):
    part = hf_fobos.split(len(corpus.y), FOLDS, EPOCHS, SEED)[0]
    expected = dense(corpus, method, 0.01, part)[2]
    np.testing.assert_allclose(hf_fobos.heights(corpus, method, 0.01, part.order), expected, rtol=1e-10)


@pytest.mark.process
def test_a_whole_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    write(tmp_path / "two.svm", *counts(2))
    write(tmp_path / "books.svm", *counts(3))
    given = [str(tmp_path / "books.svm"), str(tmp_path / "two.svm"), "--methods", "p = 2,FOBOS"]
    given += ["--inputs", "counts,tf-idf-l2", "--folds", "3", "--epochs", "2", "--jobs", "1"]
    files = ["--figure", str(tmp_path / "h.png"), "--json", str(tmp_path / "kept.json")]
    monkeypatch.setattr(sys, "argv", ["hf_fobos", *given, *files])
    monkeypatch.setattr(hf_fobos, "GRID", GRID)
    hf_fobos.main()
    counted, curves, scaled, _ = json.loads((tmp_path / "kept.json").read_text())["tables"]
    assert [row[0] for row in counted["rows"][::7]] == ["books", "two"] and len(scaled["rows"]) == 14
    assert [row[:2] for row in curves["rows"]] == [[s, m] for s in ("books", "two") for m in ("p = 2", "FOBOS")]
    best = counted["rows"][0][2].partition(" ")[0]  # the accuracy shown is the best of its method's curve
    assert best == max(curves["rows"][0][2:], key=float)
    assert "| books | the paper | 85.52 | 84.98 |" in capsys.readouterr().out
    assert (tmp_path / "h.png").stat().st_size > 1000 and "<svg" in (tmp_path / "h.svg").read_text()


@pytest.mark.parametrize(("labels", "expected"), [("0 1", [-1, 1]), ("1 2 3", [0, 1, 2])])
def test_labels_become_signs_or_classes(tmp_path, labels, expected):
    (tmp_path / "few.svm").write_text("".join(f"{label} 1:1\n" for label in labels.split()))
    assert list(hf_fobos.load(tmp_path / "few.svm").y) == expected
