"""Small random structured problems of each kind, and the enumerations that they are compared with."""

import numpy as np
import reference_structured as reference

from blocksvm.structured.candidates import CandidateLists
from blocksvm.structured.lattices import Lattices
from blocksvm.structured.sequences import Sequences
from blocksvm.structured.trees import Trees
from blocksvm.testing import check_structure

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
