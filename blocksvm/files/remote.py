"""One object in an object store (S3, Google, Azure, the web), by the library obstore, which makes requests again where
they fail; all that is read of it is of one state."""

import asyncio
import errno
import io
import os
import re
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from blocksvm.base.errors import InputError, require_library
from blocksvm.files.paths import READ_AHEAD, of_web, with_secrets

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https")
# of a request; how many times it is made again, within how long, after which pauses
PAUSES = {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=10), "base": 2}
RETRIES: Any = {"max_retries": 8, "retry_timeout": timedelta(minutes=3), "backoff": PAUSES}
CONNECTIONS = 128  # at once
SILENCE = 15.0  # seconds without a byte, after which an answer is given up
HEAD = 1 << 16  # bytes at an object's beginning that the first request asks for
WINDOW, LONG_WINDOW = 1 << 20, 1 << 22  # bytes of a request; of one where requests go ahead
KEPT, LONG_KEPT = 6, 2  # windows that are kept beside those that are asked for ahead
AHEAD = READ_AHEAD // LONG_WINDOW - LONG_KEPT
PART_BYTES, MOST_PARTS, PARTS_AT_ONCE = 8_000_000, 9_000, 4  # of an upload; S3 allows 10,000 parts
# what the environment may say of connections, as AWS_ALLOW_HTTP; the library forgets it where it is told anything else
OF_CLOUD = {"s3": "AWS", "s3a": "AWS", "gs": "GOOGLE"}  # others: Azure
CLIENT_SETTINGS = ("allow_http", "allow_invalid_certificates", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
                   "connect_timeout", "http2_only", "user_agent")  # fmt: skip
NO_NAME = re.compile(r"(^|/)(\.{0,2}|[^/]*[\x00-\x1f\x7f][^/]*)(/|$)")  # a part of a key that the library cannot name
STATUS = re.compile(r"status: (\d{3})|status (\d{3})|Status (\d{3})")
REASON = re.compile(r'(?:message|error): "([^"]+)"')

LOOP = asyncio.new_event_loop()  # of this process's requests, in a thread that ends with the process
threading.Thread(target=LOOP.run_forever, name="blocksvm-requests", daemon=True).start()


class Identity(NamedTuple):
    """The state of an object, as answers tell it; tag: what is another one when its bytes have changed."""

    size: int
    tag: str


