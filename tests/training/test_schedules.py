"""Schedules and partitions: who is visited when, how often, and that what was chosen can be repeated."""

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.training_cases import SlowMatrix, assert_resumed, train

from blocksvm.base.errors import InputError
from blocksvm.sources.matrix import Matrix
from blocksvm.training.partition import FEWEST_WINDOWS, WINDOW_ROWS, Partition
from blocksvm.training.schedule import (
    MOST_PASSES,
    NEXT_CYCLE,
    Auto,
    Fixed,
    Overlap,
    PassStats,
    Tolerance,
    make_schedule,
)

CHUNK_ROWS = np.arange(0, 200, 10)


def partition_of(
    costs, capacity=10**9, block_chunks=None, kind="redrawn", order="shuffled", seed=0, shuffled=True, units=None
):
    return Partition(costs, capacity, block_chunks, kind, order, seed, costs, shuffled, units)


def test_chunks_of_a_unit_are_drawn_together():
    """All of them, in their order; other units follow each other each time."""
    units = np.array([0, 3, 4, 9, 10, 15, 19])
    partition = partition_of(np.full(20, 10), capacity=55, units=units)
    orders = [np.concatenate(partition.blocks(outer)) for outer in (1, 2, 3)]
    lengths = np.diff(units, append=20)
    for order in orders:
        assert sorted(order) == list(range(20))
        firsts = [int(np.flatnonzero(order == first)[0]) for first in units]
        for first, place, n in zip(units, firsts, lengths, strict=True):
            assert order[place : place + n].tolist() == list(range(first, first + n))
    assert len({tuple(order) for order in orders}) == 3
    alone = partition_of(np.full(20, 10), capacity=55, units=np.arange(20))
    plain = partition_of(np.full(20, 10), capacity=55)
    assert all(np.array_equal(*pair) for pair in zip(alone.blocks(2), plain.blocks(2), strict=True))


def fewest(costs, capacity) -> int:
    """How many blocks there are where each takes all chunks that fit."""
    n, left = 0, 0
    for cost in costs.tolist():
        if n == 0 or cost > left:
            n, left = n + 1, capacity
        left -= cost
    return n


@pytest.mark.parametrize("capacity", [99, 150, 260, 1000, 5000])
def test_blocks_are_few_and_about_equal(capacity):
    """Few chunks to a block, too."""
    costs = np.random.default_rng(0).integers(50, 100, 50_000)
    blocks = partition_of(costs, capacity).stored
    of_blocks = np.array([costs[block].sum() for block in blocks])
    assert len(blocks) == fewest(costs, capacity)
    assert of_blocks.max() <= capacity
    if capacity == 5000:  # there is room to share
        assert of_blocks.max() - of_blocks.min() <= 2 * 99


