"""Structured learners over sequences: the decoder against enumeration, learners against dense ones, the protocol."""

from __future__ import annotations

import numpy as np
import pytest
import reference_structured as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from support.structured_cases import agrees, sequences

from blocksvm.base.errors import InputError
from blocksvm.structured.output_structure import CheckedStructure, Row, Structure
from blocksvm.structured.structured_learner import order_of
from blocksvm.structured.structured_run import PART, fit_structure, predicted

LAST = {"weights": "last"}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0, 4]))
def test_decoding_is_enumeration(seed, scale, n_pairs):
    """With weights of few values many scores are equal."""
    structure, examples = sequences(seed, lengths=(3, 1, 4), n_pairs=n_pairs)
    w = np.round(np.random.default_rng(seed + 1).normal(size=structure.n_weights)) * scale
    agrees(structure, examples, w)


@pytest.mark.parametrize("threads", [2, 5, None])
def test_any_number_of_threads_predicts_the_same(threads):
    structure, _ = sequences(3, lengths=[1 + k % 7 for k in range(3 * PART - 1)])
    w = np.random.default_rng(4).normal(size=structure.n_weights)
    alone, shared = predicted(structure, w), predicted(structure, w, threads=threads)
    assert len(alone) == structure.n_examples
    assert all(np.array_equal(one, other) for one, other in zip(alone, shared, strict=True))
    assert len(predicted(structure, w, stop=lambda: True, threads=threads)) == 0


def orders(n: int, epochs: int, seed: int = 0):
    return [order_of(n, seed, epoch) for epoch in range(epochs)]


@pytest.mark.parametrize("weights", ["last", "mean"])
def test_perceptron(weights):
    structure, examples = sequences(1)
    last, mean = reference.perceptron(examples, orders(5, 4), structure.n_weights)
    found = fit_structure(structure, "perceptron", {"weights": weights}, {"epochs": 4})
    assert np.abs(mean - last).max() > 0.1
    np.testing.assert_allclose(found.weights, {"last": last, "mean": mean}[weights], rtol=0, atol=1e-12)


STEPS = {
    "pa": lambda C: lambda loss, q: loss / q,
    "pa1": lambda C: lambda loss, q: min(C, loss / q),
    "pa2": lambda C: lambda loss, q: loss / (q + 0.5 / C),
}


@pytest.mark.parametrize("against", ["predicted", "max-loss"])
@pytest.mark.parametrize("name", STEPS)
def test_passive_aggressive(name, against):
    structure, examples = sequences(2)
    given = {"against": against, **LAST} | ({} if name == "pa" else {"C": 0.0625})
    found = fit_structure(structure, name, given, {"epochs": 3}).weights
    step = STEPS[name](0.0625)  # a power of two: where steps are cut off, equal scores stay equal
    wanted = reference.passive_aggressive(examples, orders(5, 3), structure.n_weights, step, against == "max-loss")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_one_seed_one_model():
    structure, _ = sequences(3)
    runs = [fit_structure(structure, "pa1", {"C": 0.1}, {"epochs": 3, "seed": seed}).weights for seed in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


def test_orders_are_permutations():
    first, second = order_of(100, 0, 0), order_of(100, 0, 1)
    assert sorted(first) == sorted(second) == list(range(100))
    assert (first != second).any() and (first != np.arange(100)).any()


# ------------------------------------------------------------------------------------------------ from outside


class Votes(Structure):
    """Each example is one choice of three, its features are the choice itself."""

    n_examples, n_weights = 4, 3

    def choices(self, i):
        return 3

    def gold(self, i):
        return np.array([i % 3])

    def features(self, i, output):
        return Row(np.array(output), np.ones(1))

    def loss(self, i, output):
        return float(output[0] != i % 3)

    def best(self, w, i):
        return np.array([int(np.argmax(w))])

    most_violating = best

    def k_best(self, w, i, k):
        return [np.array([j]) for j in np.argsort(-w)[:k]]


class Unknown(Votes):
    def best(self, w, i):
        return np.array([7])


class Nothing(Votes):
    def best(self, w, i):
        return None


class Unsorted(Votes):
    def features(self, i, output):
        return Row(np.array([2, 1]), np.ones(2))


class Endless(Votes):
    def loss(self, i, output):
        return np.inf


def test_a_structure_from_outside():
    structure = CheckedStructure(Votes(), "mine")
    plain = fit_structure(Votes(), "perceptron", LAST, {"epochs": 2}).weights
    np.testing.assert_array_equal(fit_structure(structure, "perceptron", LAST, {"epochs": 2}).weights, plain)
    assert plain.any()


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Unknown, "example 3: its best output has the unknown label 7; labels go from 0 to 2"),
        (Nothing, r"its best output is missing \(None\); give an array of choices"),
        (Unsorted, "features do not rise from 0 to n_weights - 1 = 2"),
        (Endless, "loss is inf; it must be a finite number of 0 or more"),
    ],
)
def test_answers_that_are_none_are_refused(broken, sentence):
    with pytest.raises(InputError, match=sentence):
        fit_structure(CheckedStructure(broken(), "mine"), "perceptron", LAST, {"epochs": 2})


def test_memory_is_counted():
    structure, _ = sequences(4)
    need = structure.n_bytes + 3 * 8 * structure.n_weights
    fit_structure(structure, "perceptron", {}, {"epochs": 1, "memory": need})
    with pytest.raises(InputError, match="is too small"):
        fit_structure(structure, "perceptron", {}, {"epochs": 1, "memory": need - 1})
