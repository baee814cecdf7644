"""Coin betting: what a feature wins is what the estimator of Krichevsky and Trofimov wins, and no bet is more than the
wealth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln
from support.online_cases import csr, rows

from blocksvm.online.rules.coin import COLUMN
from blocksvm.online.runner import Runner


@given(
    coins=st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=60), x=st.sampled_from([1.0, 0.25, 1e-6, 40.0])
)
def test_of_one_feature_the_wealth_is_that_of_the_estimator(coins, x):
    """After T coins with H heads: 2^T Gamma(H + 1/2) Gamma(T - H + 1/2) / (pi Gamma(T + 1)) times what it began with
    (Orabona, Pal 2016, section 5); targets beyond reach make gradients of -x and x."""
    runner = Runner("coin", {"loss": "absolute", "wealth": 3.0}, {}, targets="numbers")
    state = runner.new_state(1)
    T, y = len(coins), 1e30 * np.array(coins)
    runner.learn(csr(np.full((T, 1), x), np.float64), y, np.arange(T, dtype=np.int32), 1, state)
    heads = coins.count(1.0)
    log = T * np.log(2.0) + gammaln(heads + 0.5) + gammaln(T - heads + 0.5) - np.log(np.pi) - gammaln(T + 1.0)
    assert state.columns[COLUMN.wealth] == pytest.approx(3.0 * np.exp(log), rel=1e-9)
    expected = sum(coins) / (T + 1.0) * state.columns[COLUMN.wealth] / x
    assert state.columns[COLUMN.weight] == pytest.approx(
        expected, rel=1e-9, abs=1e-9 * state.columns[COLUMN.wealth] / x
    )


def test_a_feature_that_has_lost_all_begins_anew():
    """A value a thousand times as large as before: the bet on it is more than all that was won."""
    runner = Runner("coin", {"loss": "absolute", "wealth": 3.0}, {}, targets="numbers")
    state = runner.new_state(1)
    X, y = np.array([[1.0], [1.0], [1000.0]]), np.array([1e30, 1e30, -1e30])
    runner.learn(csr(X, np.float64), y, np.arange(3, dtype=np.int32), 1, state)
    assert state.columns[COLUMN.wealth] == 3.0
    runner.learn(csr(X, np.float64), y, np.arange(3, dtype=np.int32), 1, state)
    assert np.isfinite(state.columns).all()
    assert state.columns[COLUMN.weight] != 0.0


def test_it_learns_without_a_step_size_at_any_scale():
    rng = np.random.default_rng(3)
    X = rows(n=400, d=20, seed=3)[0]
    y = np.where(X @ rng.standard_normal(20) > 0.0, 1.0, -1.0)
    found = []
    for scale in (1e-6, 1.0, 1e6):
        runner = Runner("coin", {}, {})
        state, scores = runner.new_state(20), np.empty(len(y))
        runner.learn(csr(scale * X, np.float64), y.astype(np.int16), np.arange(len(y), dtype=np.int32), 20, state,
                     scores=scores)  # fmt: skip
        found.append(scores)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[2], found[1], rtol=1e-9, atol=1e-12)
    full = (X[200:] != 0.0).any(axis=1)  # a row without entries is predicted as 0
    assert np.mean(found[1][200:][full] * y[200:][full] > 0.0) > 0.85


def test_weights_are_those_of_the_definition():
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
    runner = Runner("coin", {}, {})
    state = runner.new_state(15)
    runner.learn(csr(X), y.astype(np.int16), np.arange(len(y), dtype=np.int32), 15, state, weights=weights)
    np.testing.assert_allclose(runner.weights(state, np.empty(16))[:15], w, rtol=1e-9, atol=1e-12)
