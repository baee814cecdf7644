"""Matrices that numpy and scipy save: ``npz``, a sparse one (scipy.sparse.save_npz), and ``npy``, a dense one.

A feature's id is its column, from 0.  Labels are a column of a dense matrix (``label``, counted from 1), an array of
that name beside the matrix in the .npz (numpy.savez), or lie in a file of their own (``labels_from``), numbers or
strings.  Neither file is read whole: a .npz, whose matrix lies by rows, is decompressed as far as its rows are read; a
.npy is mapped.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import exact
from blocksvm.files.input import open_input
from blocksvm.files.paths import location
from blocksvm.formats.file_reader import (
    FileFormat,
    SparseRows,
    checked_labels,
    damage_named,
    require_fit,
    runs_of,
)
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.text.text_source import LineLimit

ROWS_AT_ONCE = 1 << 16  # of which the lengths are in memory
LONGEST_ITEM = 4096  # bytes of a number or label
DEFLATED = 1032  # times as long as its compressed bytes is the data at most
ARRAYS = ("indptr", "indices", "data")  # of a matrix by rows
CHECKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # how much these can hold is known
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Member:
    """An array in a .npz that is read from its beginning on, as far as it is wanted; open as long as ``stack`` is."""

    def __init__(self, stack: ExitStack, archive: zipfile.ZipFile, key: str):
        self.name = str(archive.filename)
        self.where = f"{self.name}: the array {key}"
        if f"{key}.npy" not in archive.namelist():
            raise InputError(f"{self.where} is not there; save the matrix by scipy.sparse.save_npz")
        about = archive.getinfo(f"{key}.npy")
        with self._damage_named():
            self.file = stack.enter_context(archive.open(about))
            header = HEADERS[np.lib.format.read_magic(self.file)]
            self.shape, fortran, self.dtype = header(self.file)
        plain = not self.dtype.hasobject and 0 < self.dtype.itemsize <= LONGEST_ITEM
        if not plain or len(self.shape) > 1:
            raise InputError(f"{self.where} is not a plain array of numbers or strings; save it as one")
        # what it claims, before memory is taken for it
        most = location(self.name).stat().st_size
        if about.compress_type == zipfile.ZIP_DEFLATED:
            most = DEFLATED * min(most, about.compress_size) + 1024
        claimed = self.length * self.dtype.itemsize
        if self.length < 0 or claimed > min(about.file_size, most if about.compress_type in CHECKED else claimed):
            raise InputError(f"{self.where} claims {claimed:,} bytes, more than it has; get it again")

    @property
    def length(self) -> int:
        return self.shape[0] if self.shape else 1

    def _damage_named(self) -> AbstractContextManager:
        return damage_named(self.name, f"{self.where} is damaged")

    def take(self, n: int) -> np.ndarray:
        wanted = n * self.dtype.itemsize
        with self._damage_named():
            data = self.file.read(wanted)
        if len(data) < wanted:
            raise InputError(f"{self.where} is truncated; get it again")
        return np.frombuffer(data, self.dtype)

    def finish(self) -> None:
        """InputError unless all of it was read, and its checksum holds."""
        with self._damage_named():
            more = self.file.read(1)
        if more:
            raise InputError(f"{self.where} has more entries than it should; save it again")


class Mapped:
    """A 1-D .npy of labels, taken from its beginning on."""

    def __init__(self, name: str):
        self.where = name
        self.array = mapped(name)
        if self.array.ndim != 1:
            raise InputError(f"{name}: has the shape {self.array.shape}; labels are one for each row")
        self.length, self.done = len(self.array), 0

    def take(self, n: int) -> np.ndarray:
        self.done += n
        return np.asarray(self.array[self.done - n : self.done])


def mapped(name: str) -> np.ndarray:
    """A .npy as it lies on disk; InputError where it is none."""
    if not location(name).is_file():  # opening a pipe would wait for its other end
        raise InputError(f"{name}: {'is no file' if location(name).exists() else 'no such file'}")
    what = f"{name}: is no array of numbers or strings that numpy.save wrote"
    with damage_named(name, what, "save it again, objects as strings, as labels.astype(str) does"):
        return np.lib.format.open_memmap(name, mode="r")


def labels_for(given: Mapped | Member | None, n_rows: int, name: str) -> Mapped | Member | None:
    """Where labels come from; InputError where there are not as many as rows."""
    if given is not None and given.length != n_rows:
        raise InputError(f"{given.where}: has {given.length:,} labels for the {n_rows:,} rows of {name}; give as many")
    return given


def next_labels(source: Mapped | Member | None, n: int) -> np.ndarray | list:
    return np.full(n, np.nan) if source is None else checked_labels(source.take(n), source.where)


def ends_of(name: str, indptr: Member, n: int, n_entries: int) -> Iterator[tuple[int, np.ndarray]]:
    """(first, where it and those after it begin and end) of runs of the n rows of a compressed matrix."""
    end = int(indptr.take(1)[0])
    if end != 0:
        raise InputError(f"{name}: its indptr does not rise from 0; save it again")
    for start in range(0, n, ROWS_AT_ONCE):
        ends = np.append(end, indptr.take(min(ROWS_AT_ONCE, n - start)).astype(np.int64))
        if (np.diff(ends) < 0).any() or ends[-1] > n_entries:
            raise InputError(f"{name}: its indptr does not rise; save it again")
        yield start, ends
        end = int(ends[-1])


def rows_of_csr(
    name: str, arrays: list[Member], n_rows: int, n_columns: int, n_bytes: int, limit: LineLimit | None
) -> Iterator[tuple]:
    """(first row, rows without labels) of runs of a matrix by rows."""
    indptr, indices, data = arrays
    for start, ends in ends_of(name, indptr, n_rows, data.length):
        for first, last in runs_of(ends, n_bytes):
            nnz = int(ends[last] - ends[first])
            require_fit(nnz if last - first == 1 else 0, limit, name)
            ids = indices.take(nnz).astype(np.int64)
            if nnz and not (0 <= int(ids.min()) and int(ids.max()) < n_columns):
                raise InputError(f"{name}: a column of the rows from {start + first + 1} on is out of range")
            values = data.take(nnz).astype(np.float64)
            yield start + first, SparseRows(np.diff(ends[first : last + 1]), ids, values, np.empty(0))


class Npz(FileFormat):
    name = "npz"
    lines = "a sparse matrix that scipy.sparse.save_npz wrote"

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        with ExitStack() as stack:
            with damage_named(name):
                archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(open_input(name))))
            layout = Member(stack, archive, "format").take(1).tobytes().decode("ascii", "replace")
            layout = "".join(filter(str.isalnum, layout))[:20]
            if layout != "csr":
                raise InputError(f"{name}: is stored as {layout}, which is not read; save X.tocsr() instead")
            shape = Member(stack, archive, "shape")
            if shape.length != 2:
                raise InputError(f"{name}: holds an array of {shape.length} dimensions; give a matrix")
            if shape.dtype.kind not in "iu":
                raise InputError(f"{name}: its shape is no whole numbers; save it again")
            n_rows, n_columns = shape.take(2).astype(np.int64).tolist()
            arrays = [Member(stack, archive, key) for key in ARRAYS]
            kinds = [array.dtype.kind in allowed for array, allowed in zip(arrays, ("iu", "iu", "biuf"), strict=True)]
            n_entries = arrays[2].length
            fitting = (arrays[0].length, arrays[1].length) == (n_rows + 1, n_entries)
            if not (all(kinds) and min(n_rows, n_columns) >= 0 and fitting):
                raise InputError(f"{name}: its arrays do not fit together; save it again")
            labels = labels_for(self._labels(stack, archive, options), n_rows, name)
            wrong = self._unlabelled(name, archive, options)
            for first, part in rows_of_csr(name, arrays, n_rows, n_columns, n_bytes, limit):
                n = len(part.lengths)
                if first + n == n_rows:  # what follows may be wrong as a whole
                    for array in arrays:
                        array.finish()
                yield (replace(part, labels=next_labels(labels, n)), wrong), (first + n) / n_rows

    @staticmethod
    def _unlabelled(name: str, archive: zipfile.ZipFile, options: Mapping) -> str:
        """The sentence where there is no array of the name that was given for the labels; ''."""
        label, members = options["label"], archive.namelist()
        if options["labels_from"] is not None or label is None or f"{label}.npy" in members:
            return ""
        others = {one.removesuffix(".npy") for one in members} - {"format", "shape", *ARRAYS}
        return (
            f"{name}: has no array {label} of the labels; beside the matrix it has "
            f"{', '.join(sorted(others)) or 'none'}; name one by {option('label')}, or a "
            f"file by {option('labels_from')}"
        )

    @staticmethod
    def _labels(stack: ExitStack, archive: zipfile.ZipFile, options: Mapping) -> Mapped | Member | None:
        if options["labels_from"] is not None:
            return Mapped(options["labels_from"])
        if options["label"] is not None and f"{options['label']}.npy" in archive.namelist():
            return Member(stack, archive, options["label"])
        return None

    @staticmethod
    def rows_of(payload: tuple[SparseRows, str], reading: ReaderOptions) -> SparseRows:
        rows, wrong = payload
        if wrong and reading.labelled:
            raise InputError(wrong)
        return rows


class Npy(FileFormat):
    name = "npy"
    lines = "a dense matrix that numpy.save wrote"

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        matrix = mapped(name)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise InputError(f"{name}: is {matrix.dtype} of the shape {matrix.shape}; give a matrix of numbers")
        n_rows, n_columns = matrix.shape
        require_fit(n_columns, limit, name)
        column = None
        labels = None if options["labels_from"] is None else Mapped(options["labels_from"])
        if labels is None and options["label"] is not None:
            text = options["label"]
            if not text.isdigit() or not 1 <= int(text) <= n_columns:
                raise InputError(
                    f"{name}: has no column {text}; name that of the labels by {option('label')}, 1 to {n_columns}"
                )
            column = int(text) - 1
        labels = labels_for(labels, n_rows, name)
        step = max(1, n_bytes // (ENTRY_COST * max(1, n_columns)))
        for start in range(0, n_rows, step):
            stop = min(n_rows, start + step)
            yield (matrix[start:stop], column, next_labels(labels, stop - start)), stop / n_rows

    @staticmethod
    def rows_of(payload: tuple, reading: ReaderOptions) -> SparseRows:
        dense, column, labels = payload
        stored, dense = dense, np.array(dense, np.float64)
        if column is not None:
            cure = f"save the labels as strings, and name their file by {option('labels_from')}"
            labels = exact(dense[:, column] + 0.0, stored[:, column], cure)
            dense[:, column] = 0.0
        rows, ids = np.nonzero(dense)
        lengths = np.bincount(rows, minlength=len(dense))
        return SparseRows(lengths, ids.astype(np.int64), dense[rows, ids], labels)


ENTRY_COST = 24  # bytes that an entry of a dense matrix takes at most, twice as a number and once in its row
NPZ, NPY = Npz(), Npy()
