"""Who makes which part, by lists of events, with what must always hold looked at after each; what is sent of w."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocksvm.cluster import job
from blocksvm.cluster.assignment import AT_ONCE, FIRST_WAIT, Assignment, GiveUp, Submit
from blocksvm.cluster.job import NO_VERSION, Context, Weights, run_part
from blocksvm.cluster.version_kernels import bring_near


def submitted(instructions) -> list[tuple[int, str]]:
    return [(one.number, one.worker) for one in instructions if isinstance(one, Submit)]


def begun(n_workers: int, n_parts: int, most: int = 100, timeout: float = 60.0) -> tuple[Assignment, list]:
    decisions, came = Assignment(timeout, most), []
    for k in range(n_workers):
        came += decisions.joined(f"w{k}", 0.0)
    for number in range(1, n_parts + 1):
        came += decisions.want(number, 1, 1000, 0.0)
    decisions.check()
    return decisions, came


def test_no_more_parts_are_under_way_than_there_is_memory_for():
    decisions, came = begun(4, 6, most=3)
    assert len(submitted(came)) == 3
    assert submitted(decisions.done(1, "w0", 0.1, 1.0)) == []  # the answer takes its place until it is taken
    assert len(submitted(decisions.taken(1, 1.1))) == 1


def test_who_does_not_answer_in_time_gets_nothing_until_he_does():
    decisions, _ = begun(2, 4)
    assert decisions.next_deadline() == FIRST_WAIT
    decisions.done(2, "w1", 1e-3, 1.0)
    decisions.done(4, "w1", 1e-3, 1.0)
    came = decisions.tick(FIRST_WAIT)
    assert submitted(came) == [(1, "w1"), (3, "w1")]
    assert submitted(decisions.want(5, 1, 1000, FIRST_WAIT)) == []
    # whoever answers first is believed
    assert submitted(decisions.done(1, "w0", 50.0, FIRST_WAIT + 1)) == [(5, "w0")]
    assert not decisions.is_open(1)
    decisions.done(1, "w1", 1e-3, FIRST_WAIT + 2)
    decisions.check()


def test_a_worker_without_the_weights_gets_them_whole():
    decisions, came = begun(1, 1)
    assert came == [Submit(1, "w0", -1)]
    decisions.done(1, "w0", 0.1, 1.0)
    decisions.taken(1, 1.0)
    assert decisions.want(2, 2, 10, 1.0) == [Submit(2, "w0", 1)]
    assert decisions.missed(2, "w0", 2.0) == [Submit(2, "w0", -1)]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_part_that_fails_three_times_ends_the_run(n):
    """Each time with a worker with which it has not failed, if there is one."""
    decisions, came = begun(n, 1)
    for failure in range(3):
        [(number, worker)] = submitted(came)
        assert (number, worker) == (1, f"w{failure}" if failure < n else worker)
        came = decisions.failed(1, worker, "no such file", 1.0 + failure)
    assert came == [GiveUp(f"worker {worker}: no such file")]


def test_without_a_worker_the_run_waits_for_its_time():
    decisions, came = begun(0, 1, timeout=30.0)
    assert came == []
    assert decisions.next_deadline() == 30.0
    assert decisions.tick(29.0) == []
    assert isinstance(decisions.tick(30.0)[-1], GiveUp)
    decisions, _ = begun(1, 1, timeout=30.0)
    decisions.left("w0", 5.0)
    assert submitted(decisions.joined("w1", 20.0)) == [(1, "w1")]
    assert decisions.tick(100.0) == []


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("joined", "left", "done", "done", "done", "missed", "failed", "late", "take")),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=60,
)


@given(events=EVENTS, most=st.integers(2, 6))
def test_whatever_happens_no_part_is_forgotten(events, most):
    """At the end all workers that are there answer, and one more joins: then every part has been made."""
    decisions, now, to_take, wanted = Assignment(1e9, most), 0.0, 1, 0
    for kind, who, which in [*events, ("joined", 9, 0)]:
        now += 1.0
        worker = f"w{who}"
        there = decisions.workers.get(worker)
        while wanted - to_take + 1 < most:
            wanted += 1
            decisions.want(wanted, 1, 1000, now)
        if kind == "joined" and there is None:
            decisions.joined(worker, now)
        elif kind == "left":
            decisions.left(worker, now)
        elif kind == "late":
            now += 1000.0
            decisions.tick(now)
        elif kind == "take":
            if not decisions.is_open(to_take):
                decisions.taken(to_take, now)
                to_take += 1
        elif there is not None and there.deadlines:
            number = sorted(there.deadlines)[which % len(there.deadlines)]
            if kind == "done":
                decisions.done(number, worker, 0.01, now)
            elif kind == "missed":
                decisions.missed(number, worker, now)
            elif len(decisions.workers) > 1 and number in decisions.wanted and not decisions.wanted[number].failures:
                decisions.failed(number, worker, "text", now)
        decisions.check()
    for _ in range(200):
        for name, worker in list(decisions.workers.items()):
            assert len(worker.deadlines) <= AT_ONCE
            for number in list(worker.deadlines):
                decisions.done(number, name, 0.01, now)
                decisions.check()
        while to_take <= wanted and not decisions.is_open(to_take):
            decisions.taken(to_take, now)
            to_take += 1
    assert to_take == wanted + 1


@pytest.mark.parametrize("event", ["late", "left"])
def test_a_part_goes_back_to_whom_it_failed_with_where_no_other_answers(event):
    decisions, _ = begun(2, 3)
    came = decisions.failed(1, "w0", "MemoryError()", 1.0)
    assert submitted(came) == [(1, "w1")]
    came = decisions.tick(2 * FIRST_WAIT) if event == "late" else decisions.left("w1", 2.0)
    came += decisions.done(3, "w0", 0.1, 2 * FIRST_WAIT)
    assert (1, "w0") in submitted(came)
    for _ in range(2):
        came = decisions.failed(1, "w0", "MemoryError()", 2 * FIRST_WAIT)
    assert came == [GiveUp("worker w0: MemoryError()")]


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
