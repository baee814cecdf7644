"""Matrices that numpy and scipy save: ``npz``, a sparse one (scipy.sparse.save_npz), and ``npy``, a dense one; and rows
of the matrices of every format.

A feature's id is its column, from 0.  Labels, numbers or strings, are a column of a dense matrix (``label``, from 1),
an array of that name in the .npz, or lie in a file of their own (``labels_from``).  Neither is read whole: a .npz,
whose matrix lies by rows, is decompressed as far as its rows are read; a .npy is mapped.

``h5ad``: the matrix X of an AnnData file (of anndata 0.7 and later), the names of its variables, and a column of obs
(``label``) as labels.  A feature's id is the hash of its name, as of a table's column: files meet by names.
"""

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from typing import Any

import h5py
import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import exact
from blocksvm.base.row_batch import runs
from blocksvm.files.input import open_input
from blocksvm.files.paths import location
from blocksvm.formats.file_reader import ENTRY_BYTES, Features, FileFormat, SparseRows, damage_named, require_fit
from blocksvm.formats.kernels.name_hashes import hash_of
from blocksvm.formats.text.text_source import LineLimit
from blocksvm.store.hdf5_files import has, kind_of_member, member

ROWS_AT_ONCE = 1 << 16  # of which the lengths are in memory
LONGEST_ITEM = 4096  # bytes of a number or label
DEFLATED = 1032  # times as long as its compressed bytes is the data at most
ARRAYS = {"indptr": "iu", "indices": "iu", "data": "biuf"}  # of a matrix by rows, and the kinds of their numbers
CHECKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # how much these can hold is known
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
SPARED = 48 << 20  # bytes for HDF5's chunks, of the 300 MB that a command may take beside its budget
SHOWN_COLUMNS = 12  # columns of obs in a sentence
Take = Callable[[int, int], Any]  # take(first, last): a part of an array, or of labels; the next one follows it


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


def checked_labels(array: np.ndarray, where: str) -> np.ndarray | list:
    """Labels of a file: (n,) float64 of numbers, a list of strings; InputError for what is neither."""
    if array.dtype.kind in "biuf":
        try:
            return exact(
                array.astype(np.float64) + 0.0, array, "save them as strings, as labels.astype(str) does"
            )  # -0 is 0
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    if array.dtype.kind in "US":
        try:
            labels = [one.decode() if isinstance(one, bytes) else one for one in array.tolist()]
            "\n".join(labels).encode()
        except (ValueError, SystemError) as error:  # a letter beyond Unicode, or half of one
            raise InputError(f"{where}: a label is no text ({error}); save it again") from error
        return labels
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
                unlabelled = (
                    f"{name}: has no array {label} of the labels; beside the matrix it has "
                    f"{', '.join(sorted(others - {'format', 'shape', *ARRAYS})) or 'none'}; name one by "
                    f"{option('label')}, or a file by {option('labels_from')}"
                )
            takes = [array.take for array in arrays]
            rows = csr_rows(name, (n_rows, n_columns), n_entries, takes, n_bytes, limit)
            yield from with_labels(rows, n_rows, labels, unlabelled)


class Npy(FileFormat):
    name = "npy"
    lines = "a dense matrix that numpy.save wrote"

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


