"""The support vectors of a learner with a kernel: their rows in memory, in compressed sparse rows and in columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import megabytes
from blocksvm.kernels.kernel_machine_loops import columns_of
from blocksvm.learners.engine.support_loop import HELD, IN_COLUMNS, factorise
from blocksvm.problems.expansion import Expansion
from blocksvm.problems.support_rows import Support
from blocksvm.solvers.kernel_rows import RowCopies
from blocksvm.sources.block import Block

# bytes of a support vector without its entries: ends, norm, coefficient, row, three numbers of scratch
ROW_BYTES = 7 * 8
ENTRY_BYTES = 2 * (4 + 8)  # an entry is stored by row and by column
LEAST_LOOSE = 256  # so few entries in no columns are not worth sorting


class SupportVectors:
    """Up to ``most_rows`` rows with up to ``most_entries`` entries of ``n_features`` features.  places (n_samples,)
    int32, zeros: the place of each row of the source among them, see support_loop.py.  projected: with the Cholesky
    factor of their kernel matrix.

    The arrays have their full length from the start; the system gives memory only to pages that are written.
    """

    def __init__(self, n_features: int, most_rows: int, most_entries: int, projected: bool, places: np.ndarray):
        self.places = places
        self.sizes = np.zeros(2, np.int64)
        self.ends = np.zeros(most_rows + 1, np.int64)
        self.indices, self.values = np.empty(most_entries, np.int32), np.empty(most_entries)
        self.norms, self.coefficients = np.empty(most_rows), np.empty(most_rows)
        self.rows = np.empty(most_rows, np.int64)
        self.columns = np.zeros(n_features + 2, np.int64), np.empty(most_entries, np.int32), np.empty(most_entries)
        self.dense = np.zeros(n_features)
        self.products, self.solved = np.empty(most_rows), np.empty(most_rows)
        self.factor = np.empty((most_rows, most_rows) if projected else (0, 0))

    @staticmethod
    def n_bytes(n_features: int, n_rows: int, n_entries: int, projected: bool) -> int:
        square = 8 * n_rows * n_rows if projected else 0
        return 16 * (n_features + 2) + ROW_BYTES * (n_rows + 1) + ENTRY_BYTES * n_entries + square

    def __len__(self) -> int:
        return int(self.sizes[HELD])

    @property
    def arrays(self) -> tuple:
        """The arguments of ``learn_by_support`` after the rows."""
        rows = self.ends, self.indices, self.values, self.norms, self.coefficients, self.rows
        return (*rows, *self.columns, self.sizes, self.places, self.factor)

    @property
    def most_loose(self) -> int:
        """How many entries in no columns are not worth sorting: their cost for later rows balances that of a sort."""
        n = int(self.sizes[IN_COLUMNS])
        length = self.ends[n] / max(1, n)
        return max(LEAST_LOOSE, int(math.sqrt((len(self.dense) + float(self.ends[n])) * length)))

    def sort(self) -> None:
        """Bring all support vectors into columns."""
        n = len(self)
        self.columns[0][:] = 0
        columns_of(self.ends[: n + 1], self.indices, self.values, *self.columns)
        self.sizes[IN_COLUMNS] = n

    def require_capacity(self, length: int) -> None:
        """Raise InputError where one more support vector, of ``length`` entries, does not fit after ``sort``."""
        n = len(self)
        if n < len(self.norms) and self.ends[n] + length <= len(self.values):
            return
        n_bytes = self.n_bytes(len(self.dense), n, int(self.ends[n]), len(self.factor) > 0)
        raise InputError(
            f"{n:,} support vectors take {megabytes(n_bytes)}, all of the memory for them; raise "
            f"{option('memory')}, or lower {option('budget')}"
        )

    def expansion(self, function: tuple) -> Expansion:
        """The kernel expansion that predicts; valid until the next row is learned from."""
        self.sort()
        n = len(self)
        return Expansion(self.columns, self.norms[:n], self.coefficients[:n], function)

    def support(self, kernel: dict) -> Support:
        """The support vectors of a model, by age."""
        self.sort()
        n = len(self)
        nnz = int(self.ends[n])
        return Support(
            self.ends[: n + 1], self.indices[:nnz], self.values[:nnz], self.norms[:n], self.coefficients[:n], kernel
        )

    def finite(self) -> bool:
        return bool(np.isfinite(self.coefficients[: len(self)]).all())

    def put_coefficients(self, by_row: np.ndarray) -> None:
        """Write the coefficients to ``by_row`` (n_samples,), for a checkpoint; entries of other rows do not change."""
        by_row[self.rows[: len(self)]] = self.coefficients[: len(self)]

    def restore(self, by_row: np.ndarray, blocks: Callable[[], Iterable[Block]], function: tuple, constant: float):
        """Restore the support vectors from ``places`` and a checkpoint's coefficients, in one reading of all rows."""
        held = RowCopies.joined(
            [RowCopies.of(block, np.flatnonzero(self.places[block.rows] > 0)) for block in blocks()]
        )
        n = len(held)
        if n > len(self.norms) or held.csr[0][-1] > len(self.values):
            raise InputError("the checkpoint has more support vectors than there is memory for; start afresh")
        held = held[np.argsort(self.places[held.rows])]
        indptr, indices, values = held.csr
        self.ends[1 : n + 1], self.indices[: len(indices)], self.values[: len(values)] = indptr[1:], indices, values
        self.norms[:n], self.rows[:n] = held.norms, held.rows
        self.coefficients[:n] = by_row[self.rows[:n]]
        self.places[self.rows[:n]] = np.arange(1, n + 1, dtype=np.int32)
        self.sizes[:] = n
        self.sort()
        if len(self.factor):
            factorise(*self.arrays[:4], n, *self.columns, *function, constant, self.products, self.solved, self.factor)
