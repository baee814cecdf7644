"""The stored bytes of chunks of an object: ranges are asked for ahead of who decodes them, within a number of bytes.

The requests of a block go out in the order in which its chunks are decoded, then those of blocks that are foreseen; an
answer is decoded where it lies, and its bytes count until it is given back.  Neighbours are asked for together, as far
as that costs little and is not too long; after the ``coalesce_ranges`` of zarr.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from blocksvm.files.remote import LOOP, RemoteObject
from blocksvm.sources.source import ReadingCost
from blocksvm.store.decoder import ChunkBytes, Run, Span, Truncated

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


class RemoteRun(Run):
    """Chunks that follow each other in the store as well, by the ranges of bytes that hold them.

    answers: of each range, once asked for; reserved: there is memory for them; room: set then, where they were asked
    for before; held: nothing has been given back yet.
    """

    of: RemoteBytes

    def __init__(self, of: RemoteBytes, chunks: Sequence[int], ranges: Sequence[Span]):
        super().__init__(of, chunks)
        self.ranges, self.n_bytes = ranges, sum(stop - start for start, stop in ranges)
        self.answers: list[Future] | None = None
        self.room: asyncio.Event | None = None
        self.reserved, self.held = False, True
        self.parts: list[tuple[int, memoryview]] = []

    def ask(self) -> None:
        self.answers = [self.of.remote.ask(*span, self.room) for span in self.ranges]

    def begin(self, cost: ReadingCost) -> None:
        with self.of.changed:
            self.of.changed.wait_for(lambda: self.answers is not None)
        cost.requests += len(self.ranges)
        answers = [answer.result() for answer in self.answers or ()]
        self.parts = [(start, answer) for (start, _), answer in zip(self.ranges, answers, strict=True)]

    def read(self, offset: int, out: memoryview) -> memoryview:
        for start, part in self.parts:
            if start <= offset and offset + len(out) <= start + len(part):
                return part[offset - start : offset - start + len(out)]
        return self.of.read(offset, out)

    def end(self) -> None:
        self.parts = []
        self.of.change([self])


class RemoteBytes(ChunkBytes):
    """Of an object.

    spans_of: where the bytes of a chunk lie; budget: bytes that are under way or wait to be decoded, at most, if a run
    has not more; longest: bytes of a run, if a chunk has not more.
    """

    def __init__(self, remote: RemoteObject, spans_of: Callable[[int], list[Span]],
                 budget: int = READ_AHEAD, longest: int = LONGEST):  # fmt: skip
        self.remote, self.spans_of = remote, spans_of
        self.size = remote.identity().size
        self.budget, self.longest = budget, longest
        self.reserved = 0
        self.queue: deque[RemoteRun] = deque()  # those without memory
        self.changed = threading.Condition()  # of the two above
        self.foreseen: list[tuple[list[int], list[RemoteRun]]] = []  # blocks, in their order
        self.now: list[RemoteRun] = []  # of the block that is read

    def within(self, budget: int, longest: int) -> RemoteBytes:
        """The same with other limits."""
        return RemoteBytes(self.remote, self.spans_of, budget, longest)

    def read(self, offset: int, out: memoryview) -> memoryview:
        found = self.remote.read(offset, offset + len(out))
        if len(found) < len(out):
            raise Truncated
        return found

    def reader(self) -> RemoteBytes:
        return self.within(self.budget, self.longest)

    def foresee(self, blocks: Sequence[Sequence[int]]) -> None:
        # runs come in the order in which they are asked for: one that comes before it is wanted would hold the memory
        # that what is wanted waits for
        kept = 0
        for chunks, (known, _) in zip(blocks, self.foreseen, strict=False):
            if list(chunks) != known:
                break
            kept += 1
        gone = [run for _, runs in self.foreseen[kept:] for run in runs]
        new = [(list(chunks), self._runs(chunks)) for chunks in blocks[kept:]]
        self.foreseen = self.foreseen[:kept] + new
        self.change(gone, [run for _, runs in new for run in runs])

    def change(self, gone: Iterable[RemoteRun], new: Iterable[RemoteRun] = ()) -> None:
        """Bytes that are wanted no longer are given back, others asked for after those before them."""
        with self.changed:
            for run in (run for run in gone if run.held):
                run.held = False
                if run.reserved:
                    self.reserved -= run.n_bytes
                else:
                    self.queue.remove(run)
                    if run.room is not None:
                        self.remote.came(len(run.ranges))
                for answer in run.answers or ():
                    answer.cancel()  # nothing, where it is done
            self.queue.extend(new)
            while self.queue and (not self.reserved or self.reserved + self.queue[0].n_bytes <= self.budget):
                run = self.queue.popleft()
                self.reserved += run.n_bytes
                run.reserved = True
                if run.room is not None:
                    self.remote.came(len(run.ranges))
                    LOOP.call_soon_threadsafe(run.room.set)
                else:
                    run.ask()
            for run in self.queue:
                if run.room is None:
                    if not self.remote.may_ask_early(len(run.ranges)):
                        break
                    run.room = asyncio.Event()
                    run.ask()
            self.changed.notify_all()

    def _runs(self, chunks: Sequence[int]) -> list[RemoteRun]:
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
        return [RemoteRun(self, run, coalesce(spans)) for run, spans in runs]

    def runs(self, chunks: Sequence[int], threads: int) -> list[RemoteRun]:
        self.change(self.now)  # of a block that failed
        if not self.foreseen or self.foreseen[0][0] != list(chunks):
            self.foresee([chunks])
        _, self.now = self.foreseen.pop(0)
        return self.now

    def close(self) -> None:
        self.change([*self.now, *(run for _, runs in self.foreseen for run in runs)])
        self.now, self.foreseen = [], []
