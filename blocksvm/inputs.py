"""Files that are read: each stays one and the same file for the whole of a run, and errors of the system name it."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from blocksvm.errors import InputError

# absolute path -> (device, number, bytes, time of the last change) as the run met it first; None outside of a run
_met: ContextVar[dict[str, tuple] | None] = ContextVar("met", default=None)


@contextmanager
def one_run() -> Iterator[None]:
    """While the body runs, an input that is opened again must be the file that it was at first."""
    if _met.get() is not None:
        yield
        return
    token = _met.set({})
    try:
        yield
    finally:
        _met.reset(token)


def require_same(path: str | Path, status: os.stat_result) -> None:
    """InputError where a run met another file, or other content, under this name before."""
    met = _met.get()
    if met is None or not stat.S_ISREG(status.st_mode):
        return
    found = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if met.setdefault(os.path.abspath(path), found) != found:
        raise InputError(f"{path}: was replaced or changed while this run was reading it; run it again")


def replaced(path: str | Path) -> None:
    """The run itself has written a new file of this name."""
    met = _met.get()
    if met is not None:
        met.pop(os.path.abspath(path), None)


class InputFile(io.FileIO):
    """A file opened for reading; OSError names it, also where reading fails."""

    def __init__(self, path: str | Path):
        super().__init__(path, "r")
        try:
            require_same(path, os.fstat(self.fileno()))
        except BaseException:
            self.close()
            raise

    def readinto(self, buffer) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.name)) from error

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.name)) from error


def open_input(path: str | Path) -> io.BufferedReader:
    """A file opened for reading bytes; OSError where it cannot be, InputError where the run met another one."""
    return io.BufferedReader(InputFile(path))
