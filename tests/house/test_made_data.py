"""The builders of the benchmarks' data: documents as hashed n-grams, and planted clicks."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import HashingVectorizer
from support.places import ROOT

TOOLS = ROOT / "tools"


def tool(name: str, *arguments, code: int = 0) -> str:
    line = [sys.executable, str(TOOLS / name), *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "mails.tar.gz"
    texts = {f"enron{1 + k % 3}/{'spam' if k % 4 == 0 else 'ham'}/{k}.txt": f"mail {k} buy {k % 5} now \xe9" * (1 + k)
             for k in range(20)}  # fmt: skip
    with tarfile.open(path, "w:gz") as tar:
        for name, text in [*texts.items(), ("enron1/Summary.txt", "no document")]:
            raw = text.encode("latin-1")
            about = tarfile.TarInfo(name)
            about.size = len(raw)
            tar.addfile(about, io.BytesIO(raw))
    return path, texts


@pytest.mark.process
def test_documents_become_hashed_ngrams_of_norm_one(tmp_path, archive):
    path, texts = archive
    told = tool("make_texts.py", "enron", path, tmp_path / "a.svm", "--bits", 12, "--jobs", 1)
    assert "20 rows" in told
    tool("make_texts.py", "enron", path, tmp_path / "b.svm", "--bits", 12, "--jobs", 2)
    assert (tmp_path / "a.svm").read_bytes() == (tmp_path / "b.svm").read_bytes()
    X, y = load_svmlight_file(str(tmp_path / "a.svm"), n_features=2**12, zero_based=False)
    assert sorted(y) == [-1.0] * 15 + [1.0] * 5
    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(4, 5), n_features=2**12, alternate_sign=False, norm="l2"
    )
    expected = vectorizer.transform(texts.values()).toarray()
    spam = np.array(["/spam/" in name for name in texts])
    nearest = np.array([np.abs(expected - row).max(axis=1).argmin() for row in X.toarray()])
    assert sorted(nearest) == list(range(20))
    np.testing.assert_allclose(X.toarray(), expected[nearest], atol=1e-5)
    assert np.array_equal(y > 0, spam[nearest])
    tool("make_texts.py", "enron", path, tmp_path / "c.svm", "--seed", 1, "--bits", 12, "--jobs", 1)
    lines = (tmp_path / "c.svm").read_bytes().splitlines()
    assert lines != (tmp_path / "a.svm").read_bytes().splitlines()
    assert sorted(lines) == sorted((tmp_path / "a.svm").read_bytes().splitlines())
    tool("make_texts.py", "enron", path, tmp_path / "e.svm", "--order", "names", "--bits", 12, "--jobs", 1)
    ordered, labels = load_svmlight_file(str(tmp_path / "e.svm"), n_features=2**12, zero_based=False)
    by_name = np.argsort(list(texts))
    np.testing.assert_allclose(ordered.toarray(), expected[by_name], atol=1e-5)
    assert np.array_equal(labels > 0, spam[by_name])
    assert "expected KIND:LOW-HIGH" in tool("make_texts.py", "enron", path, tmp_path / "d", "--ngrams", "x", code=2)
    assert "does not hold both classes" in tool("make_texts.py", "news-words", path, tmp_path / "d", code=2)
    assert not (tmp_path / "d").exists()


@pytest.mark.process
def test_clicks_are_one_hot_columns_with_few_positive_rows(tmp_path):
    arguments = ("--rows", 3000, "--columns", 5, "--positive", 0.1)
    tool("make_clicks.py", tmp_path / "a.svm", *arguments)
    tool("make_clicks.py", tmp_path / "b.svm", *arguments)
    assert (tmp_path / "a.svm").read_bytes() == (tmp_path / "b.svm").read_bytes()
    X, y = load_svmlight_file(str(tmp_path / "a.svm"), zero_based=False)
    assert X.shape[0] == 3000
    assert np.array_equal(np.diff(X.indptr), np.full(3000, 5))
    assert (X.data == 1.0).all()
    assert abs(np.mean(y > 0) - 0.1) < 0.002
    # each column's values lie behind those of the column before, the small ones most often
    ids = X.indices.reshape(3000, 5)
    assert (np.diff(ids, axis=1) > 0).all()
    assert (ids[:, :-1].max(axis=0) < ids[:, 1:].min(axis=0)).all()
    places = ids - ids.min(axis=0)
    assert (np.median(places, axis=0) < 0.5 * places.max(axis=0)).all()
    tool("make_clicks.py", tmp_path / "c.svm", *arguments, "--seed", 1)
    assert (tmp_path / "c.svm").read_bytes() != (tmp_path / "a.svm").read_bytes()
    assert "expected at least 2 rows" in tool("make_clicks.py", tmp_path / "d.svm", "--rows", 1, code=2)


@pytest.mark.process
def test_the_weights_of_clicks_turn_with_the_drift(tmp_path):
    """A model of the first rows does worse and worse on later ones, where the weights drift."""
    late = []
    for drift in (0.0, 1.0):
        out = tmp_path / f"{drift}.svm"
        tool("make_clicks.py", out, "--rows", 60_000, "--columns", 3, "--positive", 0.3, "--drift", drift)
        X, y = load_svmlight_file(str(out), zero_based=False)
        counts = np.maximum(1.0, np.asarray(X[:20_000].sum(axis=0)).ravel())
        w = X[:20_000].T @ y[:20_000] / counts  # the mean label of each value
        late.append(np.corrcoef(X[40_000:] @ w, y[40_000:])[0, 1])
    assert late[1] < 0.7 * late[0]
