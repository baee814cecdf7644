"""Matrices that numpy and scipy save: ``npz``, a sparse one (scipy.sparse.save_npz), and ``npy``, a dense one; and how
matrices of every format become rows.

A feature's id is its column, from 0.  Labels, numbers or strings, are a column of a dense matrix (``label``, from 1),
an array of that name in the .npz, or lie in a file of their own (``labels_from``).  Neither is read whole: a .npz,
whose matrix lies by rows, is decompressed as far as its rows are read; a .npy is mapped.
"""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import exact
from blocksvm.base.row_batch import Origin, RowBatch, runs
from blocksvm.files.input import open_input
from blocksvm.files.paths import location
from blocksvm.formats.file_reader import ENTRY_BYTES, FileFormat, RowPiece, damage_named, require_fit
from blocksvm.formats.format import EXPANSION, ParseBuffer, ReaderOptions
from blocksvm.formats.kernels.closing import BIG_NORM, BIG_VALUE, NO_ORIGINS, close_rows
from blocksvm.formats.kernels.numbers import FINE, NOT_FINITE
from blocksvm.formats.text.text_source import LineLimit

ROWS_AT_ONCE = 1 << 16  # of which the lengths are in memory
LONGEST_ITEM = 4096  # bytes of a number or label
DEFLATED = 1032  # times as long as its compressed bytes is the data at most
ARRAYS = {"indptr": "iu", "indices": "iu", "data": "biuf"}  # of a matrix by rows, and the kinds of their numbers
CHECKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # how much these can hold is known
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
Take = Callable[[int, int], Any]  # take(first, last): a part of an array, or of labels; the next one follows it


@dataclass(frozen=True)
class Features:
    """Features with names: ids (d,) int64, rising, none twice; the name of ids[j] is text[first[j]:last[j]]."""

    text: np.ndarray
    ids: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def name(self, j: int) -> str:
        return self.text[self.first[j] : self.last[j]].tobytes().decode()


@dataclass(frozen=True)
class SparseRows:
    """Rows as they were read: lengths (n,) int64 >= 0, ids (nnz,) int64, values (nnz,) float64, labels (n,) float64
    with nan, or objects with None; features: where they have names, all of them, of which ids are the positions;
    unlabelled: what is wrong where labels are wanted; ''."""

    lengths: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    features: Features | None = None
    unlabelled: str = ""


