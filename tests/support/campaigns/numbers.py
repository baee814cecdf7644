"""Difficult numbers: every certificate is that of the saved w and alpha, recomputed by numpy, or a sentence says no.

Values of 1e-45 to 1e38 in float32 and of 1e-300 to 1e300 in float64, alone and mixed; C from 1e-10 to 1e10; rows of
zeros, rows that stand twice, with the same label and with the other; weights of 0 and 1e12.  Any warning is a failure,
and so is a number that is not finite, a certified gap that is smaller than the real one, and a status that the gap does
not bear out.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import numpy as np
from reference import LOSSES, c_rows, dual, primal
from scipy import sparse
from support.campaigns import Case

CASES = 3000
VALUES = ("usual", "1e38", "1e-38", "subnormal", "1e300", "1e-300", "mixed float32", "mixed float64")
METHODS = ("dual-cd", "dual-cd", "dual-cd with a bias", "pegasos", "learner")
LEARNERS = ("perceptron", "pa1", "arow", "ogd", "adagrad-rda", "ftrl")
N, D = 40, 12


def values_of(kind: str, draw: np.random.Generator) -> np.ndarray:
    """(N, D) of which a third is not 0."""
    X = draw.standard_normal((N, D)) * (draw.random((N, D)) < 0.35)
    scale = {"usual": 1.0, "1e38": 1e38 / 4, "1e-38": 1e-38, "subnormal": 1e-43, "1e300": 1e300, "1e-300": 1e-300}
    if kind in scale:
        X = X * scale[kind]
    else:
        width = 37.0 if kind == "mixed float32" else 290.0
        X = np.sign(X) * 10.0 ** draw.uniform(-width, width, X.shape) * (X != 0.0)
    return X if kind in ("1e300", "1e-300", "mixed float64") else X.astype(np.float32)


def rows_of(kind: str, draw: np.random.Generator) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray | None]:
    """(X, y, weights)."""
    X = values_of(kind, draw)
    y = np.where(draw.random(N) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X[draw.choice(N, 3)] = 0.0
    for twin, of in zip(draw.choice(N // 2, 6), N // 2 + draw.choice(N // 2, 6), strict=True):
        X[of] = X[twin]
        y[of] = -y[twin] if draw.integers(2) else y[twin]
    y[:2] = 1.0, -1.0
    weights = (
        None,
        draw.random(N),
        np.where(draw.random(N) < 0.3, 0.0, 1.0),
        10.0 ** draw.choice([-12.0, 0.0, 12.0], N),
    )
    found = weights[draw.integers(4)]
    if found is not None:
        found[:2] = 1.0
    return sparse.csr_matrix(X), y, found


def trained(kind: str, number: tuple[int, int], folder: Path) -> str:
    from blocksvm.api.fit import fit
    from blocksvm.base.errors import InputError
    from blocksvm.sources.matrix import Matrix

    draw = np.random.default_rng(number)
    loss, method = LOSSES[draw.integers(len(LOSSES))], METHODS[draw.integers(len(METHODS))]
    C = float(10.0 ** draw.uniform(-10.0, 10.0))
    settings = {"C": C, "loss": loss, "tol": 1e-3, "max_outer": 100, "schedule": "2"}
    if method == "dual-cd with a bias":
        settings["bias"] = float(10.0 ** draw.uniform(-3.0, 3.0))
    elif method == "pegasos":
        settings |= {"solver": "pegasos", "dual": True}
    elif method == "learner":
        learner = LEARNERS[draw.integers(len(LEARNERS))]
        settings = {"learner": learner, "max_outer": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, y, weights = rows_of(kind, draw)
        try:
            fitted = fit(Matrix(X, y, weights=weights, chunk_rows=np.arange(0, N, 8)), block_chunks=2, **settings)
        except InputError as error:
            return "refused with a sentence" if str(error).strip() else "refused without a word"
    result = fitted.result
    assert np.isfinite(result.w).all(), "w is not finite"
    if method == "learner":
        return "learned"
    certificate = result.certificate
    assert np.isfinite([certificate.primal, certificate.dual, certificate.rel_gap]).all(), certificate
    w, alpha = np.asarray(result.w).ravel(), np.asarray(result.alpha)
    bias = settings.get("bias", 0.0)
    dense = np.hstack([X.toarray().astype(np.float64), np.full((N, 1), bias)])
    rows, C_rows = sparse.csr_matrix(dense), c_rows(y, C, row_weight=weights)
    assert (alpha >= 0.0).all(), "alpha below 0"
    if loss != "squared-hinge":
        assert (alpha <= C_rows * (1 + 1e-12)).all(), "alpha above C"
    with np.errstate(over="ignore", under="ignore"):
        P, D_ = primal(rows, y, w, C_rows, loss), dual(rows, y, alpha, C_rows, loss)
    # a decision value is known to some 1e-16 of its terms, and a cost of 1e13 multiplies that
    with np.errstate(over="ignore"):
        rounding = 1e-15 * float(C_rows @ (1.0 + np.abs(dense) @ np.abs(w)))
        if loss == "squared-hinge":
            rounding *= 2.0 * (1.0 + float(np.abs(dense @ w).max()))
    size = 1e-9 * (abs(P) + abs(D_) + abs(certificate.primal)) + rounding
    assert abs(P - certificate.primal) <= size, f"primal {certificate.primal!r}, by numpy {P!r}"
    claimed = certificate.primal - certificate.dual
    assert P - D_ <= claimed * (1 + 1e-6) + size, f"gap {claimed!r}, by numpy {P - D_!r} of {P!r}"
    if fitted.status == "converged":
        assert certificate.rel_gap <= 1e-3, "converged with a larger gap"
        return "converged"
    assert fitted.status == "max-outer" and certificate.rel_gap > 1e-3, fitted.status
    return "not converged, and said so"


def cases(n: int, seed: int) -> list[Case]:
    return [
        Case(f"values: {VALUES[k % len(VALUES)]}", partial(trained, VALUES[k % len(VALUES)], (seed, k)))
        for k in range(n)
    ]
