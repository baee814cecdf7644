"""Checks that people run on what they add to the package: does it keep what its protocol promises?"""


def check_learner(learner, settings=None, known=None, targets: str | None = None, rescales=False, seed=0) -> None:
    """Check an online learner on small random rows; AssertionError says what is wrong.

    learner: a ``blocksvm.online.learner.Learner``; settings, known: its own by name, and those that data decide;
    targets: 'numbers' for a learner of numbers; rescales: its weights change with a row before this is scored; seed: of
    the rows.

    Checked are: that the score is <w, x> with the weights that are read; that rows one by one teach what they do at
    once; that a row without a label, or of weight 0, changes nothing; a constant feature as a column of the rows; and
    the mean of the weights over the rounds.
    """
    import numpy as np
    from scipy.sparse import csr_array

    from blocksvm.online.loops import NO_LABEL
    from blocksvm.online.runner import Runner

    rng = np.random.default_rng(seed)
    n, d = 60, 7
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)).astype(np.float32), 0.0)
    X[5] = 0.0
    z = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    numbers = targets == "numbers"
    y = z if numbers else np.where(z > 0.0, 1, -1).astype(np.int16)

    def rows(X):
        matrix = csr_array(X)
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32)

    def played(X, pieces, average=False, bias=0.0, weights=None, labels=y):
        """(runner, state, scores, weights after each piece)."""
        known_ = {"max_norm": 9.0, "n_samples": n, "n_features": X.shape[1] + (bias != 0.0)} | dict(known or {})
        runner = Runner(learner, settings or {}, known_, average=average, bias=bias, targets=targets)
        state, scores, read = runner.new_state(X.shape[1]), np.empty(n), [np.zeros(X.shape[1] + 1)]
        for part in np.array_split(np.arange(n, dtype=np.int32), pieces):
            own = np.empty(len(part))
            runner.learn(rows(X), labels, part, X.shape[1], state, scores=own, weights=weights)
            scores[part] = own
            read.append(runner.weights(state, np.empty(X.shape[1] + 1)))
        return runner, state, scores, np.array(read)

    runner, whole, scores, _ = played(X, 1)
    assert np.isfinite(whole.columns).all() and np.isfinite(whole.scalars).all(), "a number is not finite"
    _, by_row, again, read = played(X, n)
    for what in ("columns", "scalars", "tally"):
        same = getattr(whole, what).tobytes() == getattr(by_row, what).tobytes()
        assert same, f"{what} after rows one by one are not those after all at once"
    assert np.abs(read[-1]).max() > 0.0, "nothing was learned"
    wide = np.hstack([X, np.full((n, 1), runner.bias)])
    apart = np.abs(again - (wide * read[:-1]).sum(axis=1)).max()
    close = apart <= 1e-9 * (1.0 + np.abs(again).max())
    assert rescales or close, "a score is not <w, x> with the weights that are read"
    if "average" in learner.takes:
        assert whole.scalars[0] == n, "the first scalar does not count the rounds"
        rounds = read[1:]
        mean = played(X, 1, average=True)[3][-1]
        far = np.abs(mean - rounds.mean(axis=0)).max()
        assert far <= 1e-9 * (1.0 + np.abs(rounds).max()), "the mean is not that of the weights after each round"
    if "bias" in learner.takes and not runner.bias:
        with_bias = played(X, 1, bias=0.5)[3][-1]
        column = played(np.hstack([X, np.full((n, 1), 0.5)]), 1)[3][-1][:-1]
        assert np.abs(with_bias - column).max() <= 1e-9 * (1.0 + np.abs(column).max()), "a bias is no constant feature"
    half = np.where(np.arange(n) < n // 2, 1.0, 0.0)
    kinds = {"without a label": {"labels": np.where(half > 0.0, y, np.nan if numbers else NO_LABEL).astype(y.dtype)}}
    if "weights" in learner.takes:
        kinds["of weight 0"] = {"weights": half}
    for what, more in kinds.items():
        _, state, _, read = played(X, 2, **more)
        assert np.array_equal(read[1], read[2]), f"a row {what} changes the weights"


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
        within = (np.abs(phi).sum(axis=1) <= largest * (1 + 1e-12)).all() and rho.max() <= loss * (1 + 1e-12)
        assert within, f"example {i}: the bounds of most are too small"
        assert additions >= np.count_nonzero(phi, axis=1).max(), f"example {i}: most counts too few additions"
        for k, y in enumerate(every):
            apart = np.abs(dense(structure.difference(i, y)) - (phi[gold] - phi[k])).max()
            assert apart <= size, f"example {i}: difference({y}) is not features(gold) - features({y})"
        for w in weights:
            before, scores = w.copy(), phi @ w
            tolerance = size * (1.0 + np.abs(w).max())
            decoded = ("best", s.best(w, i), scores), ("most_violating", s.most_violating(w, i), scores + rho)
            for what, found, values in decoded:
                k = number.get(tuple(found.tolist()))
                assert k is not None, f"example {i}: {what} gives {found}, which is none of its outputs"
                good = values[k] >= values.max() - tolerance
                assert good, f"example {i}: {what} gives {found}, which is not the best"
            assert np.array_equal(s.best(w, i), s.best(w, i)), f"example {i}: best gives now this, now that"
            if s.lists:
                for k in (1, 3, len(every) + 1):
                    found = [number.get(tuple(y.tolist())) for y in s.k_best(w, i, k)]
                    whole = None not in found and len(set(found)) == min(k, len(every))
                    assert whole, f"example {i}: k_best does not give {k} distinct outputs, or all"
                    wanted = np.sort(scores)[::-1][: len(found)]
                    assert np.abs(scores[found] - wanted).max() <= tolerance, f"example {i}: k_best are not the best"
            assert np.array_equal(w, before), f"example {i}: the weights were changed"
        oracles = [number.get(tuple(y.tolist())) for y in s.oracles(i, 3)]
        wanted = np.sort(rho)[: len(oracles)]
        assert oracles[0] == gold and None not in oracles, f"example {i}: the gold output is not the first oracle"
        assert not s.oracle_sets or np.array_equal(rho[oracles], wanted), f"example {i}: oracles are not the best"
