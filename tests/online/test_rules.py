"""The rules of the online learners judged: by the problems their steps solve, by their definitions, by hand."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, gammaln
from support.online_cases import CASES, ratio, rows, taught
from support.plain_learners import LEARNERS, LOSSES, MultiPrototype, OneVsRest, plain_runner, run

from blocksvm.losses import get_loss
from blocksvm.online.loops import MISTAKES, SQUARED_ERRORS
from blocksvm.online.rules.auto import COIN_COLUMNS, SCALAR
from blocksvm.online.rules.coin import COLUMN


def cases(wanted=lambda name, settings_: True):
    chosen = [(name, case) for name, tried in CASES.items() for case in tried if wanted(name, case)]
    return pytest.mark.parametrize(("name", "settings_"), chosen, ids=lambda value: str(value).replace("'", ""))


ALL = cases(lambda name, settings_: settings_.get("group") != 2.0)  # which leaves no weight here
INF = float("inf")


def few_rows(n=40, d=4, seed=0):
    """Rows that a line separates but for noise, with some zero entries."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    y = np.where(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1, -1)
    return X, y


def after(learner, *rounds):
    """The learner's weights after each of the rounds (x, y)."""
    weights = []
    for x, y in rounds:
        learner.learn(np.array(x, dtype=float), y)
        weights.append(learner.w)
    return weights


X0, W0 = np.array([0.8, -1.1, 0.5]), np.array([0.3, 0.4, -0.7])


def minimise(objective, start, constraints):
    """The minimiser of a smooth problem with constraints g >= 0, judged by its KKT conditions alone.

    Augmented Lagrangian steps (Nocedal and Wright, *Numerical Optimization*, 2nd ed., section 17.4) find multipliers
    and the constraints that are active; then the equations of the KKT system with these are solved.  What a search ends
    with differs from one processor's rounding to another's; so does the number of steps, never what is accepted.
    Gradients are by complex steps, exact for analytic functions.
    """

    def gradient(f, p):
        return np.array([f(p + 1e-30j * unit).imag / 1e-30 for unit in np.eye(len(p))])

    def slacks(p):
        return np.array([g(p) for g in constraints])

    def stationarity(p, multipliers):
        return gradient(objective, p) - multipliers @ [gradient(g, p) for g in constraints]

    def residual(p, multipliers):
        complementarity = np.minimum(multipliers, slacks(p))  # 0 where both are feasible and their product is 0
        worst = np.max(np.abs(np.concatenate([stationarity(p, multipliers), complementarity])))
        return worst / max(1.0, np.max(multipliers))

    p, multipliers, penalty = np.array(start), np.zeros(len(constraints)), 10.0
    for _ in range(20):

        def lagrangian(p, multipliers=multipliers, penalty=penalty):
            pushed = np.maximum(multipliers - penalty * slacks(p), 0.0)
            return objective(p) + np.sum(pushed**2) / (2 * penalty), stationarity(p, pushed)

        p = scipy.optimize.minimize(lagrangian, p, jac=True, method="BFGS", options={"gtol": 1e-6}).x
        multipliers = np.maximum(multipliers - penalty * slacks(p), 0.0)
        active, n = multipliers > 0, len(p)

        def system(z, active=active, n=n):
            return np.concatenate([stationarity(z[:n], z[n:]), np.where(active, slacks(z[:n]), z[n:])])

        solved = scipy.optimize.root(system, np.concatenate([p, multipliers]), tol=1e-13).x
        if residual(solved[:n], solved[n:]) < 1e-9:
            return solved[:n]
        penalty = min(2 * penalty, 1e3)
    raise AssertionError(f"no point fulfils the KKT conditions: residual {residual(p, multipliers):.1e}")


def at_margin(m, y):
    """Weights whose margin on (X0, y) is m, not parallel to X0."""
    return W0 + (y * m - W0 @ X0) / (X0 @ X0) * X0


MARGINS = pytest.mark.parametrize(("m", "y"), [(-4.0, 1), (-0.6, -1), (0.0, 1), (0.35, 1), (0.8, -1), (5.0, 1)])


