"""Online learners of numbers: closed forms, means, and the way from text or a store to predictions."""

import json

import numpy as np
import pytest
import scipy.sparse
from support.online_cases import agree, csr, has_mean
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import plain_runner, run
from support.refused import refused
from support.stream_cases import learned, text_of
from support.training_cases import make_store, svmlight, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.info import main as info
from blocksvm.model.model_file import load_model
from blocksvm.online import LEARNERS, get_learner
from blocksvm.online.loops import LOSS_SUM, SQUARED_ERRORS
from blocksvm.predict import main as predict
from blocksvm.sources.matrix import Matrix
from blocksvm.stream import main as stream_main
from blocksvm.streaming.stream_saving import save_stream
from blocksvm.train import main as train_main

pytestmark = pytest.mark.usefixtures("plain_loops")

# name -> settings to try
LOSSES_OF_NUMBERS = ("squared", "epsilon-insensitive", "absolute")
CASES = {
    "pa": [{}, {"epsilon": 0.0}],
    "pa1": [{"C": 0.05}, {"C": 10.0, "epsilon": 0.4}],
    "pa2": [{"C": 0.05}, {"C": 10.0, "epsilon": 0.4}],
    "ogd": [{"loss": loss, "step": 0.1} for loss in LOSSES_OF_NUMBERS] + [{"radius": 0.7, "step": 0.1}],
    "forel": [{"step": 0.05}],
    "omd": [{"mirror": "euclidean", "step": 0.05}, {"mirror": "p-norm", "p": 3.0, "step": 0.05, "loss": "absolute"},
            {"mirror": "entropic", "step": 0.1, "radius": 3.0, "loss": "epsilon-insensitive"}],
    "subgradient": [{"l1": 0.01, "step": 0.1}],
    "fobos": [{"l1": 0.01, "loss": loss, "step": 0.1} for loss in LOSSES_OF_NUMBERS],
    "hf-fobos": [{"l1": 0.02, "p": 2.0, "step": 0.1}],
    "adagrad-rda": [{"l1": 0.01, "loss": loss} for loss in LOSSES_OF_NUMBERS],
    "adagrad-rda-squares": [{"l1": 0.01}],
    "adagrad-fobos": [{"l1": 0.01, "loss": "epsilon-insensitive", "epsilon": 0.3}],
    "ftrl": [{"alpha": 0.5, "l1": 0.1, "loss": loss} for loss in LOSSES_OF_NUMBERS],
    "coin": [{"wealth": 1.0, "loss": loss} for loss in LOSSES_OF_NUMBERS],
    "nag": [{"loss": loss} for loss in LOSSES_OF_NUMBERS] + [{"loss": "epsilon-insensitive", "epsilon": 0.5}],
    "auto": [{}],
}  # fmt: skip
EACH = [(name, case) for name, cases in CASES.items() for case in cases]
ids = [f"{name}-{'-'.join(f'{k}={v}' for k, v in case.items())}" for name, case in EACH]


