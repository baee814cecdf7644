"""Learners of numbers, and of rows alone: their definitions and means, and the way from text or a store to a model."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from support.online_cases import agree, has_mean, taught
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import plain_runner, run
from support.refused import refused
from support.stream_cases import learned, text_of, weights_by_id
from support.training_cases import logged, make_store, svmlight, train

from blocksvm import Matrix, fit, load_model
from blocksvm.online import LEARNERS, get_learner
from blocksvm.online.loops import LOSS_SUM, SQUARED_ERRORS
from blocksvm.streaming.stream_saving import save_stream

pytestmark = pytest.mark.usefixtures("plain_loops")

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


@pytest.mark.parametrize(("name", "case"), EACH, ids=str)
def test_the_mean_and_what_was_suffered_are_those_of_each_row(name, case):
    (X, y), average = numbers(n=100), has_mean(name, case)
    runner = plain_runner(name, case, {"n_features": 30}, average=average, targets="numbers")
    state, scores, w = taught(runner, X, y)
    before, last, mean = run(PLAIN[name](30, targets="numbers", **case), X, y)
    agree(scores, before)
    agree(w, mean if average else last)
    apart, epsilon = np.abs(scores - y), case.get("epsilon", 0.1)
    tube = np.maximum(0.0, apart - epsilon)
    losses = {"squared": apart**2 / 2, "absolute": apart, "epsilon-insensitive": tube}
    suffered = tube if name.startswith("pa") else losses[case.get("loss", "squared")]
    assert state.tally[LOSS_SUM] == pytest.approx(suffered.sum(), rel=1e-9)
    assert state.tally[SQUARED_ERRORS] == pytest.approx((apart**2).sum(), rel=1e-9)


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
    _, out, err = succeeds("train", store, model, "--learner", "pa1", "--targets", "numbers", "--epsilon", "0.01",
        "--max-outer", "20", "--average", "--valid", store, "--log", log)  # fmt: skip
    assert "root mean squared error on the training rows" in out
    assert "rmse" in err and "mistakes" not in err
    assert logged(log)[0]["learner_settings"]["targets"] == "numbers"
    assert logged(log, "outer")[-1]["squared_errors"] > 0.0
    _, out, err = succeeds("predict", model, tmp_path / "new.svm", "--scores")
    z = np.array(out.split(), dtype=float)
    assert np.sqrt(np.square(z - y[200:]).mean()) < 0.2 * y.std()
    assert "root mean squared error" in err
    shifted = scipy.sparse.hstack([scipy.sparse.csr_matrix((100, 1)), X[200:]]).tocsr()
    np.testing.assert_allclose(load_model(model).predict(shifted), z, rtol=1e-5, atol=1e-6)
    assert "targets numbers" in succeeds("info", model).out
    _, out, err = succeeds("stream", tmp_path / "new.svm", "--learner", "pa1", "--targets", "numbers", "--model",
        tmp_path / "s.h5")  # fmt: skip
    assert "rmse" in out and "rmse" in err and "rmse" in succeeds("info", tmp_path / "s.h5").out
    succeeds("stream", tmp_path / "new.svm", "--from", tmp_path / "s.h5", "--model", tmp_path / "s2.h5")


def test_labels_that_do_not_fit_are_said(tmp_path, refusal):
    X, y = numbers(n=20)
    for labels, learner, options, told in (
        (np.array(["a", "b"] * 10), "pa", {}, "regression needs numbers"),
        (np.where(np.arange(20) == 3, np.nan, y), "pa", {}, "have no label"),
        (y, "pa1", {"class_weight": "balanced"}, "is for rows of one label each"),
        (y, "ogd", {"loss": "hinge"}, "choose one of epsilon-insensitive, .*absolute"),
        (y, "pa", {"query": 1.0}, "query: is for classes"),
        (y, "pa", {"multiclass": "rest"}, "multiclass: is for classes"),
        (y, "pa1", {"targets": "number"}, "choose one of classes, numbers"),
    ):
        refused(told, fit, X, labels, learner=learner, **{"targets": "numbers"} | options)
    text, of_classes, some = (tmp_path / name for name in ("rows.svm", "classes.svm", "some.vw"))
    text.write_text("1.5 1:1\n2 2:1\n")
    told = refusal("stream", text, "--learner", "pa", "--targets", "numbers", "--labels", "1,2")
    assert "--labels: --targets numbers has no classes" in told
    # a model of classes is no beginning for numbers, nor the reverse
    of_classes.write_text("1 1:1\n-1 2:1\n")
    c, n, own = tmp_path / "c.h5", tmp_path / "n.h5", {"targets": "numbers"}
    save_stream(c, learned(of_classes, "pa")[0])
    save_stream(n, learned(text, "pa", **own)[0])
    refused("has the labels -1, 1, other ones than the stream", learned, text, "pa", prior=c, **own)
    refused("has real targets", learned, of_classes, "pa", prior=n)
    refused("targets", learned, text, "pa", start_from=c, **own)
    # rows without a label are passed over
    some.write_text("1.5 | a:1\n| b:1\n2.5 | a:1 b:1\n")
    stream, reports = learned(some, "pa", format="vw", **own)
    assert (reports[-1].rows, stream.targets.unlabelled) == (2, 1)


NAMES = ("pa", "pa1", "pa2")
OF_ROWS = [
    (name, ({} if name == "pa" else {"C": C}) | {"epsilon": epsilon, "learn_radius": learn_radius})
    for name, C in (("pa", None), ("pa1", 0.05), ("pa1", 10.0), ("pa2", 0.05), ("pa2", 10.0))
    for epsilon, learn_radius in ((0.0, False), (1e-3, False), (2.5, False), (4.0, True))
]


def far_rows(n=300, d=12, seed=0):
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


def of_rows(name, case, X, weights=None, state=None):
    """(state, distances before learning, weights) of all rows in their order."""
    return taught(plain_runner(name, case, {}, targets="none"), X, np.zeros(len(X)), state, weights=weights)


@pytest.mark.parametrize(("name", "case"), OF_ROWS, ids=lambda value: str(value))
def test_a_learner_is_its_definition(name, case):
    X = far_rows(n=4000 if case["epsilon"] in (1e-3, 4.0) else 400)
    weights = None if name == "pa" else np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], len(X))
    state, scores, w = of_rows(name, case, X, weights)
    wanted, further, expected = by_definition(name, case, X, weights)
    importance = np.ones(len(X)) if weights is None else weights
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(w, wanted, rtol=1e-8, atol=1e-9)
    losses = np.maximum(0.0, expected - case["epsilon"])
    assert state.tally[LOSS_SUM] == pytest.approx((importance * losses).sum(), rel=1e-8, abs=1e-6)
    assert state.tally[SQUARED_ERRORS] == pytest.approx((expected**2).sum(), rel=1e-9)
    told = plain_runner(name, case, {}, targets="none").describe(state.scalars)
    if case["learn_radius"]:
        radius = np.sqrt(case["epsilon"] ** 2 - further**2)
        assert told["radius"] == pytest.approx(radius, rel=1e-9, abs=1e-12)
        assert 0.0 < radius <= case["epsilon"]
    else:
        assert told["radius"] == case["epsilon"]


def test_a_step_costs_no_sweep_and_loses_nothing():
    """Every round shrinks w by a thousandth of what it was: thousands of renewals of the scale; and a feature that is
    named once keeps its weight as long as w does not move."""
    X = far_rows(n=3000)
    X[:, 0] = 0.0
    X[0, 0] = 3.0
    assert of_rows("pa", {"epsilon": 1e-6}, X)[0].scalars[2] > 50.0
    Y = np.zeros((50, 2))
    Y[0], Y[1:] = [0.0, 5.0], [5.0, 0.0]
    _, scores, found = of_rows("pa1", {"C": 1.0, "epsilon": 0.0}, Y)
    w, _, apart = by_definition("pa1", {"C": 1.0, "epsilon": 0.0}, Y)
    np.testing.assert_allclose(scores, apart, rtol=1e-12, atol=1e-7)
    np.testing.assert_allclose(found, w, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_step_minimises_what_it_stands_for(kind):
    """PA: ||w' - w||^2 / 2 least such that the loss is 0; PA-I: + C l(w'); PA-II: + C l(w')^2; over all w'."""
    rng = np.random.default_rng(kind)
    name, C, epsilon = NAMES[kind], 0.4, 0.5
    for _ in range(10):
        w, x = rng.normal(size=(2, 3)).astype(np.float32).astype(float)

        def objective(v, w=w, x=x):
            loss = max(0.0, np.sqrt(((v - x) ** 2).sum()) - epsilon)
            return 0.5 * ((v - w) ** 2).sum() + (1e4 if kind == 0 else C) * loss ** (2 if kind == 2 else 1)

        case = {"epsilon": epsilon} | ({"C": C} if kind else {})
        state = plain_runner(name, case, {}, targets="none").new_state(3)
        state.columns[:6:2], state.scalars[3] = w, w @ w
        of_rows(name, case, x[None], state=state)
        found = minimize(objective, w, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000})
        assert objective(state.columns[:6:2] * state.scalars[1]) <= found.fun + 1e-9


@given(
    seed=st.integers(0, 2**32 - 1), name=st.sampled_from(NAMES), C=st.sampled_from([0.02, 0.5, 20.0]),
    learn_radius=st.booleans(), near=st.booleans(),
)  # fmt: skip
def test_the_bounds_hold(seed, name, C, learn_radius, near):
    """For every u, with D = ||u - w_1||, R = 1 (Crammer 2006): Lemma 1, sum tau (2 l - tau - 2 l*) <= D^2; Theorem 2
    (PA, l* = 0), sum l^2 <= D^2; Theorem 3 (PA), sum l^2 <= (D + 2 sqrt(sum l*^2))^2; Theorem 4 (PA-I), rounds of a
    loss of 1 or more <= max(1, 1/C) (D^2 + 2C sum l*); Theorem 5 (PA-II), sum l^2 <= (1 + 1/(2C)) (D^2 + 2C sum
    l*^2)."""
    rng = np.random.default_rng(seed)
    X = far_rows(n=60, d=5, seed=seed % 991)
    center = rng.normal(size=5) + X.mean(axis=0)
    if near:  # rows within the radius of u
        X = center + (X - X.mean(axis=0)) * 0.05
        X = X.astype(np.float32).astype(float)
    apart = np.sqrt(((X - center) ** 2).sum(axis=1))
    epsilon = float(apart.max()) * 1.01 if near else float(np.quantile(apart, rng.random())) + 0.01
    u = np.append(center, 0.0)
    first = np.append(np.zeros(5), epsilon if learn_radius else 0.0)
    case = {"epsilon": epsilon, "learn_radius": learn_radius} | ({} if name == "pa" else {"C": C})
    scores = of_rows(name, case, X)[1]
    losses, best = np.maximum(0.0, scores - epsilon), np.maximum(0.0, apart - epsilon)
    tau = {"pa": losses, "pa1": np.minimum(C, losses), "pa2": losses / (1.0 + 0.5 / C)}[name]
    squared, slack = ((u - first) ** 2).sum(), 1.0 + 1e-7
    assert (tau * (2.0 * losses - tau - 2.0 * best)).sum() <= squared * slack
    if name == "pa":
        if near:
            assert (best == 0.0).all()
            assert (losses**2).sum() <= squared * slack
        assert (losses**2).sum() <= (np.sqrt(squared) + 2.0 * np.sqrt((best**2).sum())) ** 2 * slack
    if name == "pa1":
        assert (losses >= 1.0).sum() <= max(1.0, 1.0 / C) * (squared + 2.0 * C * best.sum()) * slack
    if name == "pa2":
        assert (losses**2).sum() <= (1.0 + 0.5 / C) * (squared + 2.0 * C * (best**2).sum()) * slack


def single(X):
    return scipy.sparse.csr_matrix(X, dtype=np.float32)


def test_training_in_blocks_is_the_definition():
    X = far_rows(n=70, d=30)
    case = {"C": 0.2, "epsilon": 3.0, "learn_radius": True}
    source = Matrix(single(X), chunk_rows=np.arange(0, 70, 7))
    run = train(source, learner="pa2", order="stored", max_outer=2, block_chunks=2, targets="none", **case)
    w, _, _ = by_definition("pa2", case, np.concatenate([X, X]))
    np.testing.assert_allclose(run.w[:-1], w, rtol=1e-9, atol=1e-9)
    assert run.result.certificate.rmse is None
    assert run.outer()[-1]["mistakes"] is None
    asked = {"targets": "none", "valid": Matrix(single(X))} | case
    refused("valid: pa2 learns rows without labels here; leave it out", train, source, learner="pa2", **asked)


@pytest.mark.parametrize(
    "labels", [None, np.arange(80) % 3, np.array(["a", "b"] * 40), np.where(np.arange(80) < 9, np.nan, 2.5)]
)
def test_labels_are_not_checked(labels):
    X = far_rows(n=80)
    own = {"learner": "pa1", "targets": "none", "epsilon": 1.0, "order": "stored"}
    expected, found = fit(single(X), average=False, **own), fit(single(X), labels, **own)
    assert np.array_equal(found.model.weights, expected.model.weights)
    assert found.model.labels == ()
    refused("the model: has learned rows without labels, and predicts none", found.model.predict, single(X))


def test_a_stream_and_training_agree(tmp_path):
    X = far_rows(n=120)
    X[:, 9] *= np.arange(120) > 60  # a feature that comes late
    case = {"C": 0.3, "epsilon": 5.0, "learn_radius": True}
    stream, reports = learned(text_of(tmp_path, single(X), np.ones(120)), "pa1", settings=case, targets="none")
    save_stream(tmp_path / "m.h5", stream)
    run = fit(single(X), learner="pa1", targets="none", order="stored", **case)
    found, model = weights_by_id(tmp_path / "m.h5", 13)
    np.testing.assert_allclose(found[1:], run.model.weights, rtol=1e-6)
    assert model.meta.radius == pytest.approx(run.model.meta.radius) and model.meta.radius > 0.0
    assert reports[-1].squared_errors == pytest.approx(run.state["tally"][SQUARED_ERRORS], rel=1e-6)
    assert reports[-1].mistakes is None


def test_from_text_to_a_radius(tmp_path, succeeds, refusal):
    X = single(far_rows(n=200))
    store = make_store(tmp_path, X, np.arange(200) % 2)
    (tmp_path / "new.svm").write_text(svmlight(X, np.arange(200) % 2))
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    options = ("--learner", "pa1", "-C", "0.1", "--targets", "none", "--epsilon", "6", "--learn-radius")
    _, out, err = succeeds("train", store, model, *options, "--log", log)
    assert "radius " in out
    assert logged(log)[0]["learner_settings"]["learn_radius"] is True
    for given_ in (tmp_path / "new.svm", store):
        told = refusal("predict", model, given_)
        assert f"{model}: has learned rows without labels, and predicts none" in told
    out = succeeds("info", model).out
    assert "it learned rows" in out
    assert f"{load_model(model).meta.radius:.6g}" in out
    (tmp_path / "bare.vw").write_text("| a:1 b:2\n| b:1\n1 | a:1\n")
    out = succeeds("stream", tmp_path / "bare.vw", "--learner", "pa", "--targets", "none", "--epsilon", "0.5",
        "--model", tmp_path / "s.h5", "--predictions", "-", "--scores").out  # fmt: skip
    assert np.array(out.split(), float)[0] == pytest.approx(np.sqrt(5.0), rel=1e-6)
    assert len(out.split()) == 3
    own = "pa1 --targets none --epsilon 1"
    for options, said in (
        ("arow --targets numbers", "--targets numbers: arow learns classes alone"),
        ("pegasos --targets numbers", "--targets numbers: pegasos learns classes alone"),
        ("pa1 --targets numbers --epsilon -1", "--epsilon -1: must be"),
        ("pa1 --targets numbers --learn-radius", "--learn-radius"),
        ("arow --targets none", "--targets none: arow learns classes alone"),
        ("ogd --targets none", "--targets none: ogd learns from labels alone"),
        ("pa1 --targets none", "pa1 needs --epsilon"),
        (f"{own} --average", "--average: pa1 does not"),
        (f"{own} --bias 1", "--bias: pa1 does not"),
        (f"{own} --query 1", "--query: is for classes"),
        (f"{own} --prior {model}", "--prior: pa1 does not accept"),
    ):
        for main, files in (("stream", [tmp_path / "new.svm"]), ("train", [store, tmp_path / "x.h5"])):
            assert said in refusal(main, *files, "--learner", *options.split())
    assert not (tmp_path / "x.h5").exists()
    asked = {"learner": "pa1", "targets": "none", "epsilon": 1.0, "class_weight": "balanced"}
    refused("class_weight: is for rows of one label each", fit, X, np.arange(200) % 2, **asked)
