"""Choosing rows of a pool by their margins: the chosen ones are those of a full sort, of text as of a store."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.training_cases import make_store, random_rows, svmlight

from blocksvm import fit
from blocksvm.model.decision_values import SmallestMargins, margins_of

margins = st.lists(st.integers(0, 6), max_size=12)


@given(st.lists(margins, max_size=6), st.integers(1, 9))
def test_rows_that_come_in_pieces_are_sorted_as_a_whole(pieces, n):
    chosen, first = SmallestMargins(n), 0
    for piece in pieces:
        chosen.add(np.array(piece, dtype=float), np.arange(first, first + len(piece)))
        first += len(piece)
    together = np.array([margin for piece in pieces for margin in piece], dtype=float)
    assert chosen.rows.tolist() == np.argsort(together, kind="stable")[:n].tolist()
    assert chosen.n_added == first


def test_margins_of_each_kind():
    values = np.array([[3.0, -1.0, 2.5], [-2.0, -5.0, 0.5]])
    assert margins_of(values[:, 0], False).tolist() == [3.0, 2.0]
    assert margins_of(values, False).tolist() == [0.5, 2.5]
    assert margins_of(values, True).tolist() == [1.0, 0.5]


@pytest.fixture
def pool(tmp_path):
    """(X, y of three classes, model's vectors, which rows have a label, text of the pool)."""
    X, _ = random_rows(n=120, d=10, seed=4)
    y = np.argmax(X @ np.random.default_rng(4).standard_normal((10, 3)), axis=1)
    known = np.arange(120) % 4 == 0
    store = make_store(tmp_path, X[known], y[known] + 0.0, name="known", keep_order=True, dtype="float64")
    text = tmp_path / "pool.svm"
    lines = svmlight(X, y + 0.0).splitlines()
    text.write_text("\n".join(line if known[k] else f"?{line[1:]}" for k, line in enumerate(lines)) + "\n")
    return X, y, known, store, text


@pytest.mark.slow
def test_text_and_store_ask_for_the_rows_of_the_smallest_margins(pool, tmp_path, succeeds):
    X, y, known, store, text = pool
    model = tmp_path / "m.h5"
    succeeds("train", store, model, "--tol", "1e-6", "--quiet")
    told = json.loads(succeeds("ask", model, text, "-n", 7, "--json").out)
    W = fit(X[known], y[known] + 0.0, tol=1e-6).model.weights
    best = np.sort(X @ W.T, axis=1)
    margin = np.where(known, np.inf, best[:, -1] - best[:, -2])
    first = np.argsort(margin, kind="stable")[:7]
    assert told["rows"] == (first + 1).tolist() and told["rows_without_label"] == int((~known).sum())
    np.testing.assert_allclose(told["margins"], margin[first], rtol=1e-3, atol=1e-3)
    # a store of the same rows, shuffled or not
    for order in ((), ("--keep-order",)):
        out_file = tmp_path / "asked.txt"
        succeeds("split", text, tmp_path / "pool.h5", "--overwrite", "--quiet", *order, "--dtype", "float64")
        done = succeeds("ask", model, tmp_path / "pool.h5", out_file, "-n", 7, "--overwrite")
        assert [int(line) for line in out_file.read_text().split()] == told["rows"]
        assert "7 of 90 rows without a label, with margins from" in done.out
    # more than there are can be asked for
    done = succeeds("ask", model, tmp_path / "pool.h5", "-n", 1000)
    assert len(done.out.split()) == 90 and "90 of 90 rows" in done.err


@pytest.mark.slow
def test_what_cannot_be_asked(pool, tmp_path, succeeds, refusal):
    _, _, _, store, text = pool
    model, of_numbers = tmp_path / "m.h5", tmp_path / "r.h5"
    succeeds("train", store, model, "--quiet")
    succeeds("train", store, of_numbers, "--loss", "squared", "--quiet")
    (tmp_path / "labelled.svm").write_text("1 1:2\n0 2:1\n")
    told = refusal("ask", model, tmp_path / "labelled.svm")
    assert "each of its 2 rows has a label; there is nothing to ask" in told
    assert "predicts no classes" in refusal("ask", of_numbers, text)
