"""The epsilon-insensitive loss c max(0, |z - y| - epsilon), which is that of support vector regression, and its square,
with epsilon = 0 the squared loss of ridge regression: the distance from a tube of half width epsilon around the target.

    max_a  sum_i y_i a_i - epsilon sum_i |a_i| - 1/2 sum_i diagonal_i a_i^2 - ...,     |a_i| <= upper_i

With H = ||x||^2 + diagonal and G = <w, x> - y + diagonal a the step is -(G + epsilon) / H where G + epsilon < H a,
-(G - epsilon) / H where G - epsilon > H a, else to 0; then a is clipped to its bounds (Ho, Lin, JMLR 13, 2012, Alg. 4).
The only setting, p[0], is epsilon.
"""

from __future__ import annotations

from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels import inlined
from blocksvm.losses.loss import REAL_NUMBERS, Loss
from blocksvm.losses.quadratic import LINEAR, SQUARED, diagonal, half_square, power, slope, upper, with_parts

SETTINGS = Settings((Setting("epsilon", "largest error that costs nothing", 0.1, least=0.0),))


def value(z, y, c, p):
    return c * power(max(0.0, abs(z - y) - p[0]))


def derivative(z, y, c, p):
    return slope(max(0.0, abs(z - y) - p[0])) * (c if z > y else -c)


def conjugate(a, y, c, p):
    return p[0] * abs(a) + half_square(a, c) - a * y


def stationarity(a, z, y, c, p):
    """Projected gradient, and the gradient of a row that stays at a bound, or at the kink a = 0: there its distance
    from the nearer side of the tube."""
    gradient = z - y + diagonal(c) * a
    right = gradient + p[0]  # the derivative of -D on the right of a
    left = gradient - p[0]  # and on its left, where a = 0
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
    """The minimiser along the coordinate; without entries and without a diagonal one of the bounds, or 0."""
    curvature = q + diagonal(c)
    gradient = z - y + diagonal(c) * a
    right = gradient + p[0]
    left = gradient - p[0]
    if curvature == 0.0:
        return upper(c) if right < 0.0 else -upper(c) if left > 0.0 else 0.0
    new = 0.0
    if right < curvature * a:
        new = a - right / curvature
    elif left > curvature * a:
        new = a - left / curvature
    return min(max(new, -upper(c)), upper(c))


def feasible(a, y, c, p):
    """Clipped to the bounds."""
    return min(max(a, -upper(c)), upper(c))


@inlined
def direction(y, p):
    """w gains a x."""
    return 1.0


def _loss(name: str, summary: str, parts: dict, **more) -> Loss:
    own = with_parts(name, parts, value, derivative, conjugate, step, stationarity, feasible)
    return Loss(name, summary, **own, direction=direction, targets=REAL_NUMBERS, settings=SETTINGS, **more)


EPSILON_INSENSITIVE = _loss("epsilon-insensitive", "C max(0, |z - y| - epsilon): support vector regression", LINEAR)
SQUARED_EPSILON_INSENSITIVE = _loss(
    "squared-epsilon-insensitive",
    "C max(0, |z - y| - epsilon)^2: least squares outside of a tube (epsilon 0: ridge regression)",
    SQUARED,
    curvature=2.0,
)
