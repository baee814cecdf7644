"""Certificates by the formulas, whatever the loss, costs, bias and prior; optima beside libsvm, LIBLINEAR and
scikit-learn; real targets from text to predictions."""

import re

import numpy as np
import pytest
import reference
import scipy.sparse
from reference_losses import REFERENCES, dual_of, primal_of
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from support.refused import refused
from support.training_cases import logged, make_store, random_rows, train

from blocksvm import Matrix, fit, load_model, open_store
from blocksvm.losses import LOSSES, get_loss

CERTIFIED = [name for name in LOSSES if get_loss(name).has("conjugate")]
REAL = ("epsilon-insensitive", "squared-epsilon-insensitive")
CHUNKS = np.arange(0, 120, 8)
FREE = {"bias": "free", "schedule": "5", "max_outer": 5000}
BLOCKS = {"bias": 1.0, "block_chunks": 4}
CASES = [("logistic", C, more) for C in (1e-3, 1.0, 1e3) for more in ({}, BLOCKS | {"class_weight": {1.0: 3.0}})]
CASES += [(loss, 0.5, BLOCKS | {"epsilon": epsilon}) for loss in REAL for epsilon in (0.0, 0.1, 5.0)]
CASES += [(loss, 1.0, BLOCKS | {"prior": "prior.h5"}) for loss in ("logistic", "squared-hinge", REAL[0])]


def rows_for(loss, n=120, seed=3, far=2.0):
    """(X, y, weights): more rows of one class than of the other; or targets around this."""
    X, y = random_rows(n=n, d=12, seed=seed)
    rng = np.random.default_rng(seed)
    z = X @ rng.normal(size=12) + 0.7 * rng.standard_normal(n)
    y = z + far if get_loss(loss).of_numbers else np.where(z > 0.8, 1.0, -1.0)
    return X, y, rng.integers(0, 4, n) / 2.0


@pytest.mark.parametrize(
    ("loss", "C", "more"), [pytest.param(*case, marks=[pytest.mark.slow] * (case[0] == "logistic")) for case in CASES]
)
def test_the_certificate_is_that_of_the_formulas(tmp_path, monkeypatch, loss, C, more):
    monkeypatch.chdir(tmp_path)
    (X, y, weights), real, prior = rows_for(loss), get_loss(loss).of_numbers, 0.0
    if "prior" in more:
        old = fit(X[:60], y[:60], loss=loss, bias=1.0, tol=1e-6)
        old.save("prior.h5")
        prior = np.append(old.model.weights, old.model.intercept)
    weights = weights if more else np.ones(120)
    source = Matrix(X, y, weights=weights if more else None, chunk_rows=CHUNKS)
    run = train(source, loss=loss, C=C, schedule="10", tol=1e-8, max_outer=20_000, **more)
    costs = C * weights * np.where((y > 0) & ("class_weight" in more), 3.0, 1.0)
    given, XB = (costs, (more.get("epsilon", 0.1),) * real, prior), reference.with_bias(X, more.get("bias", 0.0))
    found = run.result.certificate
    assert run.result.status == "converged" and found.rel_gap <= 1e-8
    assert (run.events[0]["blocks"] > 1) == bool(more)
    assert found.primal == pytest.approx(primal_of(loss, XB, y, run.w, *given), rel=1e-12)
    assert found.dual == pytest.approx(dual_of(loss, XB, y, run.alpha, *given), rel=1e-9)
    w = prior + XB.T @ (run.alpha if real else run.alpha * y)
    np.testing.assert_allclose(run.w, w, atol=1e-9 * (1.0 + np.abs(run.w).max()))
    assert not run.alpha[costs == 0.0].any()
    assert all(event["dual_estimate"] <= found.primal * (1 + 1e-9) for event in run.outer())
    assert run.outer()[-1]["dual_estimate"] == pytest.approx(found.dual, rel=1e-8)
    assert (found.accuracy is None) == real
    if found.rmse is not None:
        assert found.rmse == pytest.approx(np.sqrt(np.mean((XB @ run.w - y) ** 2)), rel=1e-12)


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_beside_liblinear_and_scikit_learn(rows, C):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, y = rows
    run = train(Matrix(X, y), loss="logistic", C=C, schedule="10", tol=1e-7, max_outer=5000)
    certificate = run.result.certificate
    assert run.result.status == "converged"
    model = liblinear.train(liblinear.problem(y, X), liblinear.parameter(f"-s 7 -c {C} -e 1e-6 -B -1 -q"))
    w = np.ctypeslib.as_array(model.w, (model.nr_feature,)) * (1.0 if model.label[0] == 1 else -1.0)
    theirs = [np.pad(w, (0, X.shape[1] - len(w)))]
    theirs.append(LogisticRegression(fit_intercept=False, C=C, tol=1e-8, max_iter=10_000).fit(X, y).coef_.ravel())
    for weights in theirs:
        value = primal_of("logistic", X, y, weights, np.full(len(y), C))
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
        primal = primal_of("logistic", X, y, run.w[:-1], np.full(6, C))
        assert run.result.status == "converged"
        assert np.isfinite(run.w).all()
        assert run.alpha[2] == 0.5 * C
        assert run.result.certificate.primal == pytest.approx(primal, rel=1e-9)


