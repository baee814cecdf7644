"""Arrays of rows in groups, each of which is one argument of a kernel."""

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """The rows that a kernel reads: arrays of a block, by the names that they have there; sq_norms may be None for
    kernels that do not use it."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray | None
    y: np.ndarray
    weights: np.ndarray | None
    sq_norms: np.ndarray | None = None


class NewNames(NamedTuple):
    """The names of the entries that a parser makes, where they are wanted: text[first[k]:last[k]] is that of entry k."""

    text: np.ndarray
    first: np.ndarray
    last: np.ndarray