@MARGINS
@pytest.mark.parametrize(("name", "C"), [("pa", 1), ("pa1", 0.05), ("pa1", 3.0), ("pa2", 0.05), ("pa2", 3.0)])
@pytest.mark.parametrize("epsilon", [None, 0.15])
def test_passive_aggressive_step_is_the_minimiser(name, C, m, y, epsilon):
    """PA: ||w' - w||^2 / 2 least such that the loss is 0; PA-I: + C l(w'); PA-II: + C l(w')^2; epsilon: of numbers."""
    more = {} if epsilon is None else {"targets": "numbers", "epsilon": epsilon}
    learner, before = LEARNERS[name](3, **more, **({} if name == "pa" else {"C": C})), at_margin(m, y)
    learner.w = before
    learner.learn(X0, y)
    short = [lambda w: 1 - y * (w @ X0)]  # the loss is the largest of these and 0
    if more:
        short = [lambda w: w @ X0 - y - epsilon, lambda w: y - w @ X0 - epsilon]
    if name == "pa":
        met = [lambda w, of=of: -of(w) for of in short]
        optimum = minimise(lambda w: 0.5 * np.sum((w - before) ** 2), before, met)
    else:
        met = [*(lambda p, of=of: p[3] - of(p[:3]) for of in short), lambda p: p[3]]
        power, start = int(name[-1]), np.append(before, 3.0)
        optimum = minimise(lambda p: 0.5 * np.sum((p[:3] - before) ** 2) + C * p[3] ** power, start, met)[:3]
    np.testing.assert_allclose(learner.w, optimum, atol=1e-8)
    assert np.any(learner.w != before) == (m < 1 if epsilon is None else abs(m - 1) > epsilon)


VAR0 = np.array([0.6, 1.7, 0.9])


def unpack(p):
    """Mean and factor L of the covariance L L' from the optimiser's nine numbers, the diagonal as logs."""
    L = np.zeros((3, 3), dtype=p.dtype)
    L[np.diag_indices(3)] = np.exp(p[3:6])
    L[np.tril_indices(3, -1)] = p[6:9]
    return p[:3], L


def kl(p, mean):
    """KL(N(mu, L L') || N(mean, diag(VAR0)))."""
    mu, L = unpack(p)
    inside = np.sum(np.log(VAR0)) - 2 * np.sum(p[3:6])
    return 0.5 * (inside + np.sum(L**2 / VAR0[:, None]) + np.sum((mu - mean) ** 2 / VAR0) - 3)


def moments(p, y):
    """Margin and its variance, both of X0."""
    mu, L = unpack(p)
    return y * (mu @ X0), np.sum((L.T @ X0) ** 2)


@MARGINS
@pytest.mark.parametrize(
    ("name", "C"),
    [("cw-var", 1), ("cw-stdev", 1), ("arow", 1), ("scw1", 0.2), ("scw1", 50.0), ("scw2", 0.2), ("scw2", 3.0)],
)
def test_confidence_weighted_step_is_the_minimiser(name, C, m, y):
    learner = LEARNERS[name](3, **{"arow": {"r": 0.7}, "scw1": {"C": C}, "scw2": {"C": C}}.get(name, {}))
    phi = scipy.stats.norm.ppf(0.9)
    mean = at_margin(m, y)
    learner.w = mean
    learner.variance = VAR0
    learner.learn(X0, y)
    start = np.concatenate([mean, 0.5 * np.log(VAR0), np.zeros(3)])

    def shortfall(p):
        margin, v = moments(p, y)
        return phi * (v if name == "cw-var" else np.sqrt(v)) - margin

    if name in ("cw-var", "cw-stdev"):
        p = minimise(lambda p: kl(p, mean), start, [lambda p: -shortfall(p)])
    elif name == "arow":
        p = minimise(
            lambda p: kl(p, mean) + (p[9] ** 2 + moments(p, y)[1]) / 1.4,
            np.append(start, max(0.1, 1 - m)),
            [lambda p: p[9] - 1 + moments(p, y)[0], lambda p: p[9]],
        )
    else:
        power = int(name[-1])
        p = minimise(
            lambda p: kl(p, mean) + C * p[9] ** power,
            np.append(start, max(0.1, shortfall(start))),
            [lambda p: p[9] - shortfall(p), lambda p: p[9]],
        )
    mu, L = unpack(p)
    covariance = L @ L.T
    assert np.any(learner.w != mean) == (m < 5)
    if name == "arow" and m == 5:  # the rule leaves alone what has no loss, though the problem would not
        np.testing.assert_array_equal(learner.variance, VAR0)
        return
    np.testing.assert_allclose(learner.w, mu, atol=1e-7)
    of_diagonal = 1 / np.diag(np.linalg.inv(covariance)) if name == "cw-var" else np.diag(covariance)
    np.testing.assert_allclose(learner.variance, of_diagonal, rtol=1e-7)