@pytest.mark.parametrize("loss", CERTIFIED)
@pytest.mark.parametrize("working_set", ["auto", pytest.param("none", marks=pytest.mark.slow)])
def test_the_certificate_is_true_of_the_repaired_dual_variables(loss, working_set):
    X, y, weights = rows_for(loss, far=20.0)
    p = REFERENCES[loss].settings
    settings = dict(zip(get_loss(loss).settings.names(), p, strict=True))
    run = train(Matrix(X, y, weights=weights, chunk_rows=CHUNKS), loss=loss, C=0.7, tol=1e-7, block_chunks=4,
                working_set=working_set, **settings, **FREE)  # fmt: skip
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
    run = train(Matrix(X, y, weights=weights), C=0.5, tol=1e-7, **FREE)
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
    run = train(Matrix(X, later), prior=tmp_path / "prior.h5", C=0.5, tol=1e-7, **FREE)
    assert run.result.status == "converged"
    w0, b = np.append(prior.weights, 0.0), run.w[-1] * run.loop.plan.solver.bias
    XB, w = reference.with_bias(X, 1.0), np.append(run.w[:-1], b)
    primal = primal_of("hinge", XB, later, w, np.full(120, 0.5), (), w0) - 0.5 * b * b
    assert run.result.certificate.primal == pytest.approx(primal, rel=1e-12)


def test_the_command(tmp_path, succeeds):
    X, y, _ = rows_for("hinge")
    store, model = make_store(tmp_path, X, y, chunk_nonzeros=40), tmp_path / "m.h5"
    options = (store, model, "--bias", "free", "--tol", "1e-6", "--memory", "1MB", "--quiet", "--overwrite")
    assert "certified relative gap" in succeeds("train", *options).out
    meta = load_model(model).meta
    assert meta.settings["bias"] == "free"
    assert max(meta.certificate.alpha_factors) == 1.0
    assert "free: not regularised" in succeeds("info", model).out


@pytest.mark.parametrize("loss", REAL)
@pytest.mark.parametrize("scale", [1e-4, 1e5])
def test_targets_of_any_scale(loss, scale):
    """Scaled with epsilon and (for the linear loss) C the problem is the same one; rows come to rest alike."""
    X, y, _ = rows_for(REAL[0])
    C = {"epsilon-insensitive": (0.5, 0.5 * scale), "squared-epsilon-insensitive": (0.5, 0.5)}[loss]
    run = {"loss": loss, "schedule": "3", "tol": 1e-6, "max_outer": 3000, "block_chunks": 4}
    plain = train(Matrix(X, y, chunk_rows=CHUNKS), C=C[0], epsilon=0.1, **run)
    scaled = train(Matrix(X, scale * y, chunk_rows=CHUNKS), C=C[1], epsilon=0.1 * scale, **run)
    assert plain.result.status == scaled.result.status == "converged"
    np.testing.assert_allclose(scaled.w / scale, plain.w, atol=1e-2 * np.abs(plain.w).max())
    assert scaled.result.outer <= 2 * plain.result.outer + 5


