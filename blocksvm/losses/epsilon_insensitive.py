"""The losses of the distance from a tube of half width epsilon around the target: the epsilon-insensitive loss
c max(0, |z - y| - epsilon) of support vector regression and its square; and with epsilon = 0 the absolute loss
c |z - y| and the squared loss c (z - y)^2 / 2 of ridge regression.

    max_a  sum_i y_i a_i - epsilon sum_i |a_i| - 1/2 sum_i diagonal_i a_i^2 - ...,     |a_i| <= upper_i

With H = ||x||^2 + diagonal and G = <w, x> - y + diagonal a the step is -(G + epsilon) / H where G + epsilon < H a,
-(G - epsilon) / H where G - epsilon > H a, else to 0; then a is clipped to its bounds (Ho, Lin, JMLR 13, 2012, Alg. 4).
The only setting of the first two, p[0], is epsilon.
"""

from __future__ import annotations

from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels import inlined, with_parts
from blocksvm.losses.loss import REAL_NUMBERS, Loss
from blocksvm.losses.quadratic import (
    HALF_SQUARED,
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

SETTINGS = Settings((Setting("epsilon", "largest error that costs nothing", 0.1, least=0.0),))


def width(p):
    """epsilon: a placeholder, which ``with_parts`` replaces."""
    raise NotImplementedError


@inlined
def tube_width(p):
    return p[0]


@inlined
def no_width(p):
    return 0.0


def value(z, y, c, p):
    distance = abs(z - y) - width(p)
    return 0.0 if distance <= 0.0 else c * power(distance)


def derivative(z, y, c, p):
    distance = abs(z - y) - width(p)
    return 0.0 if distance <= 0.0 else slope(distance) * (c if z > y else -c)


def second_derivative(z, y, c, p):
    distance = abs(z - y) - width(p)
    return c * second(distance) if distance > 0.0 or width(p) == 0.0 else 0.0


def aware_step(z, y, q, h, p):
    """The step of the hinge loss of the margin 1 - distance."""
    step = advance(1.0 - (abs(y - z) - width(p)), q, h)
    return step if y > z else -step


def conjugate(a, y, c, p):
    return width(p) * abs(a) + half_square(a, c) - a * y


def stationarity(a, z, y, c, p):
    """(projected gradient, gradient of a row that stays at a bound, or at the kink a = 0: there its distance from the
    nearer side of the tube)."""
    gradient = z - y + diagonal(c) * a
    right = gradient + width(p)  # the derivative of -D on the right of a
    left = gradient - width(p)  # and on its left, where a = 0
    if a == 0.0:
        if right < 0.0:
            return right, 0.0
        if left > 0.0:
            return left, 0.0
        return 0.0, min(right, -left)
    if a > 0.0:
        if a == upper(c):
            return max(right, 0.0), min(right, 0.0)
        return right, 0.0
    if a == -upper(c):
        return min(left, 0.0), max(left, 0.0)
    return left, 0.0


def step(a, z, q, y, c, p):
    """The minimiser along the coordinate; one of the bounds, or 0, if the row has no entries and the dual no
    diagonal."""
    curvature = q + diagonal(c)
    gradient = z - y + diagonal(c) * a
    right = gradient + width(p)
    left = gradient - width(p)
    if curvature == 0.0:
        return upper(c) if right < 0.0 else -upper(c) if left > 0.0 else 0.0
    new = 0.0
    if right < curvature * a:
        new = a - right / curvature
    elif left > curvature * a:
        new = a - left / curvature
    return min(max(new, -upper(c)), upper(c))


def feasible(a, y, c, p):
    """a clipped to its bounds."""
    return min(max(a, -upper(c)), upper(c))


@inlined
def direction(y, p):
    """w gains a x."""
    return 1.0


def _loss(name: str, summary: str, parts: dict, **more) -> Loss:
    functions = with_parts(
        name, parts, value, derivative, aware_step, conjugate, stationarity, step, feasible, *more.pop("besides", ())
    )
    return Loss(name, summary, **functions, direction=direction, targets=REAL_NUMBERS, **more)


EPSILON_INSENSITIVE = _loss(
    "epsilon-insensitive",
    "C max(0, |z - y| - epsilon): support vector regression",
    LINEAR | {"width": tube_width},
    settings=SETTINGS,
    slope_bound=1.0,
    known_as={
        "LIBLINEAR": ("L2R_L1LOSS_SVR_DUAL",),
        "scikit-learn": {"LinearSVR": "epsilon_insensitive", "SGDRegressor": "epsilon_insensitive"},
    },
)
SQUARED_EPSILON_INSENSITIVE = _loss(
    "squared-epsilon-insensitive",
    "C max(0, |z - y| - epsilon)^2: least squares outside of a tube",
    SQUARED | {"width": tube_width},
    settings=SETTINGS,
    curvature=2.0,
    besides=(second_derivative,),
    known_as={
        "LIBLINEAR": ("L2R_L2LOSS_SVR_DUAL", "L2R_L2LOSS_SVR"),
        "scikit-learn": {"LinearSVR": "squared_epsilon_insensitive", "SGDRegressor": "squared_epsilon_insensitive"},
    },
)
SQUARED_LOSS = _loss(
    "squared",
    "C (z - y)^2 / 2: ridge regression",
    HALF_SQUARED | {"width": no_width},
    curvature=1.0,
    besides=(second_derivative,),
    known_as={"scikit-learn": {"SGDRegressor": "squared_error", "SGDClassifier": "squared_error"}},
)
ABSOLUTE = _loss(
    "absolute",
    "C |z - y|: regression to the median",
    LINEAR | {"width": no_width},
    slope_bound=1.0,
    known_as={"scikit-learn": {"SGDRegressor": "epsilon_insensitive"}},
)
