"""The Python class of a learner over joint features of row and class, with rows in memory; see joint_features.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS as LABEL_SETS
from blocksvm.base.labels import Labels, count_labels, encode_labels, has_label, kind_of, listed
from blocksvm.base.user_code import by_user
from blocksvm.kernels.row_arrays import Rows
from blocksvm.learners.engine.costs import COST_RULE, COSTS, CostMatrix
from blocksvm.learners.engine.joint_features import JointFeatures, loop_of
from blocksvm.learners.engine.joint_map import JointMap
from blocksvm.learners.engine.label_sets import SetTable
from blocksvm.learners.engine.learner import Learner
from blocksvm.learners.engine.loops import EVEN, NO_COSTS, NO_LABEL, NO_SETS
from blocksvm.learners.engine.online_solver import progress_of
from blocksvm.learners.engine.runner import Runner, check_joint
from blocksvm.sources.matrix import rows_to_score

__all__ = ["JointLearner", "JointMap"]


class JointLearner:
    """A learner over joint features, which learns block after block and predicts.

    joint: a ``JointMap``, or its place 'module:attribute'; labels: the classes, two or more numbers or strings;
    learner: a name of ``LEARNERS``, or 'module:attribute', with its settings as keywords (C, loss, ... and, of pa, pa1
    and pa2, costs and cost_rule); sets: labels of rows are sets of the classes.  Raises InputError for settings that do
    not fit. w (D,) float64: the weights, or their mean over the rows.
    """

    def __init__(self, joint: JointMap | str, labels: Sequence, learner: str | Learner = "pa1", *, sets: bool = False,
                 average: bool = False, **settings):  # fmt: skip
        if len(set(labels)) < 2 or len({kind_of(label) for label in labels}) > 1:
            raise InputError(f"{option('labels')}: name two different labels or more, all numbers or all strings")
        by_user(joint, learner, settings)
        self.labels = Labels(tuple(sorted(set(labels))))
        self.k, self.sets = len(self.labels.values), sets
        self.joint = JointFeatures.of(joint, self.k)
        D = self.n_features = self.joint.n_features
        costs, cost_rule = (settings.pop(name, None) for name in ("costs", "cost_rule"))
        self.runner = Runner(learner, settings, {"n_features": D}, average=average)
        check_joint(self.runner.learner)
        self.costs = None
        if costs is not None:
            if "costs" not in self.runner.learner.settings or sets:
                raise InputError(f"{option('costs')}: is for pa, pa1 and pa2 on rows of one label each; leave it out")
            self.costs = CostMatrix.of(COSTS.checked(costs), COST_RULE.checked(cost_rule), self.labels)
        self.state = self.runner.new_state(D)

    def learn(self, X, y, sample_weight=None) -> np.ndarray:
        """Predict each row of X, then learn from it, in their order; y: labels, or sets of them, nan or None where a
        row has none.  Returns the decision values (n, k), each row's from before it was learned from."""
        X = rows_to_score(X)
        n = X.shape[0]
        codes, table = self._codes(y, n)
        weights = EVEN
        if sample_weight is not None:
            self.runner.check_weights()
            weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
            if weights.shape != (n,) or not (np.isfinite(weights).all() and (weights >= 0.0).all()):
                raise InputError(f"the weights must be {n} finite numbers of 0 or more, one a row")
        scores = np.empty((n, self.k))
        runner, state = self.runner, self.state
        loop_of(runner.learner, runner.loss)(
            Rows(*self.joint.rows(X), codes, weights), self.k, runner.memory(state.columns, state.scalars), runner.query,
            runner.key, state.tally, scores, table.arrays if table else NO_SETS,
            self.costs.arrays if self.costs else NO_COSTS,
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

        indptr, indices, values = self.joint.rows(rows_to_score(X))
        rows = sparse.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))
        return (rows @ self.w).reshape(-1, self.k)

    def predict(self, X) -> np.ndarray:
        """(n,): the label of the largest score of each row, of equal ones the smallest."""
        return np.array(self.labels.values)[self.decision_function(X).argmax(axis=1)]

    def _codes(self, y, n: int) -> tuple[np.ndarray, SetTable | None]:
        """The rows' codes (n,) int32 and, with sets, their table."""
        encoded, values = encode_labels(y, n)
        are_sets = values is not None and len(values) > 0 and kind_of(values[0]) == LABEL_SETS
        if are_sets != self.sets and not np.isnan(encoded).all():
            raise InputError(f"the labels must be {'sets' if self.sets else 'one a row'}; see {option('sets')}")
        place: Mapping = {label: c for c, label in enumerate(self.labels.values)}
        met = [label for label, _ in count_labels(encoded, values)[0] or []] if values is None else list(values)
        members = {member for label in met for member in (label if self.sets else (label,))}
        unknown = [member for member in members if member not in place]
        if unknown:
            raise InputError(f"the labels hold {listed(unknown[:1])}, which is none of {listed(self.labels.values)}")
        there = has_label(encoded)
        codes = np.full(n, NO_LABEL, np.int32)
        if self.sets:
            codes[there] = encoded[there].astype(np.int32)
            return codes, SetTable.of([place[member] for member in label] for label in met)
        table = np.array([place[label] for label in met], np.int32)
        at = np.searchsorted(met, encoded[there]) if values is None else encoded[there].astype(np.int64)
        codes[there] = table[at]
        return codes, None
