"""Versions of w: what is sent of them, and what workers make of it."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from blocksvm.cluster import job
from blocksvm.cluster.job import NO_VERSION, Context, Weights, run_part
from blocksvm.kernels.version_loops import bring_near


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


class OpenUntilClosed(Context):
    """Answers, while its store is open, with its key; ``go``: when."""

    def __init__(self, key, started, go):
        self.open, self.key, self.started, self.go = True, key, started, go
        super().__init__(SimpleNamespace(close=lambda: setattr(self, "open", False)))

    def answer(self, part):
        self.started.set()
        assert self.go.wait(60)
        assert self.open
        return self.key


def test_a_job_that_takes_the_place_of_another_lets_it_answer_first(monkeypatch):
    """Also a part that has its context already, and waits for its turn: it is made by a new one."""
    monkeypatch.setattr(job, "contexts", {})
    started, go, made = Event(), Event(), []

    def opened(one):
        made.append(one.key)
        return OpenUntilClosed(one.key, started, go)

    monkeypatch.setattr(job, "open_context", opened)
    jobs = [SimpleNamespace(key=f"job {k}") for k in range(job.CONTEXTS + 1)]
    part = SimpleNamespace(number=1, version=NO_VERSION)
    with ThreadPoolExecutor(3) as pool:
        first = [pool.submit(run_part, jobs[0], part, None) for _ in range(2)]
        assert started.wait(60)
        for one in jobs[1:-1]:
            job.context_of(one)
        evicting = pool.submit(job.context_of, jobs[-1])
        while jobs[0].key in job.contexts:
            assert not evicting.done()
        assert not evicting.done()
        go.set()
        assert [answer.result(60) for answer in first] == ["job 0"] * 2
        assert evicting.result(60).key == jobs[-1].key
    assert made.count("job 0") in (1, 2) and made[: len(jobs)] == [one.key for one in jobs]
