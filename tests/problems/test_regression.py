"""Support vector regression: real targets through stores, the outer loop, certificates, models and predictions."""

import json
import re

import numpy as np
import pytest
import reference
from reference_losses import dual_of, primal_of
from scipy import sparse
from support.refused import refused
from support.training_cases import make_store, random_rows, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.info import main as info_main
from blocksvm.model.model_file import load_model
from blocksvm.predict import main as predict_main
from blocksvm.sources.matrix import Matrix
from blocksvm.store.reader import open_store
from blocksvm.stream import main as stream_main
from blocksvm.train import main as train_main

LOSSES = ("epsilon-insensitive", "squared-epsilon-insensitive")
CHUNKS = np.arange(0, 120, 8)


@pytest.fixture(scope="module")
def rows():
    X, _ = random_rows(n=120, d=15, seed=3)
    rng = np.random.default_rng(1)
    return X, X @ rng.normal(size=15) + 2.0 + 0.3 * rng.standard_normal(120)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 5.0])
def test_the_certificate_is_that_of_the_formulas(rows, loss, epsilon):
    X, y = rows
    weights = np.random.default_rng(0).integers(0, 3, 120) / 2.0
    run = train(Matrix(X, y, weights=weights, chunk_rows=CHUNKS), loss=loss, C=0.5, epsilon=epsilon, bias=1.0,
                block_chunks=4, tol=1e-7, max_outer=4000, schedule="4")  # fmt: skip
    found, XB, given = run.result.certificate, reference.with_bias(X, 1.0).toarray(), (0.5 * weights, (epsilon,))
    assert run.result.status == "converged"
    assert found.primal == pytest.approx(primal_of(loss, XB, y, run.w, *given), rel=1e-12)
    assert found.dual == pytest.approx(dual_of(loss, XB, y, run.alpha, *given), rel=1e-9)
    assert found.rel_gap <= 1e-7
    assert found.accuracy is None
    if found.rmse is not None:
        assert found.rmse == pytest.approx(np.sqrt(np.mean((XB @ run.w - y) ** 2)), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-4, 1e5])
def test_targets_of_any_scale(rows, loss, scale):
    """Scaled with epsilon and (for the linear loss) C the problem is the same one; rows come to rest alike."""
    X, y = rows
    C = {"epsilon-insensitive": (0.5, 0.5 * scale), "squared-epsilon-insensitive": (0.5, 0.5)}[loss]
    run = {"loss": loss, "schedule": "3", "tol": 1e-6, "max_outer": 3000, "block_chunks": 4}
    plain = train(Matrix(X, y, chunk_rows=CHUNKS), C=C[0], epsilon=0.1, **run)
    scaled = train(Matrix(X, scale * y, chunk_rows=CHUNKS), C=C[1], epsilon=0.1 * scale, **run)
    assert plain.result.status == scaled.result.status == "converged"
    np.testing.assert_allclose(scaled.w / scale, plain.w, atol=1e-2 * np.abs(plain.w).max())
    assert scaled.result.outer <= 2 * plain.result.outer + 5


def test_a_prior_of_real_targets_is_not_for_classes(rows, tmp_path):
    X, y = rows
    fit(X, y, loss=LOSSES[0], bias=1.0, max_outer=1).save(tmp_path / "first.h5")
    with pytest.raises(InputError, match="has real targets, other ones than the matrix"):
        fit(X, np.where(y > 2.0, 1.0, -1.0), prior=tmp_path / "first.h5", bias=1.0)


def test_from_text_to_predictions(rows, tmp_path, succeeds):
    """Any number of distinct targets; held-out rows by their error; values in the order of the text."""
    X, y = rows
    store = make_store(tmp_path, X[:90], y[:90], chunk_nonzeros=40)
    test = make_store(tmp_path, X[90:], y[90:], name="test", chunk_nonzeros=16)
    options = ("--loss", "epsilon-insensitive", "--epsilon", "0.05", "--bias", "1", "--tol", "1e-3", "--valid", test)
    trace, model = tmp_path / "t.jsonl", tmp_path / "m.h5"
    out = succeeds(train_main, store, model, *options, "--log", trace).out
    assert "root mean squared error on the training rows" in out
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    loaded = load_model(model)
    assert loaded.labels == () and "real targets" in repr(loaded)
    by_id = sparse.hstack([sparse.csr_matrix((30, 1)), X[90:]]).tocsr()  # ids are written from 1
    expected = loaded.decision_function(by_id)
    np.testing.assert_array_equal(loaded.predict(by_id), expected)
    rmse = np.sqrt(np.mean((expected - y[90:]) ** 2))
    last = [event for event in events if event["event"] == "outer"][-1]
    assert last["valid_rmse"] == pytest.approx(rmse, rel=1e-6)
    assert last["valid_accuracy"] is None
    for source in (test, tmp_path / "test.svm"):
        out = succeeds(predict_main, model, source, tmp_path / "p.txt", "--overwrite").out
        np.testing.assert_allclose(np.loadtxt(tmp_path / "p.txt"), expected, rtol=1e-5)
        errors = expected - y[90:]
        told = re.search(r"squared error (\S+), mean absolute error (\S+), R2 (\S+) \(30 rows\)", out).groups()
        r2 = 1.0 - np.sum(errors**2) / np.sum((y[90:] - y[90:].mean()) ** 2)
        assert [float(x) for x in told] == pytest.approx([rmse, np.mean(np.abs(errors)), r2], abs=2e-6)
    assert "none: its targets are real numbers" in succeeds(info_main, model).out


def test_more_targets_than_classes_can_be(tmp_path):
    y = np.random.default_rng(0).permutation(10_500) / 7.0
    text = "".join(f"{target:.17g} 1:{target / 1500:.9g} {2 + k % 3}:1\n" for k, target in enumerate(y.tolist()))
    store = make_store(tmp_path, text)
    with open_store(store) as source:
        assert fit(source, loss=LOSSES[1], C=10.0).status == "converged"
        refused("for real targets choose", fit, source)


def test_rows_without_a_target_are_refused(rows):
    X, y = rows
    refused("its labels are strings, and real numbers are needed", fit, X, np.where(y > 2.0, "a", "b"), loss=LOSSES[0])
    with pytest.raises(InputError, match="none of its rows has a label"):
        train(Matrix(X, y), valid=Matrix(X, np.full(120, np.nan)), loss=LOSSES[0], max_outer=1)


def test_targets_too_large_for_double_precision(tmp_path, refusal):
    """One sentence, whatever the loss, and no warning of numpy's."""
    store = make_store(tmp_path, "1e300 1:1\n-1e300 2:1\n")
    for loss in LOSSES:
        told = refusal(train_main, store, tmp_path / "m.h5", "--loss", loss, "--quiet")
        assert "the sums are not finite numbers" in told
        assert not (tmp_path / "m.h5").exists()


def test_a_stream_takes_no_prior_of_a_regression(rows, tmp_path, refusal):
    fit(*rows, loss=LOSSES[0], max_outer=2).save(tmp_path / "m.h5")
    (tmp_path / "t.svm").write_text("1 1:1\n-1 2:1\n")
    for options in (("--learner", "pa1", "--prior", tmp_path / "m.h5"), ("--from", tmp_path / "m.h5")):
        told = refusal(stream_main, tmp_path / "t.svm", *options, "--quiet")
        assert "has real targets" in told or "no online learner" in told or "no such learner" in told
