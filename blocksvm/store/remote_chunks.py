"""The stored bytes of chunks of an object: ranges are asked for ahead of who decodes them, within a number of bytes.

The requests of a block go out in the order in which its chunks are decoded, then those of blocks that are foreseen; an
answer is decoded where it lies, and its bytes count until it is given back.  Neighbours are asked for together, as far
as that costs little and is not too long; after the ``coalesce_ranges`` of zarr.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from blocksvm.files.remote import LOOP, RemoteObject
from blocksvm.store.decoder import ChunkBytes, ChunkReads, Span, SpansOf, Truncated

GAP = 1 << 16  # bytes that nobody wants, for which two ranges are one: HDF5 writes its own tables between chunks
READ_AHEAD, LONGEST = 32_000_000, 8_000_000  # bytes, where nobody has said how much memory there is


def coalesce(spans: list[Span]) -> list[Span]:
    """Ranges that hold all spans, rising; two are one where at most ``GAP`` bytes lie between them."""
    ranges: list[list[int]] = []
    for start, stop in sorted(span for span in spans if span[0] < span[1]):
        if ranges and start <= ranges[-1][1] + GAP:
            ranges[-1][1] = max(ranges[-1][1], stop)
        else:
            ranges.append([start, stop])
    return [(start, stop) for start, stop in ranges]


@dataclass(eq=False)
class Asked:
    """Chunks that follow each other in a block and in the store, by the ranges of bytes that hold them; answers: of
    each range, once asked for; reserved: there is memory for them; room: set then, where they were asked for before."""

    chunks: Sequence[int]
    ranges: Sequence[Span]
    answers: list[Future] | None = field(default=None)
    room: asyncio.Event | None = None
    reserved: bool = False

    @property
    def n_bytes(self) -> int:
        return sum(stop - start for start, stop in self.ranges)


class RemoteBytes(ChunkBytes):
    """Of an object.

    budget: bytes that are under way or wait to be decoded, at most, if a run has not more; longest: bytes of a run, if
    a chunk has not more.
    """

    def __init__(self, remote: RemoteObject, spans_of: SpansOf, budget: int = READ_AHEAD, longest: int = LONGEST):
        self.remote, self.spans_of = remote, spans_of
        self.size = remote.identity().size
        self.budget, self.longest = budget, longest
        self.reserved = 0
        self.queue: deque[Asked] = deque()  # those without memory
        self.changed = threading.Condition()  # of the two above
        self.foreseen: list[tuple[list[int], list[Asked]]] = []  # blocks, in their order
        self.now: dict[int, Asked] = {}  # of the block that is read, by a run's first chunk

    def reads(self) -> RemoteReads:
        return RemoteReads(self)

    def within(self, budget: int, longest: int) -> RemoteBytes:
        """The same with other limits."""
        return RemoteBytes(self.remote, self.spans_of, budget, longest)

    def at(self, offset: int, n_bytes: int) -> memoryview:
        return self.remote.read(offset, offset + n_bytes)

    def reader(self) -> RemoteBytes:
        return RemoteBytes(self.remote, self.spans_of, self.budget, self.longest)

    def foresee(self, blocks: Sequence[Sequence[int]]) -> None:
        # runs come in the order in which they are asked for: one that comes before it is wanted would hold the memory
        # that what is wanted waits for
        kept = 0
        for chunks, (known, _) in zip(blocks, self.foreseen, strict=False):
            if list(chunks) != known:
                break
            kept += 1
        gone = [asked for _, runs in self.foreseen[kept:] for asked in runs]
        new = [(list(chunks), self._runs(chunks)) for chunks in blocks[kept:]]
        self.foreseen = self.foreseen[:kept] + new
        self.change(gone, [asked for _, runs in new for asked in runs])

    def change(self, gone: Iterable[Asked], new: Iterable[Asked] = ()) -> None:
        """Bytes that are wanted no longer are given back, others asked for after those before them."""
        with self.changed:
            for asked in gone:
                if asked.reserved:
                    self.reserved -= asked.n_bytes
                else:
                    self.queue.remove(asked)
                    if asked.room is not None:
                        self.remote.came(len(asked.ranges))
                for answer in asked.answers or ():
                    answer.cancel()  # nothing, where it is done
            self.queue.extend(new)
            while self.queue and (not self.reserved or self.reserved + self.queue[0].n_bytes <= self.budget):
                asked = self.queue.popleft()
                self.reserved += asked.n_bytes
                asked.reserved = True
                if asked.room is not None:
                    self.remote.came(len(asked.ranges))
                    LOOP.call_soon_threadsafe(asked.room.set)
                else:
                    asked.answers = [self.remote.ask(*span) for span in asked.ranges]
            for asked in self.queue:
                if asked.room is None:
                    if not self.remote.may_ask_early(len(asked.ranges)):
                        break
                    asked.room = asyncio.Event()
                    asked.answers = [self.remote.ask(*span, asked.room) for span in asked.ranges]
            self.changed.notify_all()

    def _runs(self, chunks: Sequence[int]) -> list[Asked]:
        """Runs of those that follow each other in the store and begin within ``longest`` bytes."""
        runs: list[tuple[list[int], list[Span]]] = []
        n_bytes = 0
        for chunk in chunks:
            spans = self.spans_of(chunk)
            if not runs or chunk != runs[-1][0][-1] + 1 or n_bytes >= self.longest:
                runs.append(([], []))
                n_bytes = 0
            runs[-1][0].append(chunk)
            runs[-1][1].extend(spans)
            n_bytes += sum(stop - start for start, stop in spans)
        return [Asked(run, coalesce(spans)) for run, spans in runs]

    def runs(self, chunks: Sequence[int], threads: int) -> list[tuple[Sequence[int], Sequence[int]]]:
        self.change(self.now.values())  # of a block that failed
        if not self.foreseen or self.foreseen[0][0] != list(chunks):
            self.foresee([chunks])
        _, asked = self.foreseen.pop(0)
        self.now = {one.chunks[0]: one for one in asked}
        return [(one.chunks, ()) for one in asked]

    def close(self) -> None:
        self.change([*self.now.values(), *(asked for _, runs in self.foreseen for asked in runs)])
        self.now, self.foreseen = {}, []


class RemoteReads(ChunkReads):
    def __init__(self, of: RemoteBytes):
        super().__init__()
        self.of = of
        self.asked: Asked | None = None
        self.parts: list[tuple[int, memoryview]] = []

    def begin(self, chunks: Sequence[int], ahead: Sequence[int]) -> None:
        self.asked = asked = self.of.now.pop(chunks[0])
        began = time.perf_counter()
        with self.of.changed:
            self.of.changed.wait_for(lambda: asked.answers is not None)
        answers = [answer.result() for answer in asked.answers or ()]
        self.parts = [(start, answer) for (start, _), answer in zip(asked.ranges, answers, strict=True)]
        self.cost.seconds_reading += time.perf_counter() - began
        self.cost.bytes_read += asked.n_bytes
        self.cost.requests += len(asked.ranges)

    def read(self, offset: int, out: memoryview) -> memoryview:
        n_bytes = len(out)
        for start, part in self.parts:
            if start <= offset and offset + n_bytes <= start + len(part):
                return part[offset - start : offset - start + n_bytes]
        began = time.perf_counter()  # of no run
        whole = self.of.remote.read(offset, offset + n_bytes)
        self.cost.seconds_reading += time.perf_counter() - began
        self.cost.bytes_read += len(whole)
        self.cost.requests += 1
        if len(whole) < n_bytes:
            raise Truncated
        return whole

    def end(self) -> None:
        if self.asked is not None:
            self.of.change([self.asked])
        self.asked, self.parts = None, []
