"""Checks that people run on what they add to the package: does it keep what its protocol promises?"""

from __future__ import annotations


def check_structure(structure, outputs=None, seed: int = 0, most: int = 2000) -> None:
    """Check a structure of few and small examples against an enumeration of their outputs; AssertionError says what is
    wrong.

    structure: a ``blocksvm.structured.structure.Structure`` whose examples have gold outputs, at most ``most`` outputs
    each; outputs(i): an independent list of those of example i (None: the structure's own, of ``outputs`` or
    ``k_best``); seed: of the weights that are tried, among them such at which many scores are equal.

    Checked are: rows that rise within the weights and are finite; losses of 0 for the gold output and of 0 or more for
    others; best, most violating and k best outputs; oracles; ``difference`` as a difference of features; the bounds of
    ``most``; and that results depend on their arguments alone.
    """
    import numpy as np

    from blocksvm.structured.structure import CheckedStructure, Structure

    s = CheckedStructure(structure, type(structure).__name__)
    rng = np.random.default_rng(seed)
    weights = [np.zeros(s.n_weights), rng.integers(-1, 2, s.n_weights).astype(float), rng.normal(size=s.n_weights)]

    def dense(row) -> np.ndarray:
        vector = np.zeros(s.n_weights)
        vector[row.indices] = row.values
        return vector

    def listed(i: int) -> list:
        if outputs is not None:
            return list(outputs(i))
        if type(structure).outputs is not Structure.outputs:
            return structure.outputs(i)
        assert s.lists, "it lists its outputs neither by outputs nor by k_best; give a list of them"
        return s.k_best(weights[0], i, most + 1)

    for i in range(s.n_examples):
        every = [np.asarray(y, np.int32) for y in listed(i)]
        assert len(every) <= most, f"example {i} has more than {most} outputs; check smaller ones"
        number = {tuple(y.tolist()): k for k, y in enumerate(every)}
        assert len(number) == len(every), f"example {i}: an output is listed twice"
        phi, rho = np.array([dense(s.features(i, y)) for y in every]), np.array([s.loss(i, y) for y in every])
        gold = number.get(tuple(s.gold(i).tolist()))
        assert gold is not None, f"example {i}: its gold output is none of its outputs"
        assert rho[gold] == 0.0, f"example {i}: the loss of its gold output is {rho[gold]}, not 0"
        size = 1e-12 * (1.0 + np.abs(phi).sum(axis=1).max() + rho.max())
        additions, largest, loss = structure.most(i)
        assert (np.abs(phi).sum(axis=1) <= largest * (1 + 1e-12)).all() and rho.max() <= loss * (1 + 1e-12), (
            f"example {i}: the bounds of most are too small"
        )
        assert additions >= np.count_nonzero(phi, axis=1).max(), f"example {i}: most counts too few additions"
        for k, y in enumerate(every):
            apart = np.abs(dense(structure.difference(i, y)) - (phi[gold] - phi[k])).max()
            assert apart <= size, f"example {i}: difference({y}) is not features(gold) - features({y})"
        for w in weights:
            before, scores = w.copy(), phi @ w
            tolerance = size * (1.0 + np.abs(w).max())
            for what, found, values in (
                ("best", s.best(w, i), scores),
                ("most_violating", s.most_violating(w, i), scores + rho),
            ):
                k = number.get(tuple(found.tolist()))
                assert k is not None, f"example {i}: {what} gives {found}, which is none of its outputs"
                assert values[k] >= values.max() - tolerance, (
                    f"example {i}: {what} gives {found}, which is not the best"
                )
            assert np.array_equal(s.best(w, i), s.best(w, i)), f"example {i}: best gives now this, now that"
            if s.lists:
                for k in (1, 3, len(every) + 1):
                    found = [number.get(tuple(y.tolist())) for y in s.k_best(w, i, k)]
                    assert None not in found and len(set(found)) == min(k, len(every)), (
                        f"example {i}: k_best does not give {k} distinct outputs, or all"
                    )
                    wanted = np.sort(scores)[::-1][: len(found)]
                    assert np.abs(scores[found] - wanted).max() <= tolerance, f"example {i}: k_best are not the best"
            assert np.array_equal(w, before), f"example {i}: the weights were changed"
        oracles = [number.get(tuple(y.tolist())) for y in s.oracles(i, 3)]
        wanted = np.sort(rho)[: len(oracles)]
        assert oracles[0] == gold and None not in oracles, f"example {i}: the gold output is not the first oracle"
        assert not s.oracle_sets or np.array_equal(rho[oracles], wanted), f"example {i}: oracles are not the best"
