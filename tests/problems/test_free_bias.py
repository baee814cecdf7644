"""A bias that is not regularised: its certificate by the formulas, its optimum beside libsvm, scikit-learn, scipy."""

import numpy as np
import pytest
import reference
from reference_losses import REFERENCES, dual_of, primal_of
from sklearn.svm import SVC
from support.refused import refused
from support.training_cases import make_store, random_rows, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.info import main as info_main
from blocksvm.losses import LOSSES, get_loss
from blocksvm.model.model_file import load_model
from blocksvm.sources.matrix import Matrix
from blocksvm.train import main as train_main

CERTIFIED = [name for name in LOSSES if get_loss(name).has("conjugate")]
CHUNKS = np.arange(0, 120, 8)
RUN = {"bias": "free", "schedule": "5", "max_outer": 5000}


def rows_for(loss, n=120, seed=3):
    """(X, y, weights): more rows of one class than of the other; or targets far from 0."""
    X, y = random_rows(n=n, d=12, seed=seed)
    rng = np.random.default_rng(seed)
    z = X @ rng.normal(size=12) + 0.7 * rng.standard_normal(n)
    y = z + 20.0 if get_loss(loss).of_numbers else np.where(z > 0.8, 1.0, -1.0)
    return X, y, rng.integers(0, 4, n) / 2.0


@pytest.mark.parametrize("loss", CERTIFIED)
@pytest.mark.parametrize("working_set", ["auto", pytest.param("none", marks=pytest.mark.slow)])
def test_the_certificate_is_true_of_the_repaired_dual_variables(loss, working_set):
    X, y, weights = rows_for(loss)
    p = REFERENCES[loss].settings
    settings = dict(zip(get_loss(loss).settings.names(), p, strict=True))
    run = train(Matrix(X, y, weights=weights, chunk_rows=CHUNKS), loss=loss, C=0.7, tol=1e-7, block_chunks=4,
                working_set=working_set, **settings, **RUN)  # fmt: skip
    assert run.result.status == "converged"
    found, c = run.result.certificate, 0.7 * weights
    b = run.w[-1] * run.loop.plan.solver.bias
    real, w = get_loss(loss).of_numbers, np.append(run.w[:-1], b)
    primal = primal_of(loss, reference.with_bias(X, 1.0), y, w, c, p) - 0.5 * b * b
    assert found.primal == pytest.approx(primal, rel=1e-12)
    sign, direction = (np.sign(run.alpha), np.ones(120)) if real else (y, y)
    below, above = found.alpha_factors
    alpha = run.alpha * np.where(sign > 0, above, below)
    assert max(below, above) == 1.0
    assert abs(alpha @ direction) <= 1e-12 * np.abs(alpha).sum()
    dual = dual_of(loss, X, y, alpha, c, p)
    assert found.dual <= dual + 1e-10 * abs(dual)  # a bound, and nearly all of it
    assert primal - dual - 1e-10 * primal <= primal - found.dual <= 1e-7 * primal * (1 + 1e-9)


@pytest.mark.slow
def test_the_optimum_is_that_of_libsvm():
    X, y, weights = rows_for("hinge", 200)
    weights += 0.5
    run = train(Matrix(X, y, weights=weights), C=0.5, tol=1e-7, **RUN)
    theirs = SVC(kernel="linear", C=0.5, tol=1e-8).fit(X, y, sample_weight=weights)
    w, b = theirs.coef_.toarray().ravel(), theirs.intercept_[0]
    primal = 0.5 * w @ w + 0.5 * weights @ np.maximum(0.0, 1.0 - y * (X @ w + b))
    assert run.result.certificate.primal == pytest.approx(primal, rel=2e-7)
    np.testing.assert_allclose(run.w[:-1], w, atol=2e-3 * np.abs(w).max())


def test_a_prior_is_for_the_weights_alone(tmp_path):
    X, y, _ = rows_for("hinge")
    fit(X, y, bias=1.0, tol=1e-5, schedule="5").save(tmp_path / "prior.h5")
    prior = load_model(tmp_path / "prior.h5")
    assert prior.intercept
    later = np.where(y > 0, -1.0, 1.0)
    run = train(Matrix(X, later), prior=tmp_path / "prior.h5", C=0.5, tol=1e-7, **RUN)
    assert run.result.status == "converged"
    w0, b = np.append(prior.weights, 0.0), run.w[-1] * run.loop.plan.solver.bias
    XB, w = reference.with_bias(X, 1.0), np.append(run.w[:-1], b)
    primal = primal_of("hinge", XB, later, w, np.full(120, 0.5), (), w0) - 0.5 * b * b
    assert run.result.certificate.primal == pytest.approx(primal, rel=1e-12)


def test_who_has_none():
    X, y, _ = rows_for("hinge")
    for solver in ("pegasos", "pa1"):
        with pytest.raises(InputError, match=f"bias=free: {solver} does not accept it; give the value of a constant"):
            fit(X, y, solver=solver, bias="free")
    refused("bias=fre: is not a number", fit, X, y, bias="fre")


def test_the_command(tmp_path, succeeds):
    X, y, _ = rows_for("hinge")
    store, model = make_store(tmp_path, X, y, chunk_nonzeros=40), tmp_path / "m.h5"
    options = (store, model, "--bias", "free", "--tol", "1e-6", "--memory", "1MB", "--quiet", "--overwrite")
    assert "certified relative gap" in succeeds(train_main, *options).out
    meta = load_model(model).meta
    assert meta.settings["bias"] == "free"
    assert max(meta.certificate.alpha_factors) == 1.0
    assert "free: not regularised" in succeeds(info_main, model).out
