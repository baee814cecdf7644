"""The rows that a machine with a kernel stands on, and decision values by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.kernels.columns import row_sq_norms
from blocksvm.kernels.kernel_machine_loops import columns_of, kernel_sums
from blocksvm.kernels.rows import Entries

KERNELS = ("linear", "polynomial", "rbf")  # in the order of the numbers in kernels/kernel_machine_loops.py


@dataclass(frozen=True)
class Support:
    """The rows that a model with a kernel stands on: decision value(x) = sum_m coefficients[m] K(z_m, x) + b.

    indptr (m + 1,) int64, indices (nnz,) int32, values (nnz,) float64: the rows; norms (m,): their squared norms;
    coefficients (m,): a y; kernel: its name, gamma, coef0 and degree.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    norms: np.ndarray
    coefficients: np.ndarray
    kernel: dict


def function_of(kernel: Mapping) -> tuple:
    """As kernels/kernel_machine_loops.py takes what ``Support`` has: (number of the kernel, gamma, coef0, degree)."""
    return KERNELS.index(kernel["name"]), kernel["gamma"], kernel["coef0"], kernel["degree"]


@dataclass(frozen=True)
class Expansion:
    """Completes <w, x> of rows to decision values: adds sum_m coefficients[m] K(z_m, x).

    columns: (first, owner, held) of the rows z_m, see kernels/kernel_machine_loops.py; norms (m,): their squared norms;
    function: as ``function_of`` has it.
    """

    columns: tuple[np.ndarray, np.ndarray, np.ndarray]
    norms: np.ndarray
    coefficients: np.ndarray
    function: tuple

    @classmethod
    def of(cls, support: Support, positions: np.ndarray, n_features: int) -> Expansion:
        """For rows over other features: positions (d,): the feature that each of the model's is among theirs, -1 for
        none; n_features: theirs.  A feature that the model does not know counts in a row's norm alone."""
        lengths = np.diff(support.indptr)
        moved = positions[support.indices]
        known = moved >= 0
        owner = np.repeat(np.arange(len(lengths)), lengths)[known]
        indptr = np.append(0, np.cumsum(np.bincount(owner, minlength=len(lengths)).astype(np.int64)))
        indices, values = moved[known].astype(np.int32), support.values[known]
        first = np.zeros(n_features + 3, np.int64)  # and one for what is unknown
        columns = first, np.empty(len(indices), np.int32), np.empty(len(indices))
        columns_of(indptr, indices, values, *columns)
        return cls(columns, support.norms, support.coefficients, function_of(support.kernel))

    def complete(self, entries: Entries, values: np.ndarray) -> None:
        """``values`` (1, m), <w, x> of so many plain rows."""
        norms = np.empty(values.shape[1])
        row_sq_norms(*entries[:3], norms)
        self.add(entries, norms, values[0])

    def add(self, entries: Entries, sq_norms: np.ndarray, scores: np.ndarray) -> None:
        """``scores`` (m,) gain it for so many plain rows of these squared norms."""
        work = np.empty(len(self.norms))
        kernel_sums(entries, sq_norms, self.columns, self.norms, self.coefficients, self.function, work, scores)
