"""Structures against an enumeration of all their outputs; their learners against dense ones and optimisers."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import reference_structured as reference
from support.passive_aggressive import step_of
from support.refused import refused

from blocksvm.structured import frank_wolfe
from blocksvm.structured.candidates import CandidateLists
from blocksvm.structured.kernels.arborescence import best_tree
from blocksvm.structured.lattices import Lattices
from blocksvm.structured.learners import multipliers, order_of
from blocksvm.structured.sequences import Sequences
from blocksvm.structured.structure import CheckedStructure, Row, Structure
from blocksvm.structured.tasks import checked, fit_structure
from blocksvm.structured.trees import Trees
from blocksvm.testing import check_structure

LAST, ONCE = {"weights": "last"}, {"epochs": 1}
N_FEATURES, N_LABELS = 6, 3
KIND_SETS = [[0, 1], [1], [0]]


def sequences(seed: int, lengths=(3, 1, 4, 2, 4), n_pairs: int = 0) -> tuple[Sequences, list[reference.Example]]:
    """n_pairs: features of pairs of labels, of two templates."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    features = rng.integers(-1, N_FEATURES, size=(n, 3)).astype(np.int32)
    labels = rng.integers(0, N_LABELS, n).astype(np.int32)
    pairs = rng.integers(-1, n_pairs, size=(n, 2 if n_pairs else 0)).astype(np.int32)
    bounds = np.append(0, np.cumsum(lengths))
    examples = [
        reference.sequence_example(
            features[a:b], tuple(labels[a:b].tolist()), N_FEATURES, N_LABELS, pairs[a:b], n_pairs
        )
        for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    ]
    table = np.hstack([features, pairs])
    return Sequences(table, bounds, labels, N_FEATURES, N_LABELS, features.shape[1], n_pairs), examples


def trees(seed: int, lengths=(3, 1, 4)) -> tuple[Trees, list[reference.Example]]:
    rng = np.random.default_rng(seed)
    tables = [rng.integers(-1, N_FEATURES, (n * (n + 1), 3)).astype(np.int32) for n in lengths]
    gold = [reference.spanning_trees(n)[rng.integers((n + 1) ** (n - 1))] for n in lengths]
    examples = [reference.tree_example(table, heads, N_FEATURES) for table, heads in zip(tables, gold, strict=True)]
    bounds = np.append(0, np.cumsum(lengths))
    return Trees(np.concatenate(tables), bounds, np.concatenate(gold).astype(np.int32), N_FEATURES), examples


def lattices(seed: int, tagged: bool, n_pairs: int = 0) -> tuple[Lattices, list[reference.Example]]:
    """tagged: a feature has a weight for each kind."""
    rng = np.random.default_rng(seed)
    lengths, sets_of, examples = (4, 1, 3), [], []
    columns: dict[str, list] = {name: [] for name in ("lines", "starts", "stops", "gold", "table")}
    n_kinds = 1 + max(map(max, KIND_SETS))
    for line, n in enumerate(lengths):
        spans = [(a, b) for b in range(1, n + 1) for a in range(b) if b - a == 1 or rng.random() < 0.7]
        sets = rng.integers(0, len(KIND_SETS), len(spans)).tolist()
        table = np.hstack([rng.integers(-1, N_FEATURES, (len(spans), 2)), rng.integers(-1, n_pairs, (len(spans), 2))])
        nodes = [(a, b, kind, k) for k, (a, b) in enumerate(spans) for kind in KIND_SETS[sets[k]]]
        gold, position, gold_kinds = set(), 0, [-1] * len(spans)
        while position < n:
            v = int(rng.choice([v for v, node in enumerate(nodes) if node[0] == position]))
            gold.add(v)
            _, position, kind, k = nodes[v]
            gold_kinds[k] = kind
        rows = table[[node[3] for node in nodes]]
        examples.append(
            reference.lattice_example([node[:3] for node in nodes], rows[:, :2], gold, n, (N_FEATURES, n_kinds),
                                      n_kinds if tagged else 1, rows[:, 2:], n_pairs)
        )  # fmt: skip
        sets_of += sets
        starts, stops = zip(*spans, strict=True)
        for name, more in zip(columns, ([line] * len(spans), starts, stops, gold_kinds, table), strict=True):
            columns[name].extend(more)
    c = {name: np.array(values) for name, values in columns.items()}
    spans = np.stack([c["lines"], c["starts"], c["stops"]], axis=1)
    width = n_kinds if tagged else 1
    sizes = N_FEATURES, n_pairs
    return Lattices(c["table"], spans, lengths, sets_of, KIND_SETS, c["gold"], sizes, n_kinds, width, 2), examples