def test_perceptrons_by_hand():
    rounds = [((1, 1), -1), ((0, 1), 1), ((0, 0), 1), ((1, 0), -1), ((1, 0), 1)]
    learner = LEARNERS["perceptron-bias"](2, max_norm=2.0, step=0.5)
    scores, w, mean = run(learner, np.array([x for x, _ in rounds], dtype=float), [y for _, y in rounds])
    # b: -2, 0, 2 (the row of zeros is a mistake at score 0), 0, 2
    np.testing.assert_array_equal(scores, [0, -2.5, 0, 1.5, -1])
    np.testing.assert_array_equal(w, [-0.5, 0])
    assert learner.b == 2
    np.testing.assert_allclose(mean, [-0.6, -0.1])


@pytest.mark.parametrize("loss", LOSSES)
def test_perceptron_linearised_forel_and_the_euclidean_mirror_follow_gradient_descent(loss):
    X, y = few_rows()
    X[5] = 0
    ogd = run(LEARNERS["ogd"](4, step=0.2, decay="constant", loss=loss), X, y, 2)
    assert np.max(np.abs(ogd[1])) > 0.01
    others = [("forel", {"loss": loss}), ("omd", {"loss": loss}), ("omd", {"loss": loss, "mirror": "p-norm", "p": 2})]
    for name, settings_ in others + [("perceptron", {})] * (loss == "perceptron"):
        for a, b in zip(ogd, run(LEARNERS[name](4, step=0.2, **settings_), X, y, 2), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("p", [None, *(pytest.param(p, marks=pytest.mark.slow) for p in (2.0, 3.0, 4.5))])
def test_a_mirror_is_the_minimiser(p):
    """argmin -<theta, w> + R(w): of the p-norm, or (None) of 2 d shares of U with R = (U / eta) sum share log share."""
    mirror = {"mirror": "p-norm", "p": p} if p else {"mirror": "entropic", "radius": 3}
    learner = LEARNERS["omd"](3, step=0.4, **mirror)
    np.testing.assert_array_equal(learner.w, 0)
    for x, y in [((0.5, -1.0, 0.2), 1), ((0.9, 1.0, 0.4), -1), ((-0.2, 0.4, 0.7), 1)]:
        learner.learn(np.array(x), y)

        def of_norm(w):
            return -(learner.theta @ w) + np.sum(np.abs(w) ** (p / (p - 1))) ** (2 * (p - 1) / p) / 0.8

        def of_shares(logits):
            share = scipy.special.softmax(logits)
            return -3 * learner.theta @ (share[:3] - share[3:]) + 3 / 0.4 * share @ np.log(share)

        if p:
            close = {"xatol": 1e-9, "fatol": 1e-16, "maxiter": 4000}
            optimum = scipy.optimize.minimize(of_norm, learner.theta, method="Nelder-Mead", options=close).x
        else:
            share = scipy.special.softmax(scipy.optimize.minimize(of_shares, np.zeros(6), jac="3-point").x)
            optimum = 3 * (share[:3] - share[3:])
        np.testing.assert_allclose(learner.w, optimum, atol=1e-5)
    assert np.all(np.abs(learner.theta) > 0.1) and np.max(np.abs(learner.w)) > 0.1


def test_entropic_mirror_has_no_overflow_and_no_cancellation():
    learner = LEARNERS["omd"](3, mirror="entropic", radius=2.0)
    np.testing.assert_array_equal(after(learner, ((1e5, -2e5, 0), 1)), [(0, -2, 0)])
    tiny = LEARNERS["omd"](2, mirror="entropic", radius=2.0)
    np.testing.assert_allclose(after(tiny, ((1e-20, 0), 1)), [(1e-20, 0)], rtol=1e-12)


def path(name, **settings_):
    """(t, w_t, g_t, all g so far, w_{t+1}) of a learner with hinge loss, the gradients worked out here."""
    X, y = few_rows(n=25, d=3, seed=2)
    X[7] = 0
    learner, past = LEARNERS[name](3, **settings_), []
    for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
        before = learner.w
        past.append(-label * x if label * (before @ x) < 1 else 0 * x)
        learner.learn(x, label)
        yield t, before, past[-1], np.array(past), learner.w


STEPS = [("fobos", {"l1": l1, "l2": l2, "decay": decay})
         for l1, l2 in ((0.35, 0.0), (0.0, 0.5), (0.3, 0.4)) for decay in ("sqrt", "constant")]  # fmt: skip
STEPS += [("hf-fobos", {"l1": 0.3, "p": p, "cap": cap, "decay": decay})
          for p in (1, 2, 3, INF) for cap in (None, 0.9) for decay in ("sqrt", "constant")]  # fmt: skip
STEPS += [(name, {"l1": 0.2, "delta": delta}) for name in ("adagrad-rda", "adagrad-fobos") for delta in (0.0, 0.5)]


@pytest.mark.parametrize(("name", "settings_"), [*STEPS, ("adagrad-rda-squares", {"l1": 0.2})], ids=str)
def test_each_weight_after_each_round_is_the_minimiser(name, settings_):
    own = {"l2": 0.0, "decay": "sqrt", "p": 2, "cap": None, "delta": 0.0} | settings_
    l1, p, zeros, others = own["l1"], own["p"], 0, 0

    def objective(v, t, before, g, past):
        """Of one weight: it before the round, its gradient now, and in all rounds so far (t,)."""
        eta = 0.8 / np.sqrt(np.arange(1, t + 1)) if own["decay"] == "sqrt" else np.full(t, 0.8)
        if name.endswith("adagrad-fobos"):
            return g * v + l1 * abs(v) + (own["delta"] + np.sqrt(np.sum(past**2))) * (v - before) ** 2 / (2 * 0.8)
        if name.startswith("adagrad"):
            h = np.sum(past**2) if name.endswith("squares") else (own["delta"] + np.sqrt(np.sum(past**2))) / 0.8
            return np.mean(past) * v + l1 * abs(v) + (h * v * v / (2 * t) if h > 0 else abs(v))
        h, moves = 1.0, np.abs(eta * past)
        if name == "hf-fobos":
            h = np.max(moves) if p == INF else np.sum(moves**p) ** (1 / p)
            h = min(h, own["cap"]) if own["cap"] is not None and p <= 2 else h
        return 0.5 * (v - before + eta[-1] * g) ** 2 + eta[-1] * (l1 * h * abs(v) + own["l2"] * v * v / 2)

    for t, before, g, past, result in path(name, **settings_ | ({} if name.endswith("squares") else {"step": 0.8})):
        for j in range(3):
            found = scipy.optimize.minimize_scalar(objective, args=(t, before[j], g[j], past[:, j]), bounds=(-50, 50),
                                                   options={"xatol": 1e-11, "maxiter": 500})  # fmt: skip
            assert result[j] == pytest.approx(found.x, abs=2e-6)
        zeros += np.sum((result == 0) & (t > 3))
        others += np.sum(result != 0)
    assert others > 10 and (zeros > 0 or l1 == 0)  # both sides of the threshold were met


@ALL
def test_labels_features_and_rows_are_treated_alike(name, settings_):
    """Negated labels negate the weights; the order of features does not matter; unseen ones stay at 0; rows are not
    written to."""
    X, y = few_rows()
    X[4], order = 0, np.array([2, 0, 3, 1])
    kept, labels = X.copy(), y.copy()
    (scores, w, mean), (scores_, w_, mean_) = (run(LEARNERS[name](4, **settings_), X, s * y, 2) for s in (1, -1))
    assert np.max(np.abs(w)) > 1e-3 and len(set(w)) > 1
    for a, b in ((scores, scores_), (w, w_), (mean, mean_)):
        np.testing.assert_allclose(a, -b, atol=1e-12)
    _, permuted, _ = run(LEARNERS[name](4, **settings_), X[:, order], y, 2)
    np.testing.assert_allclose(w[order], permuted, atol=1e-11)
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_array_equal(y, labels)
    X[:, 2] = 0
    _, w, _ = run(LEARNERS[name](4, **settings_), X, y)
    assert w[2] == 0 and np.any(w != 0)


@cases(lambda name, settings_: name not in ("perceptron-bias", "nag", "auto"))  # nag's pace counts the rows
def test_rows_of_zeros_first_take_no_step(name, settings_):
    learner = LEARNERS[name](4, **settings_)
    weights = after(learner, (np.zeros(4), 1), (np.zeros(4), -1))
    assert learner.state.scalars[0] == 2 and not np.any(weights)


@pytest.mark.parametrize(
    "name", ["perceptron", "pa", "pa1", "pa2", "cw-var", "cw-stdev", "arow", "scw1", "scw2", "forel"]
)
def test_rows_of_zeros_do_nothing_to_learners_without_decay(name):
    X, y = few_rows()
    gaps = np.zeros((80, 4))
    gaps[::2] = X
    plain, with_zeros = run(LEARNERS[name](4), X, y), run(LEARNERS[name](4), gaps, np.repeat(y, 2))
    np.testing.assert_array_equal(plain[1], with_zeros[1])


def scaled(name, c):
    """Settings with which rows c times as large give weights c^power times as large, and that power."""
    return {
        "perceptron": ({}, 1),
        "pa": ({}, -1),
        "pa1": ({"C": 0.1 / c / c}, -1),
        "pa2": ({"C": 0.1 / c / c}, -1),
        "cw-var": ({"variance": 1 / c / c}, -1),
        "cw-stdev": ({}, 0),
        "scw1": ({"C": 0.2, "variance": 1 / c / c}, -1),
        "scw2": ({"C": 0.2, "variance": 1 / c / c}, -1),
        "arow": ({"r": 0.5 * c * c}, -1),
        "nag": ({}, -1),
        "coin": ({}, -1),
        "auto": ({}, -1),
        "mira": ({}, 1),
        "ftrl": ({"loss": "perceptron", "beta": 0.0}, 0),
        "ogd": ({"loss": "perceptron", "radius": 2.0 * c}, 1),
        "forel": ({"loss": "perceptron"}, 1),
        "omd": ({"loss": "perceptron", "mirror": "p-norm", "p": 6.0}, 1),
        "subgradient": ({"loss": "perceptron", "l1": 0.1 * c}, 1),
        "fobos": ({"loss": "perceptron", "l1": 0.1 * c, "l2": 0.1}, 1),
        "hf-fobos": ({"loss": "perceptron", "l1": 0.1, "p": 3}, 1),
        "adagrad-rda": ({"loss": "perceptron", "l1": 0.1 * c, "delta": 0.0}, 0),
        "adagrad-rda-squares": ({"loss": "perceptron", "l1": 0.1 * c}, -1),
        "adagrad-fobos": ({"loss": "perceptron", "l1": 0.1 * c, "delta": 0.5 * c}, 0),
        "pegasos": ({"lam": 0.1 * c * c}, -1),
    }[name]


@pytest.mark.parametrize("c", [2.0**80, 2.0**-80])
@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "perceptron-bias"])
def test_huge_and_tiny_rows_give_the_scaled_path(name, c):
    X, y = few_rows()
    with np.errstate(all="raise", under="ignore"):
        _, w, _ = run(LEARNERS[name](4, **scaled(name, 1.0)[0]), X, y)
        settings_, power = scaled(name, c)
        _, w_, _ = run(LEARNERS[name](4, **settings_), c * X, y)
    assert np.max(np.abs(w)) > 1e-3
    np.testing.assert_allclose(w_ / c**power, w, rtol=1e-9, atol=1e-12)


