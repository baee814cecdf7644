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


class NewRows(NamedTuple):
    """The rows that a parser makes, with room for as many as there may be: labels (rows, 2) int64, where each row's label
    lies in the text; indptr (rows + 1,) int64; ids int64 and values float64 of the entries; lines (rows,) int64, the line
    of each row (0-based)."""

    labels: np.ndarray
    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    lines: np.ndarray


class NewNames(NamedTuple):
    """The names of their entries, where they are wanted: text[first[k]:last[k]] is that of entry k."""

    text: np.ndarray
    first: np.ndarray
    last: np.ndarray
