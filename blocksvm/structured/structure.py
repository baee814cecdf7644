"""The protocol of structures: the outputs of each example, their features, their losses, and the best under weights.

Learners use a ``Structure`` alone.  An output is a 1-D int32 array (labels, heads, nodes of a lattice, or one number).
Features are a sparse row: ``indices`` (n,) int64, rising, and ``values`` (n,) float64; weights (n_weights,) float64;
score(i, y) = <w, features(i, y)>.
"""

from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.structured.kernels.sparse_rows import combined, in_order


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


def row_of(indices: np.ndarray, values: np.ndarray) -> Row:
    """The row of entries that come in any order and more than once; takes the arrays over."""
    n = in_order(indices, values, len(indices))
    return Row(indices[:n].copy(), values[:n].copy())


def combination(row: Row, factor: float, more: Row, more_factor: float) -> Row:
    """factor row + more_factor more."""
    capacity = len(row.indices) + len(more.indices)
    indices, values = np.empty(capacity, np.int64), np.empty(capacity)
    n = combined(row.indices, row.values, factor, more.indices, more.values, more_factor, indices, values)
    return Row(indices[:n].copy(), values[:n].copy())


class Structure:
    """A kind of output, declared by a subclass in the package or outside.

    A subclass has n_examples, n_weights, ``gold`` and ``features``; and ``outputs``, all of them where these are few,
    or decoders of its own (``best``, ``most_violating``, ``k_best``) where they are many.  So a map Phi(x, y) of inputs
    and classes is a structure whose ``features(i, y)`` is Phi(x_i, y[0]) and whose ``outputs(i)`` are the classes.
    ``blocksvm.testing.check_structure`` tries whether all of it fits together.

    lists: whether ``k_best`` gives more than one output; oracle_sets: whether ``oracles`` does.
    """

    n_examples: int
    n_weights: int
    lists = True
    oracle_sets = False

    def gold(self, i: int) -> np.ndarray:
        """The right output."""
        raise NotImplementedError

    def features(self, i: int, output: np.ndarray) -> Row:
        """Of the pair of example and output."""
        raise NotImplementedError

    def loss(self, i: int, output: np.ndarray) -> float:
        """rho(gold, output) >= 0, and 0 of the gold one."""
        return float(not np.array_equal(output, self.gold(i)))

    def outputs(self, i: int) -> list[np.ndarray]:
        """All outputs of example i; the decoders below try each."""
        raise NotImplementedError

    def best(self, w: np.ndarray, i: int) -> np.ndarray:
        """The output of the largest score."""
        return self.k_best(w, i, 1)[0]

    def most_violating(self, w: np.ndarray, i: int) -> np.ndarray:
        """The output of the largest score + loss."""
        return max(self.outputs(i), key=lambda y: _score(self.features(i, y), w) + self.loss(i, y))

    def k_best(self, w: np.ndarray, i: int, k: int) -> list[np.ndarray]:
        """The k outputs of the largest scores, or all where there are fewer, best first."""
        return sorted(self.outputs(i), key=lambda y: -_score(self.features(i, y), w))[:k]

    def oracles(self, i: int, m: int) -> list[np.ndarray]:
        """The m outputs of the smallest losses, or all where there are fewer, the gold one first."""
        return [self.gold(i)]

    def difference(self, i: int, output: np.ndarray) -> Row:
        """features(gold) - features(output)."""
        return combination(self.features(i, self.gold(i)), 1.0, self.features(i, output), -1.0)

    def most(self, i: int) -> tuple[int, float, float]:
        """Upper bounds over all outputs of example i: of the additions that make a score + loss, of the sum of the
        features' absolute values, and of the loss.  By them ``frank-wolfe`` counts the rounding of its certificate."""
        outputs = self.outputs(i)
        rows = [self.features(i, y) for y in outputs]
        sums = [float(np.abs(row.values).sum()) for row in rows]
        return max(len(row.indices) for row in rows) + 1, max(sums), max(self.loss(i, y) for y in outputs)

    @property
    def n_bytes(self) -> int:
        """Memory that the examples take: that of the arrays that are attributes."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))


def _score(row: Row, w: np.ndarray) -> float:
    return float(row.values @ w[row.indices])


class TokenAnswers(Structure):
    """Outputs with an answer for each token of a sentence; rho(y, y') is the number of tokens whose answers differ.

    bounds (n_examples + 1,) int64: sentence i is the tokens bounds[i]:bounds[i + 1]; answers (n_tokens,) int32: the
    right ones, or None.
    """

    bounds: np.ndarray
    answers: np.ndarray

    def length(self, i: int) -> int:
        return int(self.bounds[i + 1] - self.bounds[i])

    def gold(self, i):
        return self.answers[self.bounds[i] : self.bounds[i + 1]]

    def loss(self, i, output):
        return float(np.count_nonzero(self.gold(i) != output))


class CheckedStructure(Structure):
    """A structure from outside the package whose results are checked before kernels read them: InputError where an
    output is not an array of whole numbers, or a row has a feature that there is not."""

    def __init__(self, inner: Structure, name: str):
        self.inner, self.name = inner, name
        for count in ("n_examples", "n_weights"):
            value = getattr(inner, count, None)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name}: its {count} is {value!r}; it must be a whole number of 1 or more")
            setattr(self, count, int(value))
        self.lists, self.oracle_sets = bool(inner.lists), bool(inner.oracle_sets)

    def gold(self, i):
        return self._output(i, self.inner.gold(i), "gold")

    def features(self, i, output):
        row = self.inner.features(i, output)
        indices, values = np.array(row.indices, np.int64, ndmin=1), np.array(row.values, np.float64, ndmin=1)
        if indices.ndim != 1 or indices.shape != values.shape or not np.isfinite(values).all():
            raise self._wrong(i, "features", "are not as many finite values as indices; give a Row of both")
        if len(indices) and (indices[0] < 0 or indices[-1] >= self.n_weights or (np.diff(indices) <= 0).any()):
            most = self.n_weights - 1
            raise self._wrong(i, "features", f"do not rise from 0 to n_weights - 1 = {most}; sort them, each once")
        return Row(indices, values)

    def loss(self, i, output):
        value = float(self.inner.loss(i, output))
        if not 0.0 <= value < np.inf:
            raise self._wrong(i, "loss", f"is {value}; it must be a finite number of 0 or more")
        return value

    def best(self, w, i):
        return self._output(i, self.inner.best(w, i), "best output")

    def most_violating(self, w, i):
        return self._output(i, self.inner.most_violating(w, i), "most violating output")

    def k_best(self, w, i, k):
        return self._outputs(i, self.inner.k_best(w, i, k), k, "k best outputs")

    def oracles(self, i, m):
        return self._outputs(i, self.inner.oracles(i, m), m, "oracles")

    def most(self, i):
        return self.inner.most(i)

    @property
    def n_bytes(self):
        return self.inner.n_bytes

    def _wrong(self, i: int, what: str, why: str) -> InputError:
        return InputError(f"{self.name}: example {i}: its {what} {why}")

    def _outputs(self, i: int, outputs, most: int, what: str) -> list[np.ndarray]:
        if not isinstance(outputs, list | tuple) or not 1 <= len(outputs) <= most:
            raise self._wrong(i, what, f"are not a list of 1 to {most}; give such a list")
        return [self._output(i, output, f"output among the {what}") for output in outputs]

    def _output(self, i: int, output, what: str) -> np.ndarray:
        if output is None:
            raise self._wrong(i, what, "is missing (None); give an array of whole numbers")
        output = np.asarray(output)
        if output.ndim != 1 or output.dtype.kind not in "iu" or not len(output):
            raise self._wrong(i, what, "is not a one-dimensional array of one or more whole numbers; give such a one")
        return np.ascontiguousarray(output, dtype=np.int32)