@cases(lambda name, settings_: settings_.get("loss") not in ("squared", "squared-hinge"))  # those grow with the cube
def test_huge_and_tiny_rows_among_others(name, settings_):
    if name == "perceptron-bias":
        settings_ = settings_ | {"max_norm": 1e49}
    X, y = few_rows(30, seed=3)
    X = X * np.array([1.0, 1e49, 1e-49, 0.0, 1e-49])[np.arange(30) % 5][:, None]
    learner = LEARNERS[name](4, **settings_)
    with np.errstate(all="raise", under="ignore"):
        scores, w, mean = run(learner, X, y)
    assert np.all(np.isfinite(scores)) and np.all(np.isfinite(w)) and np.all(np.isfinite(mean)) and np.any(w != 0)
    if name.startswith(("cw", "scw", "arow")):
        assert np.all((learner.variance > 0) & np.isfinite(learner.variance))


def test_ties_between_classes_go_to_the_smaller():
    learner = MultiPrototype(LEARNERS["perceptron"], 4, 1)
    assert learner.predict(np.ones(1)) == 0
    for x, c, W in ((1, 0, [1, -1, 0, 0]), (-1, 0, [0, 0, 0, 0]), (1, 2, [-1, 0, 1, 0])):
        learner.learn(np.full(1, x), c)  # of the second row the scores are -1, 1, 0, 0: the rival is 1
        assert learner.W.ravel().tolist() == W
    np.testing.assert_array_equal(learner.scores(np.array([2.0])), [-2, 0, 2, 0])
    assert learner.predict(np.ones(1)) == 2
    assert OneVsRest(LEARNERS["perceptron"], 3, 1).predict(np.ones(1)) == 0


