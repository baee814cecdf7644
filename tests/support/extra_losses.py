"""Losses of real targets from outside the package, with the functions of Huber's."""

from __future__ import annotations

from dataclasses import replace

from blocksvm.kernels import inlined
from blocksvm.kernels.loss_placeholders import conjugate as placeholders_conjugate
from blocksvm.kernels.loss_placeholders import derivative as placeholders_derivative
from blocksvm.losses.huber import HUBER_LOSS

HUBER = replace(HUBER_LOSS, name="outside", second_derivative=None, aware_step=None)


@inlined
def own_conjugate(a, y, c, p):
    """A helper that calls what every loss has."""
    return placeholders_conjugate(a, y, c, p)


@inlined
def own_value(z, y, c, p):
    """The same value as the biconjugate, which is attained where a is -derivative."""
    a = -placeholders_derivative(z, y, c, p)
    return -own_conjugate(a, y, c, p) - a * z


HUBER_BY_HELPERS = replace(HUBER, name="huber-by-helpers", value=own_value)
NOT_A_LOSS = object()