class H5ad(FileFormat):
    name = "h5ad"
    lines = "an AnnData file"

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        import hdf5plugin  # noqa: F401 - the filters that anndata's users choose

        memory = SPARED + 8 * (n_bytes if limit is None else max(n_bytes, limit.n_bytes))
        with (
            damage_named(name, f"{name}: is damaged"),
            h5py.File(name, "r", locking=False, rdcc_nbytes=memory // 8) as file,
        ):
            table = AnnData(name, file, memory)
            labels = None if options.get("label") is None else table.column("obs", options["label"])
            features, positions = features_of(table.column("var", None)(0, table.shape[1]), name)
            first, *others = table.arrays
            if others:
                takes = [sliced(array) for array in table.arrays]
                rows = csr_rows(name, table.shape, len(others[1]), takes, n_bytes, limit)
            else:
                rows = dense_rows(name, first, n_bytes, limit)
            for part, done in with_labels(rows, table.shape[0], labels):
                yield replace(part, ids=positions[part.ids], features=features), done


def features_of(names: np.ndarray | list, name: str) -> tuple[Features, np.ndarray]:
    """The columns of X by their names, and the position of each among them."""
    if not isinstance(names, list) or None in names:
        raise InputError(f"{name}: the names of var are no text, or one is missing; give each variable a name")
    words = [one.encode() for one in names]
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    begins = np.append(0, ends[:-1])[: len(ends)]
    ids = np.array([hash_of(word, np.uint64(0)) >> np.uint64(1) for word in words], np.int64)
    rising = np.argsort(ids, kind="stable")
    text = np.frombuffer(b"".join(words), np.uint8)
    features = Features(text, ids[rising], begins[rising], ends[rising])
    again = np.flatnonzero(np.diff(features.ids) == 0)
    if len(again):
        raise InputError(f"{name}: var names {features.name(again[0])} twice; rename one (var_names_make_unique)")
    positions = np.empty(len(ids), np.int64)
    positions[rising] = np.arange(len(ids))
    return features, positions


class AnnData:
    """An open file whose parts are checked before they are read: as much as they claim, in chunks that fit in memory.
    InputError, ValueError or what h5py raises for what is wrong.

    shape: of X; arrays: X alone, or those of ``ARRAYS``."""

    def __init__(self, name: str, file: h5py.File, memory: int):
        self.name, self.file, self.memory = name, file, memory
        there = kind_of_member(file, "X")
        if there is None:
            raise InputError(f"{name}: has no X{_elsewhere(file)}")
        X = member(file, "X", there)
        kind = "array" if there is h5py.Dataset else _text(X.attrs.get("encoding-type", "a group"))
        if kind not in ("csr_matrix", "array"):
            raise InputError(f"{name}: its X is stored as {kind}, which is not read; write adata with X.tocsr()")
        dense = kind == "array"
        self.arrays = [X] if dense else [member(X, key) for key in ARRAYS]
        shape = X.shape if dense else X.attrs["shape"]
        if len(shape) != 2:
            raise InputError(f"{name}: its X has {len(shape)} dimensions; give a matrix")
        self.shape = int(shape[0]), int(shape[1])
        lengths = [None] if dense else [self.shape[0] + 1, *2 * self.arrays[2].shape]
        for array, length, kinds in zip(self.arrays, lengths, ["biuf"] if dense else ARRAYS.values(), strict=True):
            self._check(array, length)
            if array.dtype.kind not in kinds:
                raise InputError(f"{name}: its {array.name} is of the type {array.dtype}; give numbers")

    def _check(self, dataset: h5py.Dataset, length: int | None = None) -> h5py.Dataset:
        """InputError or ValueError unless it has the length, and the file all of it."""
        if length is not None and dataset.shape != (length,):
            wrong = f"{self.name}: its {dataset.name} has {dataset.shape[0]} entries for the {length} of X; mend it"
            raise InputError(wrong)
        if dataset.chunks is not None:
            one = prod(dataset.chunks) * dataset.dtype.itemsize
            if 2 * one > self.memory:
                cure = f"raise {option('memory')}, or write smaller ones"
                raise InputError(f"{self.name}: its {dataset.name} is stored in chunks of {one / 1e6:,.0f} MB; {cure}")
            wanted = prod(-(-n // chunk) for n, chunk in zip(dataset.shape, dataset.chunks, strict=True))
            whole = dataset.id.get_num_chunks() >= wanted
        else:
            whole = dataset.size * dataset.dtype.itemsize <= os.path.getsize(self.name)
        if not whole:
            raise ValueError(f"{dataset.name} claims more than the file holds")
        return dataset

    def column(self, where: str, name: str | None) -> Take:
        """A column of obs or var by its name, or its index: numbers float64 with nan, or strings with None."""
        length = self.shape[where == "var"]
        if kind_of_member(self.file, where) is h5py.Dataset:
            wrong = f"{self.name}: its {where} is stored as anndata before 0.7 did; write it anew with a later one"
            raise InputError(wrong)
        table = member(self.file, where, h5py.Group)
        index = _text(table.attrs["_index"])
        wanted = index if name is None else name
        there = kind_of_member(table, wanted)
        if there is None or wanted == "__categories":
            columns = ", ".join([one for one in table if one not in (index, "__categories")][:SHOWN_COLUMNS])
            raise InputError(f"{self.name}: {where} has no column {wanted}; its columns are {columns}")
        if there is h5py.Group:
            column = member(table, wanted, h5py.Group)
            if has(column, "values") and has(column, "mask"):
                values = self._plain(member(column, "values"), length)
                mask = self._check(member(column, "mask"), length)
                return lambda first, last: _masked(values(first, last), mask[first:last].astype(bool))
            if not (has(column, "codes") and has(column, "categories")):
                wrong = f"{self.name}: the column {wanted} of {where} is neither an array, categorical nor nullable"
                raise InputError(wrong)
            codes, known = member(column, "codes"), self._categories(column, "categories")
        else:
            codes = member(table, wanted)
            if "categories" not in codes.attrs:
                return self._plain(codes, length)
            known = self._categories(member(table, "__categories", h5py.Group), wanted)  # as anndata 0.7 wrote them
        self._check(codes, length)
        if codes.dtype.kind not in "iu":
            raise ValueError(f"{codes.name} holds no codes")

        def taken(first: int, last: int) -> np.ndarray | list:
            own = np.maximum(codes[first:last].astype(np.int64), -1)
            if own.size and own.max() >= len(known) - 1:
                raise ValueError(f"a code lies beyond the categories of {codes.name}")
            return known[own] if isinstance(known, np.ndarray) else [known[code] for code in own.tolist()]

        return taken

    def _categories(self, group: h5py.Group, name: str) -> np.ndarray | list:
        """What the codes of a column mean, that of -1, which is none, at the end."""
        if kind_of_member(group, name) is h5py.Group:  # pandas' strings, none of which is missing here
            group, name = member(group, name, h5py.Group), "values"
        dataset = member(group, name)
        known = self._plain(dataset, len(dataset))(0, len(dataset))
        return [*known, None] if isinstance(known, list) else np.append(known, np.nan)

    def _plain(self, dataset: h5py.Dataset, length: int) -> Take:
        self._check(dataset, length)
        if h5py.check_string_dtype(dataset.dtype) is not None:
            return lambda first, last: dataset.asstr()[first:last].tolist()
        if dataset.dtype.kind not in "biuf":
            raise InputError(f"{self.name}: its {dataset.name} is of the type {dataset.dtype}; give numbers or strings")
        return lambda first, last: dataset[first:last].astype(np.float64) + 0.0  # -0 is 0


def _text(value) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _elsewhere(file: h5py.File) -> str:
    """The advice where there is no X."""
    layers = list(member(file, "layers", h5py.Group))[:SHOWN_COLUMNS] if has(file, "layers") else []
    if layers:
        return f" (its layers: {', '.join(layers)}); set adata.X to the one that is meant, and write it anew"
    return " (it has raw); write adata.raw.to_adata()" if has(file, "raw") else "; give it a matrix"


def _masked(column: np.ndarray | list, mask: np.ndarray) -> np.ndarray | list:
    if isinstance(column, list):
        return [None if gone else word for word, gone in zip(column, mask.tolist(), strict=True)]
    return np.where(mask, np.nan, column)


NPZ, NPY, H5AD = Npz(), Npy(), H5ad()