@ALL
def test_one_vs_rest_is_its_binary_learners(name, settings_):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 4))
    labels = np.argmax(X @ rng.normal(size=(4, 3)) + 0.3 * rng.normal(size=(30, 3)), axis=1)
    learner = OneVsRest(lambda d: LEARNERS[name](d, **settings_), 3, 4)
    for x, c in zip(X, labels, strict=True):
        learner.learn(x, c)
    scores = []
    for c in range(3):
        alone = LEARNERS[name](4, **settings_)
        run(alone, X, np.where(labels == c, 1, -1))
        np.testing.assert_array_equal(learner.W[c], alone.w)
        scores.append(alone.score(X[0]))
    np.testing.assert_array_equal(learner.scores(X[0]), scores)
    assert learner.predict(X[0]) == scores.index(max(scores))


def learned(name, X, y, weights=None, real=False, state=None, **settings):
    """(state, scores before learning, last weights) of a learner after all rows, numbers as labels if real."""
    runner = plain_runner(name, settings, {}, targets="numbers" if real else None)
    return taught(runner, X, y, state, dtype=np.float64, weights=weights)


def weights_of(name, X, y, weights=None, **settings):
    return learned(name, X, y, weights, **settings)[2]


def test_logistic_steps_hold_where_nothing_may_overflow():
    aware_step = np.errstate(all="ignore")(get_loss("logistic").at({}).aware_step)
    for m in (-800.0, -50.0, 0.0, 30.0, 700.0, 1e4):
        for amount in (1e-12, 1.0, 1e3, 1e8):
            rise = aware_step(m, 1.0, amount, 1.0) * amount
            assert 0.0 <= rise <= amount
            if abs(m) < 300.0 and m + rise < 300.0:
                assert rise + np.exp(m) * np.expm1(rise) == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_weights_are_those_of_the_definition(loss):
    """Ross, Mineiro, Langford, UAI 2013, Alg. 2: s_j the largest |x_j| so far, w_j shrunk by old s_j / new s_j;
    N += h sum (x_j / s_j)^2, G_j += h g_j^2, and rate_j = step sqrt(sum of h / N) / (s_j sqrt(G_j)); the score follows
    dz / dh = -q loss'(z), q = sum rate_j x_j^2 (Karampatziakis, Langford, UAI 2011, Table 1)."""
    X, y = rows(n=120, d=15, seed=2)
    weights = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 7.0], len(y))
    w, s, G, N, total = np.zeros(15), np.zeros(15), np.zeros(15), 0.0, 0.0
    for x, label, h in zip(X, y, weights, strict=True):
        if h > 0.0:
            grown = np.maximum(s, np.abs(x))
            w, s = w * ratio(s, grown), grown
            z, total, N = w @ x, total + h, N + h * np.sum(ratio(x, s) ** 2)
            slope = z - label if loss == "squared" else -label * (label * z < 1.0)
            if slope == 0.0 or not x.any():
                continue
            G = G + h * (slope * x) ** 2
            rate = 0.5 * np.sqrt(total / N) * ratio(np.ones(15), s * np.sqrt(G))
            q = np.sum(rate * x * x)
            change = (label - z) * -np.expm1(-h * q) if loss == "squared" else label * min(h * q, 1.0 - label * z)
            w = w + change / q * rate * x
    np.testing.assert_allclose(weights_of("nag", X, y, weights, loss=loss), w, rtol=1e-9, atol=1e-12)


