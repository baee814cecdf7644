"""MIRA of Crammer and Singer (2003): what a step is and never does, and the way from text to a model."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from support.online_cases import agree, csr, rows
from support.plain_learners import plain_runner
from support.training_cases import svmlight, train

from blocksvm.api.fit import fit
from blocksvm.model.model_file import load_model
from blocksvm.online import loops
from blocksvm.online.rules.mira import SCALAR
from blocksvm.sources.matrix import Matrix
from blocksvm.stream import main as stream_main

pytestmark = pytest.mark.usefixtures("plain_loops")

D, K = 5, 4


numbers = st.integers(-20, 20).map(lambda n: n / 8.0)


def after(W, x, c):
    """W after one row of class c."""
    runner = plain_runner("mira", {}, {}, n_classes=len(W))
    state = runner.new_state(D)
    state.columns[:] = np.hstack([W, np.zeros((len(W), 1))]).reshape(-1)
    state.scalars[SCALAR.started] = 1.0
    runner.learn(csr(x[None]), np.array([c], np.int16), np.zeros(1, np.int32), D, state)
    return state.columns.reshape(len(W), -1)[:, :D].copy()


@pytest.mark.slow
@given(
    st.lists(st.lists(numbers, min_size=D, max_size=D), min_size=3, max_size=3),
    st.lists(numbers, min_size=D, max_size=D),
    st.integers(0, 2),
)
def test_a_step_meets_the_conditions_of_its_minimum(W, x, c):
    """Feasible; a wrong class of a score below the right one's is left alone; no feasible exchange with the right class
    is shorter; the norm does not grow."""
    W, x = np.array(W), np.array(x)
    new = after(W, x, c)
    q = x @ x
    if q == 0.0:
        assert np.array_equal(new, W)
        return
    tau, scores = (new - W) @ x / q, W @ x
    own = np.arange(3) == c
    assert tau.sum() == pytest.approx(0.0, abs=1e-9)
    assert (tau <= own + 1e-9).all()
    assert (tau[~own] <= 1e-9).all()
    assert (np.abs(tau[scores < scores[c] - 1e-6]) <= 1e-9).all()
    gradient = new @ x  # equal among those that may still move, not above elsewhere
    free = tau < own - 1e-9
    if free.any():
        theta = gradient[free].mean()
        np.testing.assert_allclose(gradient[free], theta, atol=1e-7)
        assert (gradient <= theta + 1e-7).all()
    assert np.linalg.norm(new) <= np.linalg.norm(W) + 1e-9


def test_the_first_row_with_entries_makes_the_start():
    X = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    runner = plain_runner("mira", {}, {}, n_classes=3)
    state = runner.new_state(2)
    matrix, y, order = csr(X), np.array([1, 1, 0], np.int16), np.arange(3, dtype=np.int32)
    runner.learn(matrix, y, order[:1], 2, state)
    assert not state.columns.any()
    runner.learn(matrix, y, order[1:2], 2, state)
    agree(state.columns.reshape(3, 3)[:, :2], [[-1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    before = state.columns.copy()
    runner.learn(matrix, y, order[2:], 2, state)  # all scores are 0, so there is nothing to make smaller
    assert np.array_equal(state.columns, before)
    assert state.tally[loops.MISTAKES] == 2 + 0


def by_definition(X, y, k):
    """(W, its mean, mistakes): tau_r = [r = c] - max(0, B_r - theta) with B = W x / ||x||^2 + [r = c] and theta such
    that sum tau = 0; the first row with entries takes tau_c = 1, the others -1 / (k - 1)."""
    W, total, mistakes = np.zeros((k, X.shape[1])), 0.0, 0
    for x, c in zip(X, y, strict=True):
        own = np.arange(k) == c
        mistakes += np.argmax(W @ x) != c
        if x.any():
            tau = np.where(own, 1.0, -1.0 / (k - 1))
            if W.any():
                edges = W @ x / (x @ x) + own
                thetas = (np.cumsum(np.sort(edges)[::-1]) - 1.0) / np.arange(1, k + 1)
                tau = own - np.maximum(edges - thetas.max(), 0.0)
            W = W + np.outer(tau, x)
        total = total + W
    return W, total / len(y), mistakes


def test_two_classes_are_two_opposite_prototypes():
    X, y = rows(n=120, d=D, seed=2)
    two = plain_runner("mira", {}, {})
    state = two.new_state(D)
    two.learn(csr(X), y.astype(np.int16), np.arange(120, dtype=np.int32), D, state)
    w = two.weights(state, np.empty(D + 1))[:D]
    W = by_definition(X, (y > 0.0).astype(int), 2)[0]
    agree(np.array([-w, w]), W)


def test_from_python_and_from_a_stream(tmp_path, succeeds):
    # no row twice: a step ends in equal scores, and of these rounding tells which is the highest
    rng = np.random.default_rng(6)
    X = rng.standard_normal((150, D)).astype(np.float32).astype(float)
    y = np.argmax(X @ rng.standard_normal((D, K)), axis=1)
    X = scipy.sparse.csr_matrix(X.astype(np.float32))
    W, mean, mistakes = by_definition(X.toarray().astype(float), y, K)
    agree(fit(X, y, learner="mira", order="stored").model.weights, W)
    agree(fit(X, y, learner="mira", order="stored", average=True).model.weights, mean)
    blocks = [train(Matrix(X, y, chunk_rows=first), learner="mira", order="stored", max_outer=2, block_chunks=1)
              for first in (np.arange(150), np.arange(0, 150, 7), np.zeros(1, int))]  # fmt: skip
    assert blocks[0].same(blocks[1])
    assert blocks[0].same(blocks[2])
    (tmp_path / "rows.svm").write_text(svmlight(X, y, first_id=0))
    out = succeeds(
        stream_main, tmp_path / "rows.svm", "--learner", "mira", "--labels", "0,1,2,3", "--model", tmp_path / "m"
    ).out
    assert f"mistakes {mistakes / 150:.4%}" in out
    model = load_model(tmp_path / "m")
    agree(model.weights[:, np.argsort(model.feature_ids)], W)
