"""FoReL and FTL by exact minimisers, against a general optimiser on every prefix of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from training_cases import random_rows, train

from blocksvm.api import fit
from blocksvm.errors import InputError
from blocksvm.sources.matrix import Matrix


def squared_losses(w, X, y):
    gap = np.maximum(0.0, 1.0 - y * (X @ w))
    return (gap**2).sum(), -2.0 * X.T @ (y * gap)


@pytest.fixture(scope="module")
def few():
    X, y = random_rows(n=24, d=4, density=0.7, seed=3, zero_rows=1, copies=1)
    return X, y


def scores_and_losses(X, y, weights):
    before = np.array([x @ w for x, w in zip(X, weights, strict=True)])
    margins = y * before
    return (margins <= 0).sum(), (np.maximum(0, 1 - margins) ** 2).sum()


@pytest.mark.parametrize("eta", [0.05, 1.0])
def test_forel_follows_the_regularised_leader(few, eta):
    X, y = few
    rows = X.toarray()
    weights = [np.zeros(4)]
    for t in range(1, len(y) + 1):

        def objective(w, t=t):
            value, slope = squared_losses(w, rows[:t], y[:t])
            return eta * value + 0.5 * w @ w, eta * slope + w

        weights.append(minimize(objective, weights[-1], jac=True, method="BFGS", options={"gtol": 1e-10}).x)
    run = train(Matrix(X, y), solver="forel-exact", order="stored", loss="squared-hinge", step=eta)
    np.testing.assert_allclose(run.w[:-1], weights[-1], atol=2e-5)
    mistakes, losses = scores_and_losses(rows, y, weights[:-1])
    last = run.outer()[-1]
    assert last["mistakes"] == mistakes
    assert last["cumulative_loss"] == pytest.approx(losses, rel=1e-4)
    assert [e["rows"] for e in run.events if e["event"] == "progress"] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("radius", [0.3, 50.0])
def test_ftl_follows_the_leader_in_the_ball(few, radius):
    X, y = few
    rows = X.toarray()
    run = train(Matrix(X, y), solver="ftl", order="stored", loss="squared-hinge", radius=radius)
    w = run.w[:-1]
    assert np.linalg.norm(w) <= radius * (1 + 1e-6)
    best = minimize(
        lambda w: squared_losses(w, rows, y)[0], 0.1 * np.ones(4), jac=lambda w: squared_losses(w, rows, y)[1],
        method="SLSQP", constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2 * w},
        options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    slack = best.x @ best.x / 2e3 if radius > 1 else 0.0
    assert squared_losses(w, rows, y)[0] <= best.fun * (1 + 1e-5) + 1e-6 + slack
    if radius < 1:
        assert np.linalg.norm(w) == pytest.approx(radius, rel=1e-6)


def test_the_lemma_of_the_follower_holds(few):
    """Regret(u) <= R(u) - R(w_1) + sum (f_t(w_t) - f_t(w_{t+1})), Shalev-Shwartz 2012, lemma 2.3, for hinge."""
    X, y = few
    rows = X.toarray()
    eta = 0.5
    weights = [np.zeros(4)]
    for t in range(1, len(y) + 1):
        two = len(set(y[:t])) == 2
        if two:
            settings = {"solver": "forel-exact", "order": "stored", "step": eta}
            weights.append(train(Matrix(X[:t], y[:t]), **settings).w[:-1])
        else:
            weights.append(None)
    known = [t for t in range(1, len(y)) if weights[t] is not None and weights[t + 1] is not None]
    first = known[0]

    def loss(w, t):
        return max(0.0, 1.0 - y[t] * rows[t] @ w)

    # from round ``first`` on, where the leader so far takes the place of the regulariser
    suffered = sum(loss(weights[t], t) for t in known)
    stability = sum(loss(weights[t], t) - loss(weights[t + 1], t) for t in known)

    def regulariser(w):
        return w @ w / (2 * eta) + sum(loss(w, t) for t in range(first))

    for u in (weights[-1], np.zeros(4), np.ones(4), -np.ones(4)):
        regret = suffered - sum(loss(u, t) for t in known)
        assert regret <= regulariser(u) - regulariser(weights[first]) + stability + 1e-5


def test_what_does_not_fit_is_refused():
    X, y = random_rows(n=40, seed=1)
    source = Matrix(X, y, chunk_rows=np.arange(0, 40, 4))
    for settings, what in [
        ({"solver": "ftl", "step": 1.0}, "step: ftl has no use for it; it takes loss, radius"),
        ({"solver": "forel-exact", "loss": "logistic"}, "loss=logistic: choose one of hinge, squared-hinge"),
        ({"solver": "ftl", "average": True}, "average: ftl has no use for it"),
        ({"solver": "ftl", "block_chunks": 2}, "ftl: needs all rows in memory at once"),
        ({"solver": "ftl", "radius": 0.0}, "radius=0: must be above 0 and at most"),
    ]:
        with pytest.raises(InputError, match=what):
            fit(source, **settings)
