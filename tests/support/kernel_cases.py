"""Kernel values in plain numpy, and rows of two classes that no plane separates, for several files of tests."""

import numpy as np


def plain_kernel(X, Z, kernel="rbf", gamma=1.0, coef0=0.0, degree=3) -> np.ndarray:
    products = X @ Z.T
    if kernel == "linear":
        return products
    if kernel == "polynomial":
        return (gamma * products + coef0) ** degree
    return np.exp(-gamma * ((X**2).sum(1)[:, None] + (Z**2).sum(1)[None] - 2 * products))


def rows_of_a_ball(n=80, d=8, seed=1, noise=0.0, copies=0):
    """(X, y): rows inside and outside of a ball, of float32 values; noise: a share of labels that are turned round;
    copies: rows that stand twice, and one without entries."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32).astype(float)
    if copies:
        X[3], X[n // 2 : n // 2 + copies] = 0.0, X[:copies]
    y = np.where((X**2).sum(axis=1) > np.median((X**2).sum(axis=1)), 1.0, -1.0)
    y[rng.random(n) < noise] *= -1
    return X, y
