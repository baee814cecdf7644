"""The stored bytes of chunks: the protocol of where they come from, and files on a disk."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from blocksvm.base.outputs.writing import named_errors
from blocksvm.sources.source import ReadingCost
from blocksvm.store.ranges import Span

CAN_ANNOUNCE = hasattr(os, "posix_fadvise")  # not on macOS
MEMORY_SPEED = 1.5e9  # bytes a second; slower than this, a disk is at work
RUNS_WANTED = 4  # for each thread that decodes
LONGEST_RUN = 8  # chunks
CHUNKS_AHEAD = 16  # how many chunks ahead, at least, the system is asked to read from the disk

SpansOf = Callable[[int], list[Span]]  # where the bytes of a chunk lie


class Truncated(Exception):
    """There are fewer bytes than the tables say."""


class ChunkReads(ABC):
    """What one thread reads of chunks; ``cost`` adds up until it is taken."""

    def __init__(self) -> None:
        self.cost = ReadingCost()

    @abstractmethod
    def begin(self, chunks: Sequence[int], ahead: Sequence[int]) -> None:
        """From now on chunks are read that follow each other in a block; ahead: those that will be wanted soon."""

    @abstractmethod
    def read(self, offset: int, *places: memoryview) -> Sequence[memoryview]:
        """As many bytes from ``offset`` on as the places hold: in these places, or where they are in memory already,
        until ``end``.  Raises Truncated."""

    @abstractmethod
    def end(self, sound: bool) -> None:
        """What was begun is done; sound: all of it was as it should be."""


class ChunkBytes(ABC):
    """The bytes of a store, for one consumer; size: of the whole file."""

    size: int

    @abstractmethod
    def reads(self) -> ChunkReads:
        """For one more thread."""

    @abstractmethod
    def runs(self, chunks: Sequence[int], threads: int) -> list[tuple[Sequence[int], Sequence[int]]]:
        """A block's chunks, which will be read now, in runs that are shared among threads, each with those
        ``ahead``."""

    def foresee(self, blocks: Sequence[Sequence[int]]) -> None:
        """The next blocks will be of these chunks, one after the other."""
        return

    @abstractmethod
    def at(self, offset: int, n_bytes: int) -> bytes | memoryview:
        """Some bytes, fewer at the end of the file."""

    def within(self, budget: int, longest: int) -> ChunkBytes:
        """The same; budget: of bytes that are read before they are decoded; longest: of a range that is read at
        once."""
        return self

    @abstractmethod
    def reader(self) -> ChunkBytes:
        """The same for another consumer."""

    @abstractmethod
    def close(self) -> None:
        """Nothing is read any more."""


class DiskBytes(ChunkBytes):
    """Of a file by its descriptor, which is closed with it unless ``owned`` by another."""

    def __init__(self, path: Path, descriptor: int, spans_of: SpansOf, owned: bool = True):
        self.path = path
        self.descriptor = descriptor
        self.spans_of = spans_of
        self.owned = owned
        self.size = os.fstat(descriptor).st_size

    def reads(self) -> DiskReads:
        return DiskReads(self)

    def runs(self, chunks: Sequence[int], threads: int) -> list[tuple[Sequence[int], Sequence[int]]]:
        # enough runs to share, long ones so that few parts have to be decoded beside their place
        length = max(1, min(LONGEST_RUN, len(chunks) // (RUNS_WANTED * threads)))
        runs = []
        for start in range(0, len(chunks), length):
            stop = min(start + length, len(chunks))
            ahead = chunks[stop if start else 0 : stop + CHUNKS_AHEAD] if start % CHUNKS_AHEAD < length else []
            runs.append((chunks[start:stop], ahead))
        return runs

    def at(self, offset: int, n_bytes: int) -> bytes:
        with named_errors(self.path):
            return os.pread(self.descriptor, n_bytes, offset)

    def reader(self) -> DiskBytes:
        return DiskBytes(self.path, self.descriptor, self.spans_of, owned=False)

    def close(self) -> None:
        if self.owned and self.descriptor >= 0:
            with suppress(OSError):  # nothing is lost of what was read
                os.close(self.descriptor)
        self.descriptor = -1


class DiskReads(ChunkReads):
    def __init__(self, file: DiskBytes):
        super().__init__()
        self.file = file

    def begin(self, chunks: Sequence[int], ahead: Sequence[int]) -> None:
        # what comes at the speed of memory need not be announced, which costs about as much as reading it
        if not CAN_ANNOUNCE or self.cost.bytes_read > MEMORY_SPEED * self.cost.seconds_reading:
            return
        for chunk in ahead:  # so that the disk works while others are decoded
            for start, stop in self.file.spans_of(chunk):
                os.posix_fadvise(self.file.descriptor, start, stop - start, os.POSIX_FADV_WILLNEED)

    def read(self, offset: int, *places: memoryview) -> Sequence[memoryview]:
        began = time.perf_counter()
        left = list(places)
        while left:
            try:
                n = os.preadv(self.file.descriptor, left, offset)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.file.path)) from error
            if n == 0:
                raise Truncated
            offset += n
            self.cost.bytes_read += n
            while left and n >= len(left[0]):
                n -= len(left.pop(0))
            if n:
                left[0] = left[0][n:]
        self.cost.seconds_reading += time.perf_counter() - began
        return places

    def end(self, sound: bool) -> None:
        return
