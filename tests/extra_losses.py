"""A loss of real targets from outside the package: c max(0, |z - y| - epsilon), by its dual with -c <= a <= c (Ho, Lin,
JMLR 13, 2012, eq. 6; the step is that of their Alg. 4)."""

from __future__ import annotations

from blocksvm.kernels import inlined
from blocksvm.problems.loss import REAL_NUMBERS, Loss
from blocksvm.settings import Setting, Settings


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


@inlined
def direction(y, p):
    return 1.0


@inlined
def stationarity(a, z, y, c, p):
    below, above = z - y - p[0], z - y + p[0]  # the derivative of -D left and right of a = 0
    if a == c:
        return max(above, 0.0), min(above, 0.0)
    if a == -c:
        return min(below, 0.0), max(below, 0.0)
    if a == 0.0:
        return max(below, 0.0) + min(above, 0.0), 0.0
    return above if a > 0.0 else below, 0.0


@inlined
def step(a, z, q, y, c, p):
    below, above = z - y - p[0], z - y + p[0]
    if q == 0.0:
        new = c if above < 0.0 else -c if below > 0.0 else 0.0
    elif above < q * a:
        new = a - above / q
    elif below > q * a:
        new = a - below / q
    else:
        new = 0.0
    return min(max(new, -c), c)


@inlined
def feasible(a, y, c, p):
    return min(max(a, -c), c)


EPSILON_INSENSITIVE = Loss(
    name="epsilon-insensitive",
    summary="C max(0, |z - y| - epsilon)",
    value=value,
    derivative=derivative,
    conjugate=conjugate,
    direction=direction,
    step=step,
    stationarity=stationarity,
    feasible=feasible,
    targets=REAL_NUMBERS,
    settings=Settings((Setting("epsilon", "half the width of the tube in which nothing is lost", 0.1, least=0.0),)),
)
NOT_A_LOSS = object()
