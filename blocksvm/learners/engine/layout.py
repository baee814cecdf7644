"""Positions by name: what a learner keeps for each feature, its scalars, and its settings as numbers.

A layout is a namedtuple of the positions 0, 1, 2, ...; numba compiles its entries as constants, so that
``columns[place + COLUMN.squares]`` costs what ``columns[place + 1]`` does.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Protocol

# settings that every learner has as numbers, used or not, in this order; its own follow
COMMON = ("average", "loss", "epsilon", "step", "decay")


class Layout(Protocol):
    """A namedtuple of positions; n_averaging: how many of them, the last ones, are of averages."""

    _fields: tuple[str, ...]
    n_averaging: int

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


def layout(*names: str, averaging: tuple[str, ...] = ()) -> Layout:
    """A namedtuple of the names' positions; ``averaging``: names behind them, kept only where averages are wanted.

    The first number of a feature is its weight, or what the weight is made from; the first scalar is ``rounds``.
    """
    kind = namedtuple("layout", (*names, *averaging))
    kind.n_averaging = len(averaging)
    return kind(*range(len(names) + len(averaging)))


def unsigned(positions: Layout) -> Layout:
    """The same positions, for a place that is unsigned: such a one is not tested for counting from the end, and with a
    signed number it would become a float."""
    import numpy as np  # not above: options are declared with layouts, and are told without it

    return type(positions)(*map(np.uint64, positions))


def parameters(*names: str) -> Layout:
    """The layout of settings as numbers: the common ones, then a learner's own."""
    return layout(*COMMON, *names)
