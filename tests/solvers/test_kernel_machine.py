"""The machine with a kernel: kernel values, the dual in blocks, its certificate, its models, against plain solvers."""

import itertools
import json
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from support.kernel_cases import plain_kernel, rows_of_a_ball
from support.refused import refused
from support.training_cases import looped, make_store, opened

from blocksvm import Matrix, fit, load_model, open_store
from blocksvm.kernels.kernel_machine_loops import columns_of
from blocksvm.kernels.rows import Entries
from blocksvm.problems.kernel_problem import Expansion, best_bias, function_of

FUNCTIONS = [{"kernel": "linear"}, {"kernel": "polynomial", "gamma": 0.4, "coef0": 1.0, "degree": 2},
             {"kernel": "polynomial", "gamma": 0.3, "coef0": 0.5, "degree": 3},
             {"kernel": "rbf", "gamma": 0.3}]  # fmt: skip


def test_the_default_gamma_is_one_over_the_features():
    X = sparse.csr_matrix(np.linspace(-1.0, 1.0, 8)[:, None] + 2.0)
    assert fit(X, np.repeat([-1, 1], 4), solver="kernel").model.support.kernel["gamma"] == 1.0


def plain_dual(K, y, C, free: bool) -> float:
    """The largest dual by a general solver."""
    Q = K * np.outer(y, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # older releases tell of roundings at the bounds
        found = minimize(
            lambda a: 0.5 * a @ Q @ a - a.sum(), np.full(len(y), 0.01 * C), jac=lambda a: Q @ a - 1.0,
            bounds=[(0, C)] * len(y),
            constraints=[{"type": "eq", "fun": lambda a: a @ y, "jac": lambda a: y}] if free else (), method="SLSQP",
            options={"maxiter": 2000, "ftol": 1e-14},
        )  # fmt: skip
    return -found.fun


rows = partial(rows_of_a_ball, noise=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("bias", ["free", 0.0, 1.5])
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_the_optimum_is_that_of_a_plain_solver(function, bias, C):
    X, y = rows()
    source = Matrix(sparse.csr_matrix(X), y, chunk_rows=range(0, 80, 9))
    found = fit(source, solver="kernel", C=C, bias=bias, tol=1e-7, matrix_rows=16, max_outer=2000, **function)
    K = plain_kernel(X, X, **function) + (0.0 if bias == "free" else bias**2)
    best = plain_dual(K, y, C, bias == "free")
    certificate = found.certificate
    assert found.status == "converged"
    assert certificate.rel_gap <= 1e-7
    assert certificate.dual <= best * (1 + 1e-6)
    assert certificate.primal >= best * (1 - 1e-6)
    # primal and dual as they are defined, of the very alpha and b that are given back
    alpha, f = found.alpha, K @ (found.alpha * y)
    b = found.model.intercept - (0.0 if bias == "free" else bias**2 * float((found.alpha * y).sum()))
    assert alpha.min() >= 0.0
    assert alpha.max() <= C
    if bias == "free":
        assert abs(alpha @ y) <= 1e-12 * max(1.0, alpha.sum())
    primal = 0.5 * alpha @ (y * f) + C * np.maximum(0.0, 1.0 - y * (f + b)).sum()
    # but for the bounds of what kernel values of up to some thousand round off
    assert certificate.primal == pytest.approx(primal, rel=1e-8) and certificate.primal >= primal * (1 - 1e-12)
    assert certificate.dual == pytest.approx(alpha.sum() - 0.5 * alpha @ (y * f), rel=1e-8, abs=1e-8 * primal)
    assert certificate.accuracy == np.mean(np.where(f + b > 0, 1.0, -1.0) == y)
    np.testing.assert_allclose(found.model.decision_function(sparse.csr_matrix(X)), f + b, rtol=1e-9, atol=1e-9)
    assert (found.model.predict(sparse.csr_matrix(X)) == np.where(f + b > 0, 1.0, -1.0)).all()


def test_weights_of_rows_and_classes_are_costs():
    X, y = rows(n=60)
    weights = np.random.default_rng(0).integers(0, 4, 60).astype(float)
    repeated = np.repeat(np.arange(60), weights.astype(int))
    chosen = {"solver": "kernel", "gamma": 0.3, "bias": "free", "tol": 1e-8, "max_outer": 2000, "C": 0.5}
    one = fit(sparse.csr_matrix(X), y, sample_weight=weights, class_weight={1.0: 2.0}, **chosen)
    same = fit(sparse.csr_matrix(X[repeated]), y[repeated], class_weight={1.0: 2.0}, **chosen)
    assert one.certificate.primal == pytest.approx(same.certificate.primal, rel=3e-8)
    assert one.alpha[weights == 0].max(initial=0.0) == 0.0


@pytest.mark.slow
def test_out_of_core_within_the_memory(tmp_path):
    """Blocks of a few chunks, and a matrix of fewer rows than there are."""
    X, y = rows(n=1500, d=30, seed=9)
    store = make_store(tmp_path, sparse.csr_matrix(X), y, chunk_nonzeros=512)
    with open_store(store) as source:
        small = fit(source, solver="kernel", gamma=0.02, tol=1e-4, bias="free", memory=600_000, max_outer=3000)
        large = fit(source, solver="kernel", gamma=0.02, tol=1e-4, bias="free")
        limits = small.plan.solver.limits
        assert 8 * 1500 * 1500 > 600_000
        assert 2 < limits[0] < 300
        assert sum(small.plan.memory().values()) <= 600_000
        assert not small.plan.blocks.partition.resident
    assert small.status == large.status == "converged"
    assert small.certificate.primal == pytest.approx(large.certificate.primal, rel=2e-4)


def test_a_run_out_of_time_is_certified_all_the_same():
    X, y = rows(n=300, d=10, seed=12)
    source = Matrix(sparse.csr_matrix(X), y, chunk_rows=range(0, 300, 10))
    asked = itertools.count()
    with opened(source) as opened_rows:
        loop = looped(opened_rows, solver="kernel", gamma=0.3, matrix_rows=30, tol=1e-9, block_chunks=1, bias="free",
                      max_seconds=1e6)  # fmt: skip
        loop.seconds = lambda: 2e6 if next(asked) >= 45 else 0.0
        result = loop.run()
    assert result.status == "max-seconds"
    dual = result.alpha.sum() - 0.5 * (result.alpha * y) @ plain_kernel(X, X, gamma=0.3) @ (result.alpha * y)
    assert result.certificate.dual == pytest.approx(dual, rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from(FUNCTIONS))
def test_sums_of_kernel_values(seed, function):
    rng = np.random.default_rng(seed)
    n, m, d = rng.integers(1, 12), rng.integers(1, 9), rng.integers(1, 7)
    X, Z = (rng.normal(size=(k, d)) * (rng.random((k, d)) < 0.6) for k in (n, m))
    X, Z = X.astype(np.float32).astype(float), Z
    left, right = sparse.csr_matrix(X), sparse.csr_matrix(Z)
    first, owner, held = np.zeros(d + 2, np.int64), np.empty(right.nnz, np.int32), np.empty(right.nnz)
    columns_of(right.indptr.astype(np.int64), right.indices, right.data, first, owner, held)
    coefficients, scores = rng.normal(size=m), np.zeros(n)
    given_ = {"gamma": 1.0, "coef0": 0.0, "degree": 3} | function
    kernel = function_of(given_ | {"name": given_["kernel"]})
    expansion = Expansion((first, owner, held), (Z**2).sum(1), coefficients, kernel)
    expansion.add(Entries(left.indptr.astype(np.int64), left.indices, left.data), (X**2).sum(1), scores)
    expected = plain_kernel(X, Z, **function) @ coefficients
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_the_best_bias_is_the_best(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    scores = np.round(rng.normal(size=n), 1)
    sides = np.where(rng.random(n) < 0.5, 1.0, -1.0) * rng.integers(0, 3, n)

    def loss(b):
        return float((np.abs(sides) * np.maximum(0.0, 1.0 - np.sign(sides) * (scores + b))).sum())

    if not sides.any():
        return
    corners = np.where(sides > 0, 1.0, -1.0) - scores
    best = min(loss(b) for b in corners)
    assert loss(best_bias(scores, sides)) == pytest.approx(best, rel=1e-12, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("q", [2, 7, 50])
def test_rows_far_from_each_other_do_not_stop_it(q):
    """There the best bias lies on a corner of most rows, whose share of the gap is 0: it is they that must move."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 40)), np.where(rng.random(200) < 0.4, 1.0, -1.0)
    source = Matrix(X, y, chunk_rows=range(0, 200, 9))
    chosen = {"gamma": 1.0, "bias": "free", "matrix_rows": q, "max_outer": 5000, "tol": 1e-5}
    found = fit(source, solver="kernel", **chosen)
    assert found.status == "converged"
    assert found.certificate.dual == pytest.approx(plain_dual(plain_kernel(X, X), y, 1.0, True), rel=2e-5)


@pytest.mark.slow
def test_a_bias_takes_no_second_matrix():
    X, y = rows(n=300, d=10, seed=4)
    source = Matrix(sparse.csr_matrix(X), y)
    chosen = {"solver": "kernel", "gamma": 0.3, "tol": 1e-3}
    fit(source, bias=1.0, **chosen)
    peaks = []
    for bias in ("free", 1.0):
        tracemalloc.start()
        fit(source, bias=bias, **chosen)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 4 * 300 * 300


@pytest.mark.parametrize("bits", [None, 8])
def test_a_model_predicts_from_text_from_a_store_and_from_python(tmp_path, succeeds, bits):
    X, y = rows(n=120, d=12, seed=21)
    new, new_y = rows(n=50, d=15, seed=22)  # three features that the model does not know
    model = tmp_path / "m.h5"
    for name, (rows_, labels) in {"train": (X, y), "new": (new, new_y)}.items():
        make_store(tmp_path, sparse.csr_matrix(rows_), labels, name, dtype="float64", bits=bits)
    store = tmp_path / "train.h5"
    options = ("--solver", "kernel", "--gamma", "0.2", "--bias", "free", "--tol", "1e-6")
    _, out, err = succeeds("train", store, model, *options)
    assert "support vectors" in out + err
    found = []
    for text in ("new.svm", "new.h5"):
        out = succeeds("predict", model, tmp_path / text, "--scores", "--quiet").out
        found.append(np.array(out.split(), float))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)
    twice = sparse.csr_matrix(([1.0, 1.0, 2.0], [3, 3, 3], [0, 2, 3]), shape=(2, 14))
    both = load_model(model).decision_function(twice)
    assert both[0] == both[1] == load_model(model).decision_function(twice.toarray())[0]
    assert load_model(model).decision_function(np.zeros((1, 0))).shape == (1,)
    ids = sparse.csr_matrix(np.column_stack([np.zeros(50), new]))
    loaded = load_model(model)
    np.testing.assert_allclose(loaded.decision_function(ids), found[0], rtol=1e-9, atol=1e-12)
    assert "rbf kernel" in repr(loaded)
    succeeds("info", model, "--verify")
    assert json.loads(succeeds("info", model, "--json").out)["kernel"]["name"] == "rbf"


def test_bad_settings_are_named(tmp_path, refusal):
    X, y = rows(n=40)
    store = make_store(tmp_path, sparse.csr_matrix(X), y)
    for options, sentence in (
        (("--gamma", "0"), "--gamma 0"),
        (("--kernel", "sigmoid"), "--kernel sigmoid"),
        (("--degree", "0"), "--degree 0"),
        (("--kernel", "polynomial", "--coef0", "-1"), "below 0 the polynomial is no kernel"),
        (("--matrix-rows", "1"), "--matrix-rows 1"),
        (("--loss", "hinge"), "--loss"),
        (("--schedule", "tol:0.1"), "--schedule tol:0.1: kernel"),
        (("--valid", store), "--valid: kernel does not accept it"),
        (("--from", store), "is a store"),
        (("--memory", "20kB"), "is too small"),
        (("--matrix-rows", "30", "--memory", "20kB"), "is too small"),
        (("--calibrate", "platt"), "is for dual-cd"),
    ):
        assert sentence in refusal("train", store, tmp_path / "m.h5", "--solver", "kernel", *options)
    steep = {"kernel": "polynomial", "degree": 20, "gamma": 1.0}
    refused("beyond what double precision can solve", fit, 1e9 * X, y, solver="kernel", **steep)
    refused("has 3 labels", fit, sparse.csr_matrix(X), np.arange(40.0) % 3, solver="kernel")
