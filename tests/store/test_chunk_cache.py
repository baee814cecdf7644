"""Chunks kept on this machine: whole, of units chosen once, and found again."""

from __future__ import annotations

import os

import numpy as np
import pytest

from blocksvm.base.errors import InputError
from blocksvm.store.chunk_cache import ChunkCache

RNG = np.random.default_rng(0)
SIZES = RNG.integers(10, 60, 40)
UNITS = np.arange(0, 40, 4)
DATA = [RNG.bytes(int(size)) for size in SIZES]


def filled(n_bytes: int, folder=None, identity="one") -> ChunkCache:
    cache = ChunkCache(SIZES, UNITS, n_bytes, identity, folder)
    for chunk, data in enumerate(DATA):
        cache.put(chunk, [memoryview(data)[:7], memoryview(data)[7:]])
    return cache


def kept(cache) -> list[int]:
    return [chunk for chunk in range(len(SIZES)) if cache.has(chunk)]


@pytest.mark.parametrize("n_bytes", [0, 300, 700, 10_000])
def test_whole_units_are_kept_as_far_as_there_is_room(n_bytes):
    cache = filled(n_bytes)
    chunks = kept(cache)
    assert sum(SIZES[chunks]) <= n_bytes
    assert len(chunks) == len(SIZES) or sum(SIZES[chunks]) > n_bytes - 4 * 60
    assert len({chunk // 4 for chunk in chunks}) <= len(chunks) // 4 + 1  # one unit at most is not whole
    assert all(cache.get(chunk) == DATA[chunk] for chunk in chunks)
    assert all(cache.get(chunk) is None for chunk in set(range(40)) - set(chunks))
    cache.close()


def test_a_file_stays_in_its_folder_and_no_other(tmp_path):
    cache = filled(500, str(tmp_path))
    chunks = kept(cache)
    cache.close()
    (path,) = tmp_path.iterdir()
    for room in (500, 900, 200):  # where they were, whatever room there is now
        again = ChunkCache(SIZES, UNITS, room, "one", str(tmp_path))
        found = kept(again)
        assert set(found) == set(chunks) if room >= 500 else set(found) < set(chunks)
        assert all(again.get(chunk) == DATA[chunk] for chunk in found)
        again.close()
    assert path.stat().st_size <= 8 * 40 + 200
    other = ChunkCache(SIZES, UNITS, 500, "another", str(tmp_path))
    assert kept(other) == []
    other.close()
    filled(500).close()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_second_run_has_a_file_of_its_own(tmp_path):
    first, second = filled(500, str(tmp_path)), filled(500, str(tmp_path))
    assert kept(first) == kept(second)
    first.close()
    assert second.get(kept(second)[0]) == DATA[kept(second)[0]]
    second.close()
    assert len(list(tmp_path.iterdir())) == 1


def test_damage_is_not_given_out(tmp_path):
    cache = filled(10_000, str(tmp_path))
    os.pwrite(cache.descriptor, b"\x00\xff\x00", int(cache.offsets[3]) + 2)
    assert cache.get(3) is None
    assert not cache.has(3)
    cache.put(3, [memoryview(DATA[3])])
    assert cache.get(3) == DATA[3]
    cache.close()


def test_a_folder_that_is_not_there():
    with pytest.raises(InputError, match="^cache_dir=/none/there: cannot be written to"):
        ChunkCache(SIZES, UNITS, 100, "one", "/none/there")
