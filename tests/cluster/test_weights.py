"""What is sent of w, and what a worker makes of it."""

import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from blocksvm.cluster import part
from blocksvm.cluster.dask import Parts
from blocksvm.cluster.loop import bring_near
from blocksvm.cluster.part import make, size_of


@pytest.fixture(autouse=True)
def joined(monkeypatch):
    """A worker that has done nothing."""
    monkeypatch.setattr(part, "held", threading.local())
    monkeypatch.setattr(part, "check", lambda job: None)


def test_small_changes_are_made_in_the_end():
    near, w = np.zeros(500), np.random.default_rng(1).normal(size=500)
    w[:2] = 1e300, 0.0
    changed = []
    for _ in range(60):
        before = near.copy()
        bring_near(near, w)
        assert set(near[near != before]) <= set(w)
        changed.append(np.count_nonzero(near != before))
    assert changed[0] == 1 and 1 < len([n for n in changed if n])
    np.testing.assert_array_equal(near, w)


@pytest.mark.parametrize("changed", [0, 3, 40, 100])
def test_workers_make_the_version_that_was_meant(changed):
    """In any order, one that joins as well; and of few changes few bytes are sent."""
    rng = np.random.default_rng(changed)
    parts = Parts(SimpleNamespace(keep=lambda value: value), 1, 0, print)
    job = SimpleNamespace(key="a", opened=lambda: contextmanager(lambda: (yield lambda number, w: w))())
    w, versions = rng.normal(size=100), []
    for _ in range(8):
        w = w.copy()
        w[rng.permutation(100)[:changed]] = rng.normal(size=changed)
        versions.append((parts.version(w), w))
        assert size_of(versions[-1][0][1:]) <= w.nbytes // 2
    assert (parts.traffic.bytes_sent < 4 * w.nbytes) == (changed < 40)
    for number in [*range(8), 0, 2, 1, 7, 6, 3]:
        version, wanted = versions[number]
        np.testing.assert_array_equal(make(job, number, *version), wanted)


def test_a_thread_holds_the_store_of_one_job():
    closed = []

    @contextmanager
    def opened(key):
        yield lambda number, w: (number, key)
        closed.append(key)

    jobs = [SimpleNamespace(key=key, opened=partial(opened, key)) for key in "abc"]
    assert [make(job, k) for k, job in enumerate(jobs)] == [(0, "a"), (1, "b"), (2, "c")]
    assert closed == ["a", "b"]
    other = threading.Thread(target=make, args=(jobs[0], 0))
    other.start()
    other.join()
    assert closed == ["a", "b"]
