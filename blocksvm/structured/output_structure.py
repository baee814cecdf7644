"""The protocol of structures: the outputs of each example, their features, their losses, and the best under weights.

Learners use a ``Structure`` alone.  An output is a 1-D int32 array whose entries, its choices (labels, heads, nodes of
a lattice), lie from 0 to ``choices(i)`` - 1.  Features are a sparse row: ``indices`` (n,) int64, rising, and ``values``
(n,) float64; weights (n_weights,) float64; score(i, y) = <w, features(i, y)>.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.kernels.sparse_rows import combined, in_order


@dataclass(frozen=True)
class Row:
    """A sparse row: indices (n,) int64, rising; values (n,) float64."""

    indices: np.ndarray
    values: np.ndarray

    @property
    def sq_norm(self) -> float:
        return float(self.values @ self.values)

    @property
    def n_bytes(self) -> int:
        return self.indices.nbytes + self.values.nbytes


def row_of(indices: np.ndarray, values: np.ndarray, n: int) -> Row:
    """The row of the first n entries, which may come in any order and more than once; takes the arrays over."""
    n = in_order(indices, values, n)
    return Row(indices[:n].copy(), values[:n].copy())


def combination(row: Row, factor: float, more: Row, more_factor: float) -> Row:
    """factor row + more_factor more."""
    capacity = len(row.indices) + len(more.indices)
    indices, values = np.empty(capacity, np.int64), np.empty(capacity)
    n = combined(row.indices, row.values, factor, more.indices, more.values, more_factor, indices, values)
    return Row(indices[:n].copy(), values[:n].copy())


class Structure:
    """A kind of output, declared by a subclass in the package or outside.

    n_examples, n_weights: how many there are; lists: whether ``k_best`` gives more than one output; oracle_sets:
    whether ``oracles`` does.
    """

    n_examples: int
    n_weights: int
    lists = True
    oracle_sets = False

    def choices(self, i: int) -> int:
        """The number that all entries of an output of example i lie below."""
        raise NotImplementedError

    def gold(self, i: int) -> np.ndarray:
        """The output that is right."""
        raise NotImplementedError

    def features(self, i: int, output: np.ndarray) -> Row:
        """Of the pair of example and output."""
        raise NotImplementedError

    def fits(self, i: int, output: np.ndarray) -> bool:
        """Whether an array that was read from a file can be an output of example i."""
        return not len(output) or bool(output.min() >= 0 and output.max() < self.choices(i))

    def loss(self, i: int, output: np.ndarray) -> float:
        """rho(gold, output) >= 0, and 0 of the gold one."""
        raise NotImplementedError

    def best(self, w: np.ndarray, i: int) -> np.ndarray:
        """The output of the largest score."""
        raise NotImplementedError

    def most_violating(self, w: np.ndarray, i: int) -> np.ndarray:
        """The output of the largest score + loss."""
        raise NotImplementedError

    def k_best(self, w: np.ndarray, i: int, k: int) -> list[np.ndarray]:
        """The k outputs of the largest scores, or all where there are fewer, best first."""
        raise NotImplementedError

    def oracles(self, i: int, m: int) -> list[np.ndarray]:
        """The m outputs of the smallest losses, or all where there are fewer, the gold one first."""
        return [self.gold(i)]

    def difference(self, i: int, output: np.ndarray) -> Row:
        """features(gold) - features(output)."""
        return combination(self.features(i, self.gold(i)), 1.0, self.features(i, output), -1.0)

    def mixture(self, i: int, outputs: list[np.ndarray], factors: np.ndarray) -> Row:
        """The sum of factors[k] times the difference of outputs[k], of which there is one or more."""
        rows = [self.difference(i, output) for output in outputs]
        indices = np.concatenate([row.indices for row in rows])
        values = np.concatenate([factor * row.values for factor, row in zip(factors, rows, strict=True)])
        return row_of(indices, values, len(indices))

    @property
    def n_bytes(self) -> int:
        """Memory that the examples take: that of the arrays that are attributes."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))


