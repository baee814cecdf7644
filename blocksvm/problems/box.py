"""The dual of losses of the margin that is quadratic in a box: hinge and squared hinge differ in two numbers.

    max_a  sum_i a_i - 1/2 sum_i diagonal_i a_i^2 - ...,     0 <= a_i <= upper_i

With G = y <w, x> - 1 + diagonal a, the gradient of -D, the step is a <- clip(a - G / (||x||^2 + diagonal), 0, upper)
(Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008, Alg. 3).
"""

from __future__ import annotations

from blocksvm.kernels import inlined
from blocksvm.problems.quadratic import diagonal, upper, with_bounds


def stationarity(a, z, y, c, p):
    """Projected gradient, and the gradient of a row that stays at its bound."""
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
    """Clipped into the box."""
    return min(max(a, 0.0), upper(c))


@inlined
def direction(y, p):
    """w gains a y x."""
    return y


def functions_of(name: str, upper, diagonal) -> dict:
    """The functions of a loss with this bound and diagonal, inlined functions of c, by the names that ``Loss`` has."""
    return {
        **with_bounds(name, upper, diagonal, stationarity, step, feasible),
        "direction": direction,
        "quadratic": True,
    }