def test_from_text_to_predictions(tmp_path, succeeds):
    """Any number of distinct targets; held-out rows by their error; values in the order of the text."""
    X, y, _ = rows_for(REAL[0])
    store = make_store(tmp_path, X[:90], y[:90], chunk_nonzeros=40)
    test = make_store(tmp_path, X[90:], y[90:], name="test", chunk_nonzeros=16)
    options = ("--loss", "epsilon-insensitive", "--epsilon", "0.05", "--bias", "1", "--tol", "1e-3", "--valid", test)
    trace, model = tmp_path / "t.jsonl", tmp_path / "m.h5"
    out = succeeds("train", store, model, *options, "--log", trace).out
    assert "root mean squared error on the training rows" in out
    loaded = load_model(model)
    assert loaded.labels == () and "real targets" in repr(loaded)
    by_id = scipy.sparse.hstack([scipy.sparse.csr_matrix((30, 1)), X[90:]]).tocsr()  # ids are written from 1
    expected = loaded.decision_function(by_id)
    np.testing.assert_array_equal(loaded.predict(by_id), expected)
    rmse = np.sqrt(np.mean((expected - y[90:]) ** 2))
    last = logged(trace, "outer")[-1]
    assert last["valid_rmse"] == pytest.approx(rmse, rel=1e-6)
    assert last["valid_accuracy"] is None
    for source in (test, tmp_path / "test.svm"):
        out = succeeds("predict", model, source, tmp_path / "p.txt", "--overwrite").out
        np.testing.assert_allclose(np.loadtxt(tmp_path / "p.txt"), expected, rtol=1e-5)
        errors = expected - y[90:]
        told = re.search(r"squared error (\S+), mean absolute error (\S+), R2 (\S+) \(30 rows\)", out).groups()
        r2 = 1.0 - np.sum(errors**2) / np.sum((y[90:] - y[90:].mean()) ** 2)
        assert [float(x) for x in told] == pytest.approx([rmse, np.mean(np.abs(errors)), r2], abs=2e-6)
    assert "none: its targets are real numbers" in succeeds("info", model).out


def test_more_targets_than_classes_can_be(tmp_path):
    y = np.random.default_rng(0).permutation(10_500) / 7.0
    text = "".join(f"{target:.17g} 1:{target / 1500:.9g} {2 + k % 3}:1\n" for k, target in enumerate(y.tolist()))
    store = make_store(tmp_path, text)
    with open_store(store) as source:
        assert fit(source, loss=REAL[1], C=10.0).status == "converged"
        refused("for real targets choose", fit, source)


def test_targets_too_large_for_double_precision(tmp_path, refusal):
    """One sentence, whatever the loss, and no warning of numpy's."""
    store = make_store(tmp_path, "1e300 1:1\n-1e300 2:1\n")
    for loss in REAL:
        told = refusal("train", store, tmp_path / "m.h5", "--loss", loss, "--quiet")
        assert "the sums are not finite numbers" in told
        assert not (tmp_path / "m.h5").exists()


def test_what_cannot_be_is_refused(tmp_path, refusal):
    (X, y, _), sides, first = rows_for(REAL[0]), rows_for("hinge")[1], tmp_path / "first.h5"
    fit(X, y, loss=REAL[0], bias=1.0, max_outer=1).save(first)
    for labels, options, what in (
        (sides, {"bias": "free", "solver": "pegasos"}, "bias=free: pegasos does not accept it; give the value of a"),
        (sides, {"bias": "free", "solver": "pa1"}, "bias=free: pa1 does not accept it; give the value of a constant"),
        (sides, {"bias": "fre"}, "bias=fre: is not a number"),
        (sides, {"bias": 1.0, "prior": first}, "has real targets, other ones than the matrix"),
        (np.where(y > 2.0, "a", "b"), {"loss": REAL[0]}, "its labels are strings, and real numbers are needed"),
        (y, {"loss": REAL[0], "valid": Matrix(X, np.full(120, np.nan))}, "none of its rows has a label"),
    ):
        refused(what, fit, X, labels, **options)
    (tmp_path / "t.svm").write_text("1 1:1\n-1 2:1\n")
    for options in (("--learner", "pa1", "--prior", first), ("--from", first)):
        told = refusal("stream", tmp_path / "t.svm", *options, "--quiet")
        assert "has real targets" in told or "no online learner" in told or "no such learner" in told
