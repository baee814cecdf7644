"""Learners that predict the rows themselves: against the definition, and from rows without labels to a radius."""

import json

import numpy as np
import pytest
import scipy.sparse
from support.online_cases import csr
from support.plain_learners import plain_runner
from support.training_cases import make_store, svmlight, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.info import main as info
from blocksvm.model.model_file import load_model
from blocksvm.online.loops import LOSS_SUM, SQUARED_ERRORS
from blocksvm.predict import main as predict
from blocksvm.sources.matrix import Matrix
from blocksvm.stream import main as stream_main
from blocksvm.train import main as train_main

pytestmark = pytest.mark.usefixtures("plain_loops")

CASES = [
    (name, ({} if name == "pa" else {"C": C}) | {"epsilon": epsilon, "learn_radius": learn_radius})
    for name, C in (("pa", None), ("pa1", 0.05), ("pa1", 10.0), ("pa2", 0.05), ("pa2", 10.0))
    for epsilon, learn_radius in ((0.0, False), (1e-3, False), (2.5, False), (4.0, True))
]


def rows(n=300, d=12, seed=0):
    """(n, d) of float32 values: around a centre, some far away, some that stand twice, one without entries."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) + 1.5 * rng.normal(size=d)) * (rng.random((n, d)) < 0.5)
    X[rng.choice(n, n // 20)] *= 10.0
    X[n // 2 : n // 2 + 5] = X[:5]
    X[n // 3] = 0.0
    return X.astype(np.float32).astype(float)


def by_definition(name, case, X, importance=None):
    """(w, its further coordinate, distances before each row): l = max(0, ||w - x|| - epsilon) > 0: w += tau (x - w) /
    ||x - w|| (Crammer et al., JMLR 2006, section 6); with a learned radius w has one coordinate more, which begins at
    epsilon, and rows have 0 there."""
    w, apart = np.append(np.zeros(X.shape[1]), case["epsilon"] if case.get("learn_radius") else 0.0), []
    for x, h in zip(np.pad(X, ((0, 0), (0, 1))), np.ones(len(X)) if importance is None else importance, strict=True):
        apart.append(np.sqrt(((w - x) ** 2).sum()))
        loss, C = max(0.0, apart[-1] - case["epsilon"]), h * case.get("C", 1.0)
        if loss > 0.0 and h > 0.0:
            w = w + {"pa": loss, "pa1": min(C, loss), "pa2": loss / (1.0 + 0.5 / C)}[name] * (x - w) / apart[-1]
    return w[:-1], w[-1], np.array(apart)


def run_kernel(name, case, X, weights=None):
    """(runner, state, distances before learning) of all rows in their order."""
    runner = plain_runner(name, case, {}, targets="none")
    state, scores = runner.new_state(X.shape[1]), np.empty(len(X))
    order = np.arange(len(X), dtype=np.int32)
    runner.learn(csr(X), np.zeros(len(X)), order, X.shape[1], state, scores=scores, weights=weights)
    return runner, state, scores


@pytest.mark.parametrize(("name", "case"), CASES, ids=lambda value: str(value))
def test_a_learner_is_its_definition(name, case):
    X = rows(n=4000 if case["epsilon"] in (1e-3, 4.0) else 400)
    weights = None
    if name != "pa":
        weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], len(X))
    runner, state, scores = run_kernel(name, case, X, weights)
    wanted, further, expected = by_definition(name, case, X, weights)
    importance = np.ones(len(X)) if weights is None else weights
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-7)
    w = runner.weights(state, np.empty(X.shape[1] + 1))
    np.testing.assert_allclose(w[:-1], wanted, rtol=1e-8, atol=1e-9)
    losses = np.maximum(0.0, expected - case["epsilon"])
    assert state.tally[LOSS_SUM] == pytest.approx((importance * losses).sum(), rel=1e-8, abs=1e-6)
    assert state.tally[SQUARED_ERRORS] == pytest.approx((expected**2).sum(), rel=1e-9)
    told = runner.describe(state.scalars)
    if case["learn_radius"]:
        radius = np.sqrt(case["epsilon"] ** 2 - further**2)
        assert told["radius"] == pytest.approx(radius, rel=1e-9, abs=1e-12)
        assert 0.0 < radius <= case["epsilon"]
    else:
        assert told["radius"] == case["epsilon"]


def test_a_step_costs_no_sweep_and_loses_nothing():
    """Every round shrinks w by a thousandth of what it was: thousands of renewals of the scale; and a feature that is
    named once keeps its weight as long as w does not move."""
    X = rows(n=3000)
    X[:, 0] = 0.0
    X[0, 0] = 3.0
    _, state, _ = run_kernel("pa", {"epsilon": 1e-6}, X)
    assert state.scalars[2] > 50.0
    Y = np.zeros((50, 2))
    Y[0], Y[1:] = [0.0, 5.0], [5.0, 0.0]
    runner, state, scores = run_kernel("pa1", {"C": 1.0, "epsilon": 0.0}, Y)
    w, _, apart = by_definition("pa1", {"C": 1.0, "epsilon": 0.0}, Y)
    np.testing.assert_allclose(scores, apart, rtol=1e-12, atol=1e-7)
    np.testing.assert_allclose(runner.weights(state, np.empty(3))[:2], w, rtol=1e-12, atol=1e-12)


def single(X):
    return scipy.sparse.csr_matrix(X, dtype=np.float32)


def test_any_blocks_learn_the_same():
    X, found = rows(n=70, d=30), []
    for rows_a_chunk, blocks in ((1, 1), (7, 2), (70, None)):
        source = Matrix(single(X), chunk_rows=np.arange(0, 70, rows_a_chunk))
        found.append(
            train(source, learner="pa2", C=0.2, epsilon=3.0, learn_radius=True, order="stored", max_outer=2,
                  block_chunks=blocks, targets="none")
        )  # fmt: skip
    run = found[0]
    assert all(np.array_equal(run.w, other.w) for other in found[1:])
    case = {"C": 0.2, "epsilon": 3.0, "learn_radius": True}
    w, _, _ = by_definition("pa2", case, np.concatenate([X, X]))
    np.testing.assert_allclose(run.w[:-1], w, rtol=1e-9, atol=1e-9)
    assert run.result.certificate.rmse is None
    assert run.outer()[-1]["mistakes"] is None
    with pytest.raises(InputError, match="valid: pa2 learns rows without labels here; leave it out"):
        train(Matrix(single(X)), learner="pa2", C=0.2, epsilon=3.0, targets="none", valid=Matrix(single(X)))


@pytest.mark.parametrize(
    "labels", [None, np.arange(80) % 3, np.array(["a", "b"] * 40), np.where(np.arange(80) < 9, np.nan, 2.5)]
)
def test_labels_are_not_checked(labels):
    X = rows(n=80)
    expected = fit(single(X), learner="pa1", targets="none", epsilon=1.0, order="stored", average=False)
    found = fit(single(X), labels, learner="pa1", targets="none", epsilon=1.0, order="stored")
    assert np.array_equal(found.model.weights, expected.model.weights)
    assert found.model.labels == ()
    with pytest.raises(InputError, match="the model: has learned rows without labels, and predicts none"):
        found.model.predict(single(X))


def test_from_text_to_a_radius(tmp_path, succeeds, refusal):
    X = single(rows(n=200))
    store = make_store(tmp_path, X, np.arange(200) % 2)
    (tmp_path / "new.svm").write_text(svmlight(X, np.arange(200) % 2))
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    options = ("--learner", "pa1", "-C", "0.1", "--targets", "none", "--epsilon", "6", "--learn-radius")
    _, out, err = succeeds(train_main, store, model, *options, "--log", log)
    assert "radius " in out
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0]["learner_settings"]["learn_radius"] is True
    for given_ in (tmp_path / "new.svm", store):
        told = refusal(predict, model, given_)
        assert f"{model}: has learned rows without labels, and predicts none" in told
    out = succeeds(info, model).out
    assert "it learned rows" in out
    assert f"{load_model(model).meta.radius:.6g}" in out
    (tmp_path / "bare.vw").write_text("| a:1 b:2\n| b:1\n1 | a:1\n")
    out = succeeds(stream_main, tmp_path / "bare.vw", "--learner", "pa", "--targets", "none", "--epsilon", "0.5",
        "--model", tmp_path / "s.h5", "--predictions", "-", "--scores").out  # fmt: skip
    assert np.array(out.split(), float)[0] == pytest.approx(np.sqrt(5.0), rel=1e-6)
    assert len(out.split()) == 3
    for options, said in [
        (("--learner", "arow", "--targets", "none"), "--targets none: arow learns classes alone"),
        (("--learner", "ogd", "--targets", "none"), "--targets none: ogd learns from labels alone"),
        (("--learner", "pa1", "--targets", "none"), "pa1 needs --epsilon"),
        (("--learner", "pa1", "--targets", "none", "--epsilon", "1", "--average"), "--average: pa1 does not"),
        (("--learner", "pa1", "--targets", "none", "--epsilon", "1", "--bias", "1"), "--bias: pa1 does not"),
        (("--learner", "pa1", "--targets", "none", "--epsilon", "1", "--query", "1"), "--query: is for classes"),
        (("--learner", "pa1", "--targets", "none", "--epsilon", "1", "--prior", model), "--prior: pa1 does not accept"),
        (("--learner", "pa1", "--targets", "numbers", "--learn-radius"), "--learn-radius"),
    ]:
        for main, files in ((stream_main, [tmp_path / "new.svm"]), (train_main, [store, tmp_path / "x.h5"])):
            assert said in refusal(main, *files, *options)
    with pytest.raises(InputError, match="targets=none has no classes"):
        fit(X, np.arange(200) % 2, learner="pa1", targets="none", epsilon=1.0, class_weight="balanced")
