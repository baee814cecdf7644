"""A loss of two classes from outside the package, with every part: the hinge, smoothed over a width g.

    0 for m >= 1, 1 - m - g / 2 for m <= 1 - g, else (1 - m)^2 / (2 g);     dual sum a - g a^2 / (2 c), 0 <= a <= c

(Shalev-Shwartz, Zhang, JMLR 14, 2013, section 2).
"""

import numpy as np

from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels import inlined
from blocksvm.losses.loss import Loss


def smooth_hinge_sum(margins: np.ndarray, width: float) -> float:
    """The sum of the losses at C = 1, in plain numpy."""
    distance = np.maximum(0.0, 1.0 - margins)
    return float(np.where(distance >= width, distance - 0.5 * width, 0.5 * distance**2 / width).sum())


@inlined
def value(z, y, c, p):
    distance = 1.0 - y * z
    if distance <= 0.0:
        return 0.0
    return c * (distance - 0.5 * p[0]) if distance >= p[0] else 0.5 * c * distance * distance / p[0]


@inlined
def derivative(z, y, c, p):
    distance = 1.0 - y * z
    return 0.0 if distance <= 0.0 else -c * y * min(1.0, distance / p[0])


@inlined
def second_derivative(z, y, c, p):
    distance = 1.0 - y * z
    return c / p[0] if 0.0 < distance < p[0] else 0.0


@inlined
def aware_step(z, y, q, h, p):
    """At unit speed until the margin is 1 - g, then ever slower towards 1."""
    left = 1.0 - p[0] - y * z
    if h * q <= left:
        return y * h
    distance, rest = (p[0], h - left / q) if left > 0.0 else (1.0 - y * z, h)
    return y * (max(left, 0.0) - distance * np.expm1(-rest * q / p[0])) / q


@inlined
def conjugate(a, y, c, p):
    return 0.5 * p[0] * a * a / c - a


@inlined
def direction(y, p):
    return y


@inlined
def step(a, z, q, y, c, p):
    diagonal = p[0] / c
    return min(max(a - (y * z - 1.0 + diagonal * a) / (q + diagonal), 0.0), c)


@inlined
def stationarity(a, z, y, c, p):
    gradient = y * z - 1.0 + p[0] * a / c
    if a == 0.0:
        return min(gradient, 0.0), max(gradient, 0.0)
    if a == c:
        return max(gradient, 0.0), min(gradient, 0.0)
    return gradient, 0.0


@inlined
def feasible(a, y, c, p):
    return min(max(a, 0.0), c)


def link(values):
    """Linear between the margins -1 and 1."""
    larger = np.clip(0.5 * (1.0 + values), 0.0, 1.0)
    return np.stack([1.0 - larger, larger], axis=-1)


SMOOTH_HINGE = Loss(
    name="smooth-hinge",
    summary="C max(0, 1 - m), quadratic over the width below 1",
    value=value,
    derivative=derivative,
    second_derivative=second_derivative,
    aware_step=aware_step,
    conjugate=conjugate,
    direction=direction,
    step=step,
    stationarity=stationarity,
    feasible=feasible,
    link=link,
    settings=Settings((Setting("width", "below margin 1, where the loss is quadratic", 0.5, above=0.0),)),
    slope_bound=1.0,
    zero_from=1.0,
)
# a loss with nothing but a value and a derivative
BARE = Loss("bare", "the same without any other part", value, derivative, settings=SMOOTH_HINGE.settings)
