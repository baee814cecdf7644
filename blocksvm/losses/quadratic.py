"""Parts of the losses whose dual is quadratic in an interval, those of hinge.py (two classes) and of
epsilon_insensitive.py (real numbers).

c times a distance, c times its square, and half of that differ in seven functions, among them the dual's bound of |a|
and its diagonal (Hsieh et al., ICML 2008, Table 1; Ho, Lin, JMLR 13, 2012, eq. 6).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.kernels import inlined_with


def upper(c):
    """The bound of |a|; like those below a name in whose place ``with_parts`` puts a loss's own."""
    raise NotImplementedError


def diagonal(c):
    """The dual's quadratic term."""
    raise NotImplementedError


def power(distance):
    """The loss over c at a distance above 0."""
    raise NotImplementedError


def slope(distance):
    """Its derivative."""
    raise NotImplementedError


def second(distance):
    """Its second derivative."""
    raise NotImplementedError


def half_square(a, c):
    """diagonal(c) a^2 / 2, the conjugate's quadratic term."""
    raise NotImplementedError


def advance(m, q, h):
    """The importance-aware step of a row with the distance 1 - m (Karampatziakis, Langford, UAI 2011, Table 1)."""
    raise NotImplementedError


def _named(kind: str, **parts: Callable) -> dict[str, Callable]:
    return {part: inlined_with(own, f"{kind}_{part}") for part, own in parts.items()}


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


def with_parts(name: str, parts: dict[str, Callable], *functions: Callable) -> dict[str, Callable]:
    """These functions of a row by their names, which ``Loss`` has, with inlined parts in the place of those above."""
    return {
        own.__name__: inlined_with(
            own, f"{name}_{own.__name__}", **{part: parts[part] for part in parts if part in own.__code__.co_names}
        )
        for own in functions
    }