def candidates(seed: int, lengths=(4, 1, 6)) -> tuple[CandidateLists, list[reference.Example]]:
    rng = np.random.default_rng(seed)
    phi = rng.integers(-2, 3, (sum(lengths), N_FEATURES)).astype(float)
    quality = rng.integers(0, 5, sum(lengths)) / 4
    bounds = np.append(0, np.cumsum(lengths))
    examples = []
    for a, b in zip(bounds[:-1], bounds[1:], strict=True):
        own = quality[a:b]
        examples.append(reference.Example([(j,) for j in range(b - a)], phi[a:b], int(np.argmax(own)), own.max() - own))
    rows, columns = np.nonzero(phi)
    indptr = np.searchsorted(rows, np.arange(len(phi) + 1)).astype(np.int64)
    values = phi[rows, columns]
    return CandidateLists(bounds, indptr, columns.astype(np.int64), values, quality, N_FEATURES), examples


def agrees(structure, examples: list[reference.Example], seed: int) -> None:
    """Everything that a structure says of its examples is what the enumeration says."""
    check_structure(structure, lambda i: [np.array(y, np.int32) for y in examples[i].outputs], seed)
    for i, e in enumerate(examples):
        assert tuple(structure.gold(i).tolist()) == e.outputs[e.gold]
        for y, phi, rho in zip(e.outputs, e.phi, e.rho, strict=True):
            row, output = structure.features(i, np.array(y, np.int32)), np.array(y, np.int32)
            found = np.zeros(structure.n_weights)
            found[row.indices] = row.values
            np.testing.assert_array_equal(found, phi)
            assert structure.loss(i, output) == rho


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
    phi = np.zeros((5, 3, 8))
    for i, y in np.ndindex(5, 3):
        row = structure.features(i, np.array([y]))
        phi[i, y, row.indices] = row.values
    examples = [reference.Example([(y,) for y in range(3)], own, int(gold), (np.arange(3) != gold) * 1.0)
                for own, gold in zip(phi, structure.y, strict=True)]  # fmt: skip
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
     ("best", lambda self, w, i: np.empty(0, np.int64), "is not a one-dimensional array of one or more whole numbers"),
     ("best", lambda self, w, i: np.zeros((2, 2), int), "is not a one-dimensional array of one or more whole numbers"),
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
    refused(sentence, lambda: fit_structure(checked(made, "mine:TASK"), "perceptron", LAST, {"epochs": 2}))


def orders(n: int, epochs: int, seed: int = 0):
    return [order_of(n, seed, epoch) for epoch in range(epochs)]


@pytest.mark.parametrize("weights", ["last", "mean"])
def test_perceptron(weights):
    structure, examples = sequences(1)
    last, mean = reference.perceptron(examples, orders(5, 4), structure.n_weights)
    found = fit_structure(structure, "perceptron", {"weights": weights}, {"epochs": 4})
    assert np.abs(mean - last).max() > 0.1
    np.testing.assert_allclose(found.weights, {"last": last, "mean": mean}[weights], rtol=0, atol=1e-12)


