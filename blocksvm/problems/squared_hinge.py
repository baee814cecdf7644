"""The squared hinge loss c max(0, 1 - y z)^2, with the dual a >= 0 and the diagonal 1 / (2 c)
(Hsieh et al., ICML 2008, Table 1)."""

from __future__ import annotations

from blocksvm.kernels import inlined
from blocksvm.problems.box import functions_of
from blocksvm.problems.loss import Loss
from blocksvm.problems.quadratic import SQUARED


@inlined
def value(z, y, c, p):
    excess = max(0.0, 1.0 - y * z)
    return c * (excess * excess)


@inlined
def derivative(z, y, c, p):
    return -2.0 * c * y * max(0.0, 1.0 - y * z)


@inlined
def conjugate(a, y, c, p):
    return a * a / (4.0 * c) - a


LOSS = Loss(
    name="squared-hinge",
    summary="C max(0, 1 - m)^2: support vector machine with squared slacks",
    value=value,
    derivative=derivative,
    conjugate=conjugate,
    curvature=2.0,
    **functions_of("squared_hinge", **SQUARED),
)
