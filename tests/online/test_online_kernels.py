"""The online learners' loops: means, definitions, prototypes, blocks of any size, sampled labels, refusals."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.online_cases import CASES, agree, csr, has_mean, ratio, rows, taught
from support.plain_learners import LEARNERS, LOSSES, MultiPrototype, plain_runner, run
from support.refused import refused

from blocksvm.online import get_learner, loops
from blocksvm.online.runner import Runner
from blocksvm.testing import check_learner

pytestmark = pytest.mark.slow
EACH = [(name, case) for name, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("name", "case"), EACH, ids=str)
def test_the_mean_is_that_of_the_weights_after_each_row(name, case):
    """Of weights that are brought up to date, and totals that are summed, only when a row has the feature."""
    (X, y), average = rows(n=100, d=30), has_mean(name, case)
    runner, dense = plain_runner(name, case, {"n_features": 30}, average=average), LEARNERS[name](30, **case)
    state, total = None, 0.0
    for epoch in (1, 2):
        before, last, mean = run(dense, X, y)
        total = total + mean
        state, scores, found = taught(runner, X, y, state)
        agree(scores, before)
        agree(found, total / epoch if average else last)  # and reading them changes nothing


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("mira", "perceptron-bias")])
def test_prototypes_are_one_learner_of_two_places(name):
    """Of the row that has x in the place of its class c, -x in that of the wrong class s of the highest score, and
    zeros (Crammer et al., JMLR 2006, section 7)."""
    d, k, case = 6, 3, CASES[name][-1]
    X, _ = rows(n=80, d=d, seed=3, density=0.5)
    rng = np.random.default_rng(1)
    y = np.argmax(X @ rng.standard_normal((d, k)) + 0.3 * rng.standard_normal((len(X), k)), axis=1)
    several, one = MultiPrototype(partial(LEARNERS[name], **case), k, d), LEARNERS[name](k * d, **case)
    for x, c in zip(X, y, strict=True):
        places = np.array([np.kron(np.eye(k)[r], x) for r in range(k)])
        scores = np.array([one.score(place) for place in places])
        agree(several.scores(x), scores)
        s = np.argmax(np.where(np.arange(k) == c, -np.inf, scores))
        one.learn(places[c] - places[s], 1)
        several.learn(x, c)
        agree(several.W.ravel(), one.w)
    assert one.w.any()


def test_prototypes_with_a_bias_have_a_feature_as_large_as_the_largest_row():
    X, _ = rows(n=80, d=6, seed=3, density=0.5)
    biased = MultiPrototype(partial(LEARNERS["perceptron-bias"], max_norm=2.5), 3, 6)
    plain = MultiPrototype(LEARNERS["perceptron"], 3, 7)
    for i, x in enumerate(X):
        biased.learn(x, i % 3)
        plain.learn(np.append(x, 2.5), i % 3)
    agree(biased.weights * [*np.ones(6), biased.runner.bias / 2.5], plain.W)


@pytest.mark.usefixtures("plain_loops")
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_keeps_what_it_promises(name):
    """Scores, rows one by one, rows without a label or weight, the constant feature and the mean."""
    given = {setting: value for setting, value in CASES[name][-1].items() if setting != "max_norm"}
    check_learner(get_learner(name), given, rescales=name in ("nag", "auto"))


@pytest.mark.parametrize("name", ["pa1", "arow", "fobos", "ogd"])
def test_ones_are_values_of_one(name):
    X, y = rows(d=25, seed=6)
    X, runner = (X != 0).astype(float), plain_runner(name, CASES[name][0], {})
    state, (indptr, indices, _) = runner.new_state(25), csr(X)
    runner.learn((indptr, indices, None), y.astype(np.int16), np.arange(len(y), dtype=np.int32), 25, state)
    for dtype in (np.float32, np.float64):
        assert np.array_equal(taught(runner, X, y, dtype=dtype)[0].columns, state.columns)


def within(w, radius):
    return w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))


def soft(w, threshold):
    return np.sign(w) * np.maximum(np.abs(w) - threshold, 0.0)


def by_definition(name, case, X, y):
    """(last weights, their mean) of a rule as it is written, all weights renewed in each round."""
    w, u, squares, heights, total = (np.zeros(X.shape[1]) for _ in range(5))
    step, l1, p = case.get("step", 1.0), case.get("l1", 0.0), case.get("p", 2.0)
    loss = LOSSES[case.get("loss", "hinge")]
    for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
        g = loss(w @ x, label)[1] * x
        eta = step / (1.0 if case.get("decay") == "constant" else math.sqrt(t))
        u, squares = u + g, squares + g * g
        h = case.get("delta", 1.0) + np.sqrt(squares)
        if case.get("mirror") == "entropic":
            powers = step * np.array([-u, u])
            up, down = np.exp(powers - powers.max())
            w = case["radius"] * (up - down) / (up + down).sum()
        elif case.get("mirror") == "p-norm":
            w = -step * np.sign(u) * np.abs(u) ** (p - 1) / max(np.linalg.norm(u, ord=p), 1e-300) ** (p - 2)
        elif name == "pegasos":
            w = (1.0 - 1.0 / t) * w - g / (case["lam"] * t)
            if "unprojected" not in case:
                w = within(w, math.sqrt((2.0 * loss(0.0, 1.0)[0] if "loss" in case else 1.0) / case["lam"]))
        elif name == "ogd":
            w = within(w - eta * g, case.get("radius", math.inf))
        elif name == "subgradient":
            w = w - eta * (g + l1 * np.sign(w))
        elif name == "adagrad-fobos":
            w = soft(w - step * ratio(g, h), step * ratio(np.full(len(h), l1), h))
        elif name.startswith("adagrad-rda"):
            w = -ratio(soft(u, t * l1), squares if name.endswith("squares") else h / step)
        elif "group" in case:
            w = w - eta * g
            w = w * max(0.0, 1.0 - eta * case["group"] / max(np.linalg.norm(w), 1e-300))
        else:
            move, then = np.abs(eta * g), step / math.sqrt(t + 1) if case.get("half_steps") == "next" else eta
            heights = np.maximum(heights, move) if p == math.inf else (heights**p + move**p) ** (1.0 / p)
            of_each = np.minimum(heights, case.get("cap", math.inf)) if name == "hf-fobos" else 1.0
            w = soft(w - eta * g, then * l1 * of_each) / (1.0 + then * case.get("l2", 0.0))
        total = total + w
    return w, total / len(y)


LAZY = ("ogd", "subgradient", "fobos", "hf-fobos", "adagrad-rda", "adagrad-rda-squares", "adagrad-fobos", "pegasos")


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, case in EACH if name in LAZY], ids=str)
def test_features_seldom_seen_have_the_weights_of_the_definition(name, case):
    X, y = rows(n=150)
    _, *found = run(LEARNERS[name](30, **case), X, y)
    agree(np.array(found), np.array(by_definition(name, case, X, y)))


def test_events_keyed_to_the_round_change_nothing_but_rounding():
    """Scales multiplied in, totals summed anew: with long runs of steps that bring them about."""
    X, y = rows(n=33_000, d=12, seed=9, density=0.3)
    cases = [
        ("fobos", {"l1": 0.003, "l2": 0.05}),  # the scale falls by e^-0.05 sqrt t: below its least
        ("fobos", {"l1": 0.01}),
        ("hf-fobos", {"l1": 0.01, "p": 1.0, "cap": 500.0}),
        ("ogd", {"radius": 0.05, "decay": "constant"}),
        ("pegasos", {"lam": 1e-4}),
        ("omd", {"mirror": "entropic", "step": 1.0, "radius": 2.0}),
        ("omd", {"mirror": "p-norm", "p": 4.0, "step": 0.1}),
    ]
    for name, case in cases:
        expected = by_definition(name, case, X, y)
        for average in {False, has_mean(name, case)}:
            runner = Runner(name, case, {"n_features": 12}, average=average)  # compiled
            agree(taught(runner, X, y)[2], expected[average], 1e-9)


@pytest.mark.parametrize("p", [10.0, 12.0, 15.0, 2.0 * math.log(1e6), 200.0])
def test_weights_of_a_large_power(p):
    """P-norm mirror descent in long doubles: sums of numbers that grow by many orders must not cancel."""
    X, y = rows(n=3000, d=20, seed=4, density=0.3)
    X *= np.exp(np.linspace(-3.0, 3.0, len(X)))[:, None]  # theta grows all the time
    X = X.astype(np.float32).astype(float)
    runner, state = plain_runner("omd", {"mirror": "p-norm", "p": p, "step": 0.02}, {}), None
    for part in np.array_split(np.arange(len(y)), 3):
        state, _, found = taught(runner, X, y, state, part)
    theta, w = np.zeros(20, np.longdouble), np.zeros(20, np.longdouble)
    for x, label in zip(X.astype(np.longdouble), y, strict=True):
        if label * (w @ x) < 1.0:
            theta += label * x
            r = np.abs(theta) / np.abs(theta).max(initial=np.longdouble(1e-300))
            norm = np.abs(theta).max() * np.sum(r**p) ** (1.0 / np.longdouble(p))
            w = np.longdouble(0.02) * theta * (np.abs(theta) / norm) ** (p - 2.0) if norm > 0 else 0 * theta
    expected = w.astype(float)
    assert np.abs(expected).max() > 0.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_labels_are_asked_for_as_often_as_the_margin_says():
    X, y = rows(n=4000, d=15, seed=2)
    runner, other = (plain_runner("pa1", {"C": 0.1}, {}, query=0.5, key=key) for key in (7, 8))
    state, scores, _ = taught(runner, X, y)
    chances, queried = 0.5 / (0.5 + np.abs(scores)), state.tally[loops.QUERIED]
    assert abs(queried - chances.sum()) < 4.5 * math.sqrt((chances * (1 - chances)).sum())
    assert queried == state.scalars[0], "a row whose label is not asked for is no round"
    again, _, _ = taught(runner, X[1000:], y[1000:], taught(runner, X[:1000], y[:1000])[0])
    assert np.array_equal(again.columns, state.columns)
    assert not np.array_equal(taught(other, X, y)[0].columns, state.columns)


values = st.one_of(st.just(0.0), st.floats(-1e3, 1e3, width=32), st.sampled_from([1e-30, -1e30, 1e12, 1e-12, 1.0]))


@pytest.mark.parametrize("name", LEARNERS)
@given(data=st.lists(st.tuples(st.lists(values, min_size=3, max_size=3), st.booleans()), min_size=1, max_size=12))
def test_no_learner_makes_numbers_that_are_none(name, data):
    X, y = np.array([x for x, _ in data]), np.where([side for _, side in data], 1, -1)
    case = next((case for case in CASES[name] if "squared" not in str(case.get("loss"))), {})
    for average in {False, has_mean(name, case)}:
        runner, state = plain_runner(name, case, {"n_features": 3}, average=average), None
        for _ in range(3):
            state, scores, w = taught(runner, X, y, state)
            assert np.isfinite(scores).all() and np.isfinite(w).all()


def test_settings_that_do_not_fit_are_refused():
    for name, case, what in [
        ("pa", {"C": 1.0}, "C: pa does not accept it; it accepts costs, cost_rule"),
        ("pegasos", {}, "pegasos needs lam"),
        ("perceptron-bias", {}, "perceptron-bias needs max_norm"),
        ("arow", {"r": 0.0}, "r=0: must be above 0 and at most 1e"),
        ("ogd", {"step": 1e308}, "step=1e[+]308: must be above 0 and at most 1e"),
        ("ogd", {"step": math.nan}, "step=nan: must be above 0"),
        ("cw-var", {"confidence": 0.5}, "confidence=0.5: must be between 0.5 and 1"),
        ("ogd", {"decay": "linear"}, "decay=linear"),
        ("omd", {"mirror": "burg"}, "mirror=burg"),
        ("ogd", {"loss": "hing"}, "loss=hing: no such loss; choose one of"),
        ("omd", {"mirror": "entropic"}, "omd mirror=entropic needs n_features"),
        ("omd", {"mirror": "entropic", "n_features": 3}, "n_features=3: the rows have 4 features"),
        ("omd", {"radius": 1.0}, "radius: omd does not accept it"),
        ("omd", {"mirror": "p-norm", "p": 1.5}, "p=1.5: must be from 2 to"),
        ("hf-fobos", {"p": 0.5}, "p=0.5: must be 1 or more"),
        ("nobody", {}, "nobody: no such learner"),
    ]:
        refused(what, Runner, name, case, {"n_features": 4} if "n_features" in case else {})
    for bias in (math.nan, math.inf, -1.0):
        refused("bias=.*: must be from 0 to", Runner, "pa", {}, {}, bias=bias)
