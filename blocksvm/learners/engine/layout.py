"""Arguments of a learner's functions, a row and the learner's memory, and named positions in the memory: the numbers of
a feature, the scalars, and the settings as numbers.

A layout is a namedtuple of the positions 0, 1, 2, ...; numba compiles its entries as constants, so that
``columns[place + COLUMN.squares]`` costs what ``columns[place + 1]`` does.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

# settings that every learner has as numbers, used or not, in this order; its own follow
COMMON = ("average", "step", "decay")


class SparseRow(NamedTuple):
    """A row: entries ``start <= k < stop`` of indices (int32, or int64 of several classes) and values (float32 or
    float64; None: every value is 1)."""

    indices: np.ndarray
    values: np.ndarray | None
    start: int
    stop: int


class Memory(NamedTuple):
    """What a learner knows.

    columns (features * width,) float64: ``width`` numbers a feature, side by side, so that a feature costs one cache
    line; scalars (m,) float64: numbers that all features share, ``rounds`` (rows learned from) first; parameters
    float64: the settings as numbers; p: the settings of the loss, a tuple; scratch float64: of a learner with ``kept``,
    numbers of the row that ``score`` leaves for ``update``.
    """

    columns: np.ndarray
    width: int
    scalars: np.ndarray
    parameters: np.ndarray
    p: tuple
    scratch: np.ndarray


class Layout(Protocol):
    """A namedtuple of positions; n_averaging: how many of them, the last ones, are of averages."""

    _fields: tuple[str, ...]
    n_averaging: int

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


def layout(*names: str, averaging: tuple[str, ...] = ()) -> Layout:
    """A namedtuple of the names' positions; ``averaging``: names behind them, stored only where averages are wanted.

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
