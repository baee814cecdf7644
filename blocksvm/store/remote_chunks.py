"""The stored bytes of chunks of an object: ranges are asked for ahead of who decodes them, within a number of bytes.

The requests of a block go out in the order in which its chunks are decoded, then those of the block that is foreseen;
an answer is decoded where it lies, and its bytes count from the request until it is given back.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from blocksvm.base.objects.remote_object import REQUESTS, RemoteObject
from blocksvm.store.chunk_bytes import ChunkBytes, ChunkReads, SpansOf, Truncated
from blocksvm.store.ranges import ChunkRun, coalesce, runs_of

READ_AHEAD, LONGEST = 32_000_000, 8_000_000  # bytes, where nobody has said how much memory there is


@dataclass(eq=False)
class Asked:
    """A run that is asked for; answer: the bytes of its ranges, when all have come."""

    run: ChunkRun
    answer: Future = field(default_factory=Future)
    task: asyncio.Task | None = None
    n_reserved: int = 0


class RangeFetcher:
    """Runs asked for in their order, as far as ``budget`` bytes are enough; one at least.  It lives in the event loop
    of requests."""

    def __init__(self, remote: RemoteObject, budget: int):
        self.remote = remote
        self.budget = budget
        self.reserved = 0
        self.queue: deque[Asked] = deque()

    def ask(self, runs: Sequence[Asked]) -> None:
        """After those before them."""
        self.queue.extend(runs)
        self._pump()

    def give_back(self, runs: Sequence[Asked]) -> None:
        """Their bytes are wanted no longer, or not at all."""
        for asked in runs:
            if asked.task is None:
                self.queue.remove(asked)
            else:
                asked.task.cancel()  # nothing, where it is done
                self.reserved -= asked.n_reserved
                asked.n_reserved = 0
        self._pump()

    def _pump(self) -> None:
        while self.queue and (not self.reserved or self.reserved + self.queue[0].run.n_bytes <= self.budget):
            asked = self.queue.popleft()
            asked.n_reserved = asked.run.n_bytes
            self.reserved += asked.n_reserved
            asked.task = asyncio.get_running_loop().create_task(self._bring(asked))

    async def _bring(self, asked: Asked) -> None:
        try:
            asked.answer.set_result(await asyncio.gather(*(self.remote.fetch(*span) for span in asked.run.ranges)))
        except Exception as error:  # raised where it is waited for
            asked.answer.set_exception(error)


class RemoteBytes(ChunkBytes):
    """Of an object.

    budget: bytes that are under way or wait to be decoded, at most, if a run has not more; longest: bytes of a run, if
    a chunk has not more.
    """

    def __init__(self, remote: RemoteObject, spans_of: SpansOf, budget: int = READ_AHEAD, longest: int = LONGEST):
        self.remote = remote
        self.spans_of = spans_of
        self.size = remote.identity().size
        self.longest = longest
        self.fetcher = RangeFetcher(remote, budget)
        self.foreseen: dict[bytes, list[Asked]] = {}
        self.now: dict[int, Asked] = {}  # of the block that is read, by a run's first chunk

    def reads(self) -> RemoteReads:
        return RemoteReads(self)

    def within(self, budget: int, longest: int) -> RemoteBytes:
        """The same with other limits."""
        return RemoteBytes(self.remote, self.spans_of, budget, longest)

    def at(self, offset: int, n_bytes: int) -> memoryview:
        return self.remote.read(offset, offset + n_bytes)

    def reader(self) -> RemoteBytes:
        return self.within(self.fetcher.budget, self.longest)

    def foresee(self, blocks: Sequence[Sequence[int]]) -> None:
        wanted = {_key(chunks): chunks for chunks in blocks}
        gone = [asked for key in list(self.foreseen) if key not in wanted for asked in self.foreseen.pop(key)]
        new = []
        for key, chunks in wanted.items():
            if key not in self.foreseen:
                self.foreseen[key] = [Asked(run) for run in self._runs(chunks)]
                new += self.foreseen[key]
        REQUESTS.call(self._change, gone, new)

    def _change(self, gone: Sequence[Asked], new: Sequence[Asked]) -> None:
        self.fetcher.give_back(gone)
        self.fetcher.ask(new)

    def _runs(self, chunks: Sequence[int]) -> list[ChunkRun]:
        spans = [self.spans_of(chunk) for chunk in chunks]
        n_bytes = [sum(stop - start for start, stop in of_chunk) for of_chunk in spans]
        place = {chunk: k for k, chunk in enumerate(chunks)}
        return [
            ChunkRun(run, tuple(coalesce(span for chunk in run for span in spans[place[chunk]])))
            for run in runs_of(chunks, n_bytes, self.longest)
        ]

    def runs(self, chunks: Sequence[int], threads: int) -> list[tuple[Sequence[int], Sequence[int]]]:
        self._give_back(self.now.values())  # of a block that failed
        key = _key(chunks)
        if key not in self.foreseen:
            self.foresee([chunks])
        asked = self.foreseen.pop(key)
        self.now = {one.run.chunks[0]: one for one in asked}
        return [(one.run.chunks, ()) for one in asked]

    def _give_back(self, runs) -> None:
        if runs := list(runs):
            REQUESTS.call(self.fetcher.give_back, runs)

    def close(self) -> None:
        self._give_back([*self.now.values(), *(asked for runs in self.foreseen.values() for asked in runs)])
        self.now, self.foreseen = {}, {}


class RemoteReads(ChunkReads):
    def __init__(self, of: RemoteBytes):
        super().__init__()
        self.of = of
        self.asked: Asked | None = None
        self.parts: list[tuple[int, memoryview]] = []

    def begin(self, chunks: Sequence[int], ahead: Sequence[int]) -> None:
        self.asked = self.of.now.pop(chunks[0])
        began = time.perf_counter()
        if not self.asked.answer.done():
            self.of.remote.connections.depth.waits()
        try:
            answers = self.asked.answer.result()
        except BaseException:
            self.end()
            raise
        self.parts = [(start, answer) for (start, _), answer in zip(self.asked.run.ranges, answers, strict=True)]
        self.cost.seconds_reading += time.perf_counter() - began
        self.cost.bytes_read += self.asked.run.n_bytes
        self.cost.requests += len(self.parts)

    def read(self, offset: int, *places: memoryview) -> Sequence[memoryview]:
        stop = offset + sum(map(len, places))
        whole = next(
            (part[offset - start :] for start, part in self.parts if start <= offset < start + len(part)), None
        )
        if whole is None:  # of no run
            began = time.perf_counter()
            whole = self.of.remote.read(offset, stop)
            self.cost.seconds_reading += time.perf_counter() - began
            self.cost.bytes_read += len(whole)
            self.cost.requests += 1
        if len(whole) < stop - offset:
            raise Truncated
        found, at = [], 0
        for place in places:
            found.append(whole[at : at + len(place)])
            at += len(place)
        return found

    def end(self) -> None:
        if self.asked is not None:
            self.of._give_back([self.asked])
        self.asked, self.parts = None, []


def _key(chunks: Sequence[int]) -> bytes:
    return b" ".join(str(chunk).encode() for chunk in chunks)
