"""Learners over joint features of row and class: any map, and the one that is the multi-prototype rule."""

from __future__ import annotations

import numpy as np
import pytest
import reference_online as oracle
import scipy.sparse
from support.online_cases import agree, rows

import blocksvm
from blocksvm.base.errors import InputError
from blocksvm.learners.engine.joint import JointLearner

D, K = 8, 4
COSTS = np.array([[0.0, 0.5, 4.0, 1.0], [1.0, 0.0, 0.0, 2.0], [9.0, 1.0, 0.0, 0.25], [1.0, 1.0, 1.0, 0.0]])
LABELS = ("a", "b", "c", "d")


def products(M, X):
    """The rows of M (k, m), each times each row of X, one row of X after the other."""
    return scipy.sparse.vstack([scipy.sparse.kron(M, row, format="csr") for row in X.tocsr()], "csr")


class Prototypes:
    """x in the place of its class, of prototypes with a last, constant feature."""

    n_features = K * (D + 1)

    def rows(self, X, n_classes):
        wide = scipy.sparse.hstack([X, scipy.sparse.csr_matrix((X.shape[0], 1))], format="csr")
        return products(scipy.sparse.eye(n_classes), wide)


class Shared:
    """Features that classes share: the entries of x by groups of classes, and x as a whole for all but the first."""

    n_features = 3 * D
    calls = 0

    def rows(self, X, n_classes):
        Shared.calls += 1
        groups = scipy.sparse.csr_matrix([[1.0, 0.0, 0.0], [1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, -1.0, 0.5]])
        return products(groups[:n_classes], X)


shared = Shared()


def classes(seed=0, n=120):
    X, _ = rows(n=n, d=D, seed=seed, density=0.5)
    rng = np.random.default_rng(seed)
    y = np.argmax(X @ rng.standard_normal((D, K)) + 0.5 * rng.standard_normal((n, K)), axis=1)
    return scipy.sparse.csr_matrix(X), y


def dense_rows(joint_map, X):
    return joint_map.rows(X, K).toarray().reshape(X.shape[0], K, -1)


@pytest.mark.parametrize(("learner", "case"), [("pa", {}), ("pa1", {"C": 0.1})])
def test_the_step_is_along_the_difference_of_joint_features(learner, case):
    X, y = classes()
    dense = oracle.LEARNERS[learner](Shared.n_features, **case)
    before, mean = [], 0.0
    for phi, c in zip(dense_rows(shared, X), y, strict=True):
        scores = phi @ dense.w
        before.append(scores)
        wrong = int(np.argmax(np.where(np.arange(K) == c, -np.inf, scores)))
        dense.learn(phi[c] - phi[wrong], 1)
        mean = mean + dense.w / len(y)
    found = JointLearner("test_joint:shared", LABELS, learner, **case)
    names = np.array(LABELS)[y]
    scores = found.learn(X, names)
    agree(scores, before)
    agree(found.w, dense.w)
    agree(found.decision_function(X), np.einsum("nkd,d->nk", dense_rows(shared, X), dense.w))
    assert list(found.predict(X)) == [LABELS[c] for c in found.decision_function(X).argmax(axis=1)]
    assert found.progress["mistakes"] == np.count_nonzero(np.argmax(scores, axis=1) != y)
    averaged = JointLearner(shared, LABELS, learner, average=True, **case)
    calls = Shared.calls
    for start in range(0, len(y), 50):
        averaged.learn(X[start : start + 50], names[start : start + 50])
    assert Shared.calls - calls == 3
    agree(averaged.w, mean)


@pytest.mark.parametrize("size", [1, 7, 120])
def test_x_in_the_place_of_its_class_is_the_multi_prototype_rule(size):
    X, y = classes(seed=1)
    expected = blocksvm.fit(X, y, learner="pa2", C=0.2, order="stored").result.w
    found = JointLearner(Prototypes(), range(K), "pa2", C=0.2)
    for start in range(0, len(y), size):
        found.learn(X[start : start + size], y[start : start + size])
    assert np.array_equal(found.w, expected)


