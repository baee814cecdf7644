"""Every loss against its formula: the functions of a row that solvers and certificates are made of."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from reference_losses import LONG, PRIMAL, REFERENCES
from scipy.optimize import minimize_scalar
from support.refused import refused
from support.smooth_hinge import SMOOTH_HINGE
from support.training_cases import random_rows, train

from blocksvm.base.user_code import by_user
from blocksvm.kernels import kernel
from blocksvm.kernels.loss_functions import SUMS, conjugate, derivative, value
from blocksvm.losses import LOSSES, get_loss
from blocksvm.losses.box import Tube
from blocksvm.problems.problem import make_problem, problem_settings
from blocksvm.problems.problem_kernels import Objective, certificate_sums
from blocksvm.sources.matrix import Matrix

by_user(loss="no_such_module:LOSS")
for named in ("SMOOTH_HINGE", "MISSING", "link"):
    by_user(loss=f"support.smooth_hinge:{named}")

COSTS = (0.3, 1.0, 50.0)
WITH_DUAL = [name for name in LOSSES if name not in PRIMAL]


def test_every_loss_has_its_formula():
    assert set(LOSSES) == {name for name in REFERENCES if ":" not in name} | set(PRIMAL)


QUICK = ("hinge", "logistic", "epsilon-insensitive")


@pytest.fixture(params=[pytest.param(k, marks=[] if k in QUICK else pytest.mark.slow) for k in REFERENCES])
def case(request):
    """(the loss, at the settings of its reference, the reference)"""
    return at_reference(request.param)


def at_reference(name):
    loss, reference = get_loss(name), (REFERENCES | PRIMAL)[name]
    return loss, loss.at(dict(zip(loss.settings.names(), reference.settings, strict=True))), reference


def points(reference, seed=0, n=200):
    """(z, y, c) far and near, and at the kinks."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        y = float(rng.choice([-1.0, 1.0])) if reference.labels else rng.normal() * 3
        yield rng.choice([rng.normal(), 30.0 * rng.normal(), 1.0, -1.0, 0.0, y]), y, rng.choice(COSTS)


def inside(reference, c, share):
    """A dual variable: share 0 and 1 are the ends, where they are finite."""
    low, high = reference.interval(c)
    low = max(low, -5.0 * c)
    return low + share * (min(high, low + 10.0 * c) - low)


@pytest.mark.parametrize("name", [*REFERENCES, *PRIMAL])
def test_value_and_derivative(name):
    loss, form, reference = at_reference(name)
    assert loss.has("conjugate") == loss.has("step") == (name in REFERENCES)
    for z, y, c in points(reference):
        expected = reference.value(LONG(z), LONG(y), LONG(c), reference.settings)
        assert form.value(z, y, c) == pytest.approx(float(expected), rel=1e-13, abs=1e-300)
        h = LONG(1e-9)
        near = [reference.value(LONG(z) + s, y, c, reference.settings) for s in (-h, h)]
        left, right = (expected - near[0]) / h, (near[1] - expected) / h
        assert min(left, right) - 1e-5 * c <= form.derivative(z, y, c) <= max(left, right) + 1e-5 * c
    assert np.isfinite([form.value(z, 1.0, 1.0) for z in (-1e4, 1e4)]).all()


def test_a_loss_is_no_number_where_the_score_is_none(case):
    loss, form, reference = case
    assert all(np.isnan(form.value(np.nan, y, 1.0)) for y in (-1.0, 1.0))


def test_second_derivative(case):
    loss, form, reference = case
    h = 1e-5
    if not loss.has("second_derivative"):
        pytest.skip("it has kinks")
    for z, y, c in points(reference, 4):
        left, right = (form.derivative(z + s * h, y, c) for s in (-1, 1))
        before, after = (form.second_derivative(z + s * h, y, c) for s in (-1, 1))
        slope = (right - left) / (2.0 * h)
        assert min(before, after) - 1e-3 * c <= slope <= max(before, after) + 1e-3 * c