def test_the_unit_of_a_feature_does_not_matter():
    X, y = rows(n=150, d=12, seed=3)
    units = 2.0 ** np.random.default_rng(1).integers(-20, 20, 12)
    np.testing.assert_allclose(weights_of("nag", X * units, y) * units, weights_of("nag", X, y), rtol=1e-9)


@given(
    coins=st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=60), x=st.sampled_from([1.0, 0.25, 1e-6, 40.0])
)
def test_of_one_feature_the_wealth_is_that_of_the_estimator(coins, x):
    """After T coins with H heads: 2^T Gamma(H + 1/2) Gamma(T - H + 1/2) / (pi Gamma(T + 1)) times what it began with
    (Orabona, Pal 2016, section 5); targets beyond reach make gradients of -x and x."""
    T, y = len(coins), 1e30 * np.array(coins)
    state, *_ = learned("coin", np.full((T, 1), x), y, real=True, loss="absolute", wealth=3.0)
    heads = coins.count(1.0)
    log = T * np.log(2.0) + gammaln(heads + 0.5) + gammaln(T - heads + 0.5) - np.log(np.pi) - gammaln(T + 1.0)
    wealth = state.columns[COLUMN.wealth]
    assert wealth == pytest.approx(3.0 * np.exp(log), rel=1e-9)
    expected = sum(coins) / (T + 1.0) * wealth / x
    assert state.columns[COLUMN.weight] == pytest.approx(expected, rel=1e-9, abs=1e-9 * wealth / x)


