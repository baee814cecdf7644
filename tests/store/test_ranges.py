"""Which ranges are asked for: all that is wanted, in few requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blocksvm.store.ranges import coalesce, runs_of

SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)).map(lambda pair: (pair[0], sum(pair))), max_size=20)


@given(SPANS, st.integers(0, 20))
def test_ranges_hold_all_spans_and_little_else(spans, gap):
    ranges = coalesce(spans, gap)
    wanted = {byte for start, stop in spans for byte in range(start, stop)}
    held = [byte for start, stop in ranges for byte in range(start, stop)]
    assert wanted <= set(held)
    assert len(held) == len(set(held))
    assert all(after[0] - before[1] > gap for before, after in zip(ranges, ranges[1:], strict=False))
    for start, stop in ranges:  # each begins and ends with what is wanted, and no hole in it is too long
        own = sorted(wanted & set(range(start, stop)))
        assert (own[0], own[-1] + 1) == (start, stop)
        assert all(b - a <= gap + 1 for a, b in zip(own, own[1:], strict=False))


@given(st.lists(st.integers(0, 30), unique=True, max_size=30), st.integers(1, 100), st.data())
def test_runs_are_of_neighbours_that_begin_within_their_bytes(chunks, most, data):
    sizes = [data.draw(st.integers(0, 60)) for _ in chunks]
    runs = runs_of(chunks, sizes, most)
    assert [chunk for run in runs for chunk in run] == chunks
    size = dict(zip(chunks, sizes, strict=True))
    for run in runs:
        assert list(run) == list(range(run[0], run[0] + len(run)))
        assert sum(size[chunk] for chunk in run[:-1]) < most
    for before, after in zip(runs, runs[1:], strict=False):
        assert after[0] != before[-1] + 1 or sum(size[chunk] for chunk in before) >= most