@pytest.mark.slow
def test_the_aware_step_is_the_limit_of_many_small_ones(case):
    loss, form, reference = case
    n = 4000
    if not loss.has("aware_step"):
        pytest.skip("it has none")
    for z, y, q, h in ((0.2, 1.0, 0.5, 1.0), (-3.0, 1.0, 2.0, 4.0), (2.0, -1.0, 0.3, 1.0), (0.5, 1.0, 1e-6, 1.0)):
        at = z
        for _ in range(n):
            at -= q * h / n * form.derivative(at, y, 1.0)
        made = z + q * form.aware_step(z, y, q, h)
        assert made == pytest.approx(at, abs=4e-3 * abs(at - z) + 1e-12)
        half = z + q * form.aware_step(z, y, q, h / 2)
        if form.derivative(half, y, 1.0) != 0.0:  # two steps of half the importance are one
            assert half + q * form.aware_step(half, y, q, h / 2) == pytest.approx(made, rel=1e-9)


def test_facts_of_a_loss(case):
    """What is said of slopes and of the margin from which on it is 0."""
    loss, form, reference = case
    slopes = [abs(form.derivative(z, y, 1.0)) for z in np.linspace(-60.0, 60.0, 241) for y in (-1.0, 1.0)]
    assert max(slopes) <= loss.slope_bound
    if loss.curvature:
        curved = [form.second_derivative(z, y, 1.0) for z in np.linspace(-3.0, 3.0, 241) for y in (-1.0, 1.0)]
        assert max(curved) == loss.curvature
    if not np.isfinite(loss.zero_from):
        assert loss.of_numbers or form.value(50.0, 1.0, 1.0) > 0.0
        return
    assert form.value(loss.zero_from, 1.0, 1.0) == form.value(loss.zero_from + 7.0, 1.0, 1.0) == 0.0
    assert form.value(loss.zero_from - 1e-3, 1.0, 1.0) > 0.0


def test_a_dual_variable_next_to_its_bound_still_moves_back():
    """c - a is a few roundings of c, where the logarithm jumps: a gradient above 0 is no rest."""
    c, form = 2.0, get_loss("logistic").at({})
    for roundings in (2, 4, 8):
        projected, excess = form.stationarity(c * (1.0 - roundings * 2.0**-52), 40.0, 1.0, c)
        assert projected > 1.0 and excess == 0.0


def test_conjugate(case):
    """The formula, and what it is the formula of: max over z of -a direction z - value."""
    loss, form, reference = case
    for k, (_, y, c) in enumerate(points(reference)):
        share = (0.0, 1.0, 0.5, 1e-9)[k] if k < 4 else np.random.default_rng(k).random()
        a = inside(reference, c, share)
        expected = float(reference.conjugate(LONG(a), LONG(y), LONG(c), reference.settings))
        assert form.conjugate(a, y, c) == pytest.approx(expected, rel=1e-12, abs=1e-13 * c)
        if 0.01 < share < 0.99:
            slope = a * form.direction(y)
            row = LONG(y), LONG(c), reference.settings
            found = minimize_scalar(
                lambda z, row=row, slope=slope: slope * z + float(reference.value(LONG(z), *row)),
                bounds=(-60.0, 60.0), method="bounded", options={"xatol": 1e-10},
            )  # fmt: skip
            assert -found.fun == pytest.approx(expected, abs=1e-6 * c)
    assert form.conjugate(0.0, 1.0, 1.0) == 0.0


def test_the_terms_of_the_gap_are_never_negative_and_vanish_at_the_optimum(case):
    loss, form, reference = case
    for k, (z, y, c) in enumerate(points(reference, 1)):
        a = inside(reference, c, np.random.default_rng(k).random())
        direction = form.direction(y)
        scale = c * (1.0 + abs(z) + abs(y))
        for dual, most in ((a, np.inf), (-form.derivative(z, y, c) * direction, 1e-12 * scale)):
            term = form.value(z, y, c) + form.conjugate(dual, y, c) + dual * direction * z
            assert -1e-13 * scale * 10 <= term <= most


def coordinate(reference, a, z, q, y, c):
    """-D along the coordinate, up to a constant, as a function of the new a."""
    slope, row = z * (y if reference.labels else 1.0), (LONG(y), LONG(c), reference.settings)
    return lambda t: float(reference.conjugate(LONG(t), *row)) + slope * t + 0.5 * q * (t - a) ** 2


