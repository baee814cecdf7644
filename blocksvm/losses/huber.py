"""Huber's loss of regression with outliers: half of the squared error up to delta, linear beyond.

    value = c (z - y)^2 / 2 where |z - y| <= delta, else c delta (|z - y| - delta / 2)
    max_a  sum_i y_i a_i - sum_i a_i^2 / (2 c_i) - ...,     |a_i| <= delta c_i

(Huber, Annals of Mathematical Statistics 35, 1964; the conjugate by Rockafellar, Convex Analysis, 1970, sec. 12.)  The
only setting, p[0], is delta.
"""

from __future__ import annotations

import numpy as np

from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels import inlined
from blocksvm.losses.loss import REAL_NUMBERS, Loss


@inlined
def value(z, y, c, p):
    error = abs(z - y)
    return 0.5 * c * error * error if error <= p[0] else c * p[0] * (error - 0.5 * p[0])


@inlined
def derivative(z, y, c, p):
    error = z - y
    return c * (p[0] if error > p[0] else -p[0] if error < -p[0] else error)


@inlined
def second_derivative(z, y, c, p):
    return c if abs(z - y) <= p[0] else 0.0


@inlined
def aware_step(z, y, q, h, p):
    """At the speed delta until the error is delta, then as the squared loss has it (Karampatziakis, Langford, UAI
    2011, Table 1)."""
    error = abs(z - y)
    beyond = max(error - p[0], 0.0)
    needed = beyond / (q * p[0])
    step = h * p[0] if h <= needed else (beyond - min(error, p[0]) * np.expm1((needed - h) * q)) / q
    return step if y > z else -step


@inlined
def conjugate(a, y, c, p):
    return 0.5 * a * a / c - a * y


@inlined
def direction(y, p):
    """w gains a x."""
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


HUBER_LOSS = Loss(
    name="huber",
    summary="C (z - y)^2 / 2 up to an error of delta, linear beyond: regression with outliers",
    value=value,
    derivative=derivative,
    conjugate=conjugate,
    direction=direction,
    step=step,
    stationarity=stationarity,
    feasible=feasible,
    second_derivative=second_derivative,
    aware_step=aware_step,
    targets=REAL_NUMBERS,
    settings=Settings((Setting("delta", "error from which on the loss is linear", 1.0, above=0.0),)),
    curvature=1.0,
    known_as={"scikit-learn": {"SGDRegressor": "huber"}},
)
