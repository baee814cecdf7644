"""A loss of two classes from outside the package, with every part: the hinge, smoothed over a width g.

    0 for m >= 1, 1 - m - g / 2 for m <= 1 - g, else (1 - m)^2 / (2 g);     dual sum a - g a^2 / (2 c), 0 <= a <= c

(Shalev-Shwartz, Zhang, JMLR 14, 2013, section 2).
"""

from typing import NamedTuple

import numpy as np

from blocksvm.base.settings import Setting, Settings
from blocksvm.losses.loss import Loss


def smooth_hinge_sum(margins: np.ndarray, width: float) -> float:
    """The sum of the losses at C = 1, in plain numpy."""
    distance = np.maximum(0.0, 1.0 - margins)
    return float(np.where(distance >= width, distance - 0.5 * width, 0.5 * distance**2 / width).sum())


class SmoothHinge(NamedTuple):
    width: float

    def value(self, z, y, c):
        distance = 1.0 - y * z
        if distance <= 0.0:
            return 0.0
        return (
            c * (distance - 0.5 * self.width) if distance >= self.width else 0.5 * c * distance * distance / self.width
        )

    def derivative(self, z, y, c):
        distance = 1.0 - y * z
        return 0.0 if distance <= 0.0 else -c * y * min(1.0, distance / self.width)

    def second_derivative(self, z, y, c):
        distance = 1.0 - y * z
        return c / self.width if 0.0 < distance < self.width else 0.0

    def aware_step(self, z, y, q, h):
        """At unit speed until the margin is 1 - g, then ever slower towards 1."""
        left = 1.0 - self.width - y * z
        if h * q <= left:
            return y * h
        distance, rest = (self.width, h - left / q) if left > 0.0 else (1.0 - y * z, h)
        return y * (max(left, 0.0) - distance * np.expm1(-rest * q / self.width)) / q

    def conjugate(self, a, y, c):
        return 0.5 * self.width * a * a / c - a

    def direction(self, y):
        return y

    def step(self, a, z, q, y, c):
        diagonal = self.width / c
        return min(max(a - (y * z - 1.0 + diagonal * a) / (q + diagonal), 0.0), c)

    def stationarity(self, a, z, y, c):
        gradient = y * z - 1.0 + self.width * a / c
        if a == 0.0:
            return min(gradient, 0.0), max(gradient, 0.0)
        if a == c:
            return max(gradient, 0.0), min(gradient, 0.0)
        return gradient, 0.0

    def feasible(self, a, y, c):
        return min(max(a, 0.0), c)


def link(values):
    """Linear between the margins -1 and 1."""
    larger = np.clip(0.5 * (1.0 + values), 0.0, 1.0)
    return np.stack([1.0 - larger, larger], axis=-1)


SMOOTH_HINGE = Loss(
    "smooth-hinge",
    "C max(0, 1 - m), quadratic over the width below 1",
    SmoothHinge,
    Settings((Setting("width", "below margin 1, where the loss is quadratic", 0.5, above=0.0),)),
    link=link,
    slope_bound=1.0,
    zero_from=1.0,
)


class Bare(NamedTuple):
    """Nothing but a value and a derivative."""

    width: float
    value = SmoothHinge.value
    derivative = SmoothHinge.derivative


BARE = Loss("bare", "the same without any other part", Bare, SMOOTH_HINGE.settings)
