"""Small random structured problems, and the enumerations that they are compared with."""

from __future__ import annotations

import numpy as np
import reference_structured as reference

from blocksvm.structured.sequences import Sequences

N_FEATURES, N_LABELS = 6, 3


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
        )  # fmt: skip
        for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    ]
    table = np.hstack([features, pairs])
    return Sequences(table, bounds, labels, N_FEATURES, N_LABELS, features.shape[1], n_pairs), examples


def dense(row, d: int) -> np.ndarray:
    assert (np.diff(row.indices) > 0).all()
    assert (row.values != 0.0).all()
    w = np.zeros(d)
    w[row.indices] = row.values
    return w


def agrees(structure, examples, w, k: int = 6) -> None:
    """Everything that a structure tells of its examples is what the enumeration says."""
    for i, e in enumerate(examples):
        number = {output: j for j, output in enumerate(e.outputs)}
        scores = e.phi @ w
        gold = tuple(structure.gold(i).tolist())
        assert gold == e.outputs[e.gold]
        best = number[tuple(structure.best(w, i).tolist())]
        assert scores[best] >= scores.max() - 1e-9
        worst = number[tuple(structure.most_violating(w, i).tolist())]
        assert (scores + e.rho)[worst] >= (scores + e.rho).max() - 1e-9
        for output in (best, worst, e.gold, len(e.outputs) - 1):
            y = np.array(e.outputs[output], np.int32)
            assert structure.loss(i, y) == e.rho[output]
            np.testing.assert_array_equal(dense(structure.features(i, y), len(w)), e.phi[output])
            np.testing.assert_array_equal(dense(structure.difference(i, y), len(w)), e.phi[e.gold] - e.phi[output])
        ys = [np.array(e.outputs[y], np.int32) for y in {best, worst, len(e.outputs) - 1}]
        factors = np.linspace(0.25, 1.0, len(ys))
        wanted = sum(f * (e.phi[e.gold] - e.phi[e.outputs.index(tuple(y))]) for f, y in zip(factors, ys, strict=True))
        found = np.zeros(len(w))
        mixed = structure.mixture(i, ys, factors)
        assert (np.diff(mixed.indices) > 0).all()
        found[mixed.indices] = mixed.values
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
        assert all(structure.fits(i, y) for y in ys) and not structure.fits(i, ys[0] + 1000)
        if structure.lists:
            found = [number[tuple(output.tolist())] for output in structure.k_best(w, i, k)]
            assert len(set(found)) == len(found) == min(k, len(e.outputs))
            np.testing.assert_allclose(scores[found], np.sort(scores)[::-1][: len(found)], rtol=0, atol=1e-9)
