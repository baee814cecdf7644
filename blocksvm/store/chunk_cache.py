"""Chunks of an object kept in a file of this machine, those of some units: the same ones in each reading.

Passes over all rows in turn defeat a cache of what was used last: each chunk is gone when it comes again.  So units are
chosen once, by a hash of their number, as many as there is room for, and stay.  The file begins with a checksum for
each chunk of the store (0: not there); then follow the chunks in the order in which units are chosen, so that a cache
that has grown or shrunk still has its chunks where they were.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from blocksvm.base.errors import InputError, option
from blocksvm.store.ranges import Span

SUM = np.dtype("<u8")


class ChunkCache:
    """sizes (n_chunks,) int64: of the chunks; units (n_units,) int64: their first chunks; n_bytes: room for data;
    identity: of the store's state, of which a cache that is found must be; folder: where the file stays, None: it goes
    when it is closed, whatever ends the process."""

    def __init__(self, sizes: np.ndarray, units: np.ndarray, n_bytes: int, identity: str, folder: str | None):
        lengths = np.diff(units, append=len(sizes))
        drawn = sorted(range(len(units)), key=lambda unit: xxh3_64_intdigest(unit.to_bytes(8, "little")))
        order = np.concatenate([np.arange(units[unit], units[unit] + lengths[unit]) for unit in drawn])
        ends = SUM.itemsize * len(sizes) + np.cumsum(sizes[order])
        fits = ends <= SUM.itemsize * len(sizes) + n_bytes
        self.offsets = np.full(len(sizes), -1, np.int64)  # -1: never kept
        self.offsets[order[fits]] = (ends - sizes[order])[fits]
        self.sizes = sizes
        self.descriptor = _opened(folder, xxh3_128_hexdigest(identity.encode()))
        table = os.pread(self.descriptor, SUM.itemsize * len(sizes), 0)
        self.sums = np.zeros(len(sizes), SUM)
        self.sums[: len(table) // SUM.itemsize] = np.frombuffer(table, SUM, len(table) // SUM.itemsize)
        self.sums[self.offsets < 0] = 0
        os.ftruncate(self.descriptor, int(ends[fits].max(initial=SUM.itemsize * len(sizes))))

    def has(self, chunk: int) -> bool:
        return self.sums[chunk] != 0

    def get(self, chunk: int) -> memoryview | None:
        """Its bytes, one span after the other; None where they are not there, or not as they were written."""
        if not self.has(chunk):
            return None
        data = os.pread(self.descriptor, int(self.sizes[chunk]), int(self.offsets[chunk]))
        if _sum(data) != self.sums[chunk]:
            self.sums[chunk] = 0
            return None
        return memoryview(data)

    def put(self, chunk: int, spans: Sequence[memoryview]) -> None:
        """Keep a chunk, if it is one of those that are kept; where the disk takes no more, it is not there."""
        if self.offsets[chunk] < 0 or self.has(chunk):
            return
        data = b"".join(spans)
        with suppress(OSError):
            if os.pwrite(self.descriptor, data, int(self.offsets[chunk])) == len(data):
                self.sums[chunk] = _sum(data)
                os.pwrite(self.descriptor, self.sums[chunk].tobytes(), SUM.itemsize * chunk)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def _sum(data: bytes) -> int:
    return xxh3_64_intdigest(data) or 1


def _opened(folder: str | None, name: str) -> int:
    """A descriptor of the file of this name, held alone; of one without a name where another run holds it, or there is
    no folder."""
    if folder is not None:
        try:
            descriptor = os.open(Path(folder) / f"blocksvm-{name}.cache", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InputError(
                f"{option('cache_dir', folder)}: cannot be written to ({(error.strerror or str(error)).lower()}); name "
                "an existing folder"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        except OSError:  # a file system without locks
            return descriptor
        else:
            return descriptor
    with tempfile.TemporaryFile(prefix="blocksvm-", suffix=".cache", dir=folder) as file:
        return os.dup(file.fileno())


def spans_within(data: memoryview, spans: Sequence[Span]) -> list[tuple[int, memoryview]]:
    """A chunk's bytes as they are kept, as (where a span begins in the object, its bytes)."""
    parts, at = [], 0
    for start, stop in spans:
        parts.append((start, data[at : at + stop - start]))
        at += stop - start
    return parts
