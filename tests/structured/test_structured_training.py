"""MIRA's multipliers and the structured support vector machine against numerical optimisers."""

from __future__ import annotations

import numpy as np
import pytest
import reference_structured as reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.structured_cases import sequences

from blocksvm.base.errors import InputError
from blocksvm.structured.output_structure import Row
from blocksvm.structured.structured_learner import order_of
from blocksvm.structured.structured_mira import multipliers
from blocksvm.structured.structured_run import fit_structure

LAST = {"weights": "last"}


def rows_of(deltas: np.ndarray) -> list[Row]:
    return [Row(np.flatnonzero(delta).astype(np.int64), delta[delta != 0.0]) for delta in deltas]


def value(a: np.ndarray, deltas: np.ndarray, margins: np.ndarray) -> float:
    step = a @ deltas
    return float(margins @ a - 0.5 * step @ step)


@settings(max_examples=60, deadline=None)
@example(seed=930, n=4, d=4, C=0.3, shared=True)  # what is left of C is 0 but for rounding
@given(
    seed=st.integers(0, 10_000), n=st.integers(1, 6), d=st.integers(1, 5), C=st.sampled_from([0.01, 0.3, 2.0]),
    shared=st.booleans(),
)  # fmt: skip
def test_multipliers_are_the_best(seed, n, d, C, shared):
    """Rows of few features are often equal, opposite or 0."""
    rng = np.random.default_rng(seed)
    deltas = rng.integers(-2, 3, (n, d)).astype(float)
    margins = np.round(rng.normal(1.0, 1.5, n), 1)
    groups = np.sort(rng.integers(0, 2, n))
    a = multipliers(rows_of(deltas), margins, groups, C, shared)
    assert (a >= 0.0).all()
    if shared:
        assert all(a[groups == g].sum() <= C * (1 + 1e-12) for g in groups)
    else:
        assert (a <= C).all()
    best = reference.multipliers(deltas, margins, C, groups if shared else None)
    assert value(a, deltas, margins) == pytest.approx(best, rel=1e-5, abs=1e-6)


def test_one_coordinate_at_a_time_would_stick():
    """Two constraints share a slack of 1, which the first takes whole: the better second one gets it all from it."""
    deltas, margins = np.eye(2), np.array([1.2, 3.0])
    a = multipliers(rows_of(deltas), margins, np.zeros(2, np.int64), 1.0, True)
    np.testing.assert_allclose(a, [0.0, 1.0], atol=1e-6)


