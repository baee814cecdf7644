"""Versions of w: what is sent of them, and what workers make of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import reference

from blocksvm.cluster.job import Context, Weights
from blocksvm.kernels.version_loops import bring_near


def test_a_version_follows_w_by_its_large_changes():
    rng = np.random.default_rng(0)
    for n in (1, 2, 1000):
        near, w = rng.normal(size=n).astype(np.float32).astype(np.float64), rng.standard_cauchy(n)
        expected = reference.brought_near(near, w)
        bring_near(near, w)
        np.testing.assert_array_equal(near, expected)
    assert np.count_nonzero(near == w.astype(np.float32)) < 100  # of heavy tails a few are large


def test_small_changes_are_made_in_the_end():
    rng = np.random.default_rng(1)
    near, w = np.zeros(500), rng.normal(size=500)
    for _ in range(60):
        bring_near(near, w)
    np.testing.assert_array_equal(near.astype(np.float32), w.astype(np.float32))
    same = near.copy()
    bring_near(near, near.copy())
    np.testing.assert_array_equal(near, same)


def test_what_float32_does_not_hold_stays_float64():
    near, w = np.zeros(3), np.array([1e300, -1e300, 0.0])
    bring_near(near, w)
    np.testing.assert_array_equal(near, w)
    assert Weights.between(2, w, 1, np.ones(3)).numbers.dtype == np.float64


@pytest.mark.parametrize("changed", [0, 3, 90, 100])
@pytest.mark.parametrize("single", [False, True])
def test_workers_make_the_version_that_was_meant(changed, single):
    rng = np.random.default_rng(changed)
    context = Context(SimpleNamespace(close=lambda: None))
    versions = {1: rng.normal(size=100)}
    assert context.take(Weights(1, versions[1]))
    for number in range(2, 7):
        w = versions[number - 1].copy()
        new = rng.normal(size=changed)
        w[rng.permutation(100)[:changed]] = new.astype(np.float32) if single else new
        versions[number] = w
        base = max(1, number - 1 - number % 2)  # the last version, or the one before it
        weights = Weights.between(number, w, base, versions[base])
        assert weights.n_bytes <= 8 * 100
        assert context.take(weights)
        for held, array in context.versions.items():
            np.testing.assert_array_equal(array, versions[held])
        assert number in context.versions and len(context.versions) <= 2
    unknown = Weights(9, np.zeros(1), np.zeros(1, np.int32), base=1)
    assert not context.take(unknown)
