"""Joint features of row and class: the checked result of a user's map, and the loop that learns from it (the
single-prototype rule; Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006, sec. 7).

score_r = <w, Phi(x, r)>.  Any learner of two classes makes the step: its row is Phi(x, r) - Phi(x, s) with the label
+1, r and s as in ``loops.worst_pair``.  If Phi puts x in the place of its class, this is the multi-prototype rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from numbers import Integral

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import runs
from blocksvm.kernels import specialised
from blocksvm.kernels.block_check import SOUND, check_rows
from blocksvm.kernels.sparse_rows import combined
from blocksvm.learners.engine.joint_map import JointMap, joint_map
from blocksvm.learners.engine.layout import SparseRow
from blocksvm.learners.engine.learner import Learner
from blocksvm.learners.engine.loops import has_none, judged, of_learner
from blocksvm.learners.engine.rule_parts import plain_score as score
from blocksvm.learners.rules.perceptron import perceptron_update as update
from blocksvm.losses.loss import Loss

MOST = np.iinfo(np.int32).max
# entries of all classes' rows that are computed at once, if Phi(x, r) has no more entries than x
PIECE_ENTRIES = 1 << 16
# bytes of these: the rows x and their positions, the map's matrix, its arrays in their dtypes, the scores
JOINT_BYTES = 96 * PIECE_ENTRIES


@dataclass(frozen=True)
class JointFeatures:
    """A map for k classes.  name: for messages; n_inputs: None if the map does not have it."""

    name: str
    map: JointMap
    n_classes: int
    n_features: int
    n_inputs: int | None

    @classmethod
    def of(cls, joint: JointMap | str, n_classes: int) -> JointFeatures:
        """The features of a map, or of the map at this place.  Raises InputError where it is no map."""
        phi = joint_map(joint) if isinstance(joint, str) else joint
        name = f"the joint map {joint}" if isinstance(joint, str) else "the joint map"
        sizes = {"n_features": phi.n_features, "n_inputs": getattr(phi, "n_inputs", None)}
        for what, value in sizes.items():
            if value is not None and (not isinstance(value, Integral) or not 0 < value < MOST):
                raise InputError(f"{name}: has {value} as {what}; expected a whole number from 1 to {MOST - 1:,}")
        return cls(name, phi, n_classes, **sizes)

    def needs_inputs(self) -> None:
        """Raise InputError where the map has no ``n_inputs``."""
        if self.n_inputs is None:
            raise InputError(
                f"{self.name}: has no n_inputs; it must tell that the ids of features are below this number"
            )

    def check_ids(self, ids: np.ndarray, where: str) -> None:
        """Raise InputError where an id of a feature is none of the map's inputs."""
        largest = int(ids.max(initial=-1))
        if largest >= self.n_inputs:
            raise InputError(f"{where}: has the feature {largest}, but {self.name} takes ids below {self.n_inputs:,}")

    def rows(self, X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Phi of all rows of a scipy sparse matrix and all classes, checked: (indptr, indices, values)."""
        from scipy import sparse

        try:
            phi = self.map.rows(X, self.n_classes)
        except InputError:
            raise
        except Exception as error:  # the user's own code
            message = str(error).partition("\n")[0]
            raise InputError(
                f"{self.name}: its rows(X, {self.n_classes}) raised {type(error).__name__}: {message}"
            ) from error
        shape = (X.shape[0] * self.n_classes, self.n_features)
        if not sparse.issparse(phi) or phi.shape != shape:
            what = f"a matrix of shape {phi.shape}" if sparse.issparse(phi) else f"a {type(phi).__name__}"
            raise InputError(f"{self.name}: gave {what}; expected a sparse matrix of shape {shape}")
        if phi.dtype.kind not in "fiub":
            raise InputError(f"{self.name}: gave values of the type {phi.dtype}; expected real numbers")
        phi = phi.tocsr()
        if not phi.has_canonical_format:
            phi = phi.copy()
            phi.sum_duplicates()
        indices = np.ascontiguousarray(phi.indices, dtype=np.int32)
        values = np.ascontiguousarray(phi.data, dtype=np.float64)
        if check_rows(indices, values, self.n_features, None) != SOUND:
            raise InputError(f"{self.name}: gave an index that is out of range, or a value that is not finite")
        return np.ascontiguousarray(phi.indptr, dtype=np.int64), indices, values

    def pieces(
        self, matrix: tuple, order: np.ndarray, ids: np.ndarray | None = None, at_once: int = PIECE_ENTRIES
    ) -> Iterator[tuple[slice, tuple]]:
        """(positions in ``order``, ``rows`` of these rows), piece by piece, in memory that does not grow with the
        block.

        matrix: (indptr, indices, values) as a Block has them; ids (d,) int64: of its features, None: the indices are
        the ids.  Features that are none of the map's inputs are left out."""
        from scipy import sparse

        indptr, indices, entries = matrix
        lengths = indptr[order + 1] - indptr[order]
        bounds = np.append(0, np.cumsum(lengths + 1))  # a row counts, too
        for start, stop in runs(bounds, max(1, at_once // self.n_classes)):
            part, counts = slice(start, stop), lengths[start:stop]
            first = np.concatenate([[0], np.cumsum(counts)])
            places = np.repeat(indptr[order[part]] - first[:-1], counts) + np.arange(first[-1])
            columns = indices[places].astype(np.int64)
            columns = columns if ids is None else ids[columns]
            values = np.ones(len(places)) if entries is None else entries[places].astype(np.float64)
            known = columns < self.n_inputs
            if not known.all():
                first = np.concatenate([[0], np.cumsum(known)])[first]
                columns, values = columns[known], values[known]
            X = sparse.csr_matrix((values, columns, first), shape=(stop - start, self.n_inputs))
            X.sort_indices()
            yield part, self.rows(X)

    def scores(
        self, matrix: tuple, w: np.ndarray, ids: np.ndarray | None, sets: bool
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, decision values (k, m); with two classes (1, m)) of consecutive rows; w (D,)."""
        from scipy import sparse

        order = np.arange(len(matrix[0]) - 1)
        for part, (indptr, indices, values) in self.pieces(matrix, order, ids):
            phi = sparse.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))
            yield part, by_class((phi @ w).reshape(-1, self.n_classes), sets).T

    def n_values(self, sets: bool) -> int:
        """The number of decision values of a row."""
        return 1 if self.n_classes == 2 and not sets else self.n_classes


def by_class(scores: np.ndarray, sets: bool) -> np.ndarray:
    """Decision values (m, k) from scores (m, k); with two classes (m, 1): the larger label's score less the other's."""
    return scores if sets or scores.shape[1] > 2 else scores[:, 1:] - scores[:, :1]


def learn_joint(rows, k, memory, query, key, tally, scores, sets, costs):
    """``loops.learn_prototypes`` with Phi(x_i, r) as row i * k + r in place of the rows x_i; scores (n, k)."""
    indptr, indices, values, y, weights, _ = rows
    longest = 0
    for r in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    row_indices = np.empty(2 * longest + 1, np.int32)
    row_values = np.empty(2 * longest + 1)
    of_class = np.empty(k)
    relevant = np.zeros(k, np.uint8)
    state = of_learner(memory, memory.columns, 0, memory.scratch)
    for i in range(y.shape[0]):
        for c in range(k):
            start, stop = indptr[i * k + c], indptr[i * k + c + 1]
            of_class[c] = score(SparseRow(indices, values, start, stop), state)
            scores[i, c] = of_class[c]
        label = np.int64(y[i])
        if has_none(label, False):
            continue
        length = indptr[(i + 1) * k] - indptr[i * k]
        right, wrong, z, importance = judged(
            of_class, label, relevant, sets, costs, weights, i, query, key, tally, length, state.p
        )
        if importance > 0.0:
            end = 0
            if wrong >= 0:
                start, stop = indptr[i * k + right], indptr[i * k + right + 1]
                other, other_stop = indptr[i * k + wrong], indptr[i * k + wrong + 1]
                end = combined(
                    indices[start:stop], values[start:stop], 1.0, indices[other:other_stop], values[other:other_stop],
                    -1.0, row_indices, row_values,
                )  # fmt: skip
            update(SparseRow(row_indices, row_values, 0, end), 1.0, z, importance, state)


@cache
def _loop(name: str, loss: Loss, score, update):
    return loss.compiled(specialised(learn_joint, f"learn_joint_{name}", score=score, update=update))


def loop_of(learner: Learner, loss: Loss):
    """The loop with a learner's functions and its loss, compiled on its first call."""
    return _loop(learner.update.__name__, loss, learner.score, learner.update)
