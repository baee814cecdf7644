"""A loss of two classes from outside the package, with every part: the hinge, smoothed over a width g.

    0 for m >= 1, 1 - m - g / 2 for m <= 1 - g, else (1 - m)^2 / (2 g);     dual sum a - g a^2 / (2 c), 0 <= a <= c

(Shalev-Shwartz, Zhang, JMLR 14, 2013, section 2).
"""

from typing import NamedTuple

import numpy as np

from blocksvm.base.settings import Setting, Settings
from blocksvm.losses.box import Margin
from blocksvm.losses.loss import Loss


class SmoothHinge(NamedTuple):
    curvature: float
    slope: float
    value, derivative, second_derivative = Margin.value, Margin.derivative, Margin.second_derivative
    aware_step, conjugate, direction = Margin.aware_step, Margin.conjugate, Margin.direction
    step, stationarity, feasible = Margin.step, Margin.stationarity, Margin.feasible


def link(values):
    """Linear between the margins -1 and 1."""
    larger = np.clip(0.5 * (1.0 + values), 0.0, 1.0)
    return np.stack([1.0 - larger, larger], axis=-1)


SMOOTH_HINGE = Loss(
    "smooth-hinge",
    "C max(0, 1 - m), quadratic over the width below 1",
    SmoothHinge,
    Settings((Setting("width", "below margin 1, where the loss is quadratic", 0.5, above=0.0),)),
    numbers=lambda settings: (1.0 / settings["width"], 1.0),
    link=link,
    slope_bound=1.0,
    zero_from=1.0,
)


class Bare(NamedTuple):
    """Nothing but a value and a derivative."""

    curvature: float
    slope: float
    value, derivative = Margin.value, Margin.derivative


BARE = Loss("bare", "the same without any other part", Bare, SMOOTH_HINGE.settings, SMOOTH_HINGE.numbers)