def test_a_feature_that_has_lost_all_begins_anew():
    """A value a thousand times as large as before: the bet on it is more than all that was won."""
    X, y = np.array([[1.0], [1.0], [1000.0]]), np.array([1e30, 1e30, -1e30])
    state, *_ = learned("coin", X, y, real=True, loss="absolute", wealth=3.0)
    assert state.columns[COLUMN.wealth] == 3.0
    learned("coin", X, y, real=True, state=state, loss="absolute", wealth=3.0)
    assert np.isfinite(state.columns).all()
    assert state.columns[COLUMN.weight] != 0.0


def test_coins_are_those_of_the_definition():
    """As the rule is written: gradients of size |g_j| in units of L_j = max |x_j| times the steepest loss' so far."""
    X, y = rows(n=120, d=15, seed=2)
    weights = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 7.0], len(y))
    w, scale, theta, total, wealth = np.zeros(15), np.zeros(15), np.zeros(15), np.zeros(15), np.full(15, np.nan)
    t, entries, steepest = 0, 0, 1.0
    for x, label, h in zip(X, y, weights, strict=True):
        if h > 0.0:
            t, entries = t + 1, entries + np.count_nonzero(x)
            slope = -label * h * (label * (w @ x) < 1.0)
            steepest, moved = max(steepest, abs(slope)), slope * x != 0.0
            g, first = slope * x, 16.0 * t / max(1, entries)
            wealth[moved] = np.where(np.isnan(wealth), first, wealth)[moved] - (g * w)[moved]
            wealth[moved & (wealth <= 0.0)] = first
            scale[moved] = np.maximum(scale, np.abs(x))[moved]
            theta, total = theta - g, total + np.abs(g)
            L = np.where(moved, scale * steepest, 1.0)
            w = np.where(moved, theta / (L + total) * wealth / L, w)
    np.testing.assert_allclose(weights_of("coin", X, y, weights), w, rtol=1e-9, atol=1e-12)


