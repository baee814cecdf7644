"""The protocol of what reads and writes one object, and what a request may end with; one file for each library."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from blocksvm.base.errors import InputError


@dataclass(frozen=True)
class Identity:
    """The state of an object, as answers tell it: its bytes, and what is another one when they have changed, "" where a
    server does not say."""

    size: int
    etag: str
    modified: str

    def same(self, other: Identity) -> bool:
        """Nothing tells them apart; where both have an ETag, the time of the change does not matter, which servers of
        one object may tell differently."""
        tags = bool(self.etag and other.etag)
        return self.size == other.size and (self.etag == other.etag if tags else self == other)

    @property
    def condition(self) -> str:
        """The ETag that a request may demand; "" where there is none, or a weak one, which no demand ever meets."""
        return "" if self.etag.startswith("W/") else self.etag


Ready = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class RangeAnswer:
    """The bytes from ``start`` on that a request has brought, and the object that they are of."""

    start: int
    data: memoryview
    identity: Identity


class TryAgain(Exception):
    """A request has failed in a way that may pass: a connection was dropped, an answer cut, a server at fault."""


class Changed(Exception):
    """The object is not what it was (412, 416)."""


class Access(ABC):
    """One object, by its URL.

    Its methods are coroutines of one event loop.  They raise TryAgain, Changed, FileNotFoundError where there is no
    such object, and InputError, a sentence that begins with the URL, for what does not pass.
    """

    def __init__(self, url: str):
        self.url = url

    @abstractmethod
    async def get(self, start: int, stop: int, condition: str, ready: Ready) -> RangeAnswer:
        """Bytes from ``start`` to ``stop``, or to the end.  condition: where not "", the ETag that it must have; ready:
        awaited before memory is taken for the bytes, while the answer may be on its way already."""

    @abstractmethod
    async def identity(self) -> Identity:
        """Without any of the bytes; for what has none."""

    @abstractmethod
    async def put(self, path: Path, new: bool) -> None:
        """Make it of a file, visible only when whole; new: FileExistsError where there is one."""

    @abstractmethod
    async def delete(self) -> None:
        """Remove the object."""

    def missing(self) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, "no such object", self.url)

    def denied(self, what: str) -> InputError:
        return InputError(
            f"{self.url}: access is denied ({what}); give credentials in the environment, or a URL that is signed"
        )

    def in_no_parts(self) -> InputError:
        return InputError(f"{self.url}: its server gives no parts of an object; copy it to a disk and read it there")
