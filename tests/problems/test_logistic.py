"""Logistic regression by dual coordinate descent: certified, in blocks, beside LIBLINEAR and scikit-learn; priors."""

import numpy as np
import pytest
import reference
import scipy.sparse
from reference_losses import dual_of, primal_of
from sklearn.linear_model import LogisticRegression
from support.training_cases import rows_of_store, train

from blocksvm.api.fit import fit
from blocksvm.sources.matrix import Matrix

liblinear = pytest.importorskip("liblinear.liblinearutil")


def primal(X, y, w, C_rows):
    return primal_of("logistic", X, y, w, C_rows)


@pytest.mark.slow
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("settings", [{}, {"bias": 0.7, "class_weight": {1.0: 3.0}, "block_chunks": 3}])
def test_certified_at_the_optimum(store, C, settings):
    X, y, _ = rows_of_store(store)
    run = train(store, loss="logistic", C=C, schedule="10", tol=1e-8, max_outer=20_000, **settings)
    C_rows = np.where(y > 0, C * settings.get("class_weight", {}).get(1.0, 1.0), C)
    Xb = reference.with_bias(X, settings.get("bias", 0.0))
    certificate = run.result.certificate
    assert run.result.status == "converged"
    assert (run.events[0]["blocks"] > 1) == ("block_chunks" in settings)
    assert certificate.primal == pytest.approx(primal(Xb, y, run.w, C_rows), rel=1e-12)
    assert certificate.dual == pytest.approx(dual_of("logistic", Xb, y, run.alpha, C_rows), rel=1e-9)
    np.testing.assert_allclose(run.w, Xb.T @ (run.alpha * y), atol=1e-9 * (1.0 + np.abs(run.w).max()))
    assert ((run.alpha >= 0.0) & (run.alpha <= C_rows)).all()
    last = run.outer()[-1]
    assert last["dual_estimate"] == pytest.approx(certificate.dual, rel=1e-8)


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_beside_liblinear_and_scikit_learn(rows, C):
    X, y = rows
    run = train(Matrix(X, y), loss="logistic", C=C, schedule="10", tol=1e-7, max_outer=5000)
    certificate, C_rows = run.result.certificate, np.full(len(y), C)
    assert run.result.status == "converged"
    model = liblinear.train(liblinear.problem(y, X), liblinear.parameter(f"-s 7 -c {C} -e 1e-6 -B -1 -q"))
    w = np.ctypeslib.as_array(model.w, (model.nr_feature,)) * (1.0 if model.label[0] == 1 else -1.0)
    theirs = [np.pad(w, (0, X.shape[1] - len(w)))]
    theirs.append(LogisticRegression(fit_intercept=False, C=C, tol=1e-8, max_iter=10_000).fit(X, y).coef_.ravel())
    for weights in theirs:
        value = primal(X, y, weights, C_rows)
        assert certificate.dual <= value * (1 + 1e-12)
        assert value <= certificate.primal * (1 + 1e-5), "not the same problem"
        assert certificate.primal <= value * (1 + 1e-7)
        np.testing.assert_allclose(run.w[:-1], weights, atol=2e-2 * (1.0 + np.abs(weights).max()))


@pytest.mark.slow
def test_large_margins_small_costs_and_duplicates():
    """Rows far on either side (exp overflows, c - a vanishes beside a), rows without entries, classes apart."""
    X = scipy.sparse.csr_matrix(np.array([[1e4, 0.0], [0.0, 1e-4], [0.0, 0.0], [1e4, 1.0], [3.0, 3.0], [3.0, 3.0]]))
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    for C in (1e-30, 1.0, 100.0):
        run = train(Matrix(X, y), loss="logistic", C=C, schedule="20", tol=1e-9, max_outer=5000)
        assert run.result.status == "converged"
        assert np.isfinite(run.w).all()
        assert run.alpha[2] == 0.5 * C
        assert run.result.certificate.primal == pytest.approx(primal(X, y, run.w[:-1], np.full(6, C)), rel=1e-9)


SOME = [pytest.param("logistic", marks=pytest.mark.slow), "squared-hinge", "epsilon-insensitive"]


@pytest.mark.parametrize("loss", SOME)
def test_prior_and_row_weights(rows, tmp_path, loss):
    X, y = rows
    p = (0.1,) if loss == "epsilon-insensitive" else ()
    y = X @ np.linspace(-1.0, 2.0, X.shape[1]) if p else y
    fitted = fit(X[:100], y[:100], loss=loss if p else "squared-hinge", bias=1.0, tol=1e-6)
    fitted.save(tmp_path / "prior.h5")
    weights = np.random.default_rng(3).choice([0.0, 0.5, 2.0], 200)
    source = Matrix(X, y, weights=weights, chunk_rows=np.arange(0, 200, 20))
    run = train(source, loss=loss, bias=1.0, schedule="10", tol=1e-8, max_outer=5000, block_chunks=4,
                prior=tmp_path / "prior.h5")  # fmt: skip
    prior, XB = np.append(fitted.model.weights, fitted.model.intercept), reference.with_bias(X, 1.0)
    assert run.result.status == "converged"
    found = run.result.certificate
    assert found.primal == pytest.approx(primal_of(loss, XB, y, run.w, weights, p, prior), rel=1e-12)
    assert found.dual == pytest.approx(dual_of(loss, XB, y, run.alpha, weights, p, prior), rel=1e-9)
    assert not run.alpha[weights == 0.0].any()
    assert all(event["dual_estimate"] <= found.primal * (1 + 1e-9) for event in run.outer())