class TokenAnswers(Structure):
    """Outputs with an answer for each token of a sentence; rho(y, y') is the number of tokens whose answers differ.

    bounds (n_examples + 1,) int64: sentence i is the tokens bounds[i]:bounds[i + 1]; answers (n_tokens,) int32: the
    right ones, or None.
    """

    bounds: np.ndarray
    answers: np.ndarray

    def length(self, i: int) -> int:
        return int(self.bounds[i + 1] - self.bounds[i])

    def fits(self, i, output):
        return len(output) == self.length(i) and super().fits(i, output)

    def gold(self, i):
        return self.answers[self.bounds[i] : self.bounds[i + 1]]

    def loss(self, i, output):
        return float(np.count_nonzero(self.gold(i) != output))


class CheckedStructure(Structure):
    """A structure from outside the package with all its results checked: InputError where one is no output, or has an
    unknown choice or feature."""

    def __init__(self, inner: Structure, name: str):
        self.inner = inner
        self.name = name
        for count in ("n_examples", "n_weights"):
            value = getattr(inner, count, None)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name}: its {count} is {value!r}; it must be a whole number of 1 or more")
        self.n_examples, self.n_weights = int(inner.n_examples), int(inner.n_weights)
        self.lists, self.oracle_sets = bool(inner.lists), bool(inner.oracle_sets)

    def choices(self, i):
        return self.inner.choices(i)

    def gold(self, i):
        return self._output(i, self.inner.gold(i), "gold")

    def features(self, i, output):
        row = self.inner.features(i, output)
        indices = np.asarray(row.indices, dtype=np.int64)
        values = np.asarray(row.values, dtype=np.float64)
        if indices.ndim != 1 or indices.shape != values.shape or not np.isfinite(values).all():
            raise InputError(
                f"{self._where(i, 'features')} are not as many finite values as indices; give a Row of both"
            )
        if len(indices) and (
            indices.min() < 0 or indices.max() >= self.n_weights or (np.diff(indices) <= 0).any()
        ):  # fmt: skip
            raise InputError(
                f"{self._where(i, 'features')} do not rise from 0 to n_weights - 1 = {self.n_weights - 1}; sort them, "
                "each once"
            )
        return Row(np.ascontiguousarray(indices), np.ascontiguousarray(values))

    def loss(self, i, output):
        value = float(self.inner.loss(i, output))
        if not 0.0 <= value < np.inf:
            raise InputError(f"{self._where(i, 'loss')} is {value}; it must be a finite number of 0 or more")
        return value

    def best(self, w, i):
        return self._output(i, self.inner.best(w, i), "best output")

    def most_violating(self, w, i):
        return self._output(i, self.inner.most_violating(w, i), "most violating output")

    def k_best(self, w, i, k):
        return self._outputs(i, self.inner.k_best(w, i, k), k, "k best outputs")

    def oracles(self, i, m):
        return self._outputs(i, self.inner.oracles(i, m), m, "oracles")

    @property
    def n_bytes(self):
        return self.inner.n_bytes

    def _where(self, i: int, what: str) -> str:
        return f"{self.name}: example {i}: its {what}"

    def _outputs(self, i: int, outputs, most: int, what: str) -> list[np.ndarray]:
        if not isinstance(outputs, list | tuple) or not 1 <= len(outputs) <= most:
            raise InputError(f"{self._where(i, what)} are not a list of 1 to {most}; give such a list")
        return [self._output(i, output, f"output among the {what}") for output in outputs]

    def _output(self, i: int, output, what: str) -> np.ndarray:
        if output is None:
            raise InputError(f"{self._where(i, what)} is missing (None); give an array of choices")
        output = np.asarray(output)
        if output.ndim != 1 or output.dtype.kind not in "iu":
            raise InputError(f"{self._where(i, what)} is not a one-dimensional array of whole numbers; give such a one")
        gold = () if len(output) or what == "gold" else self.inner.gold(i)
        if gold is not None and len(gold):
            raise InputError(f"{self._where(i, what)} is empty; give an array of choices")
        n = self.inner.choices(i)
        if len(output) and (output.min() < 0 or output.max() >= n):
            wrong = output[(output < 0) | (output >= n)][0]
            raise InputError(f"{self._where(i, what)} has the unknown label {wrong}; labels go from 0 to {n - 1}")
        return np.ascontiguousarray(output, dtype=np.int32)
