"""Runs of chunks asked for ahead: whatever is foreseen and then wanted, what is wanted comes, within the memory."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.object_server import Fault

from blocksvm.files.remote import RemoteObject
from blocksvm.sources.source import ReadingCost
from blocksvm.store.remote_chunks import RemoteBytes

DATA = bytes(range(256)) * 4000
SIZE, N = 5_000, 200  # of chunks, each of two spans far from each other


def spans_of(chunk: int) -> list[tuple[int, int]]:
    return [(SIZE * chunk, SIZE * chunk + SIZE - 100), (SIZE * chunk + SIZE - 100, SIZE * (chunk + 1))]


def read_block(source: RemoteBytes, chunks: list[int]) -> None:
    for run in source.runs(chunks, 1):
        run.begin(ReadingCost())
        for chunk in run.chunks:
            first, second = spans_of(chunk)
            found = [run.read(start, memoryview(bytes(stop - start))) for start, stop in (first, second)]
            assert b"".join(found) == DATA[first[0] : second[1]]
        run.end()


def state_of(source: RemoteBytes) -> tuple[int, int]:
    """Bytes reserved, and runs that wait."""
    with source.changed:
        return source.reserved, len(source.queue)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 12_000, 10**6])
@pytest.mark.parametrize(("seed", "connections"), list(enumerate([1, 2, 2, 64])))
def test_whatever_is_foreseen_what_is_wanted_comes(server, budget, seed, connections):
    """Also where many requests fail, and fewer are under way from then on."""
    server.objects.put("data", DATA)
    source = RemoteBytes(RemoteObject(server.url("data"), connections), spans_of, budget, longest=12_000)
    draw = random.Random(seed)
    server.faults += [Fault(draw.choice(("503", "drop", "cut")), at=draw.randint(1, 400)) for _ in range(40)]

    def block() -> list[int]:
        some, first = draw.sample(range(N), draw.randint(1, 6)), draw.randrange(90)
        return some if draw.random() < 0.7 else list(range(first, first + 9))

    def work() -> None:
        order = [block() for _ in range(40)]
        order += order[:10]  # the same again
        while order:
            # what is wanted is what was foreseen, or something else, or that in another order
            chunks = order.pop(0)
            ahead = order[: draw.randint(0, 6)]
            draw.shuffle(ahead) if draw.random() < 0.3 else None
            source.foresee([chunks, *ahead] if draw.random() < 0.8 else ahead)
            read_block(source, chunks)
            assert state_of(source)[0] <= max(budget, 2 * 12_000 + SIZE)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(60)
    source.close()
    assert state_of(source) == (0, 0)


def test_a_block_that_is_given_up_frees_its_memory(server):
    server.objects.put("data", DATA)
    source = RemoteBytes(RemoteObject(server.url("data"), 64), spans_of, budget=20_000, longest=6_000)
    source.foresee([[1, 5, 9], [2, 6], [3]])
    run, *_ = source.runs([1, 5, 9], 1)
    run.begin(ReadingCost())
    run.end()  # the others are never taken
    read_block(source, [2, 6])
    read_block(source, [7])
    source.close()
    assert state_of(source) == (0, 0)


@pytest.mark.parametrize("connections", [1, 3, 20])
def test_the_limit_of_requests_holds(server, connections):
    """Whatever waits for memory meanwhile."""
    server.objects.put("data", DATA)
    server.latency = 0.005
    source = RemoteBytes(RemoteObject(server.url("data"), connections), spans_of, budget=30_000, longest=6_000)
    order = [list(range(first, first + 20)) for first in range(0, N, 20)]
    for k, chunks in enumerate(order):
        source.foresee(order[k : k + 4])
        read_block(source, chunks)
    assert min(connections, 3) <= server.most <= connections
    source.close()
