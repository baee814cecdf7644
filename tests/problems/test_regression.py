"""Support vector regression: real targets through stores, the outer loop, certificates, models and predictions."""

import json
import re

import numpy as np
import pytest
import reference
from reference_losses import dual_of, primal_of
from support.training_cases import command, make_store, random_rows, run_in_process, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.model.model_file import load_model
from blocksvm.predict import main as predict_main
from blocksvm.sources.matrix import Matrix
from blocksvm.stream import main as stream_main
from blocksvm.train import main as train_main

LOSSES = ("epsilon-insensitive", "squared-epsilon-insensitive")
CHUNKS = np.arange(0, 120, 8)


def targets(X, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * (X @ rng.normal(size=X.shape[1]) + 2.0 + 0.3 * rng.standard_normal(X.shape[0]))


@pytest.fixture(scope="module")
def rows():
    X, _ = random_rows(n=120, d=15, seed=3)
    return X, targets(X)


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


def test_a_prior_is_what_is_regularised_towards(rows, tmp_path):
    X, y = rows
    first = fit(X, y, loss="epsilon-insensitive", bias=1.0, tol=1e-5, schedule="5")
    first.save(tmp_path / "first.h5")
    later = targets(X, seed=9)
    run = train(Matrix(X, later), prior=tmp_path / "first.h5", loss="epsilon-insensitive", C=0.2, bias=1.0, tol=1e-6,
                max_outer=3000, schedule="5")  # fmt: skip
    given = np.full(120, 0.2), (0.1,), first.result.w
    found, XB = run.result.certificate, reference.with_bias(X, 1.0).toarray()
    assert found.primal == pytest.approx(primal_of(LOSSES[0], XB, later, run.w, *given), rel=1e-12)
    assert found.dual == pytest.approx(dual_of(LOSSES[0], XB, later, run.alpha, *given), rel=1e-9)
    classes, _ = np.where(y > 2.0, 1.0, -1.0), fit(X, y, loss="epsilon-insensitive", max_outer=1)
    with pytest.raises(InputError, match="has real targets, other ones than the matrix"):
        train(Matrix(X, classes), prior=tmp_path / "first.h5", bias=1.0, max_outer=1)


@pytest.mark.process
def test_from_text_to_predictions(rows, tmp_path, capsys):
    """Any number of distinct targets; held-out rows by their error; values in the order of the text."""
    X, y = rows
    store = make_store(tmp_path, X[:90], y[:90], chunk_nonzeros=40)
    test = make_store(tmp_path, X[90:], y[90:], name="test", chunk_nonzeros=16)
    options = ("--loss", "epsilon-insensitive", "--epsilon", "0.05", "--bias", "1", "--tol", "1e-3", "--valid", test)
    trace, model = tmp_path / "t.jsonl", tmp_path / "m.h5"
    code, out, err = run_in_process(capsys, train_main, store, model, *options, "--log", trace)
    assert code == 0, err
    assert "root mean squared error on the training rows" in out
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    loaded = load_model(model)
    assert loaded.labels == ()
    assert "real targets" in repr(loaded)
    expected = loaded.decision_function(X_by_id(X[90:]))
    np.testing.assert_array_equal(loaded.predict(X_by_id(X[90:])), expected)
    rmse = np.sqrt(np.mean((expected - y[90:]) ** 2))
    last = [event for event in events if event["event"] == "outer"][-1]
    assert last["valid_rmse"] == pytest.approx(rmse, rel=1e-6)
    assert last["valid_accuracy"] is None
    for source in (test, tmp_path / "test.svm"):
        code, out, err = run_in_process(capsys, predict_main, model, source, tmp_path / "p.txt", "--overwrite")
        assert code == 0, err
        np.testing.assert_allclose(np.loadtxt(tmp_path / "p.txt"), expected, rtol=1e-5)
        errors = expected - y[90:]
        told = re.search(r"squared error (\S+), mean absolute error (\S+), R2 (\S+) \(30 rows\)", out).groups()
        r2 = 1.0 - np.sum(errors**2) / np.sum((y[90:] - y[90:].mean()) ** 2)
        assert [float(x) for x in told] == pytest.approx([rmse, np.mean(np.abs(errors)), r2], abs=2e-6)
    shown = command(model, module="info")
    assert "none: its targets are real numbers" in shown.stdout


def X_by_id(X):
    """Columns by the ids that ``svmlight`` writes."""
    from scipy import sparse

    return sparse.hstack([sparse.csr_matrix((X.shape[0], 1)), X]).tocsr()


def test_more_targets_than_classes_can_be(tmp_path, capsys):
    y = np.random.default_rng(0).permutation(10_500) / 7.0
    text = "".join(f"{target:.17g} 1:{target / 1500:.9g} {2 + k % 3}:1\n" for k, target in enumerate(y.tolist()))
    store = make_store(tmp_path, text)
    code, out, err = run_in_process(
        capsys, train_main, store, tmp_path / "m.h5", "--loss", "squared-epsilon-insensitive", "-C", "10", "--quiet"
    )
    assert code == 0, err
    assert "certified relative gap" in out
    code, out, err = run_in_process(capsys, train_main, store, tmp_path / "n.h5", "--quiet")
    assert code == 2
    assert "for real targets choose" in err


def test_rows_without_a_target_are_refused(rows):
    X, y = rows
    with pytest.raises(InputError, match="its labels are strings, and real numbers are needed"):
        fit(X, np.where(y > 2.0, "a", "b"), loss=LOSSES[0])
    with pytest.raises(InputError, match="none of its rows has a label"):
        train(Matrix(X, y), valid=Matrix(X, np.full(120, np.nan)), loss=LOSSES[0], max_outer=1)


def test_targets_too_large_for_double_precision(tmp_path, capsys):
    """One sentence, whatever the loss, and no warning of numpy's."""
    store = make_store(tmp_path, "1e300 1:1\n-1e300 2:1\n")
    for loss in LOSSES:
        code, _, err = run_in_process(capsys, train_main, store, tmp_path / "m.h5", "--loss", loss, "--quiet")
        assert code == 2
        assert "the sums are not finite numbers" in err
        assert not (tmp_path / "m.h5").exists()


def test_a_stream_takes_no_prior_of_a_regression(rows, tmp_path, capsys):
    fit(*rows, loss=LOSSES[0], max_outer=2).save(tmp_path / "m.h5")
    (tmp_path / "t.svm").write_text("1 1:1\n-1 2:1\n")
    for options in (("--learner", "pa1", "--prior", tmp_path / "m.h5"), ("--from", tmp_path / "m.h5")):
        code, _, err = run_in_process(capsys, stream_main, tmp_path / "t.svm", *options, "--quiet")
        assert code == 2
        assert "has real targets" in err or "no online learner" in err or "no such learner" in err
