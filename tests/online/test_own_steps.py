"""Learners that set their own steps, in plain Python: normalised gradients, coins, the better of both, and FTRL."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, gammaln
from support.online_cases import ratio, rows, taught
from support.plain_learners import plain_runner

from blocksvm.losses import get_loss
from blocksvm.online.loops import MISTAKES, SQUARED_ERRORS
from blocksvm.online.rules.auto import COIN_COLUMNS, SCALAR
from blocksvm.online.rules.coin import COLUMN


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

        least = minimize_scalar(objective, bounds=(-10, 10), method="bounded", options={"xatol": 1e-12})
        assert objective(found[j]) <= least.fun + 1e-12
        assert found[j] == pytest.approx(least.x, abs=1e-6)


def test_a_large_l1_leaves_weights_that_are_exactly_0():
    X, y = rows(n=200, d=20, seed=6)
    few, many = (np.count_nonzero(weights_of("ftrl", X, y, l1=l1)) for l1 in (5.0, 0.0))
    assert 0 < few < many
