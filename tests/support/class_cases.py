"""Rows of several classes, and for any loss, for several files of tests."""

import numpy as np
from scipy import sparse
from support.training_cases import random_rows

from blocksvm.losses import get_loss

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


def rows_for(loss: str, n=80, d=15, seed=3):
    """(X, y): random rows of two classes, or of numbers where the loss is of these."""
    X, y = random_rows(n=n, d=d, seed=seed, density=0.3)
    rng = np.random.default_rng(seed)
    return X, np.asarray(X @ rng.normal(size=d)) + 0.1 * rng.normal(size=n) if get_loss(loss).of_numbers else y
