"""The arithmetic of a plan, by cases computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blocksvm.planning.forecast import (
    CERTIFICATES,
    DECODING,
    MESSAGE_RATE,
    MESSAGE_SECONDS,
    MESSAGES,
    MOVING,
    READING,
    READINGS,
    SCREENING,
    SET,
    START,
    WAITING,
    WEIGHTS,
    DataSize,
    Driver,
    Processors,
    Rates,
    WorkCounts,
    enough_workers,
    forecast,
    on_workers,
    reading_parts,
    worth_having,
)

# 100 M nonzeros in 200 MB: 0.5 s of decoding, 0.25 s of screening, 1 s of visits of which 0.75 s move rows, 0.1 s for
# the set, 0.05 s beside five blocks, 0.2 s of the disk
ROWS = DataSize(1_000_000, 1000, 100_000_000, 200_000_000, 50_000_000, 5)
RATES = Rates(1e8, 1e9, 1e9, 2e8, 1e8, 4e8, 2e8, 1e9, 0.01, 0.002, 0.3, 2.0)
COUNTS = WorkCounts(4, 2.0, 4.0, 3.0)


def test_parts_of_a_reading():
    assert reading_parts(ROWS, RATES, COUNTS) == pytest.approx(
        {READING: 0.2, DECODING: 0.5, SCREENING: 0.25, MOVING: 0.9}
    )


def test_blocks_on_two_processors():
    found = forecast(ROWS, RATES, COUNTS, Processors(2, 2))
    # the thread that trains: 0.25 + 0.9 s, longer than half of 1.65 s, for the other decodes; the disk takes 2 s the
    # first time
    assert found.seconds == pytest.approx(
        {START: 0.35, READINGS: 2.0 - 1.15 + 4 * 1.15, SET: 1.5, CERTIFICATES: 2 * 0.375, WEIGHTS: 0.008}
    )
    assert found.total == pytest.approx(sum(found.seconds.values()))
    assert found.limit == MOVING


def test_one_processor_does_all_of_it():
    found = forecast(ROWS, RATES, COUNTS, Processors(2, 1))
    assert found.seconds[READINGS] == pytest.approx(2.0 - 1.65 + 4 * 1.65)
    assert found.seconds[CERTIFICATES] == pytest.approx(2 * 0.75)


def test_processors_that_share_caches_are_fewer():
    found = forecast(ROWS, replace(RATES, sharing=1.2), COUNTS, Processors(2, 2))
    assert found.seconds[READINGS] == pytest.approx(2.0 - 1.65 / 1.2 + 4 * 1.65 / 1.2)
    assert forecast(ROWS, replace(RATES, sharing=1.0), COUNTS, Processors(2, 2)).seconds[CERTIFICATES] == 2 * 0.75


def test_rows_in_memory_are_read_once():
    found = forecast(replace(ROWS, blocks=1), RATES, COUNTS, Processors(2, 2))
    moving = 0.75 + 0.1 + 0.01
    assert found.seconds[READINGS] == pytest.approx(2.0 + 4 * (0.125 + moving))
    assert found.seconds[CERTIFICATES] == pytest.approx(2 * 0.125)


@pytest.mark.parametrize(
    ("changed", "limit"),
    [({"read_again": 1e8}, READING), ({"decode": 2e7}, DECODING), ({"screen": 3e7, "visit": 2.5e7}, SCREENING)],
    ids=str,
)
def test_the_limit_is_what_takes_longest(changed, limit):
    assert forecast(ROWS, replace(RATES, **changed), COUNTS, Processors(2, 64)).limit == limit


def test_more_threads_help_as_far_as_work_is_shared():
    seconds = {n: forecast(ROWS, RATES, COUNTS, Processors(n, n)).total for n in (1, 2, 4, 8, 1024)}
    assert list(seconds.values()) == sorted(seconds.values(), reverse=True)
    assert seconds[1024] > 4 * 0.9 + 1.5
    assert worth_having(lambda n: 1.0 + 1.0 / n) == 4  # 2, 1.5, 1.25, 1.125: the last one is exactly nine tenths
    assert worth_having(lambda n: 1.0) == 1


DRIVER = Driver(0.05, 0.03, 0.02, 5.7e7, 10.0, 1_000_000, 25)


def test_workers_share_all_but_the_drivers_part():
    # 0.95 s of work; messages 0.1 s of rows, 10 MB to each worker, 25 parts
    messages = 0.1 + 10e6 / MESSAGE_RATE + 25 * MESSAGE_SECONDS
    assert DRIVER.messages(1) == pytest.approx(messages)
    one, many = (on_workers(ROWS, RATES, 6.0, DRIVER, k) for k in (1, 10))
    assert one.seconds == pytest.approx({START: 0.35, WAITING: 6 * 0.95})
    assert one.limit == DECODING
    assert many.seconds[WAITING] == pytest.approx(6 * (0.1 + messages + 9 * 10e6 / MESSAGE_RATE))
    assert many.limit == MESSAGES
    assert on_workers(ROWS, RATES, 6.0, replace(DRIVER, moving=3.0), 10).limit == MOVING


def test_workers_gain_until_the_driver_is_the_limit():
    enough = enough_workers(ROWS, RATES, DRIVER)
    seconds = [on_workers(ROWS, RATES, 6.0, DRIVER, k).total for k in range(1, 8)]
    assert enough == 4  # 0.95 / 4 < 0.1 + 0.15 + 0.07, and 0.95 / 3 > 0.303
    assert min(seconds[enough - 1 :]) >= 0.99 * min(seconds)
    assert seconds[0] > seconds[1] > seconds[2]
