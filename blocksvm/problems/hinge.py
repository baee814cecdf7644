"""The hinge loss c max(0, 1 - y z): the linear support vector machine, with the dual 0 <= a <= c and no diagonal
(Hsieh et al., ICML 2008, Table 1)."""

from __future__ import annotations

from blocksvm.kernels import inlined
from blocksvm.problems.box import functions_of
from blocksvm.problems.loss import Loss
from blocksvm.problems.quadratic import LINEAR


@inlined
def value(z, y, c, p):
    return c * max(0.0, 1.0 - y * z)


@inlined
def derivative(z, y, c, p):
    return -c * y if y * z < 1.0 else 0.0


@inlined
def conjugate(a, y, c, p):
    return -a


LOSS = Loss(
    name="hinge",
    summary="C max(0, 1 - m): support vector machine",
    value=value,
    derivative=derivative,
    conjugate=conjugate,
    ball=1.0,  # by strong duality, ||w*||^2 <= sum a* <= sum C (Pegasos, section 2.1)
    **functions_of("hinge", **LINEAR),
)
