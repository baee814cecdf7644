"""How many requests are under way, by lists of events with their times."""

from __future__ import annotations

from blocksvm.base.objects.depth import FIRST, Depth


def rounds(depth: Depth, rate_of, n: int, now: float = 0.0, waited: bool = True) -> float:
    """n rounds of answers of one byte each, at ``rate_of(limit)`` a second; returns the time after them."""
    for _ in range(n):
        depth.asked(now)
        if waited:
            depth.waits()
        limit = depth.limit
        for _ in range(limit):
            now += 1 / rate_of(limit)
            depth.answered(1, now)
    return now


def test_it_grows_while_that_brings_more():
    depth = Depth(256)
    assert depth.limit == FIRST
    rounds(depth, lambda limit: float(min(limit, 40)), 30)
    assert depth.limit == 128  # 64 brought more than 32, 128 no more than 64
    assert depth.deepest == depth.limit
    limited = Depth(20)
    rounds(limited, float, 30)
    assert limited.limit == 20
    assert Depth(3).limit == 3


def test_it_stays_where_nobody_waits():
    depth = Depth(256)
    rounds(depth, float, 30, waited=False)
    assert depth.limit == FIRST


def test_it_is_halved_where_the_server_asks_for_fewer():
    depth = Depth(256)
    now = rounds(depth, float, 10)
    before = depth.limit
    depth.too_many(now)
    assert depth.limit == before // 2
    for _ in range(20):
        depth.too_many(now)
    assert depth.limit == 1
    rounds(depth, float, 20, now)
    assert depth.limit > 20  # and grows again


def test_time_without_requests_is_nobodys():
    """After a pause the rate is that of the next answers alone."""
    depth = Depth(256)
    now = rounds(depth, float, 1)
    grown = depth.limit
    depth.idle()
    rounds(depth, float, 1, now + 1000.0)
    assert depth.limit > grown
