"""Losses of real targets from outside the package, with the functions of Huber's."""

from dataclasses import replace
from typing import NamedTuple

from blocksvm.kernels.loss_functions import conjugate, derivative
from blocksvm.losses.box import HUBER as HUBER_LOSS
from blocksvm.losses.box import Tube

HUBER = replace(HUBER_LOSS, name="outside", lacks=("second_derivative", "aware_step"))


class ByHelpers(NamedTuple):
    """Huber's loss, whose value is the biconjugate, which is attained where a is -derivative."""

    curvature: float
    slope: float
    epsilon: float

    def value(self, z, y, c):
        a = -derivative(self, z, y, c)
        return -conjugate(self, a, y, c) - a * z

    derivative, conjugate, direction = Tube.derivative, Tube.conjugate, Tube.direction
    step, stationarity, feasible = Tube.step, Tube.stationarity, Tube.feasible


HUBER_BY_HELPERS = replace(HUBER, name="huber-by-helpers", form=ByHelpers)
NOT_A_LOSS = object()
