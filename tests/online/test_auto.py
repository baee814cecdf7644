"""The learner that follows the better of two: each of them is what it is alone, and each row is predicted by the one
that has been charged less before it."""

from __future__ import annotations

import numpy as np
import pytest
from support.online_cases import csr, rows

from blocksvm.online.loops import MISTAKES, SQUARED_ERRORS
from blocksvm.online.rules.auto import AUTO, COIN_COLUMNS, SCALAR
from blocksvm.online.runner import Runner

D = 30


def alone(name, X, y, real, weights=None, **given):
    """(state, scores) of a learner after all rows."""
    runner = Runner(name, given, {}, targets="numbers" if real else None)
    state, scores = runner.new_state(D), np.empty(len(y))
    y = y if real else y.astype(np.int16)
    runner.learn(csr(X), y, np.arange(len(y), dtype=np.int32), D, state, weights=weights, scores=scores)
    return state, scores


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
    nag, of_nag = alone("nag", X, y, real, weights, loss="squared" if real else "squared-hinge")
    coin, of_coin = alone("coin", X, y, real, weights, loss="squared" if real else "hinge")
    both, scores = alone("auto", X, y, real, weights)
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
    now = ("nag", nag) if charges[0][-1] <= charges[1][-1] else ("coin", coin)
    found, wanted = (
        Runner(name, {}, {}, targets="numbers" if real else None).weights(state, np.empty(D + 1))
        for name, state in (("auto", both), now)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_it_has_no_settings():
    assert not AUTO.settings.names()