def test_mira_with_one_output_is_passive_aggressive():
    """min(C, (rho - d w) / ||d||^2), with the loss itself as margin."""
    structure, examples = sequences(2)
    w = np.zeros(structure.n_weights)
    for epoch in range(3):
        for i in order_of(5, 0, epoch):
            e = examples[i]
            other = e.best(w)
            delta = e.phi[e.gold] - e.phi[other]
            if e.rho[other] > 0.0:
                w = w + min(0.0625, (e.rho[other] - delta @ w) / (delta @ delta)) * delta
    found = fit_structure(structure, "mira", {"k": 1, "C": 0.0625, **LAST}, {"epochs": 3})
    np.testing.assert_allclose(found.weights, w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("slack", ["own", "shared"])
def test_an_update_of_mira_of_several_examples(slack):
    """The first update from w = 0 is the best of its program: the change of weights of the enumeration's
    multipliers."""
    structure, examples = sequences(6)
    C = 0.05
    found = fit_structure(structure, "mira", {"k": 4, "C": C, "at_once": 5, "slack": slack, **LAST}, {"epochs": 1})
    deltas, margins, groups = [], [], []
    for number, i in enumerate(order_of(5, 0, 0)):
        e = examples[i]
        # of equal scores, all at w = 0, the first
        for output in range(min(4, len(e.outputs))):
            if output != e.gold:
                deltas.append(e.phi[e.gold] - e.phi[output])
                margins.append(e.rho[output])
                groups.append(number)
    deltas, margins, groups = np.array(deltas), np.array(margins), np.array(groups)
    best = reference.multipliers(deltas, margins, C, groups if slack == "shared" else None)
    step = found.weights
    violations = np.maximum(0.0, margins - deltas @ step)
    slacks = [violations[groups == g].max() for g in np.unique(groups)] if slack == "shared" else violations
    assert 0.5 * step @ step + C * np.sum(slacks) == pytest.approx(best, rel=1e-5)  # strong duality


@pytest.mark.slow
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_frank_wolfe_reaches_the_optimum(C):
    structure, examples = sequences(7)
    optimum = reference.structured_optimum(examples, C, structure.n_weights)
    found = fit_structure(structure, "frank-wolfe", {"C": C, "tol": 1e-3}, {"epochs": 3000})
    told = found.certificate
    assert told["rel_gap"] <= 1e-3
    assert told["dual"] <= optimum * (1 + 1e-7) and optimum <= told["primal"] * (1 + 1e-7)
    # the primal of exactly these weights, by enumeration
    assert told["primal"] == pytest.approx(reference.hinge_primal(examples, found.weights, C), rel=1e-12)
    assert told["rel_gap"] == pytest.approx((told["primal"] - told["dual"]) / told["primal"], rel=1e-6)


@pytest.mark.parametrize(("epochs", "C", "is_mean"), [(2, 1.0, True), (20, 0.3, True), (7, 5.0, False)])
def test_the_model_of_frank_wolfe_is_the_last_w_or_the_weighted_mean(epochs, C, is_mean):
    """Whichever has the smaller primal, certified against the dual of the last."""
    structure, examples = sequences(8)
    found = fit_structure(structure, "frank-wolfe", {"C": C, "tol": 0.0}, {"epochs": epochs})
    orders = [order_of(len(examples), 0, epoch) for epoch in range(epochs)]
    last, mean = reference.frank_wolfe(examples, orders, C, structure.n_weights)
    primals = [reference.hinge_primal(examples, w, C) for w in (last, mean)]
    assert (primals[1] < primals[0]) == is_mean
    np.testing.assert_allclose(found.weights, mean if is_mean else last, rtol=0, atol=1e-10)
    assert found.certificate["primal"] == pytest.approx(min(primals), rel=1e-12)


def test_a_certificate_of_a_run_that_was_cut_short():
    structure, examples = sequences(8)
    optimum = reference.structured_optimum(examples, 1.0, structure.n_weights)
    for epochs in (1, 2, 5):
        found = fit_structure(structure, "frank-wolfe", {"C": 1.0, "tol": 0.0}, {"epochs": epochs})
        told = found.certificate
        assert found.epochs == epochs
        assert told["dual"] <= optimum <= told["primal"]
        assert told["primal"] == pytest.approx(reference.hinge_primal(examples, found.weights, 1.0), rel=1e-12)
        assert told["rel_gap"] == pytest.approx((told["primal"] - told["dual"]) / told["primal"], rel=1e-9)


def test_frank_wolfe_counts_what_grows():
    structure, _ = sequences(7)
    found = fit_structure(structure, "frank-wolfe", {}, {"epochs": 5})
    need = sum(found.budget.used.values())
    start = structure.n_bytes + 2 * 8 * structure.n_weights + 5 * 408
    assert need > start
    with pytest.raises(InputError, match="the examples' parts of the weights"):
        fit_structure(structure, "frank-wolfe", {}, {"epochs": 5, "memory": start})


def test_a_structure_without_k_best():
    structure, _ = sequences(3)
    structure.lists = False
    with pytest.raises(InputError, match="mira wants the 5 best outputs, but this structure gives one; say k 1"):
        fit_structure(structure, "mira", {}, {"epochs": 1})
    fit_structure(structure, "mira", {"k": 1}, {"epochs": 1})
