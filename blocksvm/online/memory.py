"""The arguments of a learner's functions, a row and the learner's memory, and layouts: positions by name of the numbers
of a feature, of the scalars, and of the settings as numbers.

A layout is a namedtuple of the positions 0, 1, 2, ...; numba compiles its entries as constants, so that
``columns[slot + COLUMN.squares]`` costs what ``columns[slot + 1]`` does.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

# settings that every learner has as numbers, used or not, in this order; the learner's follow
COMMON = ("average", "step", "decay")


class SparseRow(NamedTuple):
    """A row: entries ``start <= k < stop`` of indices (int32, or int64 of several classes) and values (float32 or
    float64; None: every value is 1)."""

    indices: np.ndarray
    values: np.ndarray | None
    start: int
    stop: int


class Memory(NamedTuple):
    """The state of a learner.

    columns (features * width,) float64: ``width`` numbers for each feature, side by side, so that a feature costs one
    cache line; scalars (m,) float64: numbers that all features share, ``rounds`` (rows learned from) first; parameters
    float64: the settings as numbers; loss: a NamedTuple (losses/loss.py); scratch float64: the
    numbers of the row that ``score`` leaves for ``update`` (``Rule.scratch``).
    """

    columns: np.ndarray
    width: int
    scalars: np.ndarray
    parameters: np.ndarray
    loss: tuple
    scratch: np.ndarray


Layout = Any  # a namedtuple of positions; n_averaging: how many of them, the last ones, are for averages


def layout(*names: str, averaging: tuple[str, ...] = ()) -> Layout:
    """A namedtuple of the names' positions; ``averaging``: names that follow, present only where averages are wanted.

    The first number of a feature is its weight, or what the weight is made from; the first scalar is ``rounds``.
    """
    kind = namedtuple("layout", (*names, *averaging))
    kind.n_averaging = len(averaging)
    return kind(*range(len(names) + len(averaging)))


def unsigned(positions: Layout) -> Layout:
    """The same positions as np.uint64, to be added to an unsigned index: numba does not test such an index for counting
    from the end, and the sum with a signed number would be a float."""
    import numpy as np  # not above: options are declared with layouts, and must load without numpy

    return type(positions)(*map(np.uint64, positions))


def parameters(*names: str) -> Layout:
    return layout(*COMMON, *names)
