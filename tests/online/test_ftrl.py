"""FTRL-Proximal: the minimiser of its own problem, and weights of exactly 0."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit
from support.online_cases import csr, rows

from blocksvm.online.runner import Runner


def learned(X, y, weights=None, **settings):
    d = X.shape[1]
    runner = Runner("ftrl", settings, {})
    state = runner.new_state(d)
    runner.learn(csr(X), y.astype(np.int16), np.arange(len(y), dtype=np.int32), d, state, weights=weights)
    return runner.weights(state, np.empty(d + 1))[:d]


def test_weights_are_the_minimiser_of_linearised_losses_with_proximal_terms():
    X, y = rows(n=80, d=6, seed=5, density=0.5)
    alpha, beta, l1, l2 = 0.3, 0.5, 0.4, 0.2
    settings = {"alpha": alpha, "beta": beta, "l1": l1, "l2": l2, "loss": "logistic"}
    before = [learned(X[:t], y[:t], **settings) if t else np.zeros(6) for t in range(len(y))]
    G = np.array([-s * expit(-s * (w @ x)) * x for w, x, s in zip(before, X, y, strict=True)])
    roots = np.sqrt(np.cumsum(G**2, axis=0)) / alpha
    sigma = np.diff(roots, axis=0, prepend=0.0)
    found = learned(X, y, **settings)
    for j in range(6):

        def objective(w, j=j):
            near = np.sum(sigma[:, j] * (w - np.array(before)[:, j]) ** 2) / 2
            return G[:, j].sum() * w + near + l1 * abs(w) + (beta / alpha + l2) * w * w / 2

        least = minimize_scalar(objective, bounds=(-10, 10), method="bounded", options={"xatol": 1e-12})
        assert objective(found[j]) <= least.fun + 1e-12
        assert found[j] == pytest.approx(least.x, abs=1e-6)


def test_a_large_l1_leaves_weights_that_are_exactly_0():
    X, y = rows(n=200, d=20, seed=6)
    few, many = (np.count_nonzero(learned(X, y, l1=l1)) for l1 in (5.0, 0.0))
    assert 0 < few < many
