"""Structures: those of the package and one from outside against an enumeration of all their outputs."""

import numpy as np
import pytest
import reference_structured as reference
from support.structured_cases import agrees, candidates, lattices, sequences, trees

from blocksvm.base.errors import InputError
from blocksvm.structured.kernels.arborescence import best_tree
from blocksvm.structured.structure import CheckedStructure, Row, Structure
from blocksvm.structured.train import fit_structure
from blocksvm.testing import check_structure

LAST = {"weights": "last"}
KINDS = {"sequences": lambda seed: sequences(seed, (3, 1, 4)),
         "sequences with pairs": lambda seed: sequences(seed, (3, 1, 4), n_pairs=4), "trees": trees,
         "words": lambda seed: lattices(seed, tagged=False), "tagged words": lambda seed: lattices(seed, tagged=True),
         "tagged words with pairs": lambda seed: lattices(seed, tagged=True, n_pairs=3),
         "candidates": candidates}  # fmt: skip


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
    """By the default decoders; its machine is the one of several classes that a solver of programs finds."""
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


def broken(name: str, function) -> Classes:
    """The structure above with another method."""
    return type("Broken", (Classes,), {name: function})()


@pytest.mark.parametrize(
    ("name", "function", "sentence"),
    [("best", lambda self, w, i: np.array([0]), "best gives .* which is not the best"),
     ("loss", lambda self, i, y: 1.0, "the loss of its gold output is 1.0, not 0"),
     ("difference", lambda self, i, y: self.features(i, self.gold(i)), "is not features.gold. - features"),
     ("most", lambda self, i: (1, 0.1, 1.0), "the bounds of most are too small"),
     ("most", lambda self, i: (1, 100.0, 1.0), "most counts too few additions"),
     ("k_best", lambda self, w, i, k: self.outputs(i)[:1], "k_best does not give 3 distinct outputs"),
     ("most_violating", lambda self, w, i: self.best(w, i), "most_violating gives"),
     ("oracles", lambda self, i, m: [(self.gold(i) + 1) % 3], "the gold output is not the first oracle")],
)  # fmt: skip
def test_the_check_can_fail(name, function, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_structure(broken(name, function))


@pytest.mark.parametrize(
    ("name", "function", "sentence"),
    [("best", lambda self, w, i: None, r"example .: its best output is missing \(None\); give an array"),
     ("best", lambda self, w, i: np.array(["a"]), "is not a one-dimensional array of one or more whole numbers"),
     ("features", lambda self, i, y: Row(np.array([2, 1]), np.ones(2)), "features do not rise from 0 to n_weights"),
     ("features", lambda self, i, y: Row(np.array([-1]), np.ones(1)), "features do not rise from 0 to n_weights"),
     ("features", lambda self, i, y: Row(np.array([1]), np.ones(2)[:0]), "are not as many finite values as indices"),
     ("loss", lambda self, i, y: np.inf, "loss is inf; it must be a finite number of 0 or more"),
     ("n_examples", property(lambda self: 0, lambda self, n: None), "its n_examples is 0; it must be a whole number")],
)  # fmt: skip
def test_results_that_kernels_must_not_read_are_refused(name, function, sentence):
    if name == "features":  # the decoder is another's
        made = type("Broken", (Classes,), {name: function, "best": lambda self, w, i: (self.gold(i) + 1) % 3})()
    else:
        made = broken(name, function)
    with pytest.raises(InputError, match=sentence):
        fit_structure(CheckedStructure(made, "mine"), "perceptron", LAST, {"epochs": 2})
