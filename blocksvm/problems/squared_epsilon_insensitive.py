"""The squared epsilon-insensitive loss c max(0, |z - y| - epsilon)^2, with epsilon = 0 the squared loss of ridge
regression; the dual has no bound and the diagonal 1 / (2 c) (Ho, Lin, JMLR 13, 2012, eq. 6)."""

from __future__ import annotations

from blocksvm.kernels import inlined
from blocksvm.problems.loss import REAL_NUMBERS, Loss
from blocksvm.problems.quadratic import SQUARED
from blocksvm.problems.tube import functions_of


@inlined
def value(z, y, c, p):
    beyond = max(0.0, abs(z - y) - p[0])
    return c * (beyond * beyond)


@inlined
def derivative(z, y, c, p):
    beyond = max(0.0, abs(z - y) - p[0])
    return 2.0 * c * beyond if z > y else -2.0 * c * beyond


@inlined
def conjugate(a, y, c, p):
    return p[0] * abs(a) + a * a / (4.0 * c) - a * y


LOSS = Loss(
    name="squared-epsilon-insensitive",
    summary="C max(0, |z - y| - epsilon)^2: least squares outside of a tube (epsilon 0: ridge regression)",
    value=value,
    derivative=derivative,
    conjugate=conjugate,
    curvature=2.0,
    targets=REAL_NUMBERS,
    **functions_of("squared_epsilon_insensitive", **SQUARED),
)
