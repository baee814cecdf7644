"""Locations: a file of this machine by its path, an object in an object store by its URL.

A URL of the web goes by the web's rules: percent-encoding, a query, a fragment.  In every other scheme all that follows
the bucket is the object's key, character by character.  What is a secret in a URL (a signature, a password) stays in
this process; neither shown nor written down.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit, urlunsplit

from blocksvm.base.errors import InputError

if TYPE_CHECKING:
    from blocksvm.files.remote import RemoteObject

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
FILE = "file://"
WEB = ("http", "https")
READ_AHEAD = 20_000_000  # bytes, at most, of an object that is read from its beginning to its end

_given: dict[str, str] = {}  # a URL without its secrets -> as it was given


def is_url(name: str) -> bool:
    """Whether a name is the URL of an object, and no file of this machine."""
    return URL.match(name) is not None and not name.startswith(FILE)


def of_web(url: str) -> bool:
    return url.partition("://")[0].lower() in WEB


def without_secrets(url: str) -> str:
    """A URL of the web without its query (which may be a signature), user and password; this process remembers the
    whole of it for requests.  Any other as it is."""
    if not of_web(url):
        return url
    parts = urlsplit(url)
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    if shown != url:
        _given[shown] = url
    return shown


def with_secrets(url: str) -> str:
    return _given.get(url, url)


def arguments_without_secrets(arguments: list[str]) -> list[str]:
    """The words of a command with their URLs as ``without_secrets`` has them, '--log=https://...' too; InputError where
    two of them would not be told apart any more."""
    whole: dict[str, str] = {}
    shown = []
    for word in arguments:
        option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        if is_url(value):
            clean = without_secrets(value)
            if whole.setdefault(clean, value) != value:
                raise InputError(f"{clean}: is given twice with different queries; name one object in one way")
            value = clean
        shown.append(option + equals + value)
    return shown


@dataclass(unsafe_hash=True)
class ObjectUrl:
    """The location of an object, with the methods of a ``pathlib.Path`` that files are asked for, too.

    url: without secrets.  Outside a run, each is an object of its own.
    """

    url: str
    own: "RemoteObject | None" = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.url = without_secrets(self.url)

    def __str__(self) -> str:
        return self.url

    __fspath__ = __str__

    def __reduce__(self) -> tuple:
        return ObjectUrl, (self.url,)

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def remote(self) -> "RemoteObject":
        from blocksvm.files.remote import RemoteObject  # which takes a while to import

        if self.own is None:
            run = _run.get() or Run()
            if self.url not in run.objects:
                run.objects[self.url] = RemoteObject(self.url)
            self.own = run.objects[self.url]
        return self.own

    def stat(self) -> os.stat_result:
        """Of its bytes alone; FileNotFoundError where there is no such object."""
        size = self.remote.identity().size
        return os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def exists(self) -> bool:
        try:
            self.remote.identity()
        except FileNotFoundError:
            return False
        return True

    is_file = exists

    def is_dir(self) -> bool:
        return False

    def absolute(self) -> Self:
        return self

    resolve = absolute

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self.remote.delete()
        except FileNotFoundError:
            if not missing_ok:
                raise


Location = Path | ObjectUrl


@dataclass
class Run:
    """What a run has met: objects by URL; files by absolute path, as (device, number, bytes, time of the last change);
    the outputs that have taken their names."""

    objects: "dict[str, RemoteObject]" = field(default_factory=dict)
    files: dict[str, tuple] = field(default_factory=dict)
    written: list[Location] = field(default_factory=list)


_run: ContextVar[Run | None] = ContextVar("run", default=None)


@contextmanager
def one_run() -> Iterator[Run]:
    """While the body runs, a location is one file, or one object, in one state."""
    run = _run.get() or Run()
    token = _run.set(run)
    try:
        yield run
    finally:
        _run.reset(token)


def require_same(path: str | Location, status: os.stat_result) -> None:
    """InputError where a run met another file, or other content, under this name before."""
    run = _run.get()
    if run is None or not stat.S_ISREG(status.st_mode):
        return
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if run.files.setdefault(absolute_name(path), identity) != identity:
        raise InputError(f"{path}: was replaced or changed while this run was reading it; run it again")


def note_written(path: Location) -> None:
    """An output of the run has taken its name: it is another file now."""
    if run := _run.get():
        run.files.pop(absolute_name(path), None)
        run.written.append(path)


def location(name: str | os.PathLike[str]) -> Location:
    """Of a file, or of an object where the name is a URL; InputError for the URL of a file on another machine."""
    if isinstance(name, ObjectUrl):
        return name
    text = os.fspath(name)
    if is_url(text):
        return ObjectUrl(text)
    if text.startswith(FILE):
        if not text.startswith(f"{FILE}/"):
            raise InputError(f"{text}: names another machine; give the path of a file here, or another URL")
        return Path(text.removeprefix(FILE))
    return name if isinstance(name, Path) else Path(name)


def location_given(name: str | os.PathLike[str] | None) -> Location | None:
    return None if name is None else location(name)


def file_size(name: str | os.PathLike[str]) -> int | None:
    """Of a file or an object in bytes; None of standard input ('-'), and where there is none, or it is no file."""
    path = location(name)
    return path.stat().st_size if name != "-" and path.is_file() else None


def absolute_name(name: str | os.PathLike[str]) -> str:
    """A name that means the same in every folder."""
    return str(location(name).absolute())
