"""Weights of rows from a file of their own: a number a line, one for each row in the order of the inputs."""

from __future__ import annotations

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.conversion.number_lines import NumberLines


class RowWeights:
    """A context manager; ``take`` gives the weights of the rows to come.  name: a path, plain or compressed."""

    def __init__(self, name: str):
        self.name = name
        self.lines = NumberLines(
            name,
            lambda weights: np.isfinite(weights) & (weights >= 0.0),
            "a weight; each line has one finite number of 0 or more",
        )
        self.n_read = 0
        self.left = np.empty(0)

    def __enter__(self) -> RowWeights:
        self.lines.__enter__()
        self.pieces = iter(self.lines)
        return self

    def __exit__(self, *error) -> None:
        self.lines.__exit__(*error)

    def take(self, n: int) -> np.ndarray:
        """The next n weights, float64; InputError where there are fewer, or where one is not a finite number of 0 or
        more."""
        parts = []
        while n > 0:
            if not len(self.left):
                self.left = next(self.pieces, np.empty(0))
                if not len(self.left):
                    raise InputError(
                        f"{shown_name(self.name)}: has {self.n_read:,} weights, and there are more rows; "
                        f"{option('weights')} needs one a row"
                    )
            part, self.left = self.left[:n], self.left[n:]
            self.n_read += len(part)
            n -= len(part)
            parts.append(part)
        return np.concatenate(parts) if parts else np.empty(0)

    def finish(self) -> None:
        """InputError where weights are left that no row took."""
        if len(self.left) or len(next(self.pieces, np.empty(0))):
            raise InputError(
                f"{shown_name(self.name)}: has more weights than the {self.n_read:,} rows that there are; "
                f"{option('weights')} needs one a row"
            )