@pytest.mark.slow
def test_the_step_is_the_minimiser_along_the_coordinate(case):
    """Repeated at the z that it leads to, as passes do: a loss may stop short of the end in one step."""
    loss, form, reference = case
    for k, (z, y, c) in enumerate(points(reference, 2)):
        rng = np.random.default_rng(k)
        a, q = inside(reference, c, rng.choice([0.0, rng.random(), 1.0])), float(10.0 ** rng.uniform(-3, 2))
        if not np.isfinite(a):
            continue
        direction = form.direction(y)
        new, at = a, z
        for _ in range(5):
            before, new = new, form.step(new, at, q, y, c)
            at += (new - before) * direction * q
        low, high = reference.interval(c)
        assert low <= new <= high
        along = coordinate(reference, a, z, q, y, c)
        least = along(new)
        bottom, top = max(low, min(a, new) - 10.0 * c), min(high, max(a, new) + 10.0 * c)
        near = new + (top - bottom) * np.array([-1e-3, 1e-3, -1e-6, 1e-6])
        for t in np.clip(np.concatenate([np.linspace(bottom, top, 400), near]), bottom, top):
            assert least <= along(t) + 1e-12 * (abs(least) + c * (1.0 + abs(z)))
        projected, excess = form.stationarity(new, at, y, c)
        assert abs(projected) <= 1e-6 * (1.0 + abs(z) + q * (abs(a) + c))
        kink = not reference.labels and new == 0.0 and excess > 0.0
        assert excess == 0.0 or new in (low, high) or kink
        assert kink or not (excess > 0.0 and new != low) and not (excess < 0.0 and new != high)
        for share in (-0.99, 0.99):  # it stays while z moves by less than the excess
            assert excess == 0.0 or form.step(new, at + share * excess, q, y, c) == new


def test_a_row_without_entries_reaches_its_optimum_at_once(case):
    loss, form, reference = case
    for y in (-1.0, 1.0):
        for c in COSTS:
            new = form.step(0.0, 0.0, 0.0, y, c)
            low, high = reference.interval(c)
            grid = np.linspace(max(low, -10.0 * c), min(high, 10.0 * c), 1001)
            along = coordinate(reference, 0.0, 0.0, 0.0, y, c)
            assert along(new) <= min(map(along, grid)) + 1e-12 * c
            assert form.stationarity(new, 0.0, y, c)[0] == pytest.approx(0.0, abs=1e-12)


def test_the_start_is_allowed_and_others_are_made_so(case):
    loss, form, reference = case
    for c in COSTS:
        low, high = reference.interval(c)
        assert form.feasible(0.0, 1.0, c) == 0.0
        for a in (-2.0 * c, 0.3 * c, 1e3 * c):
            assert form.feasible(a, 1.0, c) == min(max(a, low), high)


def test_a_loss_of_ones_own_is_named_by_module_and_attribute():
    assert get_loss("support.smooth_hinge:SMOOTH_HINGE") is SMOOTH_HINGE
    for name, expected in (
        ("l1", "no such loss; choose one of hinge, squared-hinge"),
        ("no_such_module:LOSS", "cannot be imported"),
        ("support.smooth_hinge:MISSING", "cannot be imported"),
        ("support.smooth_hinge:link", "is not a loss"),
        ("support.smooth_hinge:", "no such loss; choose one of"),
    ):
        refused(expected, get_loss, name)


@kernel
def doubled(scores, y, loss):
    total = 0.0
    for i in range(scores.shape[0]):
        total += 4.0 * (0.5 * value(loss, scores[i], y[i], 1.0))
    return total


def sums_of(scores, y, alpha, loss):
    """Of real targets (n,) float64, or of classes (n,) int16."""
    sums, n = np.zeros((1, SUMS)), len(y)
    a, reals = None if alpha is None else alpha.reshape(n, 1), y if y.dtype == np.float64 else None
    objective = Objective(0.0, np.ones((1, 2)), None, loss)
    certificate_sums(scores.reshape(n, 1), np.full((n, 1), 1e-9), y, reals, None, objective, None, a, sums)
    return sums[0]


