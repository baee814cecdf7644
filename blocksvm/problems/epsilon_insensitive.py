"""The epsilon-insensitive loss c max(0, |z - y| - epsilon): support vector regression, with the dual |a| <= c and no
diagonal (Ho, Lin, JMLR 13, 2012, eq. 6)."""

from __future__ import annotations

from blocksvm.kernels import inlined
from blocksvm.problems.loss import REAL_NUMBERS, Loss
from blocksvm.problems.quadratic import LINEAR
from blocksvm.problems.tube import functions_of


@inlined
def value(z, y, c, p):
    return c * max(0.0, abs(z - y) - p[0])


@inlined
def derivative(z, y, c, p):
    if abs(z - y) <= p[0]:
        return 0.0
    return c if z > y else -c


@inlined
def conjugate(a, y, c, p):
    return p[0] * abs(a) - a * y


LOSS = Loss(
    name="epsilon-insensitive",
    summary="C max(0, |z - y| - epsilon): support vector regression",
    value=value,
    derivative=derivative,
    conjugate=conjugate,
    targets=REAL_NUMBERS,
    **functions_of("epsilon_insensitive", **LINEAR),
)
