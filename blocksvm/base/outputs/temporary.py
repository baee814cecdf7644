"""Temporary files and folders: their names tell the process that owns them, and a later run removes what a killed one
has left."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import IO

import numpy as np
from xxhash import xxh3_64_hexdigest

UNKNOWN = "unknown"  # start of a process of which the system does not tell it
LONGEST_STEM = 150  # bytes of an output's name within a temporary one

_numbers = count()  # of this process's temporary files


@cache
def _machine() -> str:
    """Tells machines, and containers with process numbers of their own, apart."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return xxh3_64_hexdigest(f"{socket.gethostname()} {space}".encode())[:8]


def _start_of(pid: int) -> str | None:
    """When a process began, in the system's ticks, ``UNKNOWN`` where the system does not say; None where it does not
    live."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if os.path.exists("/proc/self/stat") or not _lives(pid) else UNKNOWN
    except (OSError, ValueError):
        return UNKNOWN
    return None if fields[0] in "ZX" else fields[19]


def _lives(pid: int) -> bool:
    """There is a process of this number; for systems without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True


def owner() -> str:
    """This process, as temporary names tell it: number, start and machine."""
    return f"{os.getpid()}-{_start_of(os.getpid())}-{_machine()}"


def is_abandoned(name_of_owner: str) -> bool:
    """The process does not live any more; False where that cannot be known (another machine's)."""
    pid, start, machine = name_of_owner.split("-")
    return machine == _machine() and _start_of(int(pid)) not in (start, UNKNOWN)


def _stem(name: str) -> str:
    return name if len(os.fsencode(name)) <= LONGEST_STEM else xxh3_64_hexdigest(os.fsencode(name))


def remove_abandoned(folder: Path, name: str) -> None:
    """Remove what killed runs that were writing an output of this name have left in ``folder``."""
    pattern = re.compile(rf"\.{re.escape(_stem(name))}\.(\d+-\d+-[0-9a-f]{{8}})(\.\w+)?\.(partial|shuffle)")
    with suppress(OSError):
        for entry in os.scandir(folder):
            match = pattern.fullmatch(entry.name)
            if match and is_abandoned(match[1]):
                if entry.is_dir(follow_symlinks=False):
                    _remove(entry.path)
                else:
                    with suppress(OSError):
                        os.unlink(entry.path)


@contextmanager
def scratch_folder(place: Path, name: str) -> Iterator[Path]:
    """A folder in ``place`` for what is put aside while an output of this name is made; it goes with its contents."""
    remove_abandoned(place, name)
    folder = tempfile.mkdtemp(prefix=f".{_stem(name)}.{owner()}.", suffix=".shuffle", dir=place)
    try:
        yield Path(folder)
    finally:
        _remove(folder)


def _remove(folder: str) -> None:
    """Remove a folder with all that is in it; what cannot be removed goes with a later run."""
    for remove in (os.rmdir, shutil.rmtree, shutil.rmtree):  # an empty one need not be opened
        try:
            remove(folder)
        except FileNotFoundError:
            return
        except OSError:
            continue
        return


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


def temporary_name(target: Path) -> Path:
    """A name beside ``target`` under which it is written."""
    return target.with_name(f".{_stem(target.name)}.{owner()}.{next(_numbers)}.partial")
