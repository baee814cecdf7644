"""predict --explain: the largest contributions to each row's decision value, by name, beside the definition."""

from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from blocksvm.kernels.rows import Entries
from blocksvm.model.explanations import MOST, largest_contributions
from blocksvm.model.model_file import load_model
from blocksvm.model.scoring import StoreScorer

ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])), max_size=9)


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
        expected = reference.largest_contributions(row, weights[:, classes[i]], n)
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
    expected = reference.largest_contributions([(3, 0.5), (9, -2.0)], w, 5)
    assert first[1] == [(str(j), value) for j, value in expected] and second[1] == [] and first[2] == 0.0


@pytest.mark.parametrize(
    ("words", "n", "sentence"),
    [("--solver kernel --gamma 1", "3", "has a kernel, so that its decision values are no sums over features"),
     ("", "0", "--explain 0: must be 1 or more"), ("", "10001", "--explain 10001: choose 1 to 10,000")],
)  # fmt: skip
def test_refusals(tmp_path, succeeds, refusal, monkeypatch, words, n, sentence):
    monkeypatch.chdir(tmp_path)
    Path("t.svm").write_text("1 3:1 5:2\n-1 3:2\n" * 5)
    succeeds("split", "t.svm", "t.h5")
    succeeds("train", "t.h5", "m.h5", *words.split())
    for given_ in ("t.svm", "t.h5"):
        assert sentence in refusal("predict", "m.h5", given_, "--explain", n)
