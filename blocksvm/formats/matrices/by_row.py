"""Rows of a matrix that is stored in another order, by columns or as triples: sorted on disk, in little memory.

The entries are distributed to files of as many rows each as fit in memory, in several rounds where one does not do; the
files have no names, so that nothing of them is left whatever happens.  They lie in the system's folder for such files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.files.output import named_errors, put_array, take_array
from blocksvm.formats.file_reader import SparseRows, require_fit, runs_of
from blocksvm.formats.text.text_source import LineLimit

ENTRY = np.dtype([("row", np.int64), ("column", np.int64), ("value", np.float64)])
MOST_FILES = 64  # open at once in a round
LENGTH_BYTES = 16  # that a row takes in memory beside its entries
MOST_EMPTY = 1000  # rows for each entry


def by_row(
    entries: Iterable[np.ndarray], n_rows: int, n_entries: int, n_bytes: int, limit: LineLimit | None, name: str
) -> Iterator[tuple]:
    """(first row, ``SparseRows`` without labels) of all rows, one run after the other, in the order of their columns.

    entries: arrays (ENTRY dtype), ``n_entries`` in all, rows 0 .. n_rows - 1; n_bytes: that entries take in memory,
    before they are sorted, and about those of a run; limit: the longest row.  InputError with the file's name where a
    row is longer, or where it claims rows of nothing without end.
    """
    if n_rows > MOST_EMPTY * (n_entries + 1000):
        raise InputError(f"{name}: claims {n_rows:,} rows and has {n_entries:,} entries; save it again")
    yield from _sorted(entries, 0, n_rows, n_entries, n_bytes, lambda n: require_fit(n, limit, name))


def _sorted(
    entries: Iterable[np.ndarray], first: int, last: int, n_entries: int, n_bytes: int, check: Callable[[int], None]
) -> Iterator[tuple]:
    """check(n): InputError where a row of n entries is too long."""
    wanted = -(-max(n_entries * ENTRY.itemsize, (last - first) * LENGTH_BYTES) // n_bytes)
    if wanted <= 1 or last - first <= 1:
        check(n_entries if last - first == 1 else 0)
        yield from _in_memory(np.concatenate([np.empty(0, ENTRY), *entries]), first, last, n_bytes)
        return
    width = -(-(last - first) // min(MOST_FILES, wanted))
    starts = range(first, last, width)
    place = Path(tempfile.gettempdir())
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(prefix="blocksvm-")) for _ in starts]
        sizes = np.zeros(len(files), np.int64)
        for part in entries:
            bucket = (part["row"] - first) // width
            part = part[np.argsort(bucket, kind="stable")]
            counts = np.bincount(bucket, minlength=len(files))
            sizes += counts
            ends = np.cumsum(counts)
            for file, start, end in zip(files, (ends - counts).tolist(), ends.tolist(), strict=True):
                with named_errors(place):
                    put_array(file, part[start:end])
        for file, start, size in zip(files, starts, sizes.tolist(), strict=True):
            with named_errors(place):
                file.seek(0)
            yield from _sorted(_read(file, size, n_bytes, place), start, min(start + width, last), size, n_bytes, check)
            file.close()


def _read(file, n_entries: int, n_bytes: int, place: Path) -> Iterator[np.ndarray]:
    at_once = max(1, n_bytes // ENTRY.itemsize)
    for start in range(0, n_entries, at_once):
        with named_errors(place):
            part = take_array(file, ENTRY, min(at_once, n_entries - start), place)
        yield part


def _in_memory(entries: np.ndarray, first: int, last: int, n_bytes: int) -> Iterator[tuple]:
    entries = entries[np.lexsort((entries["column"], entries["row"]))]
    lengths = np.bincount(entries["row"] - first, minlength=last - first)
    indptr = np.append(0, np.cumsum(lengths))
    columns, values = entries["column"].copy(), entries["value"].copy()
    for start, stop in runs_of(indptr, n_bytes):
        part = slice(indptr[start], indptr[stop])
        yield first + start, SparseRows(lengths[start:stop], columns[part], values[part], np.empty(0))
