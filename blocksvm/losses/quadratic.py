"""What the losses share whose dual is quadratic in an interval, those of box.py (two classes) and of tube.py (real
numbers): c times a distance and c times its square differ in five functions, among them the dual's bound of |a| and
its diagonal (Hsieh et al., ICML 2008, Table 1; Ho, Lin, JMLR 13, 2012, eq. 6)."""

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
    """The loss over c."""
    raise NotImplementedError


def slope(distance):
    """Its derivative, 0 at 0."""
    raise NotImplementedError


def half_square(a, c):
    """diagonal(c) a^2 / 2, the conjugate's quadratic term."""
    raise NotImplementedError


def _named(kind: str, **parts: Callable) -> dict[str, Callable]:
    return {part: inlined_with(own, f"{kind}_{part}") for part, own in parts.items()}


LINEAR = _named(
    "linear",
    upper=lambda c: c,
    diagonal=lambda c: 0.0,
    power=lambda distance: distance,
    slope=lambda distance: 1.0 if distance > 0.0 else 0.0,
    half_square=lambda a, c: 0.0,
)
SQUARED = _named(
    "squared",
    upper=lambda c: np.inf,
    diagonal=lambda c: 1.0 / (2.0 * c),
    power=lambda distance: distance * distance,
    slope=lambda distance: 2.0 * distance,
    half_square=lambda a, c: a * a / (4.0 * c),
)


def with_parts(name: str, parts: dict[str, Callable], *functions: Callable) -> dict[str, Callable]:
    """These functions of a row by their names, which ``Loss`` has, with inlined parts in the place of those above."""
    return {
        own.__name__: inlined_with(
            own, f"{name}_{own.__name__}", **{part: parts[part] for part in parts if part in own.__code__.co_names}
        )
        for own in functions
    }
