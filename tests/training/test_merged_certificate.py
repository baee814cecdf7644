"""Certificates of weights that are not those of their dual variables, as where changes of several blocks are added."""

import numpy as np
import pytest
import reference
from support.training_cases import certified, random_rows, two_classes

from blocksvm.sources.matrix import Matrix


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_what_of_the_drift_is_orthogonal_to_w_is_in_the_gap(loss, with_prior):
    X, y = random_rows(n=80, d=30, seed=4)
    matrix = Matrix(X, y, chunk_rows=np.arange(0, 80, 20))
    rng = np.random.default_rng(2)
    alpha = rng.uniform(0.1, 0.9, 80)
    prior = np.append(0.1 * rng.standard_normal(30), 0.0) if with_prior else None
    w = np.append(X.T @ (alpha * y), 0.0) + (0.0 if prior is None else prior)
    away = rng.standard_normal(31)
    away[-1] = 0.0
    away -= w * (away @ w) / (w @ w)
    w += 0.3 * away / np.linalg.norm(away)
    problem, blocks = two_classes(y, loss), [matrix.read_block(np.array([k]), None) for k in range(len(matrix.chunks))]
    zero = np.zeros(30) if prior is None else prior[:-1]
    dual = reference.dual(X, y, alpha, np.ones(80), loss) - zero @ (X.T @ (alpha * y))
    found = certified(problem, w, alpha, blocks, prior)
    assert found.dual == pytest.approx(dual, rel=1e-10)
    # by the part along w alone, as where w(alpha) is not added up, the dual would be too large
    assert certified(problem, w, alpha, blocks, prior, exact=False).dual > dual + 0.04