D = 30


def turning(seed, real):
    """Rows whose labels are turned round half way."""
    rng = np.random.default_rng(seed)
    X, _ = rows(n=600, d=D, seed=seed)
    z = X @ rng.standard_normal(D)
    y = np.where(np.arange(len(z)) < 300, 1.0, -1.0) * (z + rng.standard_normal(len(z)) if real else np.sign(z))
    return X, y if real else np.where(y > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_both_learners_and_follows_the_better_one(real, seed):
    X, y = turning(seed, real)
    weights = np.random.default_rng(seed).choice([0.25, 1.0, 2.0], len(y))
    nag, of_nag, w_nag = learned("nag", X, y, weights, real, loss="squared" if real else "squared-hinge")
    coin, of_coin, w_coin = learned("coin", X, y, weights, real, loss="squared" if real else "hinge")
    both, scores, w = learned("auto", X, y, weights, real)
    columns = both.columns.reshape(D + 1, -1)
    for found, own in ((columns[:, :COIN_COLUMNS], nag), (columns[:, COIN_COLUMNS:], coin)):  # but for sums' rounding
        np.testing.assert_allclose(found, own.columns.reshape(D + 1, -1), rtol=1e-9, atol=1e-12)
    charges = []
    for own in (of_nag, of_coin):
        charges.append(np.append(0.0, np.cumsum(weights * ((own - y) ** 2 if real else own * y <= 0.0))))
    leads = charges[0][:-1] <= charges[1][:-1]
    assert leads.any() and not leads.all()
    np.testing.assert_allclose(scores, np.where(leads, of_nag, of_coin), rtol=0, atol=1e-12 * np.abs(scores).max())
    assert both.scalars[SCALAR.nag_charged] == pytest.approx(charges[0][-1], rel=1e-9)
    assert both.scalars[SCALAR.coin_charged] == pytest.approx(charges[1][-1], rel=1e-9)
    counted = (scores - y) ** 2 if real else scores * y <= 0.0
    assert both.tally[SQUARED_ERRORS if real else MISTAKES] == pytest.approx(counted.sum(), rel=1e-9)
    # the weights are those of the one that leads now
    np.testing.assert_allclose(w, w_nag if charges[0][-1] <= charges[1][-1] else w_coin, rtol=1e-9, atol=1e-12)


def test_weights_are_the_minimiser_of_linearised_losses_with_proximal_terms():
    X, y = rows(n=80, d=6, seed=5, density=0.5)
    alpha, beta, l1, l2 = 0.3, 0.5, 0.4, 0.2
    settings = {"alpha": alpha, "beta": beta, "l1": l1, "l2": l2, "loss": "logistic"}
    before = [weights_of("ftrl", X[:t], y[:t], **settings) if t else np.zeros(6) for t in range(len(y))]
    G = np.array([-s * expit(-s * (w @ x)) * x for w, x, s in zip(before, X, y, strict=True)])
    roots = np.sqrt(np.cumsum(G**2, axis=0)) / alpha
    sigma = np.diff(roots, axis=0, prepend=0.0)
    found = weights_of("ftrl", X, y, **settings)
    for j in range(6):

        def objective(w, j=j):
            near = np.sum(sigma[:, j] * (w - np.array(before)[:, j]) ** 2) / 2
            return G[:, j].sum() * w + near + l1 * abs(w) + (beta / alpha + l2) * w * w / 2

        least = scipy.optimize.minimize_scalar(objective, bounds=(-10, 10), method="bounded", options={"xatol": 1e-12})
        assert objective(found[j]) <= least.fun + 1e-12
        assert found[j] == pytest.approx(least.x, abs=1e-6)


def test_a_large_l1_leaves_weights_that_are_exactly_0():
    X, y = rows(n=200, d=20, seed=6)
    few, many = (np.count_nonzero(weights_of("ftrl", X, y, l1=l1)) for l1 in (5.0, 0.0))
    assert 0 < few < many
