"""AnnData files (.h5ad, as anndata 0.7 and later write them): the matrix X, a column of obs, names of var."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod

import h5py
import numpy as np

from blocksvm.base.errors import InputError, option, printable
from blocksvm.base.row_batch import runs
from blocksvm.store.hdf5_files import first_line, has, kind_of_member, member

AT_ONCE = 1 << 16  # rows or columns, at most, of which lengths, names and labels are in memory
SHOWN = 12  # columns of obs in a sentence


class Fault(Exception):
    """A sentence on a file, without its name."""


@contextmanager
def opened(path: str, memory: int, at_once: int) -> Iterator[AnnData]:
    """The file; at_once: rows or columns of which lengths, names and labels are in memory.  InputError names it, in
    what is done meanwhile, too."""
    import hdf5plugin  # noqa: F401 - the filters that anndata's users choose

    try:
        with h5py.File(path, "r", locking=False, rdcc_nbytes=memory // 8) as file:
            yield AnnData(file, min(AT_ONCE, at_once), memory)
    except (InputError, MemoryError):
        raise
    except Fault as fault:
        raise InputError(f"{path}: {printable(str(fault))}") from None
    except Exception as error:  # HDF5's faults come as any kind
        raise InputError(f"{path}: is damaged ({printable(first_line(error)[:200])}); get it again") from error


Column = Callable[[int, int], np.ndarray | list]  # take(first, last): numbers float64 with nan, or strings with None


class AnnData:
    """An open file, whose parts are checked before anything is read: they lie in this file, as much of them as they
    claim, in HDF5 chunks that fit in memory.  Fault, ValueError or what h5py raises for what is wrong."""

    def __init__(self, file: h5py.File, at_once: int, memory: int):
        self.file, self.at_once, self.memory = file, at_once, memory
        there = kind_of_member(file, "X")
        if there is None:
            raise Fault(f"has no X{_elsewhere(file)}")
        self.X = member(file, "X", there)
        self.kind = "array" if there is h5py.Dataset else _text(self.X.attrs.get("encoding-type", "a group"))
        if self.kind not in ("csr_matrix", "array"):
            raise Fault(f"its X is stored as {self.kind}, which is not read; write adata with X.tocsr()")
        self.sparse = self.kind != "array"
        parts = [self._dataset(self.X, name) for name in ("indptr", "indices", "data")] if self.sparse else [self.X]
        shape = self.X.attrs["shape"] if self.sparse else self.X.shape
        if len(shape) != 2:
            raise Fault(f"its X has {len(shape)} dimensions; give a matrix")
        self.n_rows, self.n_columns = (int(n) for n in shape)
        if self.sparse:
            self.indptr, self.indices, self.data = parts
            alike = self.indices.ndim == 1 and self.indices.shape == self.data.shape
            if self.indptr.shape != (self.n_rows + 1,) or not alike:
                raise ValueError("the parts of X are not as long as they should be")
        self.n_entries = self.data.shape[0] if self.sparse else self.n_rows * self.n_columns
        for part, kinds in zip(parts, ("iu", "iu", "biuf") if self.sparse else ("biuf",), strict=True):
            self._check(part)
            if part.dtype.kind not in kinds:
                raise Fault(f"its {part.name} is of the type {part.dtype}; give numbers")
        self.names = self._column(self._table("var"), None, self.n_columns, "var")

    def pieces(self, n: int) -> Iterator[tuple[int, int]]:
        for start in range(0, n, self.at_once):
            yield start, min(start + self.at_once, n)

    def labels(self, name: str) -> Column:
        return self._column(self._table("obs"), name, self.n_rows, "obs")

    def _table(self, name: str) -> h5py.Group:
        if kind_of_member(self.file, name) is h5py.Dataset:
            raise Fault(f"its {name} is stored as anndata before 0.7 did; write it anew with a later one")
        return member(self.file, name, h5py.Group)

    def _dataset(self, group: h5py.Group, name: str) -> h5py.Dataset:
        dataset = member(group, name)
        if dataset.ndim < 1:
            raise ValueError(f"{dataset.name} is no array")
        return dataset

    def _check(self, dataset: h5py.Dataset, length: int | None = None) -> h5py.Dataset:
        """Fault or ValueError unless it has the length, and the file all of it."""
        if length is not None and dataset.shape != (length,):
            raise Fault(f"its {dataset.name} has {dataset.shape[0]} entries for the {length} of X; mend it")
        n_bytes = dataset.size * dataset.dtype.itemsize
        if dataset.chunks is not None:
            one = prod(dataset.chunks) * dataset.dtype.itemsize
            if 2 * one > self.memory:
                size = f"{one / 1e6:,.0f} MB"
                cure = f"raise {option('memory')}, or write smaller ones"
                raise Fault(f"its {dataset.name} is stored in chunks of {size}; {cure}")
            wanted = prod(-(-n // chunk) for n, chunk in zip(dataset.shape, dataset.chunks, strict=True))
            whole = dataset.id.get_num_chunks() >= wanted
        else:
            whole = n_bytes <= os.path.getsize(self.file.filename)
        if not whole:
            raise ValueError(f"{dataset.name} claims more than the file holds")
        return dataset

    def _column(self, table: h5py.Group, name: str | None, length: int, where: str) -> Column:
        """A column of a table by its name, or its index."""
        index = _text(table.attrs["_index"])
        wanted = index if name is None else name
        there = kind_of_member(table, wanted)
        if there is None or wanted == "__categories":
            columns = [one for one in table if one not in (index, "__categories")][:SHOWN]
            raise Fault(f"{where} has no column {wanted}; its columns are {', '.join(columns)}")
        if there is h5py.Group:
            column = member(table, wanted, h5py.Group)
            if has(column, "codes") and has(column, "categories"):
                codes, categories = self._dataset(column, "codes"), column
            elif has(column, "values") and has(column, "mask"):
                values = self._plain(self._dataset(column, "values"), length)
                mask = self._check(self._dataset(column, "mask"), length)
                return lambda first, last: _masked(values(first, last), mask[first:last].astype(bool))
            else:
                raise Fault(f"the column {wanted} of {where} is neither an array, categorical nor nullable")
        else:
            codes = self._dataset(table, wanted)
            if "categories" not in codes.attrs:
                return self._plain(codes, length)
            categories = member(table, "__categories", h5py.Group)  # as anndata 0.7 wrote them
        known = self._categories(categories, wanted if categories.name.endswith("__categories") else "categories")
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
        dataset = self._dataset(group, name)
        known = self._plain(dataset, len(dataset))(0, len(dataset))
        return [*known, None] if isinstance(known, list) else np.append(known, np.nan)

    def _plain(self, dataset: h5py.Dataset, length: int) -> Column:
        self._check(dataset, length)
        if h5py.check_string_dtype(dataset.dtype) is not None:
            return lambda first, last: dataset.asstr()[first:last].tolist()
        if dataset.dtype.kind not in "biuf":
            raise Fault(f"its {dataset.name} is of the type {dataset.dtype}; give numbers or strings")
        return lambda first, last: dataset[first:last].astype(np.float64)

    def rows(self, n_entries: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(lengths, columns, values) of runs of rows of about so many entries; a row at least."""
        if not self.sparse:
            step = max(1, n_entries // max(1, self.n_columns))
            for start in range(0, self.n_rows, step):
                dense = self.X[start : start + step].astype(np.float64)
                rows, columns = np.nonzero(dense)
                yield np.bincount(rows, minlength=len(dense)), columns.astype(np.int64), dense[rows, columns]
            return
        for start, stop in self.pieces(self.n_rows):
            ends = self.indptr[start : stop + 1].astype(np.int64)
            if ends[0] < 0 or (np.diff(ends) < 0).any() or ends[-1] > self.n_entries:
                raise ValueError("its indptr does not rise")
            for first, last in runs(ends, n_entries):
                part = slice(int(ends[first]), int(ends[last]))
                columns, values = self.indices[part].astype(np.int64), self.data[part].astype(np.float64)
                if len(columns) and not (0 <= columns.min() and columns.max() < self.n_columns):
                    raise Fault("X is damaged (a column is out of range); get it again")
                yield np.diff(ends[first : last + 1]), columns, values


def _text(value) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _elsewhere(file: h5py.File) -> str:
    """The advice where there is no X."""
    layers = list(member(file, "layers", h5py.Group))[:SHOWN] if has(file, "layers") else []
    if layers:
        return f" (its layers: {', '.join(layers)}); set adata.X to the one that is meant, and write it anew"
    return " (it has raw); write adata.raw.to_adata()" if has(file, "raw") else "; give it a matrix"


def _masked(column: np.ndarray | list, mask: np.ndarray) -> np.ndarray | list:
    if isinstance(column, list):
        return [None if gone else word for word, gone in zip(column, mask.tolist(), strict=True)]
    return np.where(mask, np.nan, column)
