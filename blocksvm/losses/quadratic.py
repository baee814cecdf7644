"""Parts of the losses whose dual is quadratic in an interval: of hinge.py (two classes) and epsilon_insensitive.py
(real numbers).

c times a distance, c times its square and half of that differ in these seven functions, among them the bound of |a| and
the diagonal of the dual (Hsieh et al., ICML 2008, Table 1; Ho, Lin, JMLR 13, 2012, eq. 6).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.kernels import inlined_with


def upper(c):
    """The bound of |a|.  This and the functions below are placeholders, which ``with_parts`` replaces."""
    raise NotImplementedError


def diagonal(c):
    """The dual's quadratic term."""
    raise NotImplementedError


def power(distance):
    """The loss over c at a distance above 0."""
    raise NotImplementedError


def slope(distance):
    """The derivative of ``power``."""
    raise NotImplementedError


def second(distance):
    """The second derivative of ``power``."""
    raise NotImplementedError


def half_square(a, c):
    """diagonal(c) a^2 / 2, the conjugate's quadratic term."""
    raise NotImplementedError


def advance(m, q, h):
    """The importance-aware step of a row with the distance 1 - m (Karampatziakis, Langford, UAI 2011, Table 1)."""
    raise NotImplementedError


def _named(kind: str, **parts: Callable) -> dict[str, Callable]:
    return {name: inlined_with(part, f"{kind}_{name}") for name, part in parts.items()}


LINEAR = _named(
    "linear",
    upper=lambda c: c,
    diagonal=lambda c: 0.0,
    power=lambda distance: distance,
    slope=lambda distance: 1.0,
    half_square=lambda a, c: 0.0,
    advance=lambda m, q, h: min(h, (1.0 - m) / q),
)
SQUARED = _named(
    "squared",
    upper=lambda c: np.inf,
    diagonal=lambda c: 1.0 / (2.0 * c),
    power=lambda distance: distance * distance,
    slope=lambda distance: 2.0 * distance,
    second=lambda distance: 2.0,
    half_square=lambda a, c: a * a / (4.0 * c),
    advance=lambda m, q, h: (1.0 - m) * -np.expm1(-2.0 * h * q) / q,
)
HALF_SQUARED = _named(
    "half_squared",
    upper=lambda c: np.inf,
    diagonal=lambda c: 1.0 / c,
    power=lambda distance: 0.5 * distance * distance,
    slope=lambda distance: distance,
    second=lambda distance: 1.0,
    half_square=lambda a, c: a * a / (2.0 * c),
    advance=lambda m, q, h: (1.0 - m) * -np.expm1(-h * q) / q,
)