def test_sets_and_costs_are_those_of_prototypes():
    X, y = classes(seed=2)
    sets = [{int(c), int(c + i) % K} if i % 5 else set() for i, c in enumerate(y)]
    ours = JointLearner(Prototypes(), range(K), "pa1", sets=True, C=0.2)
    ours.learn(X, sets)
    assert np.array_equal(ours.w, blocksvm.fit(X, sets, learner="pa1", C=0.2, order="stored").result.w)
    for rule in ("prediction", "max-loss"):
        costly = {"C": 0.2, "costs": COSTS, "cost_rule": rule}
        ours = JointLearner(Prototypes(), range(K), "pa1", **costly)
        ours.learn(X, y)
        fitted = blocksvm.fit(X, y, learner="pa1", order="stored", **costly)
        assert np.array_equal(ours.w, fitted.result.w)
        assert ours.progress == fitted.loop.plan.solver.progress(fitted.loop.state)


def test_a_row_of_weight_h_has_h_times_C():
    X, y = classes(seed=2)
    names = np.array(LABELS)[y]
    given, plain = JointLearner(shared, LABELS, C=0.02), JointLearner(shared, LABELS, C=0.05)
    given.learn(X, names, sample_weight=np.full(len(y), 2.5))
    plain.learn(X, names)
    agree(given.w, plain.w)
    with pytest.raises(InputError, match="one a row"):
        given.learn(X, names, sample_weight=-np.ones(len(y)))


def test_rows_without_a_label_are_predicted_only():
    X, y = classes(seed=3)
    some = JointLearner(shared, (1.0, 2.0, 3.0, 4.0))
    labels = np.where(np.arange(len(y)) % 4 == 0, np.nan, y + 1.0)
    assert some.learn(X, labels).shape == (len(y), K)
    only = JointLearner(shared, (1.0, 2.0, 3.0, 4.0))
    only.learn(X[~np.isnan(labels)], labels[~np.isnan(labels)])
    assert np.array_equal(some.w, only.w)
    assert some.progress["rows"] == np.count_nonzero(~np.isnan(labels))


class Wrong:
    n_features = 3

    def __init__(self, made):
        self.made = made

    def rows(self, X, n_classes):
        return self.made


def test_what_does_not_fit_is_refused():
    X, y = classes(n=2)
    for made, what in (
        (scipy.sparse.csr_matrix((3, 3)), r"gave a matrix of shape \(3, 3\); expected a sparse matrix of shape \(8, "),
        (np.zeros((8, 3)), "gave a ndarray"),
        (scipy.sparse.csr_matrix(np.full((8, 3), np.nan)), "a value that is not finite"),
    ):
        with pytest.raises(InputError, match=what):
            JointLearner(Wrong(made), LABELS).learn(X, ["a", "b"])
    for options, what in (
        ({"labels": ("a",)}, "two different labels or more"),
        ({"labels": ("a", 1)}, "all numbers or all strings"),
        ({"learner": "mira"}, "does not support joint features"),
        ({"learner": "perceptron-bias", "max_norm": 1.0}, "does not support joint features"),
        ({"learner": "arow", "costs": COSTS}, "is for pa, pa1 and pa2"),
        ({"costs": COSTS[:3, :3]}, "has 3 rows, where the rows have 4 labels"),
        ({"joint": "nowhere:at_all"}, "cannot be imported"),
        ({"joint": "test_joint:LABELS"}, "is no joint map"),
    ):
        with pytest.raises(InputError, match=what):
            JointLearner(**{"joint": shared, "labels": LABELS} | options)
    learner = JointLearner(shared, LABELS)
    for labels, what in ((["a", "z"], "the labels hold z, which is none of a, b, c, d"), ([{"a"}, {"b"}], "one a row"),
                         (["a"], "one a row")):  # fmt: skip
        with pytest.raises(InputError, match=what):
            learner.learn(X, labels)
    with pytest.raises(InputError, match="must be sets"):
        JointLearner(shared, LABELS, sets=True).learn(X, ["a", "b"])
