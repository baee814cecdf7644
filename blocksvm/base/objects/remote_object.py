"""One object in an object store: requests for ranges of it, made again where they fail, and every one of them for the
same state of the object."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocksvm.base.errors import InputError
from blocksvm.base.objects.access import Access, Changed, Identity, RangeAnswer, TryAgain
from blocksvm.base.objects.object_settings import ObjectSettings
from blocksvm.base.objects.obstore_access import SCHEMES, ObstoreAccess
from blocksvm.base.optional_libraries import require_library

HEAD = 1 << 16  # bytes at an object's beginning that the first request asks for
KEPT = 2
LEFT = 8  # requests that are never early


@dataclass(frozen=True)
class Patience:
    """How long the network is waited for.

    silence: seconds without a byte, after which an answer is given up; tries: of one request; first, most: seconds
    between two of them, twice as long each time, and a random share of that: many that failed together do not come
    back together.
    """

    silence: float = 15.0
    tries: int = 9
    first: float = 0.1
    most: float = 10.0

    def pause(self, failed: int) -> float:
        """Seconds until the next try after so many."""
        return min(self.most, self.first * 2 ** (failed - 1)) * random.uniform(0.5, 1.0)


PATIENCE: ContextVar[Patience] = ContextVar("patience")


class Requests:
    """The event loop of this process's requests, in a thread of its own, which ends with the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    def started(self) -> asyncio.AbstractEventLoop:
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, name="blocksvm-requests", daemon=True).start()
            return self.loop

    def call(self, work: Callable, *arguments) -> None:
        """Let it be called there, soon."""
        self.started().call_soon_threadsafe(work, *arguments)

    def result(self, coroutine: Coroutine) -> Any:
        """Of a coroutine that runs there, waited for."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.started()).result()


REQUESTS = Requests()


class Connections:
    """The requests of one object that are under way, at most ``most``; used in the event loop alone.

    Those whose answers wait for memory count, too.  early: requests that may come to wait so.
    """

    def __init__(self, most: int):
        self.most = most
        self.under_way = 0
        self.held = 0  # answers that wait for memory
        self.early = 0
        self.waiting: deque[asyncio.Future] = deque()

    @property
    def room_for_early(self) -> int:
        """How many more may be early: some are left for others."""
        return self.most - max(1, min(LEFT, self.most // 2)) - self.early

    def _full(self) -> bool:
        return self.under_way + self.held >= self.most

    async def take(self) -> None:
        loop = asyncio.get_running_loop()
        while self._full():
            turn = loop.create_future()
            self.waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._next()
                raise
        self.under_way += 1

    async def hold(self, room: asyncio.Event) -> None:
        """Until there is ``room`` a request is not under way."""
        if room.is_set():
            return
        self.under_way, self.held = self.under_way - 1, self.held + 1
        self._next()
        try:
            await room.wait()
        finally:
            self.under_way, self.held = self.under_way + 1, self.held - 1

    def give_back(self) -> None:
        self.under_way -= 1
        self._next()

    def _next(self) -> None:
        while self.waiting and not self._full():
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class RemoteObject:
    """An object by its URL (without secrets).

    requests: that have been made so far.  Raises InputError, a sentence, for all that does not
    pass, and FileNotFoundError where there is no such object.
    """

    def __init__(self, url: str, settings: ObjectSettings | None = None):
        self.url = url
        self.settings = settings or ObjectSettings()
        self.patience = PATIENCE.get(Patience())
        self.access = access_to(url, self.patience.silence)
        self.connections = Connections(self.settings.connections)
        self.state: Identity | None = None
        self.spans: list[tuple[int, memoryview]] = []  # of its beginning and its end, which every opening reads
        self.windows: deque[tuple[int, memoryview]] = deque(maxlen=KEPT)  # of what was read last
        self.requests = 0

    def identity(self) -> Identity:
        """Its state at the first answer, which brings its first bytes."""
        if self.state is None:
            try:
                self.spans.append((0, self.read(0, HEAD)))
            except _Empty as empty:
                self.state = empty.identity
        assert self.state is not None
        return self.state

    def forget(self) -> None:
        """It is another one now."""
        self.state, self.spans = None, []
        self.windows.clear()

    def read(self, start: int, stop: int) -> memoryview:
        """The bytes from ``start`` to ``stop``, or to the end."""
        return REQUESTS.result(self.fetch(start, stop))

    async def fetch(self, start: int, stop: int, room: asyncio.Event | None = None) -> memoryview:
        """The same as a coroutine of the event loop; room: set when there is memory for the bytes."""
        failed = 0

        async def hold() -> None:
            if room is not None:
                await self.connections.hold(room)

        while True:
            await self.connections.take()
            try:
                self.requests += 1
                condition = self.state.condition if self.state else ""
                answer = await self.access.get(start, stop, condition, hold)
                return self._checked(answer, start, stop)
            except Changed:
                if self.state is None:  # no byte of it can be asked for
                    raise _Empty(await self._empty()) from None
                raise InputError(
                    f"{self.url}: was replaced or changed while this run was reading it; run it again"
                ) from None
            except TryAgain as error:
                failed += 1
                if failed == self.patience.tries:
                    raise InputError(
                        f"{self.url}: {failed} requests for the same bytes have failed, the last one with: {error}; "
                        "look after the connection, and run it again"
                    ) from error
            finally:
                self.connections.give_back()
            await asyncio.sleep(self.patience.pause(failed))

    def _checked(self, answer: RangeAnswer, start: int, stop: int) -> memoryview:
        """The bytes of an answer for this range; TryAgain where it has others, Changed where it is of another state."""
        if self.state is None:
            self.state = answer.identity
        elif not self.state.same(answer.identity):
            raise Changed
        n_bytes = min(stop, self.state.size) - start
        if (answer.start, len(answer.data)) != (start, n_bytes):
            raise TryAgain(
                f"{len(answer.data)} bytes from byte {answer.start} on came for {n_bytes} from byte {start} on"
            )
        return answer.data

    async def _empty(self) -> Identity:
        """Of an object of which there is nothing to ask for."""
        try:
            state = await self.access.identity()
        except (TryAgain, Changed) as error:
            raise InputError(f"{self.url}: cannot be read ({error}); look after it, and run it again") from error
        if state.size:
            raise self.access.in_no_parts()
        return state

    def write(self, path: Path, new: bool) -> None:
        """Make it of a file, visible only when whole; new: FileExistsError where there is one already."""
        try:
            REQUESTS.result(self.access.put(path, new))
        except (TryAgain, Changed) as error:
            raise InputError(f"{self.url}: could not be written ({error}); run it again") from error
        self.forget()

    def delete(self) -> None:
        """Remove it."""
        try:
            REQUESTS.result(self.access.delete())
        except (TryAgain, Changed) as error:
            raise InputError(f"{self.url}: could not be removed ({error}); remove it") from error
        self.forget()


class _Empty(Exception):
    def __init__(self, identity: Identity):
        self.identity = identity


def access_to(url: str, silence: float) -> Access:
    """By the library that knows the URL's scheme."""
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise InputError(f"{url}: begins with {scheme}://; name an object by one of {', '.join(sorted(SCHEMES))}")
    require_library("obstore", "a URL")
    return ObstoreAccess(url, silence)
