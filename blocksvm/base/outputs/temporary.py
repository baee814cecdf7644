"""Temporary files and folders.  Those of an output have one name, and a lock that ends with its process: the next run
over the same output takes what a killed one has left."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np
from xxhash import xxh3_64_hexdigest

from blocksvm.base.errors import InputError

LONGEST_STEM = 150  # bytes of an output's name within a temporary one


def temporary_name(target: Path, ending: str = "partial") -> Path:
    """The name beside ``target`` under which it is written."""
    name = target.name
    stem = name if len(os.fsencode(name)) <= LONGEST_STEM else xxh3_64_hexdigest(os.fsencode(name))
    return target.with_name(f".{stem}.{ending}")


def hold(path: Path, output: Path, fresh: bool = False) -> int | None:
    """A locked descriptor of a temporary file or folder of ``output``, None where it has gone meanwhile.  fresh: this
    run has just made it.  Raises InputError where another run holds it, or where the file system cannot tell."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        held = isinstance(error, BlockingIOError)
        if fresh and not held:  # a file system without locks
            return descriptor
        os.close(descriptor)
        cure = "choose another name, or wait for it" if held else f"if none is, remove {path}"
        raise InputError(f"{output}: is being made by another run now; {cure}") from None
    if _lies_at(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


def _lies_at(descriptor: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def create_alone(path: Path, output: Path) -> int:
    """A descriptor of a new temporary file of ``output``, locked until it and its duplicates are closed; a file that a
    killed run has left goes.  Raises InputError as ``hold`` does."""
    while True:
        try:
            # new, for the file that was left may have its output's name, too (``writing._take_name``)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            if (left := hold(path, output)) is not None:
                os.unlink(path)
                os.close(left)
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another run has taken it for one that was left
            os.close(descriptor)
            continue
        except OSError:  # a file system without locks
            pass
        if _lies_at(descriptor, path):
            return descriptor
        os.close(descriptor)


@contextmanager
def scratch_folder(place: Path, output: Path | None = None) -> Iterator[Path]:
    """A folder in ``place`` for what is put aside; it goes with its contents.  output: the file that is made meanwhile,
    by which a later run knows the folder."""
    lock = None
    if output is None:
        folder = Path(tempfile.mkdtemp(prefix=".blocksvm-", dir=place))
    else:
        known = xxh3_64_hexdigest(os.fsencode(os.path.abspath(output)))[:8]
        folder = temporary_name(place / output.name, f"{known}.shuffle")
        while lock is None:
            fresh = True
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                fresh = False
            lock = hold(folder, output, fresh)
        for left in folder.iterdir():
            left.unlink()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def put_array(file: IO[bytes], array: np.ndarray) -> None:
    """Write the elements of an array to a temporary file."""
    file.write(np.ascontiguousarray(array).data)


def take_array(file, dtype, n: int, place: Path) -> np.ndarray:
    """The next n elements of a temporary file; OSError, which names ``place``, where it has fewer."""
    array = np.empty(n, dtype)
    try:
        filled = file.readinto(array.view(np.uint8))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(place)) from error
    if filled != array.nbytes:
        raise OSError(errno.EIO, "a temporary file is shorter than what was written to it", str(place))
    return array