@pytest.mark.parametrize("against", ["predicted", "max-loss"])
@pytest.mark.parametrize("name", ["pa", "pa1", "pa2"])
def test_passive_aggressive(name, against):
    structure, examples = sequences(2)
    given_ = {"against": against, **LAST} | ({} if name == "pa" else {"C": 0.0625})
    found = fit_structure(structure, name, given_, {"epochs": 3}).weights
    step = partial(step_of, name, 0.0625)  # a power of two: where steps are cut off, equal scores stay equal
    wanted = reference.passive_aggressive(examples, orders(5, 3), structure.n_weights, step, against == "max-loss")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_one_seed_one_model_and_orders_are_permutations():
    structure, _ = sequences(3)
    runs = [fit_structure(structure, "pa1", {"C": 0.1}, {"epochs": 3, "seed": seed}).weights for seed in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()
    first, second = order_of(100, 0, 0), order_of(100, 0, 1)
    assert sorted(first) == sorted(second) == list(range(100))
    assert (first != second).any() and (first != np.arange(100)).any()


def test_memory_is_counted():
    structure, _ = sequences(4)
    need = structure.n_bytes + 3 * 8 * structure.n_weights
    fit_structure(structure, "perceptron", {}, {"epochs": 1, "memory": need})
    refused("is too small", fit_structure, structure, "perceptron", {}, {"epochs": 1, "memory": need - 1})
    found = fit_structure(structure, "frank-wolfe", {}, {"epochs": 5})
    need = sum(found.budget.used.values())
    fit_structure(structure, "frank-wolfe", {}, {"epochs": 5, "memory": need})
    few = {"epochs": 5, "memory": need - 1}
    refused("the examples' parts of the weights", fit_structure, structure, "frank-wolfe", {}, few)


def test_an_interrupted_run_has_no_weights():
    calls = iter(range(7))
    found = fit_structure(sequences(4)[0], "mira", {}, {"epochs": 3}, stop=lambda: next(calls, None) is None)
    assert found.weights is None and found.epochs == 1


def value(a: np.ndarray, deltas: np.ndarray, margins: np.ndarray) -> float:
    step = a @ deltas
    return float(margins @ a - 0.5 * step @ step)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", [930, *range(15)])
def test_multipliers_are_the_best(seed, shared):
    """Rows of few features are often equal, opposite or 0; at seed 930 what is left of C is 0 but for rounding."""
    n, d, C = (4, 4, 0.3) if seed == 930 else (1 + seed % 6, 1 + seed % 5, (0.01, 0.3, 2.0)[seed % 3])
    rng = np.random.default_rng(seed)
    deltas = rng.integers(-2, 3, (n, d)).astype(float)
    margins = np.round(rng.normal(1.0, 1.5, n), 1)
    groups = np.sort(rng.integers(0, 2, n))
    rows = [Row(np.flatnonzero(delta).astype(np.int64), delta[delta != 0.0]) for delta in deltas]
    a = multipliers(rows, margins, groups if shared else np.arange(n), C)
    assert (a >= 0.0).all()
    if shared:
        assert all(a[groups == g].sum() <= C * (1 + 1e-12) for g in groups)
    else:
        assert (a <= C).all()
    best = reference.multipliers(deltas, margins, C, groups if shared else None)
    assert value(a, deltas, margins) == pytest.approx(best, rel=1e-5, abs=1e-6)


def solves(step, pairs, C: float, shared: bool) -> None:
    """Whether a step from w = 0 solves its program, by strong duality; pairs: (d, margin, example)."""
    deltas, margins, groups = map(np.array, zip(*pairs, strict=True))
    best = reference.multipliers(deltas, margins, C, groups if shared else None)
    violations = np.maximum(0.0, margins - deltas @ step)
    slacks = [violations[groups == g].max() for g in np.unique(groups)] if shared else violations
    assert 0.5 * step @ step + C * np.sum(slacks) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("slack", ["own", "shared"])
def test_an_update_of_mira_of_several_examples(slack):
    structure, examples = sequences(6)
    found = fit_structure(structure, "mira", {"k": 4, "C": 0.05, "at_once": 5, "slack": slack, **LAST}, ONCE)
    pairs = []
    for number, i in enumerate(order_of(5, 0, 0)):
        e = examples[i]
        # of equal scores, all at w = 0, the first
        others = [y for y in range(min(4, len(e.outputs))) if y != e.gold]
        pairs += [(e.phi[e.gold] - e.phi[y], e.rho[y], number) for y in others]
    solves(found.weights, pairs, 0.05, slack == "shared")


def test_an_update_towards_several_oracles():
    """The constraints are all pairs of an oracle and a worse candidate."""
    structure, (e,) = candidates(5, (6,))
    oracles = np.argsort(e.rho, kind="stable")[:3]
    found = fit_structure(structure, "mira", {"k": 6, "oracles": 3, "C": 0.2, **LAST}, ONCE)
    pairs = [(e.phi[o] - e.phi[j], e.rho[j] - e.rho[o], 0) for j in range(6) for o in oracles if e.rho[j] > e.rho[o]]
    solves(found.weights, pairs, 0.2, False)
    structure, told = sequences(1)[0], "oracles=3: this structure has one right output"
    refused(told, fit_structure, structure, "mira", {"oracles": 3}, ONCE)


def test_a_structure_without_k_best():
    structure, _ = sequences(3)
    structure.lists = False
    told = "mira wants the 5 best outputs, but this structure gives one; say k 1"
    refused(told, fit_structure, structure, "mira", {}, ONCE)
    fit_structure(structure, "mira", {"k": 1}, ONCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "C", "tol"), [(sequences(7), 0.05, 1e-3), (sequences(7), 1.0, 1e-2), (trees(5), 0.3, 1e-2)]
)
def test_frank_wolfe_reaches_the_optimum(problem, C, tol):
    structure, examples = problem
    optimum = reference.structured_optimum(examples, C, structure.n_weights)
    found = fit_structure(structure, "frank-wolfe", {"C": C, "tol": tol}, {"epochs": 3000})
    told = found.certificate
    assert told["rel_gap"] <= tol
    assert told["dual"] <= optimum * (1 + 1e-7) and optimum <= told["primal"] * (1 + 1e-7)
    # the primal of exactly these weights, by enumeration
    assert told["primal"] == pytest.approx(reference.hinge_primal(examples, found.weights, C), rel=1e-11)
    assert told["rel_gap"] == pytest.approx((told["primal"] - told["dual"]) / told["primal"], rel=1e-6)