@pytest.mark.parametrize("kind", ["redrawn", "fixed"])
@pytest.mark.parametrize("block_chunks", [None, 1, 4, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_outer_iteration_visits_each_chunk_once_within_the_capacity(kind, block_chunks, seed):
    costs = np.random.default_rng(seed).integers(1, 100, 50)
    capacity = 260
    partition = partition_of(costs, capacity, block_chunks, kind, seed=seed)
    visits = [partition.blocks(outer) for outer in range(1, 8)]
    for blocks in visits:
        assert sorted(np.concatenate(blocks).tolist()) == list(range(50))
        if block_chunks:
            assert sorted(map(len, blocks)) == sorted(min(block_chunks, 50 - k) for k in range(0, 50, block_chunks))
        else:
            assert max(costs[block].sum() for block in blocks) <= capacity
            assert kind == "fixed" or len(blocks) == fewest(costs[np.concatenate(blocks)], capacity)
    sets = [{frozenset(block.tolist()) for block in blocks} for blocks in visits]
    orders = [tuple(tuple(block.tolist()) for block in blocks) for blocks in visits]
    assert len(set(orders)) == len(orders), "the order of visits does not change"
    if kind == "fixed" or block_chunks == 1:
        assert all(s == sets[0] for s in sets)
    else:
        assert all(s != t for i, s in enumerate(sets) for t in sets[:i])
    again = partition_of(costs, capacity, block_chunks, kind, seed=seed)
    assert orders[3] == tuple(tuple(block.tolist()) for block in again.blocks(4))
    other = partition_of(costs, capacity, block_chunks, kind, seed=seed + 9)
    assert orders[3] != tuple(tuple(block.tolist()) for block in other.blocks(4))


def test_stored_order_visits_everything_as_it_lies():
    for kind in ("redrawn", "fixed"):
        partition = partition_of(np.ones(20), 6, kind=kind, order="stored")
        for outer in (1, 2):
            assert np.array_equal(np.concatenate(partition.blocks(outer)), np.arange(20))
        assert np.array_equal(partition.row_order(2, 1, 0, np.empty(9, np.int32)), np.arange(9))


def test_everything_that_fits_is_one_block():
    assert partition_of(np.ones(20), 20).resident
    assert not partition_of(np.ones(20), 19).resident
    assert partition_of(np.ones(20), 1, block_chunks=20).resident
    assert [block.tolist() for block in partition_of(np.ones(20), 20).blocks(3)] == [list(range(20))]


def test_the_order_of_rows_is_redrawn_at_every_pass_from_the_keys_alone():
    partition = partition_of(np.ones(4), 2, seed=3)
    orders = {}
    for key in [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0)]:
        order = partition.row_order(*key, np.empty(50, np.int32))
        assert sorted(order) == list(range(50))
        orders[key] = tuple(order.tolist())
    assert len(set(orders.values())) == 4
    assert orders[1, 0, 1] == tuple(partition_of(np.ones(4), 2, seed=3).row_order(1, 0, 1, np.empty(50, np.int32)))
    assert orders[1, 0, 1] != tuple(partition_of(np.ones(4), 2, seed=4).row_order(1, 0, 1, np.empty(50, np.int32)))


def test_large_redrawn_blocks_are_visited_in_windows_and_no_others():
    n = FEWEST_WINDOWS * WINDOW_ROWS

    def changes(partition, n):
        order = partition.row_order(1, 0, 0, np.empty(n, np.int32))
        assert np.array_equal(np.sort(order), np.arange(n))
        return np.count_nonzero(np.diff(order // WINDOW_ROWS))

    redrawn = partition_of(np.ones(4), 2)
    assert changes(redrawn, n) == FEWEST_WINDOWS - 1
    for partition, size in [
        (redrawn, n - 1),
        (partition_of(np.ones(4), 2, kind="fixed"), n),
        (partition_of(np.ones(4), 2, shuffled=False), n),
    ]:
        assert changes(partition, size) > 1000


def test_partition_settings_reach_the_visits(rows):
    """Which blocks the source is asked for in a real run."""

    class Watched(Matrix):
        def read_block(self, chunks, arena):
            seen.append(tuple(sorted(chunks.tolist())))
            return super().read_block(chunks, arena)

    for kind in ("fixed", "redrawn"):
        seen: list[tuple] = []
        matrix = Watched(*rows, chunk_rows=CHUNK_ROWS)
        train(matrix, partition=kind, block_chunks=5, schedule="1", max_outer=3, tol=0.0)
        visits = [set(seen[k : k + 4]) for k in (0, 4, 8)]
        for blocks in visits:
            assert sorted(chunk for block in blocks for chunk in block) == list(range(20))
        assert (visits[0] == visits[1] == visits[2]) == (kind == "fixed")


@pytest.mark.parametrize("n_rows", [np.full(300, 61), np.arange(1, 200), np.array([20_000]), np.full(20, 1_264)])
def test_a_block_of_everything_is_visited_in_windows_of_other_chunks_each_time(n_rows):
    """Every row once; in each window the rows of a few chunks, which are others in the next pass."""
    n = int(n_rows.sum())
    partition = partition_of(n_rows)
    assert partition.resident and n >= FEWEST_WINDOWS * WINDOW_ROWS
    chunk_of = np.repeat(np.arange(len(n_rows)), n_rows)
    seen = []
    for outer in (1, 2):
        for inner_pass in (0, 1):
            order = partition.row_order(outer, 0, inner_pass, np.empty(n, np.int32))
            np.testing.assert_array_equal(np.sort(order), np.arange(n))
            again = partition.row_order(outer, 0, inner_pass, np.empty(n, np.int32))
            np.testing.assert_array_equal(order, again)
            windows = [order[k : k + WINDOW_ROWS] for k in range(0, n, WINDOW_ROWS)]
            chunks = [set(chunk_of[window]) for window in windows]
            most = WINDOW_ROWS / n_rows.min() + 2
            assert max(map(len, chunks)) <= min(most, len(n_rows))
            assert sum(map(len, chunks)) <= len(n_rows) + len(windows)  # a chunk is in one window, or two neighbours
            seen.append((order, chunks))
    for (order, chunks), (other, others) in itertools.combinations(seen, 2):
        assert (order != other).mean() > 0.99
        if len(n_rows) > 1:
            assert chunks != others
    stored = partition_of(n_rows, order="stored").row_order(3, 0, 0, np.empty(n, np.int32))
    np.testing.assert_array_equal(stored, np.arange(n))


def passes_of(schedule, ready=False, **known) -> int:
    """Over a block; what is known stays the same from pass to pass."""
    stats = PassStats(1, **known)
    while schedule.block(stats, ready):
        stats = replace(stats, passes=stats.passes + 1)
    return stats.passes


def test_schedules_ask_for_the_passes_they_promise():
    assert passes_of(Fixed(1)) == 1
    assert passes_of(Fixed(7), finished=True, ready=True) == 7
    assert passes_of(Tolerance(0.1)) == MOST_PASSES
    assert passes_of(Tolerance(0.1), finished=True) == 1
    assert passes_of(Overlap()) == MOST_PASSES
    assert passes_of(Overlap(), ready=True) == 1
    assert passes_of(Overlap(), with_set=True) == 1, "the passes over the set fill the wait"
    worth = {"work": 100, "visit_gain": 1.0, "visit_work": 300.0}
    assert passes_of(Auto(), gain=1.01 / 3.0, **worth) == MOST_PASSES
    assert passes_of(Auto(), gain=0.99 / 3.0, **worth) == 1
    assert passes_of(Auto(), gain=9.0, with_set=True, **worth) == 1
    assert passes_of(Auto(), gain=9.0, first_of_warm_start=True, **worth) == 1
    assert passes_of(Auto()) == 1, "nothing was gained"


@pytest.mark.parametrize("schedule", [Auto(), Overlap(), Fixed(3), Tolerance(0.1)], ids=lambda one: type(one).__name__)
def test_a_pass_between_blocks_waits_for_blocks_of_some_size(schedule):
    overlap = isinstance(schedule, Overlap)

    def asked(read: float, passes: int = 0, ready: bool = False, last_worth: float = 1.0) -> bool:
        return schedule.between(PassStats(passes, read=read), ready, last_worth)

    assert asked(0.99) == overlap, "it goes by the clock alone"
    assert asked(1.0)
    assert asked(1.0, passes=1) == overlap
    assert asked(1.0, ready=True) != overlap
    # where the last pass was worth little, more blocks come before the next one
    assert asked(11.0, last_worth=0.3) == overlap
    assert asked(11.2, last_worth=0.3) and asked(1.0, last_worth=9.0)
    assert not asked(9.0, passes=MOST_PASSES)


@pytest.mark.parametrize("schedule", [Auto(), Overlap(), Fixed(3), Tolerance(0.1)], ids=lambda one: type(one).__name__)
def test_passes_behind_the_blocks_end_where_they_are_worth_less_than_another_reading(schedule):
    after = {"passes": 1, "cycle_gain": 10.0, "cycle_work": 1000.0, "work": 100.0}
    assert schedule.after_reading(PassStats(cycle_gain=10.0, cycle_work=1000.0)), "the first pass is made"
    assert schedule.after_reading(PassStats(gain=1.01 * NEXT_CYCLE, **after))
    assert not schedule.after_reading(PassStats(gain=0.99 * NEXT_CYCLE, **after))
    assert not schedule.after_reading(PassStats(gain=9.0, **after | {"passes": MOST_PASSES}))


def test_schedules_are_named():
    assert isinstance(make_schedule("auto"), Auto)
    assert isinstance(make_schedule("overlap"), Overlap)
    assert make_schedule("12").passes == 12
    assert make_schedule("tol:0.25").tolerance == 0.25
    for text in ("", "-1", "1.5", "tol", "tol:", "tol:-1", "tol:inf", "AUTO", "gain", "99999999999999999999"):
        with pytest.raises(InputError, match="expected auto, overlap"):
            make_schedule(text)


def slow(rows, seconds=0.004) -> SlowMatrix:
    return SlowMatrix(*rows, chunk_rows=CHUNK_ROWS, seconds=seconds)


def test_overlap_makes_one_pass_where_nothing_is_read(rows):
    for schedule in ("auto", "overlap"):
        run = train(Matrix(*rows), schedule=schedule, max_outer=3, tol=0.0)
        assert run.result.passes == [1, 1, 1]


@pytest.mark.process
@pytest.mark.parametrize("working_set", ["auto", "none"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_default_makes_one_model_whatever_the_clock_says(rows, loss, working_set):
    """Blocks that are slow and quick to come, and a processor that others use, too."""
    settings = {"loss": loss, "working_set": working_set, "block_chunks": 3, "max_outer": 4, "tol": 0.0, "C": 30.0}
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        runs = [train(slow(rows, seconds), **settings) for seconds in (0.0, 0.004)]
    finally:
        busy.kill()
        busy.wait()
    alone = train(Matrix(*rows, chunk_rows=CHUNK_ROWS), **settings)
    assert all(run.same(alone) and run.result.passes == alone.result.passes for run in runs)
    assert all(run.result.set_passes == alone.result.set_passes for run in runs)
    assert (sum(alone.result.set_passes) > 0) == (working_set == "auto")


def test_a_tighter_tolerance_makes_more_passes_and_n_makes_n(store):
    settings = {"block_chunks": 3, "max_outer": 1, "tol": 0.0}
    totals = [sum(train(store, schedule=f"tol:{eps}", **settings).result.passes) for eps in (1.0, 0.1, 0.01)]
    assert totals[0] < totals[1] < totals[2]
    assert set(train(store, schedule="3", **settings).result.passes) == {3}


@pytest.mark.parametrize("schedule", ["3", "tol:0.05"])
def test_passes_over_a_row_are_at_most_those_asked_for(store, tmp_path, schedule):
    """As without the limit until it is reached; broken off and resumed, too, and resumed with a larger one."""
    settings = {"schedule": schedule, "block_chunks": 3, "tol": 1e-9, "C": 3.0, "working_set": "none"}
    unlimited = train(store, max_outer=8, **settings).result.passes
    ended = train(store, max_passes=7, **settings)
    blocks = ended.events[0]["blocks"]
    assert ended.result.status == "max-passes"
    passes, left = ended.result.passes, 7
    for visit, n in enumerate(passes):
        if visit and visit % blocks == 0:
            left -= max(passes[visit - blocks : visit])
        assert n == min(unlimited[visit], left)
        if n < unlimited[visit]:
            break  # another course from there on
    assert n < unlimited[visit]
    readings = np.reshape(ended.result.passes, (-1, blocks))
    assert readings.max(axis=1).sum() == 7
    assert_resumed(store, tmp_path, (1, 2, 4), ended, max_passes=7, **settings)
    further = train(store, checkpoint=tmp_path / "4.ckpt", resume=True, max_passes=9, **settings)
    assert np.reshape(further.result.passes, (-1, blocks)).max(axis=1).sum() in (8, 9)


def test_seconds_waiting_is_the_time_of_a_slow_source(rows):
    run = train(slow(rows, 0.02), schedule="1", block_chunks=5, max_outer=2, tol=0.0)
    for event in run.outer():
        assert 0.04 < event["seconds_waiting"] < 1.0
