"""One weight vector over joint features of row and class (the single-prototype rule; Crammer, Dekel, Keshet,
Shalev-Shwartz, Singer, JMLR 2006, sec. 7): score_r = <w, Phi(x, r)>, with a map Phi that the user writes.

The step is made along Phi(x, r) - Phi(x, s), r and s as ``loops.worst_pair`` has them, by any learner of two classes, to which
this is a row with the label +1.  With x in the place of its class Phi gives the multi-prototype rule, bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Protocol

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.kernels import kernel, specialised
from blocksvm.kernels.check import SOUND, check_entries
from blocksvm.kernels.sparse_rows import combined
from blocksvm.labels import SETS as LABEL_SETS
from blocksvm.labels import Labels, count, has_label, keep, kind_of, listed
from blocksvm.learners.additive import perceptron_update as update
from blocksvm.learners.costs import COST_RULE, COSTS, CostMatrix
from blocksvm.learners.label_sets import SetTable
from blocksvm.learners.loops import (
    COST,
    NO_LABEL,
    ROWS,
    asks,
    best_two,
    cost_of,
    has_none,
    importance_of,
    note,
    worst_pair,
)
from blocksvm.learners.protocol import Learner
from blocksvm.learners.rows import plain_score as score
from blocksvm.learners.runner import Runner
from blocksvm.learners.solver import progress_of
from blocksvm.named import imported


class JointMap(Protocol):
    """Phi, as the user writes it.  n_features: D, of the joint features."""

    n_features: int

    def rows(self, X, n_classes: int):
        """(n * k, D) scipy sparse: in row i * k + r is Phi(x_i, r), for all n rows of X, as ``JointLearner`` was given
        it, and all k classes.  Called once for each block of rows."""
        ...


@kernel
def learn_joint(
    indptr, indices, values, y, weights, k, columns, width, scalars, parameters, query, key, tally, scores, sets, costs
):
    """``loops.learn_prototypes`` with the rows Phi(x_i, r), at i * k + r, of all classes in the place of the rows
    x_i; scores (n, k)."""
    longest = 0
    for r in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    row_indices = np.empty(2 * longest + 1, np.int32)
    row_values = np.empty(2 * longest + 1)
    of_class = np.empty(k)
    own = np.zeros(k, np.uint8)
    state = scalars[0]
    for i in range(y.shape[0]):
        for c in range(k):
            start, stop = indptr[i * k + c], indptr[i * k + c + 1]
            of_class[c] = score(indices, values, start, stop, columns, width, state, parameters)
            scores[i, c] = of_class[c]
        label = np.int64(y[i])
        if has_none(label, False):
            continue
        predicted, lead = best_two(of_class)
        right, wrong, z, loss = worst_pair(of_class, label, own, sets, costs, parameters)
        tally[COST] += cost_of(costs, right, predicted)
        mistake = predicted != right if sets is None else not z > 0.0
        importance = importance_of(weights, i)
        asked = asks(query, key, tally[ROWS], lead)
        length = indptr[(i + 1) * k] - indptr[i * k]
        note(tally, importance * loss, mistake, z <= 0.0, asked, float(predicted), float(right), length)
        if asked and importance > 0.0:
            end = 0
            if wrong >= 0:
                start, stop = indptr[i * k + right], indptr[i * k + right + 1]
                other, other_stop = indptr[i * k + wrong], indptr[i * k + wrong + 1]
                end = combined(
                    indices[start:stop], values[start:stop], 1.0, indices[other:other_stop], values[other:other_stop],
                    -1.0, row_indices, row_values,
                )  # fmt: skip
            update(row_indices, row_values, 0, end, 1.0, z, importance, columns, width, state, parameters)


@cache
def loop_of(score, update):
    """The loop around a learner's functions, compiled on its first call."""
    return specialised(learn_joint, f"learn_joint_{update.__name__}", score=score, update=update)