class RemoteObject:
    """An object by its URL (without secrets); at most so many requests at once.

    What fails is one of four: InputError for what is denied, for an object that has changed and for all else, and
    FileNotFoundError where there is none.
    """

    def __init__(self, url: str, at_once: int = CONNECTIONS):
        self.url = url
        self.store, self.key = _opened(url)
        self.turn = asyncio.Semaphore(at_once)
        # answers that wait for room, and how many may: others always get a turn
        self.early, self.most_early = 0, at_once - max(1, min(8, at_once // 2))
        self.counting = threading.Lock()
        self.state: Identity | None = None
        self.etag = ""  # that requests demand; a weak one would never be met
        self.head = memoryview(b"")
        self.windows: dict[int, Future] = {}  # the last ones that were read, by number

    def identity(self) -> Identity:
        """Its state at the first answer, which brings its first bytes."""
        if self.state is None:
            self.head = self.read(0, HEAD)
        assert self.state is not None
        return self.state

    def read(self, start: int, stop: int) -> memoryview:
        """The bytes from ``start`` to ``stop``, or to the end."""
        return self.ask(start, stop).result()

    def ask(self, start: int, stop: int, room: asyncio.Event | None = None) -> Future:
        """The same, to be waited for; room: set when there is memory for the bytes, which the system holds back until
        then: so the time until an answer begins is nobody's."""
        return asyncio.run_coroutine_threadsafe(self._told(self._bytes(start, stop, room)), LOOP)

    def may_ask_early(self, n: int) -> bool:
        """Whether n more answers may wait for room, which are counted then, until ``came``."""
        with self.counting:
            may = self.early + n <= self.most_early
            self.early += n * may
        return may

    def came(self, n: int) -> None:
        """There is room for n of them, or they are wanted no longer."""
        with self.counting:
            self.early -= n

    async def _bytes(self, start: int, stop: int, room: asyncio.Event | None) -> memoryview:
        import obstore

        options: Any = {"range": (start, stop)} | ({"if_match": self.etag} if self.etag else {})
        async with self.turn:
            try:
                result = await obstore.get_async(self.store, self.key, options=options)
            except Exception as error:
                if self.state is not None or _status(error) != 416:
                    raise
                self._meet(await obstore.head_async(self.store, self.key))  # there is no byte to ask for
                return memoryview(b"")
            self._meet(result.meta)
            if room is not None:
                await room.wait()
            (begins, _), data = result.range, memoryview(await result.bytes_async())
        assert self.state is not None
        if (begins, len(data)) != (start, min(stop, self.state.size) - start):
            raise OSError(errno.EIO, f"{len(data)} bytes from byte {begins} on came for others")
        return data

    def _meet(self, meta) -> None:
        tag = meta["e_tag"] or ""
        state = Identity(meta["size"], tag or str(meta["last_modified"]))
        if self.state is None:
            self.state, self.etag = state, "" if tag.startswith("W/") else tag
        elif self.state != state:
            raise self._changed()

    def write(self, path: Path, new: bool) -> None:
        """Make it of a file, visible only when whole; new: FileExistsError where there is one already."""
        self._wait(self._put(path, new))

    async def _put(self, path: Path, new: bool) -> None:
        import obstore

        size = path.stat().st_size
        parts = size > PART_BYTES and not of_web(self.url)
        if parts and new:  # which S3 cannot ask for of an upload in parts
            try:
                await obstore.head_async(self.store, self.key)
            except FileNotFoundError:
                pass
            else:
                raise FileExistsError(self.url)
        await obstore.put_async(
            self.store, self.key, path, mode="create" if new and not parts else "overwrite", use_multipart=parts,
            chunk_size=max(PART_BYTES, -(-size // MOST_PARTS)), max_concurrency=PARTS_AT_ONCE,
        )  # fmt: skip

    def delete(self) -> None:
        self._wait(self._delete())

    async def _delete(self) -> None:
        import obstore

        await obstore.delete_async(self.store, self.key)

    def _wait(self, change: Coroutine) -> None:
        asyncio.run_coroutine_threadsafe(self._told(change), LOOP).result()
        self.state, self.etag, self.head = None, "", memoryview(b"")  # it is another one now
        self.windows.clear()

    async def _told(self, work: Coroutine) -> Any:
        """Its result; what the library fails with in a sentence."""
        from obstore import exceptions as known

        try:
            return await work
        except known.AlreadyExistsError as error:
            raise FileExistsError(self.url) from error
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "no such object", self.url) from error
        except (known.BaseError, OSError) as error:
            if isinstance(error, FileExistsError):
                raise
            status = _status(error)
            if isinstance(error, known.PreconditionError) or status in (412, 416):
                raise self._changed() from error
            missing = "redential" in str(error) and not status
            what = f"status {status}" if status else _reason(error)
            why = f"its server cannot be reached, or refuses the request ({what})"
            cure = "check the URL, the connection, and the settings in the environment"
            if missing or isinstance(error, known.PermissionDeniedError | known.UnauthenticatedError):
                what = "no credentials were found" if missing else status or what
                why, cure = f"access is denied ({what})", "give credentials in the environment, or a URL that is signed"
            raise InputError(f"{self.url}: {why}; {cure}") from error

    def _changed(self) -> InputError:
        return InputError(f"{self.url}: was replaced or changed while this run was reading it; run it again")


def _opened(url: str) -> tuple[Any, str]:
    """The library's store of an object, and the object's key in it."""
    scheme, _, rest = with_secrets(url).partition("://")
    if scheme.lower() not in SCHEMES:
        raise InputError(f"{url}: begins with {scheme}://; name an object by one of {', '.join(sorted(SCHEMES))}")
    require_library("obstore", "a URL")
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    if of_web(url):
        parts = urlsplit(with_secrets(url))
        folder, _, name = parts.path.rpartition("/")
        base, key = urlunsplit(parts._replace(path=folder)), unquote(name)
    else:
        bucket, _, key = rest.partition("/")
        base = f"{scheme.lower()}://{bucket}"
    if not key:
        raise InputError(f"{url}: names no object; give one with its key, as {url.rstrip('/')}/rows.svm")
    if NO_NAME.search(key):
        kind = "with a part that is empty, '.' or '..', or that has a control character"
        raise InputError(f"{url}: obstore cannot name a key {kind}; give the object another key")
    options: Any = {"read_timeout": f"{int(1000 * SILENCE)}ms", "timeout": "1h"}
    cloud = OF_CLOUD.get(scheme.lower(), "AZURE")
    for setting in CLIENT_SETTINGS:
        if value := os.environ.get(f"{cloud}_{setting.upper()}"):
            options[setting] = value == "true" if value in ("true", "false") else value
    if scheme.lower() == "http":
        options["allow_http"] = True
    for name in (f"{cloud}_ENDPOINT_URL", f"{cloud}_ENDPOINT"):
        if (value := os.environ.get(name)) and not of_web(value):
            raise InputError(f"{name}={value}: is no URL; give it with http:// or https://")
    try:
        return from_url(base, client_options=options, retry_config=RETRIES), key
    except (BaseError, ValueError) as error:
        why = f"cannot be opened ({_reason(error)})"
        raise InputError(f"{url}: {why}; check it, and the settings in the environment") from None


def _status(error: BaseException) -> int:
    """Of HTTP; 0 where there was no answer."""
    found = STATUS.search(str(error))
    return int(next(filter(None, found.groups()))) if found else 0


def _reason(error: BaseException) -> str:
    """A library's sentence without the URL's secrets, which it may quote."""
    if "BadScheme" in str(error):
        return "its endpoint has no TLS, and the environment does not allow that, as AWS_ALLOW_HTTP=true does"
    reasons = REASON.findall(str(error))  # of the connection, which the first line does not have
    text = reasons[-1] if reasons else str(error).partition("\n")[0]
    return re.sub(r"\S+://\S+", "the object", text)[:200]


class ObjectFile(io.RawIOBase):
    """An object as a file, read in windows of equal length; whole: to its end, so that requests go ahead."""

    def __init__(self, remote: RemoteObject, whole: bool = False):
        self.remote, self.size, self.position = remote, remote.identity().size, 0
        self.length, self.ahead, self.kept = (LONG_WINDOW, AHEAD, LONG_KEPT) if whole else (WINDOW, 0, KEPT)
        self.windows = {} if whole else remote.windows

    def __repr__(self) -> str:
        return self.remote.url

    name = property(__repr__)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.position = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.size}[whence] + offset
        return self.position

    def readinto(self, buffer) -> int:
        view, done = memoryview(buffer).cast("B"), 0
        while done < min(len(view), self.size - self.position + done):
            data = self._some(len(view) - done)
            view[done : done + len(data)] = data
            done += len(data)
            self.position += len(data)
        return done

    def _some(self, wanted: int) -> memoryview:
        """Bytes from the position on, one at least."""
        start, stop = self.position, min(self.position + wanted, self.size)
        if start < len(self.remote.head):
            return self.remote.head[start:stop]
        if stop - start > self.length and not self.ahead:
            return self.remote.read(start, stop)
        first = start // self.length
        for k in range(first, min(first + self.ahead, (self.size - 1) // self.length) + 1):
            asked = self.windows.pop(k, None)
            self.windows[k] = asked or self.remote.ask(k * self.length, min((k + 1) * self.length, self.size))
        for k in list(self.windows)[: -(self.ahead + self.kept)]:
            self.windows.pop(k).cancel()
        return self.windows[first].result()[start - first * self.length : stop - first * self.length]

    def close(self) -> None:
        for asked in self.windows.values() if self.ahead else ():
            asked.cancel()
        super().close()
