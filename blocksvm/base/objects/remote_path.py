"""The path of an object: a ``pathlib.Path`` whose questions are answered by its server."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING

from blocksvm.base.errors import InputError
from blocksvm.base.objects.object_settings import ObjectSettings
from blocksvm.base.objects.urls import FILE, is_url, without_secrets

if TYPE_CHECKING:
    from blocksvm.base.objects.remote_object import RemoteObject


@dataclass
class ObjectsOfRun:
    """Those that were met, by URL; settings: of those that will be."""

    met: dict[str, RemoteObject] = field(default_factory=dict)
    settings: ObjectSettings = field(default_factory=ObjectSettings)


_run: ContextVar[ObjectsOfRun | None] = ContextVar("objects", default=None)


@contextmanager
def objects_met_once() -> Iterator[None]:
    """While the body runs, a URL is one object in one state: what was asked of it is not asked again."""
    token = _run.set(_run.get() or ObjectsOfRun())
    try:
        yield
    finally:
        _run.reset(token)


def use_object_settings(settings: ObjectSettings) -> None:
    """Those of the objects that this run will meet."""
    run = _run.get()
    if run is not None:
        run.settings = settings


def object_settings() -> ObjectSettings:
    """Those of this run."""
    run = _run.get()
    return ObjectSettings() if run is None else run.settings


class RemotePath(PosixPath):
    """Of an object, as ``place`` makes it; outside a run, each path is an object of its own.  url: as it was given,
    of which the parts of a path have lost some characters ('//', '/.'); "" of a path that was made of another."""

    own: RemoteObject | None = None
    url = ""

    def __str__(self) -> str:
        if self.url:
            return self.url
        scheme, _, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest}"

    def __fspath__(self) -> str:
        return str(self)

    @property
    def remote(self) -> RemoteObject:
        from blocksvm.base.objects.remote_object import RemoteObject  # which takes a while to import

        if self.own is None:
            url, run = str(self), _run.get() or ObjectsOfRun()
            if url not in run.met:
                run.met[url] = RemoteObject(url, run.settings)
            self.own = run.met[url]
        return self.own

    def anew(self) -> RemotePath:
        """The same, of whatever state it is in now."""
        path = RemotePath(str(self))
        path.url = self.url
        path.use(object_settings())
        return path

    def use(self, settings: ObjectSettings) -> None:
        """From now on it is read as these say."""
        from blocksvm.base.objects.remote_object import RemoteObject

        self.own = RemoteObject(str(self), settings)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Of its bytes alone; FileNotFoundError where there is no such object."""
        size = self.remote.identity().size
        return os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def exists(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    is_file = exists

    def is_dir(self) -> bool:
        return False

    def is_symlink(self) -> bool:
        return False

    def is_absolute(self) -> bool:
        return True

    def absolute(self) -> RemotePath:
        return self

    def resolve(self, strict: bool = False) -> RemotePath:
        return self

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self.remote.delete()
        except FileNotFoundError:
            if not missing_ok:
                raise


def place(name: str | os.PathLike[str]) -> Path:
    """The path of a file, or of an object where the name is a URL; InputError for the URL of a file on another
    machine."""
    if isinstance(name, RemotePath):
        return name
    text = os.fspath(name)
    if is_url(text):
        path = RemotePath(url := without_secrets(text))
        path.url = url
        return path
    if text.startswith(FILE):
        if not text.startswith(f"{FILE}/"):
            raise InputError(f"{text}: names another machine; give the path of a file here, or another URL")
        return Path(text.removeprefix(FILE))
    return name if isinstance(name, Path) else Path(name)


def file_size(name: str | os.PathLike[str]) -> int | None:
    """Of a file or an object in bytes; None where there is none of this name, or it is no file."""
    path = place(name)
    return path.stat().st_size if path.is_file() else None


def absolute_name(name: str | os.PathLike[str]) -> str:
    """A name that means the same in every folder."""
    return str(place(name).absolute())


def local_place(path: Path, temp: Path | None = None) -> Path:
    """Where an output is made: beside it, of an object in ``temp`` (None: the system's folder for temporary files)."""
    return (temp or Path(tempfile.gettempdir())) / path.name if isinstance(path, RemotePath) else path