class MatrixReader:
    """Pieces of ``SparseRows``, which are its own, to rows."""

    expansion = EXPANSION

    def __init__(self, reading: ReaderOptions):
        self.reading = reading

    def parse(self, piece: RowPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        recipe = self.reading.recipe
        buffer = buffer or ParseBuffer()
        rows, fault = piece.payload, None
        if rows.unlabelled and self.reading.labelled:
            raise InputError(rows.unlabelled)
        n = len(rows.lengths)
        indptr = np.append(0, np.cumsum(rows.lengths, dtype=np.int64))
        ids, values, features = rows.ids, rows.values, rows.features
        done, code, entry, largest = close_rows(
            indptr, 0, n, ids, values, recipe.sums, recipe.l2, recipe.single, NO_ORIGINS
        )
        if code != FINE:
            first = indptr[done]
            infinite = np.flatnonzero(~np.isfinite(values[first : first + rows.lengths[done]]))
            if code == BIG_VALUE and len(infinite):
                code, entry = NOT_FINITE, first + infinite[0]
            name = ""
            if code != BIG_NORM:
                name = f"feature id {ids[entry]}" if features is None else features.name(ids[entry])
            fault = done, self.reading.fault_of(code, name)
        nnz, labels = indptr[done], rows.labels[:done]
        ids = ids[:nnz]
        names = None
        if features is not None:
            if self.reading.named:
                first = buffer.gathered("first of names", features.first, ids)
                names = features.text, first, buffer.gathered("last of names", features.last, ids)
            ids = buffer.gathered("ids", features.ids, ids)
        origin = Origin(piece.source, piece.fraction, n, np.arange(done))
        return RowBatch(
            labels.tolist() if labels.dtype == object else labels, indptr[: done + 1], ids, values[:nnz], origin,
            names=names, fault=fault, largest=largest,
        )  # fmt: skip


def sliced(array: Any) -> Take:
    return lambda first, last: array[first:last]


def csr_rows(
    name: str, shape: tuple[int, int], n_entries: int, arrays: list[Take], n_bytes: int, limit: LineLimit | None
) -> Iterator[tuple]:
    """(lengths, columns, values) of runs of rows of a matrix by rows, which take about ``n_bytes`` each."""
    (n_rows, n_columns), (indptr, indices, data) = shape, arrays
    most = n_bytes // ENTRY_BYTES
    ends = indptr(0, 1).astype(np.int64)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        stop = min(n_rows, start + ROWS_AT_ONCE)
        ends = np.append(ends[-1], indptr(start + 1, stop + 1).astype(np.int64))
        whole = 0 <= ends[-1] <= n_entries if stop < n_rows else ends[-1] == n_entries
        if (start == 0 and ends[0] != 0) or (np.diff(ends) < 0).any() or not whole:
            raise InputError(f"{name}: its indptr does not rise from 0 to {n_entries:,}; save it again")
        for first, last in runs(ends, most, max(1, most)):
            part = int(ends[first]), int(ends[last])
            require_fit(part[1] - part[0] if last - first == 1 else 0, limit, name)
            columns = indices(*part).astype(np.int64)
            if len(columns) and not (0 <= columns.min() and columns.max() < n_columns):
                wrong = f"{name}: a column of the rows from {start + first + 1} on is out of range; save it again"
                raise InputError(wrong)
            yield np.diff(ends[first : last + 1]), columns, data(*part).astype(np.float64)


def dense_rows(
    name: str, array: Any, n_bytes: int, limit: LineLimit | None, left_out: int | None = None
) -> Iterator[tuple]:
    """Likewise of a dense matrix; left_out: a column that is none of features."""
    n_rows, n_columns = array.shape
    require_fit(n_columns, limit, name)
    step = max(1, n_bytes // (2 * ENTRY_BYTES * max(1, n_columns)))
    for start in range(0, n_rows, step):
        dense = np.array(array[start : start + step], np.float64)
        if left_out is not None:
            dense[:, left_out] = 0.0
        rows, columns = np.nonzero(dense)
        yield np.bincount(rows, minlength=len(dense)), columns.astype(np.int64), dense[rows, columns]


def with_labels(rows: Iterator[tuple], n_rows: int, labels: Take | None, unlabelled: str = "") -> Iterator[tuple]:
    """(rows, fraction) as of ``FileFormat.pieces``."""
    first = 0
    for lengths, ids, values in rows:
        last = first + len(lengths)
        own = np.full(last - first, np.nan) if labels is None else labels(first, last)
        yield SparseRows(lengths, ids, values, own, unlabelled=unlabelled), last / n_rows
        first = last


class Member:
    """An array in a .npz that is read from its beginning on, as far as it is wanted; open as long as ``stack`` is."""

    def __init__(self, stack: ExitStack, archive: zipfile.ZipFile, key: str):
        self.name = str(archive.filename)
        self.where = f"{self.name}: the array {key}"
        if f"{key}.npy" not in archive.namelist():
            raise InputError(f"{self.where} is not there; save the matrix by scipy.sparse.save_npz")
        about = archive.getinfo(f"{key}.npy")
        with damage_named(self.name, f"{self.where} is damaged"):
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

    def take(self, first: int, last: int) -> np.ndarray:
        """The entries from first on, which follow those that were taken; behind the last one its checksum must hold."""
        wanted = (last - first) * self.dtype.itemsize
        with damage_named(self.name, f"{self.where} is damaged"):
            data = self.file.read(wanted)
            more = last == self.length and self.file.read(1)
        if len(data) < wanted:
            raise InputError(f"{self.where} is truncated; get it again")
        if more:
            raise InputError(f"{self.where} has more entries than it should; save it again")
        return np.frombuffer(data, self.dtype)


def mapped(name: str) -> np.ndarray:
    """A .npy as it lies on disk; InputError where it is none."""
    if not location(name).is_file():  # opening a pipe would wait for its other end
        raise InputError(f"{name}: {'is no file' if location(name).exists() else 'no such file'}")
    what = f"{name}: is no array of numbers or strings that numpy.save wrote"
    with damage_named(name, what, "save it again, objects as strings, as labels.astype(str) does"):
        return np.lib.format.open_memmap(name, mode="r")


def checked_labels(array: np.ndarray, where: str) -> np.ndarray:
    """Labels of a file, (n,): float64, or objects that are strings; InputError for what is neither."""
    if array.dtype.kind in "biuf":
        cure = "save them as strings, as labels.astype(str) does"
        try:
            return exact(array.astype(np.float64) + 0.0, array, cure)  # -0 is 0
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    if array.dtype.kind in "US":
        try:
            labels = [one.decode() if isinstance(one, bytes) else one for one in array.tolist()]
            "\n".join(labels).encode()
        except (ValueError, SystemError) as error:  # a letter beyond Unicode, or half of one
            raise InputError(f"{where}: a label is no text ({error}); save it again") from error
        return np.array(labels, object)
    raise InputError(f"{where}: its labels are of the type {array.dtype}; give numbers or strings")


def labels_of(take: Take, n_labels: int, n_rows: int, where: str, name: str) -> Take:
    """Labels that are checked; InputError where there are not as many as rows."""
    if n_labels != n_rows:
        raise InputError(f"{where}: has {n_labels:,} labels for the {n_rows:,} rows of {name}; give as many")
    return lambda first, last: checked_labels(take(first, last), where)


def labels_from(options: Mapping, n_rows: int, name: str) -> Take | None:
    """The labels of a file of their own, where there is one."""
    where = options["labels_from"]
    if where is None:
        return None
    array = mapped(where)
    if array.ndim != 1:
        raise InputError(f"{where}: has the shape {array.shape}; labels are one for each row")
    return labels_of(sliced(array), len(array), n_rows, where, name)


class Npz(FileFormat):
    name = "npz"
    lines = "a sparse matrix that scipy.sparse.save_npz wrote"
    reader = MatrixReader

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        with ExitStack() as stack:
            with damage_named(name):
                archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(open_input(name))))
            layout = Member(stack, archive, "format").take(0, 1).tobytes().decode("ascii", "replace")
            layout = "".join(filter(str.isalnum, layout))[:20]
            if layout != "csr":
                raise InputError(f"{name}: is stored as {layout}, which is not read; save X.tocsr() instead")
            shape = Member(stack, archive, "shape")
            if shape.length != 2:
                raise InputError(f"{name}: holds an array of {shape.length} dimensions; give a matrix")
            if shape.dtype.kind not in "iu":
                raise InputError(f"{name}: its shape is no whole numbers; save it again")
            n_rows, n_columns = shape.take(0, 2).astype(np.int64).tolist()
            arrays = [Member(stack, archive, key) for key in ARRAYS]
            kinds = [array.dtype.kind in allowed for array, allowed in zip(arrays, ARRAYS.values(), strict=True)]
            n_entries = arrays[2].length
            fitting = (arrays[0].length, arrays[1].length) == (n_rows + 1, n_entries)
            if not (all(kinds) and min(n_rows, n_columns) >= 0 and fitting):
                raise InputError(f"{name}: its arrays do not fit together; save it again")
            labels, unlabelled = labels_from(options, n_rows, name), ""
            label, others = options["label"], {one.removesuffix(".npy") for one in archive.namelist()}
            if labels is None and label in others:
                own = Member(stack, archive, label)
                labels = labels_of(own.take, own.length, n_rows, own.where, name)
            elif labels is None and label is not None:
                there = ", ".join(sorted(others - {"format", "shape", *ARRAYS})) or "none"
                wrong = f"{name}: has no array {label} of the labels; beside the matrix it has {there}"
                unlabelled = f"{wrong}; name one by {option('label')}, or a file by {option('labels_from')}"
            takes = [array.take for array in arrays]
            rows = csr_rows(name, (n_rows, n_columns), n_entries, takes, n_bytes, limit)
            yield from with_labels(rows, n_rows, labels, unlabelled)


class Npy(FileFormat):
    name = "npy"
    lines = "a dense matrix that numpy.save wrote"
    reader = MatrixReader

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        matrix = mapped(name)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise InputError(f"{name}: is {matrix.dtype} of the shape {matrix.shape}; give a matrix of numbers")
        n_rows, n_columns = matrix.shape
        labels, text, column = labels_from(options, n_rows, name), options["label"], None
        if labels is None and text is not None:
            if not text.isdigit() or not 1 <= int(text) <= n_columns:
                wrong = f"{name}: has no column {text}; name that of the labels by {option('label')}, 1 to {n_columns}"
                raise InputError(wrong)
            column = int(text) - 1
            labels = labels_of(sliced(matrix[:, column]), n_rows, n_rows, name, name)
        yield from with_labels(dense_rows(name, matrix, n_bytes, limit, column), n_rows, labels)


NPZ, NPY = Npz(), Npy()
