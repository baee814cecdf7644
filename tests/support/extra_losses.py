"""Losses of real targets from outside the package, with the functions of Huber's."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from blocksvm.kernels.loss_functions import conjugate, derivative, feasible
from blocksvm.losses.box import HUBER as HUBER_LOSS

HUBER = replace(HUBER_LOSS, name="outside", lacks=("second_derivative", "aware_step"))


class ByHelpers(NamedTuple):
    """The value is the biconjugate, which is attained where a is -derivative."""

    delta: float

    def value(self, z, y, c):
        a = -derivative(self, z, y, c)
        return -conjugate(self, a, y, c) - a * z

    def derivative(self, z, y, c):
        error = z - y
        return c * (self.delta if error > self.delta else -self.delta if error < -self.delta else error)

    def conjugate(self, a, y, c):
        return 0.5 * a * a / c - a * y

    def direction(self, y):
        return 1.0

    def step(self, a, z, q, y, c):
        return feasible(self, a - (z - y + a / c) / (q + 1.0 / c), y, c)

    def stationarity(self, a, z, y, c):
        gradient = z - y + a / c
        if a == c * self.delta:
            return max(gradient, 0.0), min(gradient, 0.0)
        if a == -c * self.delta:
            return min(gradient, 0.0), max(gradient, 0.0)
        return gradient, 0.0

    def feasible(self, a, y, c):
        return min(max(a, -c * self.delta), c * self.delta)


HUBER_BY_HELPERS = replace(HUBER, name="huber-by-helpers", form=ByHelpers, numbers=None)
NOT_A_LOSS = object()
