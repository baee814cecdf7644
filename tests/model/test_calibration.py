"""Probabilities of decision values that are none: fitted to held-out rows, kept in the model, told by predict."""

import json

import numpy as np
import pytest
import scipy.optimize
from scipy import sparse
from sklearn.isotonic import IsotonicRegression
from support.fold_cases import dense, looped
from support.paths import GOLDEN
from support.training_cases import make_store, random_rows, svmlight

from blocksvm import InputError, Matrix, load_model
from blocksvm.base.threads import Threads
from blocksvm.estimators import LinearSVC
from blocksvm.model.model_file import describe_model
from blocksvm.store.descriptions import as_json, parse
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.calibration import FOLDS, calibrated, isotonic, platt
from blocksvm.validation.folds import folds_of


@pytest.fixture(scope="module")
def counted():
    """(values rising, weights of the negative and of the positive rows)"""
    rng = np.random.default_rng(0)
    values = np.unique(np.round(rng.normal(scale=2.0, size=300), 3))
    positive = rng.binomial(4, 1.0 / (1.0 + np.exp(-(1.5 * values - 0.5)))).astype(float)
    return values, 4.0 - positive + (positive == 4.0) * 0.5, positive


def test_platt_s_sigmoid_has_the_largest_likelihood(counted):
    values, negative, positive = counted
    n, p = negative.sum(), positive.sum()
    high, low = (p + 1) / (p + 2), 1 / (n + 2)

    def loss(ab):
        P = 1.0 / (1.0 + np.exp(-(ab[0] * values + ab[1])))
        right = positive * (high * np.log(P) + (1 - high) * np.log1p(-P))
        return -np.sum(right + negative * (low * np.log(P) + (1 - low) * np.log1p(-P)))

    best = scipy.optimize.minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-6})
    found = platt(values, negative, positive)
    assert found["kind"] == "platt"
    assert [found["slope"], found["intercept"]] == pytest.approx(best.x, rel=1e-4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_platt_where_the_classes_are_apart(sign):
    """The targets a little inside of 0 and 1 keep the slope finite."""
    values = np.array([-2.0, -1.0, 1.0, 2.0])
    negative, positive = np.array([5.0, 5.0, 0.0, 0.0]), np.array([0.0, 0.0, 5.0, 5.0])
    found = platt(sign * values, negative, positive)
    assert 0.0 < sign * found["slope"] < 50.0
    assert found["intercept"] == pytest.approx(0.0, abs=1e-6)


def test_the_isotonic_function_is_scikit_learn_s(counted):
    values, negative, positive = counted
    weights = negative + positive
    theirs = IsotonicRegression(out_of_bounds="clip").fit(values, positive / weights, sample_weight=weights)
    found = isotonic(values, negative, positive)
    at = np.linspace(-8.0, 8.0, 500)
    np.testing.assert_allclose(np.interp(at, found["values"], found["probabilities"]), theirs.predict(at), atol=1e-9)


def test_the_rows_have_not_been_seen_by_the_models_that_value_them():
    X, y = random_rows(n=400, d=30, seed=3)
    source = Matrix(X, y)
    asked = TrainSettings.of(C=0.5, bias=1.0, tol=1e-6, schedule="4", max_outer=5000)
    found = calibrated(source, asked, "platt")
    folds = folds_of(source, FOLDS, 0)
    W = looped(source, folds, [0.5]).result.w
    z = np.einsum("ij,ij->i", dense(X), W[folds.of_rows])
    order = np.argsort(z)
    exact = platt(z[order], (y[order] < 0).astype(float), (y[order] > 0).astype(float))
    assert found["slope"] == pytest.approx(exact["slope"], rel=1e-2)
    assert found["intercept"] == pytest.approx(exact["intercept"], abs=1e-2)


def test_threads_share_the_work_and_change_nothing(monkeypatch):
    X, y = random_rows(n=200, d=30, seed=3)
    used = []
    share = Plan.share_work
    monkeypatch.setattr(Plan, "share_work", lambda plan, threads: used.append(threads.n) or share(plan, threads))
    given = Matrix(X, y), TrainSettings.of(C=0.5, tol=1e-3), "platt"
    assert calibrated(*given, threads=Threads(2)) == calibrated(*given)
    assert used == [2, 1]
    LinearSVC(calibrate="platt", n_jobs=2, tol=1e-2).fit(X, y)
    assert used[2:] == [2, 2]


@pytest.mark.parametrize("kind", ["platt", "isotonic"])
def test_from_train_to_predict(tmp_path, succeeds, kind):
    X, y = random_rows(n=600, d=20, seed=2)
    store = make_store(tmp_path, X[:400], y[:400], chunk_nonzeros=128)
    (tmp_path / "new.svm").write_text(svmlight(X[400:], y[400:]))
    model = tmp_path / "m.h5"
    said = succeeds("train", store, model, "--calibrate", kind, "-C", "0.3").out + succeeds("info", model).out
    assert said.count(f"calibrated on rows held out: {kind}") == 2
    done = succeeds("predict", model, tmp_path / "new.svm", "--probabilities")
    told = np.array([line.split() for line in done.out.splitlines()], dtype=float)
    np.testing.assert_allclose(told.sum(axis=1), 1.0, atol=1e-12)
    loaded = load_model(model)
    given = sparse.hstack([sparse.csr_matrix((200, 1)), X[400:]]).tocsr()  # the text's ids count from 1
    given = given.astype(np.float32)  # as predict reads the text, in the dtype of the store
    np.testing.assert_allclose(loaded.predict_proba(given), told, atol=1e-6)
    right = np.where(y[400:] > 0, told[:, 1], told[:, 0])
    if (right > 0).all():
        assert f"log-loss {-np.log(right).mean():.6f}" in done.err
    rate = np.mean(y > 0)
    assert np.mean((1 - right) ** 2) < rate * (1 - rate)  # better than knowing the classes' shares
    order = np.argsort(loaded.decision_function(given))
    assert (np.diff(told[order, 1]) >= -1e-9).all()


def test_a_damaged_calibration_is_told():
    meta = as_json(describe_model(GOLDEN / "calibrated.h5"))
    falling = {"kind": "isotonic", "values": [2.0, 1.0], "probabilities": [0.0, 1.0]}
    for wrong in (falling, {"kind": "other"}, {"kind": "platt", "slope": None, "intercept": 0.0}, [1.0]):
        with pytest.raises(ValueError, match="calibration"):
            parse(json.dumps(meta | {"calibration": wrong}).encode(), "model")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(("--solver", "pegasos"), "is for dual-cd on rows of two classes"), (("--bias", "free"), "without a free bias"),
     (("--lambda", "0.1"), "needs -C instead of --lambda")],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path, refusal, arguments, expected):
    X, y = random_rows(n=60, d=10, seed=2)
    store = make_store(tmp_path, X, y)
    assert expected in refusal("train", store, tmp_path / "m.h5", "--calibrate", "platt", *arguments)
    with pytest.raises(InputError, match="is for dual-cd on rows of two classes"):
        calibrated(Matrix(X, np.arange(60) % 3), TrainSettings.of(), "platt")
