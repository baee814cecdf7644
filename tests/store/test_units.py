"""Units: few requests where a store is large, and enough of them to mix."""

from __future__ import annotations

import numpy as np
import pytest

from blocksvm.store.units import UNITS_WANTED, most_bytes, unit_bytes, units_of


@pytest.mark.parametrize(("gigabytes", "memory"), [(13.6, 2e9), (100, 4e9), (1000, 2e9), (13.6, 16e9)])
def test_a_large_store_is_read_by_two_ranges_of_each_eight_megabytes(gigabytes, memory):
    rng = np.random.default_rng(0)
    sizes = rng.integers(900_000, 1_300_000, int(gigabytes * 1e9 / 1.1e6))
    share = int(memory / 32)
    units = units_of(sizes, unit_bytes(sizes, share))
    assert 2 * len(units) <= 2 * sizes.sum() / 8e6
    assert len(units) >= UNITS_WANTED
    of_units = np.add.reduceat(sizes, units)
    assert of_units.max() <= most_bytes(share) + sizes.max() <= 16e6 + sizes.max()
    assert units[0] == 0 and (np.diff(units) > 0).all()


@pytest.mark.parametrize("n_chunks", [1, 5, 400, 800])
def test_the_chunks_of_a_small_store_are_units(n_chunks):
    sizes = np.full(n_chunks, 50_000)
    assert units_of(sizes, unit_bytes(sizes, 10**9)).tolist() == list(range(n_chunks))


def test_little_memory_makes_small_units():
    sizes = np.full(20_000, 1_000_000)
    assert unit_bytes(sizes, 3_000_000) == 500_000
    assert len(units_of(sizes, unit_bytes(sizes, 3_000_000))) == 20_000
    assert unit_bytes(np.zeros(3, np.int64), 0) == 1
