"""A loss of real targets from outside the package: Huber's, c (z - y)^2 / 2 up to the threshold t, then linear; by its
dual with |a| <= t c (Huber, Annals of Mathematical Statistics 35, 1964; Rockafellar, Convex Analysis, sec. 12)."""

from __future__ import annotations

from dataclasses import replace

from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels import inlined
from blocksvm.kernels.loss_placeholders import conjugate as placeholders_conjugate
from blocksvm.kernels.loss_placeholders import derivative as placeholders_derivative
from blocksvm.losses.loss import REAL_NUMBERS, Loss


@inlined
def value(z, y, c, p):
    error = abs(z - y)
    return 0.5 * c * error * error if error <= p[0] else c * p[0] * (error - 0.5 * p[0])


@inlined
def derivative(z, y, c, p):
    return c * min(max(z - y, -p[0]), p[0])


@inlined
def conjugate(a, y, c, p):
    return 0.5 * a * a / c - a * y


@inlined
def direction(y, p):
    return 1.0


@inlined
def stationarity(a, z, y, c, p):
    gradient = z - y + a / c
    if a == c * p[0]:
        return max(gradient, 0.0), min(gradient, 0.0)
    if a == -c * p[0]:
        return min(gradient, 0.0), max(gradient, 0.0)
    return gradient, 0.0


@inlined
def step(a, z, q, y, c, p):
    return min(max(a - (z - y + a / c) / (q + 1.0 / c), -c * p[0]), c * p[0])


@inlined
def feasible(a, y, c, p):
    return min(max(a, -c * p[0]), c * p[0])


HUBER = Loss(
    name="huber",
    summary="C (z - y)^2 / 2 near the target, linear beyond",
    value=value,
    derivative=derivative,
    conjugate=conjugate,
    direction=direction,
    step=step,
    stationarity=stationarity,
    feasible=feasible,
    targets=REAL_NUMBERS,
    settings=Settings((Setting("threshold", "error from which on the loss is linear", 1.0, above=0.0),)),
)


@inlined
def own_conjugate(a, y, c, p):
    """A helper that calls what every loss has."""
    return placeholders_conjugate(a, y, c, p)


@inlined
def own_value(z, y, c, p):
    """The same value as the biconjugate, which is attained where a is -derivative."""
    a = -placeholders_derivative(z, y, c, p)
    return -own_conjugate(a, y, c, p) - a * z


HUBER_BY_HELPERS = replace(HUBER, name="huber-by-helpers", value=own_value)
NOT_A_LOSS = object()
