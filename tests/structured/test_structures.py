"""Structures: those of the package and one from outside against an enumeration of all their outputs."""

from __future__ import annotations

import numpy as np
import pytest
import reference_structured as reference
from support.structured_cases import agrees, candidates, lattices, sequences, trees

from blocksvm.base.errors import InputError
from blocksvm.structured.kernels.arborescence import best_tree
from blocksvm.structured.structure import CheckedStructure, Row, Structure
from blocksvm.structured.train import PART, fit_structure, predicted
from blocksvm.testing import check_structure

LAST = {"weights": "last"}
KINDS = {
    "sequences": lambda seed: sequences(seed, (3, 1, 4)),
    "sequences with pairs": lambda seed: sequences(seed, (3, 1, 4), n_pairs=4),
    "trees": trees,
    "words": lambda seed: lattices(seed, tagged=False),
    "tagged words": lambda seed: lattices(seed, tagged=True),
    "tagged words with pairs": lambda seed: lattices(seed, tagged=True, n_pairs=3),
    "candidates": candidates,
}


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_is_enumeration(kind):
    """At random weights, and at such of few values, where many scores are equal."""
    for seed in range(6):
        agrees(*KINDS[kind](seed), seed)


def test_best_tree_where_arcs_are_missing():
    trees_of_4 = reference.spanning_trees(4)
    n_without = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=(5, 5))
        weights[rng.random((5, 5)) < 0.45] = -np.inf
        totals = [sum(weights[h, m + 1] for m, h in enumerate(heads)) for heads in trees_of_4]
        heads = np.empty(5, np.int32)
        found = best_tree(weights, heads)
        assert found == pytest.approx(max(totals))
        if found > -np.inf:
            assert sum(weights[heads[m], m] for m in range(1, 5)) == pytest.approx(found)
            assert tuple(heads[1:].tolist()) in trees_of_4
        n_without += found == -np.inf
    assert 0 < n_without < 150


@pytest.mark.parametrize("threads", [2, None])
def test_any_number_of_threads_predicts_the_same(threads):
    structure, _ = sequences(3, lengths=[1 + k % 3 for k in range(2 * PART - 1)])
    w = np.random.default_rng(4).normal(size=structure.n_weights)
    alone, shared = predicted(structure, w), predicted(structure, w, threads=threads)
    assert len(alone) == structure.n_examples
    assert all(np.array_equal(one, other) for one, other in zip(alone, shared, strict=True))
    assert len(predicted(structure, w, stop=lambda: True, threads=threads)) == 0


# ------------------------------------------------------------------------------------------------ from outside


class Classes(Structure):
    """A joint map: Phi(x, y) has the input x under its class, of which neighbours share a part."""

    def __init__(self, n: int = 5, n_classes: int = 3):
        rng = np.random.default_rng(0)
        self.X, self.y = rng.normal(size=(n, 2)), rng.integers(0, n_classes, n)
        self.n_examples, self.n_classes, self.n_weights = n, n_classes, 2 * (n_classes + 1)

    def gold(self, i):
        return np.array([self.y[i]])

    def outputs(self, i):
        return [np.array([y]) for y in range(self.n_classes)]

    def features(self, i, output):
        first = 2 * int(output[0])
        return Row(np.arange(first, first + 4), np.concatenate([self.X[i], 0.5 * self.X[i]]))


def test_a_joint_map_is_a_structure():
    """By the default decoders; its machine of structures is the one of several classes that a solver of constrained
    problems finds."""
    structure = Classes()
    check_structure(structure)
    phi = [np.zeros((3, 8)) for _ in range(5)]
    for i in range(5):
        for y in range(3):
            row = structure.features(i, np.array([y]))
            phi[i][y, row.indices] = row.values
    examples = [
        reference.Example([(y,) for y in range(3)], phi[i], int(structure.y[i]), (np.arange(3) != structure.y[i]) * 1.0)
        for i in range(5)
    ]
    found = fit_structure(CheckedStructure(structure, "mine"), "frank-wolfe", {"C": 1.0, "tol": 1e-2}, {"epochs": 999})
    optimum = reference.structured_optimum(examples, 1.0, 8)
    assert found.certificate["dual"] <= optimum * (1 + 1e-9) and optimum <= found.certificate["primal"] * (1 + 1e-9)
    assert found.certificate["rel_gap"] <= 1e-2


class WrongBest(Classes):
    def best(self, w, i):
        return np.array([0])


class WrongLoss(Classes):
    def loss(self, i, output):
        return 1.0


class WrongDifference(Classes):
    def difference(self, i, output):
        return self.features(i, self.gold(i))


class WrongBounds(Classes):
    def most(self, i):
        return 1, 0.1, 1.0


class Few(Classes):
    def k_best(self, w, i, k):
        return super().k_best(w, i, k)[:1]


class Greedy(Classes):
    def most_violating(self, w, i):
        return self.best(w, i)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (WrongBest, "best gives .* which is not the best"),
        (WrongLoss, "the loss of its gold output is 1.0, not 0"),
        (WrongDifference, "is not features.gold. - features"),
        (WrongBounds, "the bounds of most are too small"),
        (Few, "k_best does not give 3 distinct outputs"),
        (Greedy, "most_violating gives"),
    ],
)
def test_the_check_can_fail(broken, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_structure(broken())


class Nothing(Classes):
    def best(self, w, i):
        return None


class Text(Classes):
    def best(self, w, i):
        return np.array(["a"])


class Unsorted(Classes):
    def features(self, i, output):
        return Row(np.array([2, 1]), np.ones(2))


class Far(Classes):
    def best(self, w, i):
        return (self.gold(i) + 1) % 3

    def features(self, i, output):
        return Row(np.array([1, 8]), np.ones(2))


class Endless(Classes):
    def loss(self, i, output):
        return np.inf


class Empty(Classes):
    n_examples = property(lambda self: 0, lambda self, n: None)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Nothing, r"example .: its best output is missing \(None\); give an array"),
        (Text, "its best output is not a one-dimensional array of one or more whole numbers"),
        (Unsorted, "features do not rise from 0 to n_weights - 1 = 7"),
        (Far, "features do not rise from 0 to n_weights - 1 = 7"),
        (Endless, "loss is inf; it must be a finite number of 0 or more"),
        (Empty, "its n_examples is 0; it must be a whole number of 1 or more"),
    ],
)
def test_results_that_kernels_must_not_read_are_refused(broken, sentence):
    with pytest.raises(InputError, match=sentence):
        fit_structure(CheckedStructure(broken(), "mine"), "perceptron", LAST, {"epochs": 2})