class JointLearner:
    """A learner over joint features, which learns block after block and predicts.

    joint: a ``JointMap``, or its place 'module:attribute'; labels: the classes, two or more numbers or strings; learner: a
    name of ``LEARNERS``, or 'module:attribute', with its settings as keywords (C, loss, ... and, of the
    passive-aggressive ones, costs and cost_rule); sets: labels of rows are sets of the classes.  Raises InputError for
    what does not fit.  w (D,) float64: the weights, or their mean after each row.
    """

    def __init__(self, joint: JointMap | str, labels: Sequence, learner: str | Learner = "pa1", *, sets: bool = False,
                 average: bool = False, **settings):  # fmt: skip
        self.joint = _imported(joint) if isinstance(joint, str) else joint
        if len(set(labels)) < 2 or len({kind_of(label) for label in labels}) > 1:
            raise InputError(f"{called('labels')}: name two different labels or more, all numbers or all strings")
        self.labels = Labels(tuple(sorted(set(labels))))
        self.k, self.sets = len(self.labels.values), sets
        D = self.n_features = self.joint.n_features
        if not 0 < D < np.iinfo(np.int32).max:
            raise InputError(f"the joint map: has {D:,} features; at least 1 and less than 2,147,483,647 can be held")
        given = {name: settings.pop(name, None) for name in ("costs", "cost_rule")}
        self.runner = Runner(learner, settings, {"n_features": D}, average=average)
        own = self.runner.learner
        if own.constant is not None or own.jointly is not None:
            raise InputError(f"{own.name}: its rule is not one for joint features; choose another learner")
        self.costs = None
        if given["costs"] is not None:
            if "costs" not in own.settings or sets:
                raise InputError(f"{called('costs')}: is for pa, pa1 and pa2 on rows of one label each; leave it out")
            self.costs = CostMatrix.of(
                COSTS.checked(given["costs"]), COST_RULE.checked(given["cost_rule"]), self.labels
            )
        self.state = self.runner.new_state(D)

    def learn(self, X, y, sample_weight=None) -> np.ndarray:
        """Predict each row of X, then learn from it, in their order; y: labels, or sets of them, nan or None where a row
        has none.  Returns the decision values (n, k) from before each row was learned from."""
        n = X.shape[0]
        codes, table = self._codes(y, n)
        weights = None
        if sample_weight is not None:
            self.runner.check_weights()
            weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
            if weights.shape != (n,) or not (np.isfinite(weights).all() and (weights >= 0.0).all()):
                raise InputError(f"the weights must be {n} finite numbers of 0 or more, one a row")
        scores = np.empty((n, self.k))
        runner, state = self.runner, self.state
        loop_of(runner.learner.score, runner.learner.update)(
            *self._rows(X), codes, weights, self.k, state.columns, runner.width, state.scalars.reshape(1, -1),
            runner.parameters, runner.query, runner.key, state.tally, scores, table and table.arrays,
            self.costs and self.costs.arrays,
        )  # fmt: skip
        if not np.isfinite(scores).all():
            runner.diverged("in the rows learned from")
        return scores

    @property
    def w(self) -> np.ndarray:
        return self.runner.weights(self.state, np.empty(self.n_features + 1))[:-1]

    @property
    def progress(self) -> dict:
        """rows, cumulative_loss, mistakes, asked, and with costs cumulative_cost, of all rows so far."""
        return progress_of(self.state.tally, False, self.costs)

    def decision_function(self, X) -> np.ndarray:
        """(n, k) float64: the scores of all classes."""
        from scipy import sparse

        indptr, indices, values = self._rows(X)
        rows = sparse.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))
        return (rows @ self.w).reshape(-1, self.k)

    def predict(self, X) -> np.ndarray:
        """(n,): the label of the largest score of each row, of equal ones the smallest."""
        return np.array(self.labels.values)[self.decision_function(X).argmax(axis=1)]

    def _rows(self, X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the map makes of X, checked, as the loop takes it."""
        from scipy import sparse

        made = self.joint.rows(X, self.k)
        shape = (X.shape[0] * self.k, self.n_features)
        if not sparse.issparse(made) or made.shape != shape:
            what = f"a matrix of shape {made.shape}" if sparse.issparse(made) else f"a {type(made).__name__}"
            raise InputError(f"the joint map: gave {what}; expected a sparse matrix of shape {shape}")
        made = made.tocsr()
        if not made.has_canonical_format:
            made = made.copy()
            made.sum_duplicates()
        indices = np.ascontiguousarray(made.indices, dtype=np.int32)
        values = np.ascontiguousarray(made.data, dtype=np.float64)
        if check_entries(indices, values, self.n_features) != SOUND:
            raise InputError("the joint map: gave an index that is out of range, or a value that is not finite")
        return np.ascontiguousarray(made.indptr, dtype=np.int64), indices, values

    def _codes(self, y, n: int) -> tuple[np.ndarray, SetTable | None]:
        """(n,) int32 and, of sets, their table."""
        kept, own = keep(y, n)
        if (own is not None and len(own) > 0 and kind_of(own[0]) == LABEL_SETS) != self.sets and not np.isnan(
            kept
        ).all():
            raise InputError(f"the labels must be {'sets' if self.sets else 'one a row'}; see {called('sets')}")
        place: Mapping = {label: c for c, label in enumerate(self.labels.values)}
        met = [label for label, _ in count(kept, own)[0] or []] if own is None else list(own)
        members = {member for label in met for member in (label if self.sets else (label,))}
        unknown = [member for member in members if member not in place]
        if unknown:
            raise InputError(f"the labels hold {listed(unknown[:1])}, which is none of {listed(self.labels.values)}")
        there = has_label(kept)
        codes = np.full(n, NO_LABEL, np.int32)
        if self.sets:
            codes[there] = kept[there].astype(np.int32)
            return codes, SetTable.of([place[member] for member in label] for label in met)
        table = np.array([place[label] for label in met], np.int32)
        codes[there] = table[np.searchsorted(met, kept[there])] if own is None else table[kept[there].astype(np.int64)]
        return codes, None


def _imported(place: str) -> JointMap:
    try:
        found = imported(place)
    except ImportError as error:
        raise InputError(f"{place}: cannot be imported ({error}); name a joint map as module:attribute") from error
    if not (hasattr(found, "rows") and hasattr(found, "n_features")):
        raise InputError(f"{place}: is no joint map; it must have n_features and rows(X, n_classes)")
    return found
