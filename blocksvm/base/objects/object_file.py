"""An object as a file that is read, by HDF5 here and there, or from its beginning to its end."""

from __future__ import annotations

import asyncio
import io
import os
from collections import deque
from concurrent.futures import Future

from blocksvm.base.objects.remote_object import KEPT, REQUESTS
from blocksvm.base.objects.remote_path import RemotePath
from blocksvm.base.objects.urls import READ_AHEAD

TAIL = 1 << 20  # bytes at an object's end that are asked for together
FIRST, LARGEST = 1 << 20, 1 << 22  # bytes of a request; of one after the other twice as many each time
BEFORE = 1 << 14  # bytes before those wanted that come with them: HDF5 writes what names data near it
# requests, where an object is read from its beginning to its end; others have brought what is kept beside them
AHEAD = READ_AHEAD // LARGEST - KEPT


class ObjectFile(io.RawIOBase):
    """whole: it will be read from its beginning to its end, and requests go ahead."""

    def __init__(self, path: RemotePath, whole: bool = False):
        self.remote = remote = path.remote
        self.size = remote.identity().size
        self.under_way: deque[tuple[int, int, Future]] = deque()
        self.ahead = AHEAD if whole else 0
        self.length = LARGEST if whole else FIRST
        self.end = 0  # of the last window
        self.position = 0

    def __repr__(self) -> str:
        return self.remote.url

    name = property(__repr__)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.size}[whence]
        self.position = base + offset
        return self.position

    def readinto(self, buffer) -> int:
        view = memoryview(buffer).cast("B")
        wanted, done = min(len(view), max(0, self.size - self.position)), 0
        while done < wanted:
            start, window = self._window(self.position, wanted - done)
            at = self.position - start
            n = min(wanted - done, len(window) - at)
            view[done : done + n] = window[at : at + n]
            self.position += n
            done += n
        return done

    def _window(self, at: int, wanted: int) -> tuple[int, memoryview]:
        """(start, bytes) of a part that has byte ``at``."""
        for start, window in (*self.remote.spans, *self.remote.windows):
            if start <= at < start + len(window):
                return start, window
        while self.under_way and not self.under_way[0][0] <= at < self.under_way[0][1]:
            self.under_way.popleft()[2].cancel()
        if not self.under_way:
            self._ask(*self._next_range(at, wanted))
        start, stop, answer = self.under_way.popleft()
        reached = self.under_way[-1][1] if self.under_way else stop
        while len(self.under_way) < self.ahead and reached < self.size:
            begin, reached = reached, min(self.size, reached + self.length)
            self._ask(begin, reached)
        window = answer.result()
        kept = self.remote.spans if stop == self.size and stop - start <= TAIL else self.remote.windows
        kept.append((start, window))
        self.end = stop
        return start, window

    def _next_range(self, at: int, wanted: int) -> tuple[int, int]:
        if self.size - at <= TAIL and not self.ahead:
            return max(0, self.size - TAIL), self.size
        if self.end <= at < self.end + FIRST and self.end:
            self.length = min(LARGEST, 2 * self.length)
        elif not self.ahead:
            self.length = FIRST
            at = max(0, at - BEFORE)
        return at, min(self.size, at + BEFORE + max(self.length, wanted))

    def _ask(self, start: int, stop: int) -> None:
        answer = asyncio.run_coroutine_threadsafe(self.remote.fetch(start, stop), REQUESTS.started())
        self.under_way.append((start, stop, answer))

    def close(self) -> None:
        while self.under_way:
            self.under_way.popleft()[2].cancel()
        super().close()