def numbers(n=200, d=30, seed=0, noise=0.3):
    """(X dense of float32 values, y): sparse rows, rows that stand twice, rows without entries."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2)
    X[rng.choice(n, 5)] = 0.0
    X[rng.choice(n, 8)] = X[rng.choice(n, 8)]
    X = X.astype(np.float32).astype(np.float64)
    return X, X @ rng.standard_normal(d) + noise * rng.standard_normal(n)


def test_every_learner_of_numbers_is_tried():
    assert set(CASES) == {name for name in LEARNERS if "numbers" in get_learner(name).targets}


@pytest.mark.parametrize(("name", "case"), EACH, ids=ids)
def test_the_mean_and_what_was_suffered_are_those_of_each_row(name, case):
    d = 30
    X, y = numbers(n=100, d=d)
    average = has_mean(name, case)
    runner = plain_runner(name, case, {"n_features": d}, average=average, targets="numbers")
    state, order, scores = runner.new_state(d), np.arange(len(y), dtype=np.int32), np.empty(len(y))
    runner.learn(csr(X), y, order, d, state, scores=scores)
    before, last, mean = run(PLAIN[name](d, targets="numbers", **case), X, y)
    agree(scores, before)
    agree(runner.weights(state, np.empty(d + 1))[:d], mean if average else last)
    apart, epsilon = np.abs(scores - y), case.get("epsilon", 0.1)
    tube = np.maximum(0.0, apart - epsilon)
    losses = {"squared": apart**2 / 2, "absolute": apart, "epsilon-insensitive": tube}
    suffered = tube if name.startswith("pa") else losses[case.get("loss", "squared")]
    assert state.tally[LOSS_SUM] == pytest.approx(suffered.sum(), rel=1e-9)
    assert state.tally[SQUARED_ERRORS] == pytest.approx((apart**2).sum(), rel=1e-9)


@pytest.mark.parametrize("name", ["pa1", "nag", "adagrad-rda"])
def test_training_in_blocks_is_the_learner_and_tells_its_error(name):
    X, y = numbers(n=70, seed=1)
    expected = run(PLAIN[name](30, targets="numbers"), X, y, epochs=2)[1]
    source = Matrix(scipy.sparse.csr_matrix(X, dtype=np.float32), y, chunk_rows=np.arange(0, 70, 7))
    trained = train(source, solver=name, order="stored", max_outer=2, block_chunks=2, targets="numbers")
    np.testing.assert_allclose(trained.w[:-1], expected, rtol=1e-9, atol=1e-9)
    last = trained.outer()[-1]
    assert last["mistakes"] is None and last["squared_errors"] > 0.0
    z = scipy.sparse.csr_matrix(X) @ trained.w[:-1]
    assert trained.result.certificate.rmse == pytest.approx(np.sqrt(np.square(z - y).mean()), rel=1e-12)
    assert trained.result.certificate.accuracy is None


def test_a_prior_of_numbers_is_predicted_besides_and_weights_count(tmp_path):
    X, y = numbers(n=120, seed=3)
    X, own = scipy.sparse.csr_matrix(X), {"targets": "numbers"}
    _, whole = learned(text_of(tmp_path, X, y), "pa2", **own)
    first, before = learned(text_of(tmp_path, X[:60], y[:60]), "pa2", **own)
    save_stream(tmp_path / "half.h5", first)
    _, rest = learned(text_of(tmp_path, X[60:], y[60:]), "pa2", prior=tmp_path / "half.h5", **own)
    assert rest[-1].squared_errors == pytest.approx(whole[-1].squared_errors - before[-1].squared_errors, rel=1e-9)
    # a row of weight h is one with h C in place of C
    light = fit(X, y, learner="pa1", C=0.1, sample_weight=np.full(120, 3.0), targets="numbers")
    heavy = fit(X, y, learner="pa1", C=0.1 * 3.0, targets="numbers")
    assert np.array_equal(light.model.weights, heavy.model.weights)


def test_from_text_to_predictions(tmp_path, succeeds):
    X, y = numbers(n=300, seed=4, noise=0.05)
    X = scipy.sparse.csr_matrix(X)
    store = make_store(tmp_path, X[:200], y[:200])
    (tmp_path / "new.svm").write_text(svmlight(X[200:], y[200:]))
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    _, out, err = succeeds(train_main, store, model, "--learner", "pa1", "--targets", "numbers", "--epsilon", "0.01",
        "--max-outer", "20", "--average", "--valid", store, "--log", log)  # fmt: skip
    assert "root mean squared error on the training rows" in out
    assert "rmse" in err and "mistakes" not in err
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0]["learner_settings"]["targets"] == "numbers"
    assert [event for event in events if event["event"] == "outer"][-1]["squared_errors"] > 0.0
    _, out, err = succeeds(predict, model, tmp_path / "new.svm", "--scores")
    z = np.array(out.split(), dtype=float)
    assert np.sqrt(np.square(z - y[200:]).mean()) < 0.2 * y.std()
    assert "root mean squared error" in err
    shifted = scipy.sparse.hstack([scipy.sparse.csr_matrix((100, 1)), X[200:]]).tocsr()
    np.testing.assert_allclose(load_model(model).predict(shifted), z, rtol=1e-5, atol=1e-6)
    assert "targets numbers" in succeeds(info, model).out
    _, out, err = succeeds(stream_main, tmp_path / "new.svm", "--learner", "pa1", "--targets", "numbers", "--model",
        tmp_path / "s.h5")  # fmt: skip
    assert "rmse" in out and "rmse" in err and "rmse" in succeeds(info, tmp_path / "s.h5").out
    succeeds(stream_main, tmp_path / "new.svm", "--from", tmp_path / "s.h5", "--model", tmp_path / "s2.h5")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--learner", "arow"], "--targets numbers: arow learns classes alone"),
        (["--learner", "pegasos"], "--targets numbers: pegasos learns classes alone"),
        (["--learner", "pa1", "--epsilon", "-1"], "--epsilon -1: must be"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, options, told, refusal):
    (tmp_path / "rows.svm").write_text("1.5 1:1\n2 2:1\n")
    store = make_store(tmp_path, "1.5 1:1\n2 2:1\n", name="store")
    for main, files in ((stream_main, [tmp_path / "rows.svm"]), (train_main, [store, tmp_path / "m.h5"])):
        assert told in refusal(main, *files, "--targets", "numbers", *options)
    assert not (tmp_path / "m.h5").exists()


def test_labels_that_do_not_fit_are_said(tmp_path, refusal):
    X, y = numbers(n=20)
    refused("regression needs numbers", fit, X, np.array(["a", "b"] * 10), learner="pa", targets="numbers")
    refused("have no label", fit, X, np.where(np.arange(20) == 3, np.nan, y), learner="pa", targets="numbers")
    refused("is for rows of one label each", fit, X, y, learner="pa1", targets="numbers", class_weight="balanced")
    for learner, options, told in [
        ("ogd", {"loss": "hinge"}, "choose one of epsilon-insensitive, .*absolute"),
        ("pa", {"query": 1.0}, "query: is for classes"), ("pa", {"multiclass": "rest"}, "multiclass: is for classes"),
    ]:  # fmt: skip
        refused(told, fit, X, y, learner=learner, targets="numbers", **options)
    refused("choose one of classes, numbers", fit, X, y, learner="pa1", targets="number")
    (tmp_path / "rows.svm").write_text("1.5 1:1\n2 2:1\n")
    assert "--labels: --targets numbers has no classes" in refusal(
        stream_main, tmp_path / "rows.svm", "--learner", "pa", "--targets", "numbers", "--labels", "1,2"
    )
    # a model of classes is no beginning for numbers, nor the reverse
    (tmp_path / "classes.svm").write_text("1 1:1\n-1 2:1\n")
    save_stream(tmp_path / "c.h5", learned(tmp_path / "classes.svm", "pa")[0])
    save_stream(tmp_path / "n.h5", learned(tmp_path / "rows.svm", "pa", targets="numbers")[0])
    with pytest.raises(InputError, match="has the labels -1, 1, other ones than the stream"):
        learned(tmp_path / "rows.svm", "pa", targets="numbers", prior=tmp_path / "c.h5")
    refused("has real targets", learned, tmp_path / "classes.svm", "pa", prior=tmp_path / "n.h5")
    refused("targets", learned, tmp_path / "rows.svm", "pa", targets="numbers", start_from=tmp_path / "c.h5")
    # rows without a label are passed over
    (tmp_path / "some.vw").write_text("1.5 | a:1\n| b:1\n2.5 | a:1 b:1\n")
    stream, reports = learned(tmp_path / "some.vw", "pa", targets="numbers", format="vw")
    assert (reports[-1].rows, stream.targets.unlabelled) == (2, 1)
