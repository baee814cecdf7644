"""Crammer and Singer's machine: its pass, its certificate, its optimum, and what the outer loop promises."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from support.class_cases import CHUNKS, D, K, N, classes
from support.training_cases import make_pass, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.model.model_file import load_model
from blocksvm.problems.crammer_singer_kernels import best_row, row_state
from blocksvm.solvers.dual_cd import CrammerSingerCD
from blocksvm.solvers.solver import Task, Visit
from blocksvm.sources.matrix import Matrix

RULE = {"multiclass": "crammer-singer"}


@pytest.fixture(scope="module")
def rows():
    X, y = classes(seed=4)
    X = X.tolil()
    X[7] = 0.0
    return X.tocsr(), y


numbers = st.integers(-40, 40).map(lambda n: n / 8)


@pytest.mark.slow
@given(st.data())
def test_a_row_s_own_best(data):
    """No feasible a is better: the projected gradient is 0 there, and so is the share of the gap, at the new v."""
    k = data.draw(st.integers(2, 6))
    v = np.array(data.draw(st.lists(numbers, min_size=k, max_size=k)))
    y, c = data.draw(st.integers(0, k - 1)), data.draw(st.sampled_from([0.1, 1.0, 7.0]))
    q = data.draw(st.sampled_from([0.01, 1.0, 50.0]))
    parts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)), dtype=float)
    parts[y] = 0.0
    a = -parts * (c / max(1.0, parts.sum())) * data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    a[y] = -a.sum()
    new, edges = np.empty(k), np.empty(k)
    best_row(v, a, y, c, q, edges, new)
    bound = np.where(np.arange(k) == y, c, 0.0)
    assert (new <= bound).all()
    assert abs(new.sum()) <= 1e-12 * max(1.0, np.abs(new).max()) * k
    after = v + q * (new - a)
    _, share, projected, _ = row_state(after, new, y, c)
    scale = 1.0 + np.abs(after).max()
    assert share <= 1e-9 * c * scale * k
    assert projected <= 1e-6 * scale or share <= 1e-12


@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_is_the_paper_s(rows, weighted):
    X, y = rows
    weights = np.random.default_rng(1).integers(0, 3, N) / 2.0 if weighted else None
    source = Matrix(X, y, weights=weights)
    solver = CrammerSingerCD(Task({"C": 0.7, **RULE}, source, bias=0.5, working_set=True))
    state = {a.name: np.zeros(a.shape(D, N), a.dtype) for a in solver.state_arrays}
    solver.start(state)
    block, XB = source.read_block(np.array([0]), None), reference.with_bias(X, 0.5).toarray()
    W, A = np.zeros((K, D + 1)), np.zeros((N, K))
    C_rows = 0.7 * (np.ones(N) if weights is None else weights)
    for number in range(4):
        order = np.random.default_rng(number).permutation(N).astype(np.int32)
        before = reference.crammer_singer_dual(XB, y, A)
        reference.crammer_singer_pass(XB, y, A, W, order, C_rows)
        done = make_pass(solver, block, state, Visit(), order)
        state["rest"][:] = 0
        np.testing.assert_allclose(state["alpha"], A, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state["w"], W.T, rtol=1e-8, atol=1e-9)
        assert done.gain == pytest.approx(reference.crammer_singer_dual(XB, y, A) - before, rel=1e-7, abs=1e-9)
    assert solver.estimates(state, 0.0, 0.0)[1] == pytest.approx(reference.crammer_singer_dual(XB, y, A), rel=1e-9)


def test_a_row_without_entries_has_its_best_a(rows):
    X, y = rows
    run = train(Matrix(X, y), tol=1e-5, max_outer=3000, schedule="3", **RULE)
    assert run.alpha[7, y[7]] == 1.0
    assert run.alpha[7].sum() == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("C", [0.05, 1.0])
@pytest.mark.parametrize("working_set", ["auto", "none"])
@pytest.mark.parametrize("blocks", [None, 4])
def test_the_certificate_is_that_of_the_formulas_and_the_optimum_liblinear_s(rows, C, working_set, blocks):
    X, y = rows
    weights = np.random.default_rng(0).integers(0, 3, N) / 2.0
    source = Matrix(X, y, weights=weights, chunk_rows=CHUNKS)
    given = {"C": C, "bias": 1.0, "tol": 1e-6, "max_outer": 9000, "schedule": "4", **RULE}
    run = train(source, working_set=working_set, block_chunks=blocks, **given)
    found, XB, W = run.result.certificate, reference.with_bias(X, 1.0).toarray(), run.w.reshape(K, -1)
    assert run.result.status == "converged"
    assert found.primal == pytest.approx(reference.crammer_singer_primal(XB, y, W, C * weights), rel=1e-12)
    assert found.dual == pytest.approx(reference.crammer_singer_dual(XB, y, run.alpha), rel=1e-9)
    assert found.by_class is None
    assert found.accuracy == np.mean((XB @ W.T).argmax(axis=1) == y)
    bound = np.where(np.arange(K) == y[:, None], (C * weights)[:, None], 0.0)
    assert (run.alpha <= bound).all()
    np.testing.assert_allclose(run.alpha.sum(axis=1), 0.0, atol=1e-12)


def test_towards_a_prior_model_and_with_weights_of_classes(rows, tmp_path):
    X, y = rows
    fit(X, y, tol=1e-1, bias=1.0).save(tmp_path / "prior.h5")  # each against the others is a prior, too
    prior = load_model(tmp_path / "prior.h5")
    W0 = np.hstack([prior.weights, prior.intercept[:, None]])
    given = {"bias": 1.0, "C": 0.02, "tol": 1e-5, "schedule": "5", "max_outer": 4000, **RULE}
    run = train(Matrix(X, y), prior=tmp_path / "prior.h5", class_weight={1.0: 4.0}, **given)
    C_rows, XB = np.where(y == 1, 0.08, 0.02), reference.with_bias(X, 1.0).toarray()
    found, W = run.result.certificate, run.w.reshape(K, -1)
    assert run.result.status == "converged"
    assert found.primal == pytest.approx(reference.crammer_singer_primal(XB, y, W, C_rows, W0), rel=1e-12)
    assert found.dual == pytest.approx(reference.crammer_singer_dual(XB, y, run.alpha, W0), rel=1e-9)


@pytest.mark.parametrize(
    ("more", "expected"),
    [({"loss": "logistic"}, "has the hinge loss; leave loss out"), ({"bias": "free"}, "is for two classes")],
)
def test_what_cannot_be_is_refused(rows, more, expected):
    with pytest.raises(InputError, match=expected):
        fit(*rows, **more, **RULE)
