"""The rows that a machine with a kernel stands on; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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

    @property
    def function(self) -> tuple:
        """As kernels/kernel_machine_loops.py takes it."""
        return KERNELS.index(self.kernel["name"]), self.kernel["gamma"], self.kernel["coef0"], self.kernel["degree"]
