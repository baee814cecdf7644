"""The first reading of dual coordinate descent makes the passive-aggressive steps (Crammer et al., JMLR 2006)."""

from __future__ import annotations

import numpy as np
import pytest
from support.training_cases import random_rows

from blocksvm.api.fit import fit
from blocksvm.sources.matrix import Matrix

C, EPSILON = 0.3, 0.25
KINDS = {"pa": {}, "pa1": {"C": C}, "pa2": {"C": C}}
LARGE = 1e9  # of C, in the place of infinity: no step is as long
SAME = {  # loss, C of the batch problem: the learner whose step it is
    "pa1": ("hinge", C),
    "pa2": ("squared-hinge", C),
    "pa": ("hinge", LARGE),
}
SAME_OF_NUMBERS = {
    "pa1": ("epsilon-insensitive", C),
    "pa2": ("squared-epsilon-insensitive", C),
    "pa": ("epsilon-insensitive", LARGE),
}


@pytest.mark.parametrize("block_chunks", [1, 40])
@pytest.mark.parametrize("kind", SAME)
def test_the_first_reading_of_dual_coordinate_descent_is_an_epoch_of_the_learner(kind, block_chunks):
    """Every dual variable begins at 0, so one pass over the rows in their order makes PA's steps."""
    X, y = random_rows(n=40, seed=12)
    loss, cost = SAME[kind]
    source = Matrix(X, y, chunk_rows=np.arange(40))
    online = fit(source, learner=kind, order="stored", max_outer=1, **KINDS[kind])
    batch = fit(source, C=cost, loss=loss, order="stored", max_outer=1, tol=0.0, schedule="1", working_set="none",
                block_chunks=block_chunks)  # fmt: skip
    assert batch.status == "max-outer"
    np.testing.assert_allclose(batch.model.weights, online.model.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", SAME_OF_NUMBERS)
def test_the_first_reading_of_regression_is_an_epoch_of_the_learner(kind):
    X, _ = random_rows(n=40, seed=13)
    y = np.random.default_rng(13).standard_normal(40)
    loss, cost = SAME_OF_NUMBERS[kind]
    source = Matrix(X, y, chunk_rows=np.arange(40))
    online = fit(source, learner=kind, order="stored", max_outer=1, targets="numbers", epsilon=EPSILON, **KINDS[kind])
    batch = fit(source, C=cost, loss=loss, order="stored", max_outer=1, tol=0.0, schedule="1", working_set="none",
                block_chunks=1, epsilon=EPSILON)  # fmt: skip
    np.testing.assert_allclose(batch.model.weights, online.model.weights, rtol=1e-9, atol=1e-12)
