"""Pegasos for every loss: steps, averages and dual variables against the plain rule, certified gaps, its optimum."""

import math

import numpy as np
import pytest
import reference
import reference_losses
from support.class_cases import rows_for
from support.training_cases import looped, opened

from blocksvm import Matrix, fit

REAL = ("epsilon-insensitive", "squared-epsilon-insensitive")
LOSSES = ("hinge", "squared-hinge", "logistic", *REAL)


def radius_of(loss: str, cost: np.ndarray) -> float | None:
    if loss in REAL:
        return None
    value = {"hinge": 0.5, "squared-hinge": 1.0, "logistic": math.log(2.0)}[loss]  # hinge: by strong duality
    return math.sqrt(2.0 * value * cost.sum())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize(("weighted", "iterate"), [(False, "average"), (True, "average"), (True, "last")])
def test_steps_are_those_of_the_rule(loss, batch, dual, weighted, iterate):
    X, y = rows_for(loss)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else None
    if weighted:
        weights[5] = 0.0
    bias = 0.6
    source = Matrix(X, y, weights=weights, chunk_rows=[0, 25])
    more = {"class_weight": {1.0: 2.0}} if loss not in REAL else {}
    orders = []
    with opened(source) as rows:
        loop = looped(rows, solver="pegasos", loss=loss, C=0.7, batch=batch, dual=dual, bias=bias, schedule="1",
                      max_outer=13, tol=0.0, iterate=iterate, block_chunks=1, **more)  # fmt: skip
        loop.allocate()
        inner_pass = loop.plan.solver.inner_pass

        def watch(block, state, visit, order):
            orders.append(block.rows[order].copy())
            return inner_pass(block, state, visit, order)

        loop.plan.solver.inner_pass = watch
        result = loop.run()
        state = loop.state
    cost = 0.7 * (np.ones(len(y)) if weights is None else weights)
    cost = cost * (np.where(y > 0, 2.0, 1.0) if more else 1.0)
    lam, row_weight = 1.0 / cost.sum(), len(y) * cost / cost.sum()
    batches = [order[k : k + batch] for order in orders for k in range(0, len(order), batch)]
    Xb = reference.with_bias(X, bias)
    radius = None if dual else radius_of(loss, cost)
    found = reference.pegasos_of_any_loss(Xb, y, lam, batches, loss, row_weight, radius)
    w, a = found[-1]
    np.testing.assert_allclose(state["scalars"][0] * state["v"], w, rtol=1e-9, atol=1e-9 * np.abs(w).max())
    # the average is renewed after iterations 1 to 8, 10 and 12, and has the steps since the last renewal but one
    since = 10 * (len(batches) // 13) if iterate == "average" else len(batches) - 1
    expected = np.mean([w for w, _ in found[since:]], axis=0)
    np.testing.assert_allclose(result.w, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    if not dual:
        assert result.alpha is None
        assert result.certificate.dual is None
        return
    sign = y if loss not in REAL else np.ones(len(y))
    mean = sign * np.mean([a for _, a in found[since:]], axis=0)
    low, high = map(np.array, zip(*(reference_losses.REFERENCES[loss].interval(c) for c in cost), strict=True))
    allowed = np.where(cost > 0, np.clip(mean, low, high), 0.0)
    np.testing.assert_allclose(result.alpha, allowed, rtol=1e-8, atol=1e-9)
    # the certificate: P of the average, D of just these dual variables with their own weights
    p = (0.1,) if loss in REAL else ()
    primal = reference_losses.primal_of(loss, Xb, y, expected, cost, p)
    lower = reference_losses.dual_of(loss, Xb, y, allowed, cost, p)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert result.certificate.dual == pytest.approx(lower, rel=1e-8, abs=1e-8 * abs(primal))
    assert result.certificate.rel_gap == pytest.approx((primal - lower) / primal, rel=1e-6, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dual", [False, True])
def test_it_comes_near_the_optimum_of_every_loss(loss, dual):
    X, y = rows_for(loss, n=400, d=30, seed=7)
    source = Matrix(X, y, chunk_rows=range(0, 400, 20))
    best = fit(source, loss=loss, tol=1e-8, max_outer=5000).certificate.primal
    found = fit(source, solver="pegasos", loss=loss, dual=dual, max_outer=150, schedule="1", tol=0.0).certificate
    assert best * (1 - 1e-6) <= found.primal <= best * 1.02
    if dual:
        assert found.dual <= best * (1 + 1e-9)
        assert found.rel_gap <= 0.25
