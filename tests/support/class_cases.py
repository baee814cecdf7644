"""Rows of several classes, for several files of tests."""

import numpy as np
from scipy import sparse

N, D, K = 150, 20, 4
CHUNKS = np.arange(0, N, 10)


def classes(n=N, d=D, k=K, seed=0, noise=0.5):
    """(X CSR, y of 0 .. k - 1): the largest of k noisy planes; the classes are of different sizes."""
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.3, format="csr", random_state=seed, data_rvs=rng.standard_normal)
    values = X @ rng.standard_normal((d, k)) + noise * rng.standard_normal((n, k)) - 0.4 * np.arange(k)
    y = values.argmax(axis=1)
    y[:k] = np.arange(k)
    return X, y