class Numbers(Structure):
    """One example of two outputs with the given features, in exact fractions: its optimum is a share of one d."""

    n_examples = 1

    def __init__(self, values: np.ndarray):
        self.values, self.n_weights = values, len(values)

    def gold(self, i):
        return np.array([1])

    def outputs(self, i):
        return [np.array([0]), np.array([1])]

    def features(self, i, output):
        return Row(np.arange(len(self.values)), self.values if output[0] else np.zeros(len(self.values)))

    def gap(self, w: np.ndarray, C: float) -> Fraction:
        """How far the primal at w lies above the optimum: 1/2 ||w||^2 + C max(0, 1 - <w, d>) at the best share."""
        d, w = [Fraction(v) for v in self.values], [Fraction(v) for v in w]
        square = sum(v * v for v in d)
        share = min(Fraction(C), 1 / square)
        optimum = share - share * share * square / 2
        hinge = max(Fraction(0), 1 - sum(a * b for a, b in zip(w, d, strict=True)))
        return sum(v * v for v in w) / 2 + Fraction(C) * hinge - optimum


def test_no_smaller_gap_is_certified_than_there_is(monkeypatch):
    """One step reaches the optimum but for rounding, which must count for something."""

    def runs():
        for seed in range(40):
            structure = Numbers(np.random.default_rng(seed).normal(size=30))
            found = fit_structure(structure, "frank-wolfe", {"C": 2.0}, ONCE)
            told = found.certificate
            yield structure.gap(found.weights, 2.0), Fraction(told["rel_gap"]) * Fraction(told["primal"])

    assert all(0 <= exact <= certified < 1e-10 for exact, certified in runs())
    monkeypatch.setattr(frank_wolfe, "U", 0.0)
    assert any(exact > certified for exact, certified in runs())


def test_frank_wolfe_needs_bounds_of_a_structure():
    class Unbounded(Numbers):
        def most(self, i):
            raise NotImplementedError

    structure, told = Unbounded(np.ones(2)), "by the structure's method most, which is missing"
    refused(told, fit_structure, structure, "frank-wolfe", {}, ONCE)
