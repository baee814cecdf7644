"""Files that are read: each stays one and the same file for the whole of a run, and errors of the system name it."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from blocksvm.base.errors import InputError
from blocksvm.base.objects.remote_path import RemotePath, absolute_name, objects_met_once, place

BUFFERED = 1 << 16  # bytes of an object: no more than its first request brings


@dataclass
class InputsOfRun:
    """Of a run: each input by its absolute path, as (device, number, bytes, time of the last change) when it was met
    first; and the outputs that have taken their names."""

    met: dict[str, tuple] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)


_run: ContextVar[InputsOfRun | None] = ContextVar("run", default=None)


@contextmanager
def one_run() -> Iterator[InputsOfRun]:
    """While the body runs, an input that is opened again must be the file that it was at first."""
    before = _run.get()
    run = before or InputsOfRun()
    token = _run.set(run)
    try:
        with objects_met_once():
            yield run
    finally:
        _run.reset(token)


def names_of_inputs(inputs: str | Path | Iterable[str | Path]) -> list[str]:
    """A path or several, as Python users give them; InputError for rows in memory."""
    names = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    listed = [] if hasattr(names, "shape") or not isinstance(names, Iterable) else list(names)
    if not listed or not all(isinstance(name, str | os.PathLike) for name in listed):
        raise InputError(
            f"the input is {type(inputs).__name__}, and names of files are needed; write rows in memory to a file "
            "first, as table.to_parquet or scipy.sparse.save_npz does, or give them to fit and Model.predict"
        )
    return [os.fspath(name) for name in listed]


def require_same(path: str | Path, status: os.stat_result) -> None:
    """InputError where a run met another file, or other content, under this name before."""
    run = _run.get()
    if run is None or not stat.S_ISREG(status.st_mode):
        return
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if run.met.setdefault(absolute_name(path), identity) != identity:
        raise InputError(f"{path}: was replaced or changed while this run was reading it; run it again")


def note_written(path: Path) -> None:
    """An output of the run has taken its name: it is another file now."""
    run = _run.get()
    if run is not None:
        run.met.pop(absolute_name(path), None)
        run.written.append(path)


class InputFile(io.FileIO):
    """A file opened for reading; OSError names it, also where reading fails."""

    def __init__(self, path: str | Path):
        super().__init__(path, "r")
        try:
            require_same(path, os.fstat(self.fileno()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(OSError):  # nothing is lost of what was read
            super().close()

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


def raise_system_error(error: BaseException, name: str) -> None:
    """Raise the error of the system, with the file's name, that a library has met behind what it raised; nothing where
    there is none."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            raise OSError(cause.errno, os.strerror(cause.errno), name) from error
        cause = cause.__cause__ or cause.__context__


def open_input(path: str | Path) -> io.BufferedReader:
    """A file, or an object, opened for reading bytes; OSError where it cannot be, InputError where the run met another
    one."""
    where = place(path)
    if isinstance(where, RemotePath):
        from blocksvm.base.objects.object_file import ObjectFile

        return io.BufferedReader(ObjectFile(where, whole=True), BUFFERED)
    return io.BufferedReader(InputFile(path))
