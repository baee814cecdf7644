"""Online learners' rows, settings and comparisons, for several files of tests."""

import math

import numpy as np
import scipy.sparse

from blocksvm.online import get_learner

LOSSES = ("hinge", "perceptron", "squared-hinge", "logistic", "squared", "epsilon-insensitive")  # of classes
# name -> settings to try
CASES = {
    "perceptron": [{}, {"step": 0.3}],
    "perceptron-bias": [{"max_norm": 2.5}],
    "pa": [{}],
    "pa1": [{"C": 0.1}, {"C": 10.0}],
    "pa2": [{"C": 0.1}, {"C": 10.0}],
    "mira": [{}],
    "cw-var": [{}, {"confidence": 0.99, "variance": 0.2}],
    "cw-stdev": [{}, {"confidence": 0.99, "variance": 0.2}],
    "arow": [{}, {"r": 0.05, "variance": 3.0}],
    "scw1": [{"C": 0.2}, {"confidence": 0.7, "C": 2.0}],
    "scw2": [{"C": 0.2}, {"confidence": 0.7, "C": 2.0}],
    "ogd": [{"loss": loss} for loss in LOSSES if loss != "squared-hinge"]
    + [{"loss": "squared-hinge", "step": 0.02}, {"decay": "constant", "step": 0.1}]
    + [{"radius": 0.7}, {"radius": 0.01, "decay": "constant", "loss": "logistic"}],
    "forel": [{"step": 0.2}, {"step": 0.01, "loss": "squared"}],
    "omd": [{"mirror": "euclidean", "step": 0.2}]
    + [{"mirror": "entropic", "step": step, "radius": 3.0, "loss": loss}
       for step, loss in ((0.1, "hinge"), (2.0, "logistic"), (30.0, "hinge"))]
    + [{"mirror": "p-norm", "p": p, "step": 0.1} for p in (2.0, 3.0, 7.5)],
    "subgradient": [{"l1": 0.01}, {"l1": 0.1, "decay": "constant", "loss": "logistic", "step": 0.3}],
    "fobos": [{"regulariser": "group", "group": g, "step": s} for g, s in ((0.05, 1.0), (0.5, 1.0), (2.0, 0.3))]
    + [{"l1": 0.05, "half_steps": "next"}, {"l1": 0.05, "l2": 0.1, "half_steps": "next"}]
    + [{"l1": 0.01, "loss": loss, "step": 0.05 if loss == "squared-hinge" else 1.0} for loss in LOSSES]
    + [{"l2": 0.1}, {"l1": 0.02, "l2": 0.5, "decay": "constant", "step": 0.2}, {"l1": 0.0}],
    "hf-fobos": [{"l1": 0.02, "p": p} for p in (1.0, 1.5, 2.0, 3.0, 40.0, math.inf)]
    + [{"l1": 0.2, "p": 1.0, "cap": 0.5}, {"l1": 0.2, "p": 2.0, "cap": 0.3, "loss": "logistic"}],
    "adagrad-rda": [{"l1": 0.01}, {"l1": 0.05, "delta": 0.0, "step": 0.3, "loss": "logistic"}],
    "adagrad-rda-squares": [{"l1": 0.01}, {"l1": 0.0, "loss": "squared-hinge"}],
    "adagrad-fobos": [{"l1": 0.01}, {"l1": 0.05, "delta": 0.0, "step": 0.3, "loss": "logistic"}],
    "pegasos": [{"lam": 0.01}, {"lam": 1.0}, {"lam": 0.1, "loss": "logistic"}, {"lam": 0.1, "unprojected": True}],
    "ftrl": [{}, {"l1": 0.5, "loss": "logistic"}, {"alpha": 0.5, "beta": 0.0, "l1": 0.1, "l2": 0.3, "loss": "squared"}],
    "coin": [{}, {"wealth": 1.0, "loss": "logistic"}, {"loss": "perceptron"}, {"wealth": 0.1, "loss": "squared"}],
    "nag": [{}, {"loss": "squared-hinge", "step": 0.1}, {"loss": "squared"}, {"loss": "logistic", "step": 2.0}],
    "auto": [{}],
}  # fmt: skip


def has_mean(name, case) -> bool:
    return "average" in get_learner(name).of(case).takes


def rows(n=250, d=30, seed=0, density=0.2):
    """(X dense, y of +-1): sparse rows and full ones, rows that stand twice, rows without entries.

    The values are float32's, as stores hold them: so the kernels are those of training from a store, compiled once.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    X[:, d // 2 :] *= rng.random(n)[:, None] < 0.2  # features that are seldom seen
    X[rng.choice(n, 5)] = rng.standard_normal((5, d))
    X[rng.choice(n, 5)] = 0.0
    X[rng.choice(n, 8)] = X[rng.choice(n, 8)]
    y = np.where(X @ rng.standard_normal(d) + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X.astype(np.float32).astype(np.float64), y


def csr(X, dtype=np.float32):
    made = scipy.sparse.csr_matrix(X)
    return made.indptr.astype(np.int64), made.indices.astype(np.int32), made.data.astype(dtype)


def ratio(a, b):
    return np.divide(a, b, out=np.zeros(len(b)), where=b > 0.0)


def agree(found, expected, tolerance=1e-10):
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


def taught(runner, X, y, state=None, order=None, dtype=np.float32, **options):
    """(state, scores before learning, weights) after dense rows in this order; scores (n,) and weights (d,), or of
    several classes (n, k) and (k, d)."""
    d, order = X.shape[1], np.arange(len(y)) if order is None else order
    state, scores = state or runner.new_state(d), np.empty((len(order), runner.n_vectors))
    y = y if runner.real else np.asarray(y).astype(np.int16)
    runner.learn(csr(X, dtype), y, order.astype(np.int32), d, state, scores=scores, **options)
    W = runner.weights(state, np.empty(runner.n_vectors * (d + 1))).reshape(-1, d + 1)[:, :d]
    return (state, scores, W) if runner.rule else (state, scores[:, 0], W[0])


def learned_in_parts(runner, X, y, **options):
    """(state, weights) after all rows, the same to the bit whatever parts they come in."""
    found = []
    for size in (1, 7, len(y)):
        state = None
        for start in range(0, len(y), size):
            state, _, W = taught(runner, X[start : start + size], y[start : start + size], state, **options)
        found.append(state.columns.tobytes() + state.tally.tobytes())
    assert found[0] == found[1] == found[2]
    return state, W
