"""The hinge loss c max(0, 1 - y z) of the linear support vector machine, its square, and the functions that they share
with every loss of the margin whose dual is quadratic in a box:

    max_a  sum_i a_i - 1/2 sum_i diagonal_i a_i^2 - ...,     0 <= a_i <= upper_i

With G = y <w, x> - 1 + diagonal a, the gradient of -D, the step is a <- clip(a - G / (||x||^2 + diagonal), 0, upper)
(Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008, Alg. 3).
"""

from __future__ import annotations

from blocksvm.kernels import inlined, with_parts
from blocksvm.losses.loss import Loss
from blocksvm.losses.quadratic import (
    LINEAR,
    SQUARED,
    advance,
    diagonal,
    half_square,
    power,
    second,
    slope,
    upper,
)


def value(z, y, c, p):
    distance = 1.0 - y * z
    return 0.0 if distance <= 0.0 else c * power(distance)


def derivative(z, y, c, p):
    distance = 1.0 - y * z
    return 0.0 if distance <= 0.0 else -c * y * slope(distance)


def second_derivative(z, y, c, p):
    distance = 1.0 - y * z
    return 0.0 if distance <= 0.0 else c * second(distance)


def aware_step(z, y, q, h, p):
    return y * advance(y * z, q, h)


def conjugate(a, y, c, p):
    return half_square(a, c) - a


def stationarity(a, z, y, c, p):
    """(projected gradient, gradient of a row that stays at its bound)."""
    gradient = y * z - 1.0 + diagonal(c) * a
    if a == 0.0:
        return min(gradient, 0.0), max(gradient, 0.0)
    if a == upper(c):
        return max(gradient, 0.0), min(gradient, 0.0)
    return gradient, 0.0


def step(a, z, q, y, c, p):
    """The minimiser along the coordinate; without entries and without a diagonal the gradient is -1 everywhere."""
    curvature = q + diagonal(c)
    if curvature > 0.0:
        return min(max(a - (y * z - 1.0 + diagonal(c) * a) / curvature, 0.0), upper(c))
    return upper(c)


def feasible(a, y, c, p):
    """a clipped to the box."""
    return min(max(a, 0.0), upper(c))


@inlined
def direction(y, p):
    """w gains a y x."""
    return y


def functions_of(name: str, upper, diagonal) -> dict:
    """The functions of a loss with this bound and diagonal, inlined functions of c, by the names that ``Loss`` has."""
    functions = with_parts(name, {"upper": upper, "diagonal": diagonal}, stationarity, step, feasible)
    return functions | {"direction": direction}


def _loss(name: str, summary: str, parts: dict, **more) -> Loss:
    functions = with_parts(name, parts, value, derivative, aware_step, conjugate)
    functions |= functions_of(name, parts["upper"], parts["diagonal"])
    return Loss(name, summary, **functions, zero_from=1.0, **more)


# ball: by strong duality, ||w*||^2 <= sum a* <= sum C (Pegasos, section 2.1)
HINGE = _loss(
    "hinge",
    "C max(0, 1 - m): support vector machine",
    LINEAR,
    ball=1.0,
    slope_bound=1.0,
    known_as={
        "LIBLINEAR": ("L2R_L1LOSS_SVC_DUAL", "MCSVM_CS"),
        "scikit-learn": {"LinearSVC": "hinge", "SGDClassifier": "hinge"},
    },
)
SQUARED_HINGE = _loss(
    "squared-hinge",
    "C max(0, 1 - m)^2: support vector machine with squared slacks",
    SQUARED,
    curvature=2.0,
    **with_parts("squared-hinge", SQUARED, second_derivative),
    known_as={
        "LIBLINEAR": ("L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L1R_L2LOSS_SVC"),
        "scikit-learn": {"LinearSVC": "squared_hinge", "SGDClassifier": "squared_hinge"},
    },
)
