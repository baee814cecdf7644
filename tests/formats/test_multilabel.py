"""Labels that are words or sets of labels, in text and from Python: read, stored, learned, predicted, scored."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from support.parsed_text import parse
from support.training_cases import make_store, text_of_sets, train

from blocksvm import InputError, fit, load_model, open_store
from blocksvm.formats import get_format
from blocksvm.model.measures import SetMeasures
from blocksvm.model.scoring import Scores
from blocksvm.store.reader import Store


def parsed(name, text: bytes, labelled=True):
    return parse(get_format(name), text, labelled=labelled)


def plainly(text: bytes, sets: bool):
    """[(label, [(id, value)])] of the rows, by splitting strings."""
    rows = []
    for line in text.decode().split("\n"):
        line = line.partition(" #")[0]
        if not line.strip() or line.startswith("#"):
            continue
        word, pairs = "", line.split()
        if not line[0].isspace() and ":" not in pairs[0]:
            word, pairs = pairs[0], pairs[1:]
        label = word or None
        if word == "?":
            label = None
        elif sets:
            members = [m for m in word.split(",") if m]
            try:
                label = tuple(float(m) for m in members)
            except ValueError:
                label = tuple(members)
        rows.append((label, [(int(p.split(":")[0]), float(p.split(":")[1])) for p in pairs]))
    return rows


words = st.sampled_from(["1", "2.5", "-1", "a", "b-c", "größe", "x1", "?"])
pairs = st.dictionaries(st.integers(0, 9), st.integers(1, 99), max_size=4).map(lambda row: sorted(row.items()))
joined = st.lists(words, max_size=3).map(",".join)


@pytest.mark.slow
@given(st.lists(st.tuples(joined, pairs, st.sampled_from(["", " # said", "\r"])), max_size=6), st.booleans())
def test_rows_are_those_of_plain_splitting(lines, sets):
    text = "".join(
        f"{label if sets else label.split(',')[0]} {' '.join(f'{i}:{v / 8}' for i, v in own)}{end}\n"
        for label, own, end in lines
    ).encode()
    batch = parsed("multilabel" if sets else "svmlight-named", text, labelled=False)
    assert batch.fault is None
    expected = plainly(text, sets)
    assert batch.label_array().tolist() == [label for label, _ in expected]
    for row, (_, own) in enumerate(expected):
        span = slice(batch.indptr[row], batch.indptr[row + 1])
        assert list(zip(batch.ids[span].tolist(), batch.values[span].tolist(), strict=True)) == own


def test_faults_have_their_lines():
    assert parsed("multilabel", b"1,2 3:1\n\n# none\n4 5:x\n6 7:8\n").fault[0] == 3
    batch = parsed("multilabel", b"3 1:1\n1,inf 3:1\n2 1:1\nnan 5:x\n")
    assert (batch.label_array().tolist(), batch.fault[0]) == ([(3.0,)], 1)
    assert "'inf' is not a finite number" in batch.fault[1]
    batch = parsed("svmlight-named", b"a 1:1\n 2:1\nb 3:1\n")
    assert (batch.fault[0], len(batch)) == (1, 1)
    assert "the line has no label" in batch.fault[1]
    assert parsed("svmlight-named", b"a 1:1\n? 2:1\nb 3:1\n").label_array().tolist() == ["a", None, "b"]
    assert parsed("multilabel", b"1,2 1:1\n? 2:1\n 3:1\n").label_array().tolist() == [(1.0, 2.0), None, ()]
    assert parsed("svmlight-named", b"a 1:1\n 2:1\nb 3:1\n", labelled=False).label_array().tolist() == ["a", None, "b"]


N, D, K = 160, 15, 5


@pytest.fixture(scope="module")
def given_sets():
    """(X, member (n, k) bool); some sets are empty."""
    rng = np.random.default_rng(3)
    X = np.round(rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.5), 3)
    member = X @ rng.standard_normal((D, K)) + rng.standard_normal((N, K)) > np.arange(K)
    member[:K] |= np.eye(K, dtype=bool)
    return X, member


def text_of(X, member) -> str:
    return text_of_sets(X, [10 * np.flatnonzero(own) for own in member])


@pytest.fixture(scope="module")
def store(given_sets, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    return make_store(folder, text_of(*given_sets), chunk_nonzeros=128, dtype="float64", format="multilabel")


@pytest.mark.parametrize(("loss", "blocks"), [("hinge", None), ("squared-hinge", 3)])
def test_each_label_against_the_rest(given_sets, store, loss, blocks):
    X, member = given_sets
    run = train(store, loss=loss, bias=1.0, C=0.3, tol=1e-6, schedule="4", max_outer=5000, block_chunks=blocks)
    found = run.result.certificate
    assert run.result.status == "converged"
    with open_store(store) as source:
        numbers = np.concatenate([source.read_rows(k)["source"] for k in range(len(source.chunks))])
        ids = source.feature_ids(0, source.n_features)
    order = np.argsort(numbers)
    W = np.zeros((K, D + 1))
    W[:, np.append(ids, D)] = run.w.reshape(K, -1)
    XB, alpha = np.hstack([X, np.ones((N, 1))]), run.alpha[order]
    for c in range(K):
        y = np.where(member[:, c], 1.0, -1.0)
        primal = reference.primal(XB, y, W[c], np.full(N, 0.3), loss)
        assert found.by_class["primal"][c] == pytest.approx(primal, rel=1e-12)
        dual = reference.dual(XB, y, alpha[:, c], np.full(N, 0.3), loss)
        assert found.by_class["dual"][c] == pytest.approx(dual, rel=1e-9)
    assert found.rel_gap <= 1e-6
    assert found.accuracy == np.mean(((XB @ W.T > 0) == member).all(axis=1))


@pytest.mark.slow
def test_commands_from_text_to_figures(given_sets, tmp_path, succeeds):
    X, member = given_sets
    (tmp_path / "train.svm").write_text(text_of(X[:100], member[:100]))
    (tmp_path / "test.svm").write_text(text_of(X[100:], member[100:]) + "990 3:1\n")
    for name in ("train", "test"):
        _, out, err = succeeds("split", tmp_path / f"{name}.svm", tmp_path / f"{name}.h5", "--format", "multilabel")
        assert "labels: sets: " in out
    assert "next: blocksvm train" in err
    more = ("--valid", tmp_path / "test.h5", "--tol", "1e-4", "--bias", "1")
    arguments = (tmp_path / "train.h5", tmp_path / "m.h5", *more)
    succeeds("train", *arguments)
    model = load_model(tmp_path / "m.h5")
    assert model.labels == (0.0, 10.0, 20.0, 30.0, 40.0)
    assert "sets of 0, 10, 20, 30, 40" in succeeds("info", tmp_path / "m.h5").out
    said = model.decision_function(X[100:]) > 0.0
    for name in ("test.svm", "test.h5"):
        _, out, err = succeeds("predict", tmp_path / "m.h5", tmp_path / name)
        lines = [tuple(float(x) for x in line.split(",") if x) for line in out.split("\n")[:-1]]
        assert lines[:60] == [tuple(10.0 * c for c in np.flatnonzero(own)) for own in said]
        exact = int((said == member[100:]).all(axis=1).sum())
        assert f"whole sets right {exact / 61:.6f} ({exact} of 61 rows)" in err
        assert "the rows have 1 labels that the model does not know" in err
        right = (said & member[100:]).sum()
        micro = 2 * right / (said.sum() + np.sum(np.array(lines[60]) >= 0) + member[100:].sum() + 1)
        assert f"micro F1 {micro:.6f}" in err
    predictions = model.predict(X[100:])
    assert [tuple(own) for own in predictions] == lines[:60]
    for more in ((), ("--overwrite",)):
        succeeds("predict", tmp_path / "m.h5", tmp_path / "test.svm", tmp_path / "p", *more)


def test_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    labels = ("a", "b", "c", "d")
    true, said = rng.random((50, 4)) < 0.4, rng.random((50, 4)) < 0.4
    own = np.empty(50, dtype=object)
    own[:] = [tuple(np.array(labels)[row]) for row in true]
    measures = SetMeasures(labels)
    for part in (slice(0, 7), slice(7, 50)):
        measures.count(Scores(np.where(said, 1.0, -1.0)[part], None, own[part]))
    lines = measures.sentences()
    assert f"whole sets right {metrics.accuracy_score(true, said):.6f}" in lines[0]
    micro, macro = (metrics.f1_score(true, said, average=how) for how in ("micro", "macro"))
    loss = metrics.hamming_loss(true, said)
    assert lines[1] == f"micro F1 {micro:.6f}, macro F1 {macro:.6f}, Hamming loss {loss:.6f}"
    precision, recall, f1, rows = metrics.precision_recall_fscore_support(true, said)
    for k, line in enumerate(lines[6:]):
        assert line.split() == [labels[k], f"{precision[k]:.4f}", f"{recall[k]:.4f}", f"{f1[k]:.4f}", str(rows[k])]


@pytest.mark.parametrize("k", [4, 7])
def test_precision_and_recall_at_n_and_the_order_are_those_of_their_formulas(k):
    """Also where decision values are equal, of which the first label's counts; and a label that the model lacks."""
    rng = np.random.default_rng(k)
    values, true = rng.integers(-2, 3, (40, k)).astype(float), rng.random((40, k)) < 0.3
    own = np.empty(40, dtype=object)
    own[:] = [tuple(np.flatnonzero(row).tolist()) for row in true]
    own[3] = (*own[3], 99)
    measures = SetMeasures(tuple(range(k)))
    for part in (slice(0, 9), slice(9, 40)):
        measures.count(Scores(values[part], None, own[part]))
    figures = measures.figures()
    assert [name for name in figures if "precision_at" in name] == [f"precision_at_{n}" for n in (1, 3, 5) if n <= k]
    for n in (n for n in (1, 3, 5) if n <= k):
        first = [sorted(range(k), key=lambda c: (-row[c], c))[:n] for row in values]
        hits = np.array([len(set(a) & set(b)) for a, b in zip(first, own, strict=True)])
        size = np.array([len(b) for b in own])
        assert figures[f"precision_at_{n}"] == pytest.approx(np.mean(hits / n))
        assert figures[f"recall_at_{n}"] == pytest.approx(np.mean(hits[size > 0] / size[size > 0]))
    rows = zip(values, true, strict=True)
    wrong = [sum(z[a] <= z[b] for a in np.flatnonzero(t) for b in np.flatnonzero(~t)) for z, t in rows]
    pairs = np.maximum(1, true.sum(axis=1) * (~true).sum(axis=1))
    assert figures["ranking_loss"] == pytest.approx(np.mean(np.array(wrong) / pairs))
    assert figures["perfect_rankings"] == np.mean(np.array(wrong) == 0)


def test_what_cannot_be_is_refused(store, tmp_path):
    with Store(store) as source:
        with pytest.raises(InputError, match="sets of labels, and this solver learns one label a row"):
            fit(source, solver="ftl", radius=1.0)
        with pytest.raises(InputError, match="and real numbers are needed"):
            fit(source, loss="epsilon-insensitive")
    one = make_store(tmp_path, "7 1:1\n 2:1\n7 3:1\n", name="one", format="multilabel")
    with open_store(one) as source, pytest.raises(InputError, match="its sets have 1 label in all"):
        fit(source)
    plain = make_store(tmp_path, "7 1:1\n3 2:1\n7 3:1\n", name="plain")
    with open_store(store) as source, open_store(plain) as valid, pytest.raises(InputError, match="no sets of labels"):
        fit(source, valid=valid)
