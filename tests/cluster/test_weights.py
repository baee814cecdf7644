"""What is sent of w, and what a worker makes of it."""

import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from blocksvm.cluster import part
from blocksvm.cluster.dask import Parts
from blocksvm.cluster.part import VERSIONS, Held, in_few_bytes, make, size_of, w_of
from blocksvm.kernels.columns import bring_near


def test_small_changes_are_made_in_the_end():
    rng = np.random.default_rng(1)
    near, w = np.zeros(500), rng.normal(size=500)
    places = np.empty(500, np.int32)
    for _ in range(60):
        before, n = near.copy(), bring_near(near, w, places)
        np.testing.assert_array_equal(places[:n], np.flatnonzero(near != before))
    np.testing.assert_array_equal(near.astype(np.float32), w.astype(np.float32))
    same = near.copy()
    assert not bring_near(near, near.copy(), places)
    np.testing.assert_array_equal(near, same)


def test_what_float32_does_not_hold_stays_float64():
    near, w = np.zeros(3), np.array([1e300, -1e300, 0.0])
    assert bring_near(near, w, np.empty(3, np.int32)) == 2
    np.testing.assert_array_equal(near, w)
    assert in_few_bytes(w).dtype == np.float64


@pytest.mark.parametrize("changed", [0, 3, 40, 100])
@pytest.mark.parametrize("single", [False, True])
def test_workers_make_the_version_that_was_meant(changed, single):
    """In any order, one that joins as well, and what is sent is never more than twice as many bytes as w."""
    rng = np.random.default_rng(changed)
    parts = Parts(SimpleNamespace(keep=lambda value: value), SimpleNamespace(), 1)
    w, versions = rng.normal(size=100), []
    for k in range(8):
        w, places = w.copy(), rng.permutation(100)[:changed].astype(np.int32)
        new = rng.normal(size=changed)
        w[places] = new.astype(np.float32) if single else new
        versions.append((parts.version(w, places if k else None), w))
        assert size_of(versions[-1][0]) <= 2.0 * w.nbytes
    for order in (range(8), [0, 2, 1, 7, 6, 3]):
        weights = {}
        for number in order:
            version, wanted = versions[number]
            np.testing.assert_array_equal(w_of(weights, version), wanted)
            assert len(weights) <= VERSIONS


def test_a_thread_holds_the_store_of_one_job(monkeypatch):
    monkeypatch.setattr(part, "held", Held())
    closed = []

    @contextmanager
    def opened(key):
        yield lambda number, w: (number, key)
        closed.append(key)

    monkeypatch.setattr(part, "check", lambda job: None)
    jobs = [SimpleNamespace(key=key, opened=partial(opened, key)) for key in "abc"]
    assert [make(job, k) for k, job in enumerate(jobs)] == [(0, "a"), (1, "b"), (2, "c")]
    assert closed == ["a", "b"]
    other = threading.Thread(target=make, args=(jobs[0], 0))
    other.start()
    other.join()
    assert closed == ["a", "b"]