class ByHelpers(NamedTuple):
    """Huber's loss, whose value is the biconjugate, which is attained where a is -derivative."""

    curvature: float
    slope: float
    epsilon: float
    derivative, conjugate, direction, step = Tube.derivative, Tube.conjugate, Tube.direction, Tube.step
    stationarity, feasible = Tube.stationarity, Tube.feasible

    def value(self, z, y, c):
        a = -derivative(self, z, y, c)
        return -conjugate(self, a, y, c) - a * z


def test_methods_of_a_loss_call_each_other():
    rng = np.random.default_rng(5)
    scores, y, alpha = 2.0 * rng.normal(size=30), rng.normal(size=30), 0.2 * rng.normal(size=30)
    huber, lacks = get_loss("huber"), ("second_derivative", "aware_step")
    helped = replace(huber, name="by-helpers", form=ByHelpers, lacks=lacks)
    plain, helped = (loss.at({"delta": 0.7}) for loss in (huber, helped))
    values = 2.0 * sum(plain.value(z, t, 1.0) for z, t in zip(scores, y, strict=True))
    expected = sums_of(scores, y, alpha, plain)
    for at in (plain, helped):
        found = sums_of(scores, y, alpha, at)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert doubled(scores, y, at) == pytest.approx(values)


def test_a_kernel_takes_a_loss_without_the_methods_that_its_rows_do_not_need():
    """As a certificate without dual variables does."""
    scores, y = np.array([0.5, -0.5]), np.array([1, 1], np.int16)
    assert sums_of(scores, y, None, get_loss("perceptron").at({}))[0] == 0.5


def problem_from(source, **settings):
    return make_problem(problem_settings(settings).resolve(settings, "dual-cd"), 0.0, source)


def test_a_losss_own_settings_belong_to_its_problem():
    source, name = Matrix(*random_rows()), "epsilon-insensitive"
    problem = problem_from(source, loss=name, epsilon=0.25, C=2.0)
    assert problem.function.epsilon == 0.25
    assert problem.cost.tolist() == [[2.0, 2.0]]
    assert problem.total_cost == 2.0 * source.n_samples
    assert problem_from(source, loss=name).function.epsilon == 0.1
    for settings, expected in (
        ({"loss": name, "epsilon": -1.0}, "epsilon=-1: must be 0 or more"),
        ({"loss": "hinge", "epsilon": 0.25}, "epsilon: dual-cd does not accept it"),
        ({"loss": name, "class_weight": "balanced"}, "class_weight=balanced: epsilon-insensitive has no classes"),
    ):
        refused(expected, problem_from, source, **settings)
    source.n_unlabelled = 3
    refused("3 rows have no target", problem_from, source, loss=name)


@pytest.mark.slow
@pytest.mark.parametrize("loss", WITH_DUAL)
@pytest.mark.parametrize("settings", [{}, {"class_weight": "balanced", "bias": 0.5}, {"lam": 0.02}])
def test_a_weight_is_that_many_copies_of_the_row(loss, settings):
    X, y = random_rows(n=90, d=12, seed=5)
    if get_loss(loss).of_numbers:
        y = X @ np.random.default_rng(4).normal(size=12) + y
        settings = {name: value for name, value in settings.items() if name != "class_weight"}
    weights = np.random.default_rng(2).integers(0, 4, 90).astype(float)
    weights[:2] = 1.0
    copies = np.repeat(np.arange(90), weights.astype(int))
    run = {"loss": loss, "schedule": "10", "tol": 1e-9, "max_outer": 5000, **settings}
    weighted = train(Matrix(X, y, weights=weights, chunk_rows=np.arange(0, 90, 10)), block_chunks=3, **run)
    copied = train(Matrix(X[copies], y[copies]), **run)
    assert weighted.result.status == copied.result.status == "converged"
    costs = [one.loop.plan.solver.problem.total_cost for one in (weighted, copied)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-14)
    assert weighted.result.certificate.primal == pytest.approx(copied.result.certificate.primal, rel=3e-9)
    np.testing.assert_allclose(weighted.w, copied.w, atol=1e-3 * np.abs(copied.w).max())
    assert not weighted.alpha[weights == 0].any()


def test_weights_of_rows_must_leave_two_classes():
    X, y = random_rows(n=20)
    source = Matrix(X, y, weights=(y > 0).astype(float))
    refused("all rows of label -1 have weight 0; training needs two classes", problem_from, source)
