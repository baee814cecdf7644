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


def open_alone(path: Path, output: Path, flags: int = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW) -> int:
    """A descriptor of a temporary file or folder of ``output``, locked until it and its duplicates are closed.  Raises
    InputError where another run holds it."""
    while True:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"{output}: is being made by another run now; choose another name, or wait for it"
            ) from None
        except OSError:  # a file system without locks
            return descriptor
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)  # who held it has given it its own name, or removed it


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
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = open_alone(folder, output, os.O_RDONLY)
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
