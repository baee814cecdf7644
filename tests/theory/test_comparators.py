"""The certified least of losses + weighted ||w||_1: against linear programs, and another optimiser of smooth losses."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog, minimize
from support.plain_learners import LOSSES
from support.regret_cases import sample

from blocksvm.theory.comparators import TOLERANCE, least_with_l1
from blocksvm.theory.run import Losses

NAMES = ("hinge", "epsilon-insensitive", "squared-hinge", "logistic", "squared")


def primal(name, X, y, m, w):
    return sum(LOSSES[name](z, label, 0.1)[0] for z, label in zip(X @ w, y, strict=True)) + m @ np.abs(w)


def by_program(name, X, y, m):
    """min sum xi + m'(p + q), w = p - q, as a linear program."""
    n, d = X.shape
    eye = np.eye(n)
    if name == "hinge":  # xi_i >= 1 - y_i <w, x_i>
        A, b = np.hstack([-y[:, None] * X, y[:, None] * X, -eye]), -np.ones(n)
    else:  # xi_i >= |<w, x_i> - y_i| - 0.1
        A = np.vstack([np.hstack([X, -X, -eye]), np.hstack([-X, X, -eye])])
        b = np.concatenate([0.1 + y, 0.1 - y])
    found = linprog(np.concatenate([m, m, np.ones(n)]), A_ub=A, b_ub=b)
    return found.fun


def by_splitting(name, X, y, m):
    """The same of a smooth loss by bounded quasi-Newton steps."""
    d = X.shape[1]

    def evaluate(pair):
        w = pair[:d] - pair[d:]
        values, slopes = zip(*(LOSSES[name](z, s, 0.1) for z, s in zip(X @ w, y, strict=True)), strict=True)
        g = X.T @ np.array(slopes)
        return sum(values) + np.concatenate([m, m]) @ pair, np.concatenate([g + m, m - g])

    limits = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 9000}
    return minimize(
        evaluate, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2 * d, options=limits
    ).fun


def losses_of(name):
    return Losses.of(name, {"epsilon": 0.1})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_least_and_the_gap_is_true(name, seed):
    X, y, _ = sample(n=60, d=12, seed=seed, noise=(0.0, 0.2)[seed % 2], zeros=3)
    rng = np.random.default_rng(seed)
    m = (0.05, 1.0, 5.0, 30.0)[seed] * rng.uniform(0.2, 2.0, 12)
    solve = by_program if name in ("hinge", "epsilon-insensitive") else by_splitting
    expected = solve(name, X, y, m)
    w, total, gap = least_with_l1(scipy.sparse.csr_matrix(X), y, losses_of(name), m)
    own = primal(name, X, y, m, w)
    assert gap <= TOLERANCE and total == pytest.approx(own, rel=1e-12)
    assert own >= expected * (1 - 1e-7)
    assert own - expected <= gap * own + 1e-9 * expected


def test_a_feature_without_weight_has_no_certificate():
    X, y, _ = sample(n=60, d=4, seed=1, noise=0.3)
    m = np.array([0.0, 1.0, 1.0, 1.0])
    w, _, gap = least_with_l1(scipy.sparse.csr_matrix(X), y, losses_of("hinge"), m)
    assert gap == 1.0
    assert primal("hinge", X, y, m, w) == pytest.approx(by_program("hinge", X, y, m), rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_and_duals_are_those_of_the_loss(name):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(50) < 0.5, 1.0, -1.0)
    z, losses = 2.0 * rng.standard_normal(50), losses_of(name)
    width = 0.0 if losses.smooth else 0.3
    values, slopes = losses.at(z, y, width)
    plain = losses.at(z, y)[0]
    assert (plain - width / 2 - 1e-12 <= values).all() and (values <= plain + 1e-12).all()
    for i in range(5):
        step = np.where(np.arange(50) == i, 1e-6, 0.0)
        numerical = (losses.at(z + step, y, width)[0] - losses.at(z - step, y, width)[0]).sum() / 2e-6
        assert slopes[i] == pytest.approx(numerical, abs=1e-6)
    # Fenchel: the conjugate is the largest of s v - loss(v), found on a grid
    grid = np.linspace(-30.0, 30.0, 60_001)
    for i in range(5):
        values = np.array([LOSSES[name](v, y[i], 0.1)[0] for v in grid[::20]])
        conjugate = (0.9 * slopes[i] * grid[::20] - values).max()
        assert losses.dual(0.9 * slopes[i : i + 1], y[i : i + 1]) == pytest.approx(-conjugate, abs=2e-3)
