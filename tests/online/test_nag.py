"""Normalised adaptive gradients: importance, scales of features, and steps that never pass the minimum."""

from __future__ import annotations

import numpy as np
import pytest
from support.online_cases import csr, rows

from blocksvm.losses import get_loss
from blocksvm.online.runner import Runner


def learned(X, y, weights=None, **settings):
    d = X.shape[1]
    runner = Runner("nag", settings, {})
    state = runner.new_state(d)
    runner.learn(csr(X), y.astype(np.int16), np.arange(len(y), dtype=np.int32), d, state, weights=weights)
    return runner.weights(state, np.empty(d + 1))[:d]


def test_logistic_steps_hold_where_nothing_may_overflow():
    aware_step = np.errstate(all="ignore")(get_loss("logistic").at({}).aware_step)
    for m in (-800.0, -50.0, 0.0, 30.0, 700.0, 1e4):
        for amount in (1e-12, 1.0, 1e3, 1e8):
            rise = aware_step(m, 1.0, amount, 1.0) * amount
            assert 0.0 <= rise <= amount
            if abs(m) < 300.0 and m + rise < 300.0:
                assert rise + np.exp(m) * np.expm1(rise) == pytest.approx(amount, rel=1e-12)


def ratio(a, b):
    return np.divide(a, b, out=np.zeros_like(b), where=b > 0.0)


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
    np.testing.assert_allclose(learned(X, y, weights, loss=loss), w, rtol=1e-9, atol=1e-12)


def test_the_unit_of_a_feature_does_not_matter():
    X, y = rows(n=150, d=12, seed=3)
    units = 2.0 ** np.random.default_rng(1).integers(-20, 20, 12)
    np.testing.assert_allclose(learned(X * units, y) * units, learned(X, y), rtol=1e-9)
