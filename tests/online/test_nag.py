"""Normalised adaptive gradients: importance, scales of features, and steps that never pass the minimum."""

from __future__ import annotations

import numpy as np
import pytest
import reference_online as oracle
from support.online_cases import csr, rows

from blocksvm.losses import get_loss
from blocksvm.online.runner import Runner

LOSSES = ("hinge", "squared-hinge", "logistic", "squared")


def learned(X, y, weights=None, **settings):
    d = X.shape[1]
    runner = Runner("nag", settings, {})
    state = runner.new_state(d)
    runner.learn(csr(X), y.astype(np.int16), np.arange(len(y), dtype=np.int32), d, state, weights=weights)
    return runner.weights(state, np.empty(d + 1))[:d]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_is_the_limit_of_many_small_ones(loss):
    aware_step = get_loss(loss).aware_step
    for m, q, h in [(0.2, 0.5, 1.0), (-3.0, 2.0, 4.0), (0.9, 30.0, 2.0), (-0.5, 1e-9, 1.0), (-40.0, 1.0, 1.0)]:
        margin, n = m, 20_000
        for _ in range(n):
            margin -= q * oracle.LOSSES[loss](margin, 1)[1] * h / n
        rise = aware_step(m, 1.0, q, h, ()) * q
        assert rise == pytest.approx(min(margin, 1.0 if loss == "hinge" else margin) - m, rel=3e-3)
        # two steps of half the importance are one: what makes it aware of importance
        half = aware_step(m, 1.0, q, h / 2, ()) * q
        assert half + aware_step(m + half, 1.0, q, h / 2, ()) * q == pytest.approx(rise, rel=1e-12)


def test_logistic_steps_hold_where_nothing_may_overflow():
    aware_step = get_loss("logistic").aware_step
    for m in (-800.0, -50.0, 0.0, 30.0, 700.0, 1e4):
        for amount in (1e-12, 1.0, 1e3, 1e8):
            rise = aware_step(m, 1.0, amount, 1.0, ()) * amount
            assert 0.0 <= rise <= amount
            if abs(m) < 300.0 and m + rise < 300.0:
                assert rise + np.exp(m) * np.expm1(rise) == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_rows_are_those_of_the_dense_rule(loss):
    X, y = rows(n=120, d=15, seed=2)
    weights = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 7.0], len(y))
    dense = oracle.NAG(15, loss=loss)
    for x, label, h in zip(X, y, weights, strict=True):
        if h > 0.0:
            dense.learn(x, label, h)
    np.testing.assert_allclose(learned(X, y, weights, loss=loss), dense.w, rtol=1e-9, atol=1e-12)


def test_the_unit_of_a_feature_does_not_matter():
    X, y = rows(n=150, d=12, seed=3)
    units = 2.0 ** np.random.default_rng(1).integers(-20, 20, 12)
    np.testing.assert_allclose(learned(X * units, y) * units, learned(X, y), rtol=1e-9)
