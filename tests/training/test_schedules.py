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
from blocksvm.training import schedule as schedules
from blocksvm.training.partition import FEWEST_WINDOWS, WINDOW_ROWS, Partition
from blocksvm.training.schedule import Auto, Fixed, Overlap, PassStats, Tolerance, make_schedule

CHUNK_ROWS = np.arange(0, 200, 10)


def partition_of(costs, capacity=10**9, block_chunks=None, kind="redrawn", order="shuffled", seed=0, shuffled=True,
                 units=None):  # fmt: skip
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
    alone, plain = (partition_of(np.full(20, 10), capacity=55, units=units) for units in (np.arange(20), None))
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
    for other in (seed, seed + 9):
        again = partition_of(costs, capacity, block_chunks, kind, seed=other).blocks(4)
        assert (orders[3] == tuple(tuple(block.tolist()) for block in again)) == (other == seed)


def test_everything_that_fits_is_one_block():
    resident = [partition_of(np.ones(20), *given).resident for given in ((20,), (19,), (1, 20))]
    assert resident == [True, False, True]
    assert [block.tolist() for block in partition_of(np.ones(20), 20).blocks(3)] == [list(range(20))]


def test_the_order_of_rows_is_redrawn_at_every_pass_from_the_keys_alone():
    partition = partition_of(np.ones(4), 2, seed=3)
    orders = {}
    for key in [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0)]:
        order = partition.row_order(*key, np.empty(50, np.int32))
        assert sorted(order) == list(range(50))
        orders[key] = tuple(order.tolist())
    assert len(set(orders.values())) == 4
    for seed in (3, 4):
        again = partition_of(np.ones(4), 2, seed=seed).row_order(1, 0, 1, np.empty(50, np.int32))
        assert (orders[1, 0, 1] == tuple(again)) == (seed == 3)


def test_large_redrawn_blocks_are_visited_in_windows_and_no_others():
    n = FEWEST_WINDOWS * WINDOW_ROWS

    def changes(partition, n):
        order = partition.row_order(1, 0, 0, np.empty(n, np.int32))
        assert np.array_equal(np.sort(order), np.arange(n))
        return np.count_nonzero(np.diff(order // WINDOW_ROWS))

    assert changes(partition_of(np.ones(4), 2), n) == FEWEST_WINDOWS - 1
    for size, more in ((n - 1, {}), (n, {"kind": "fixed"}), (n, {"shuffled": False})):
        assert changes(partition_of(np.ones(4), 2, **more), size) > 1000


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
    for kind in ("redrawn", "fixed"):
        stored = partition_of(n_rows, order="stored", kind=kind, block_chunks=7)
        np.testing.assert_array_equal(np.concatenate(stored.blocks(3)), np.arange(len(n_rows)))
        np.testing.assert_array_equal(stored.row_order(3, 0, 0, np.empty(n, np.int32)), np.arange(n))


def passes_of(schedule, ready=False, **known) -> int:
    """Over a block; what is known stays the same from pass to pass."""
    stats = PassStats(1, **known)
    while schedule.block(stats, ready):
        stats = replace(stats, passes=stats.passes + 1)
    return stats.passes


def test_schedules_ask_for_the_passes_they_promise():
    worth, most = {"work": 100, "visit_gain": 1.0, "visit_work": 300.0}, schedules.MOST_PASSES
    for schedule, known, passes in (
        (Fixed(1), {}, 1), (Fixed(7), {"finished": True, "ready": True}, 7), (Tolerance(0.1), {}, most),
        (Tolerance(0.1), {"finished": True}, 1), (Overlap(), {}, most), (Overlap(), {"ready": True}, 1),
        (Overlap(), {"with_set": True}, 1),  # the passes over the set fill the wait
        (Auto(), {"gain": 1.01 / 3.0, **worth}, most), (Auto(), {"gain": 0.99 / 3.0, **worth}, 1),
        (Auto(), {"gain": 9.0, "with_set": True, **worth}, 1),
        (Auto(), {"gain": 9.0, "first_of_warm_start": True, **worth}, 1), (Auto(), {}, 1),  # nothing was gained
    ):  # fmt: skip
        assert passes_of(schedule, **known) == passes, (schedule, known)


@pytest.mark.parametrize("name", ["auto", "overlap", "3", "tol:0.1"])
def test_a_pass_between_blocks_waits_for_blocks_of_some_size_and_those_behind_them_for_worth(name):
    """Behind the blocks passes end where they are worth less than another reading."""
    schedule = make_schedule(name)
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
    assert not asked(9.0, passes=schedules.MOST_PASSES)
    after = {"passes": 1, "cycle_gain": 10.0, "cycle_work": 1000.0, "work": 100.0}
    assert schedule.after_reading(PassStats(cycle_gain=10.0, cycle_work=1000.0)), "the first pass is made"
    assert schedule.after_reading(PassStats(gain=1.01 * schedules.NEXT_CYCLE, **after))
    assert not schedule.after_reading(PassStats(gain=0.99 * schedules.NEXT_CYCLE, **after))
    assert not schedule.after_reading(PassStats(gain=9.0, **after | {"passes": schedules.MOST_PASSES}))


def test_schedules_are_named():
    for text, made in (("auto", Auto()), ("overlap", Overlap()), ("12", Fixed(12)), ("tol:0.25", Tolerance(0.25))):
        assert (type(make_schedule(text)), vars(make_schedule(text))) == (type(made), vars(made))
    for text in ("", "-1", "1.5", "tol", "tol:", "tol:-1", "tol:inf", "AUTO", "gain", "99999999999999999999"):
        with pytest.raises(InputError, match="expected auto, overlap"):
            make_schedule(text)


@pytest.mark.process
@pytest.mark.parametrize("working_set", ["auto", "none"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_default_makes_one_model_whatever_the_clock_says(rows, loss, working_set):
    """Blocks that are slow and quick to come, and a processor that others use, too."""
    settings = {"loss": loss, "working_set": working_set, "block_chunks": 3, "max_outer": 4, "tol": 0.0, "C": 30.0}
    sources = [SlowMatrix(*rows, chunk_rows=CHUNK_ROWS, seconds=seconds) for seconds in (0.0, 0.004)]
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        runs = [train(source, **settings) for source in sources]
    finally:
        busy.kill()
        busy.wait()
    alone = train(Matrix(*rows, chunk_rows=CHUNK_ROWS), **settings)
    assert all(run.same(alone) and run.result.passes == alone.result.passes for run in runs)
    assert all(run.result.set_passes == alone.result.set_passes for run in runs)
    assert (sum(alone.result.set_passes) > 0) == (working_set == "auto")


def test_a_tighter_tolerance_makes_more_passes_and_n_makes_n(rows, store):
    for schedule in ("auto", "overlap"):  # one where nothing is read
        assert train(Matrix(*rows), schedule=schedule, max_outer=3, tol=0.0).result.passes == [1, 1, 1]
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
    source = SlowMatrix(*rows, chunk_rows=CHUNK_ROWS, seconds=0.02)
    for event in train(source, schedule="1", block_chunks=5, max_outer=2, tol=0.0).outer():
        assert 0.04 < event["seconds_waiting"] < 1.0
