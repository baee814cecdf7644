"""The external shuffle: rows go to buckets by the upper bits of their keys, in memory first, then on disk.  The final
order is by (key, row number); buckets only cut that into pieces that fit in memory, so their number changes nothing."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.files.input import named_errors
from blocksvm.kernels.shuffle import gather_rows

MARGIN_BYTES = 64_000_000  # disk space that is left alone
# of a row: its number in the source, its key in the order, its label as ``LabelTable.keep`` gives it, its weight, and
# how many entries and words it has
SPOOLED = np.dtype([("number", np.int64), ("key", np.uint64), ("label", np.float64), ("weight", np.float64),
                    ("length", np.uint32), ("size", np.uint32)])  # fmt: skip
RAW = np.dtype((np.void, SPOOLED.itemsize))  # numpy joins records field by field, which takes longer


@dataclass(frozen=True)
class SpooledRows:
    """Rows on their way: records (n,) ``SPOOLED``, words (m,) uint64: positions in the table of ids with their values,
    packed as if none were hot."""

    records: np.ndarray
    words: np.ndarray

    @property
    def n_bytes(self) -> int:
        return self.records.nbytes + self.words.nbytes


class Spool:
    """Rows in ``2**bits`` buckets by the upper ``bits`` of their keys below ``skipped`` bits.

    Holds up to ``memory`` bytes (which the owner may change at any time), then appends to one file a bucket in
    ``folder``: half of it is written by ``writer``, one job at a time, while the other half fills.  The files have no
    names, so that the system takes them back however this process ends; ``opened`` closes those that were not read.
    """

    def __init__(
        self, folder: Path, opened: ExitStack, bits: int, memory: int, writer: ThreadPoolExecutor, skipped: int = 0
    ):
        self.folder, self.opened, self.writer, self.bits = folder, opened, writer, bits
        self.skipped, self.memory = skipped, memory
        self.held: list[list[SpooledRows]] = [[] for _ in range(1 << bits)]
        self.held_bytes = 0
        self.writing: Future | None = None
        self.writing_bytes = 0
        self.sizes = np.zeros(1 << bits, np.int64)
        self.files: dict[int, IO[bytes]] = {}  # of buckets
        self.n_rows = 0
        self.n_nonzeros = 0

    def add(self, rows: SpooledRows) -> None:
        buckets, records = 1 << self.bits, rows.records
        if len(records) == 0:
            return
        self.n_rows += len(records)
        self.n_nonzeros += int(records["length"].sum(dtype=np.int64))
        if buckets == 1:
            self._hold(0, rows)
        else:
            target = (records["key"] << np.uint64(self.skipped) >> np.uint64(64 - self.bits)).astype(np.uint16)
            starts = np.append(0, np.cumsum(np.bincount(target, minlength=buckets)))
            order = np.argsort(target, kind="stable")  # by counting, as they are of 16 bits
            indptr = np.append(0, np.cumsum(records["size"], dtype=np.int64))
            sizes, words = np.empty(len(records), np.uint32), np.empty_like(rows.words)
            gather_rows(indptr, rows.words, None, order, sizes, words, None)
            records, ends = np.take(records, order), np.append(0, np.cumsum(sizes, dtype=np.int64))[starts]
            for bucket in np.flatnonzero(np.diff(starts)).tolist():
                part = records[starts[bucket] : starts[bucket + 1]]
                self._hold(bucket, SpooledRows(part, words[ends[bucket] : ends[bucket + 1]]))
        if self.writing is not None and self.writing.done():
            self.settle()
        if self.held_bytes > self.memory / 2 and self.held_bytes + self.writing_bytes > self.memory:
            self._spill()

    def _hold(self, bucket: int, rows: SpooledRows) -> None:
        self.held[bucket].append(rows)
        self.held_bytes += rows.n_bytes
        self.sizes[bucket] += rows.n_bytes

    def _spill(self) -> None:
        """Begin to write what is held, when the last time's is written."""
        self.settle()
        cure = f"name a larger folder with {option('temp')}"
        require_space(self.folder, self.held_bytes, "the external shuffle", cure)
        self.writing = self.writer.submit(self._append, self.held)
        self.writing_bytes, self.held_bytes = self.held_bytes, 0
        self.held = [[] for _ in self.held]

    def settle(self) -> None:
        """Wait for what is being written; its errors are raised here."""
        if self.writing is not None:
            writing, self.writing, self.writing_bytes = self.writing, None, 0
            writing.result()

    def _append(self, held: list[list[SpooledRows]]) -> None:
        for bucket, parts in enumerate(held):
            if not parts:
                continue
            if len(held) > 1:
                # in one piece: many small ones are slow to read back (a single bucket's are large, and read in turn)
                parts = [join(parts)]
            with named_errors(self.folder):
                if bucket not in self.files:
                    file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
                    self.files[bucket] = self.opened.enter_context(file)
                for rows in parts:
                    for array in (np.array([len(rows.records), len(rows.words)]), rows.records, rows.words):
                        self.files[bucket].write(np.ascontiguousarray(array).view(np.uint8).data)
                self.files[bucket].flush()
            held[bucket] = []

    def read(self, bucket: int) -> Iterator[SpooledRows]:
        """The rows of a bucket in the order they were added, once; once it is settled, in any thread."""
        self.settle()
        if bucket in self.files:
            with self.files.pop(bucket) as file:
                end = file.tell()
                file.seek(0)
                take = partial(self._take, file)
                while file.tell() < end:
                    n, n_words = take(np.int64, 2).tolist()
                    yield SpooledRows(take(SPOOLED, n), take(np.uint64, n_words))
        parts, self.held[bucket] = self.held[bucket], []
        yield from parts

    def _take(self, file: IO[bytes], dtype, n: int) -> np.ndarray:
        """The next n elements of a file."""
        array = np.empty(n, dtype)
        with named_errors(self.folder):
            if file.readinto(array.view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
                raise OSError(errno.EIO, "a temporary file is shorter than what was written to it")
        return array


def join(parts: list[SpooledRows]) -> SpooledRows:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    records = np.concatenate([p.records.view(RAW) for p in parts]).view(SPOOLED)
    return SpooledRows(records, np.concatenate([p.words for p in parts]))


def require_space(folder: Path, n_bytes: int, purpose: str, cure: str) -> None:
    """InputError where the disk under ``folder`` has less than ``n_bytes`` free, and a margin."""
    free = shutil.disk_usage(folder).free
    if free < n_bytes + MARGIN_BYTES:
        raise InputError(
            f"{folder}: {free / 1e6:,.0f} MB free, but {purpose} needs {(n_bytes + MARGIN_BYTES) / 1e6:,.0f} MB; {cure}"
        )
