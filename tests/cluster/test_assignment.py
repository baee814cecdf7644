"""Who makes which part, by lists of events, with what must always hold looked at after each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocksvm.cluster.assignment import AT_ONCE, FIRST_WAIT, Assignment, GiveUp, Submit


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
