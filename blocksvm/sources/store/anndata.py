"""AnnData files (.h5ad, as anndata 0.8 and later write them): the matrix X, a column of obs, names of var."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import h5py
import numpy as np

from blocksvm.errors import InputError
from blocksvm.rows import runs

LENGTHS_AT_ONCE = 1 << 16


class AnnData:
    """An open file.  n_rows, n_columns: of X; names: of its columns; by_columns: X is read by ``triples``."""

    def __init__(self, path: str):
        self.path = path
        try:
            self.file = h5py.File(path, "r")
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({str(error).splitlines()[0]}); get it again") from error
        try:
            self.X = self.file["X"]
            kind = self.X.attrs.get("encoding-type", "array")
            if kind not in ("csr_matrix", "csc_matrix", "array"):
                raise InputError(f"{path}: its X is stored as {kind}, which is not read; write adata with X.tocsr()")
            self.sparse, self.by_columns = kind == "csr_matrix", kind == "csc_matrix"
            shape = self.X.shape if kind == "array" else self.X.attrs["shape"]
            self.n_rows, self.n_columns = (int(n) for n in shape)
            var = self.file["var"]
            self.names = [str(name) for name in var[var.attrs["_index"]].asstr()[()].tolist()]
        except InputError:
            self.close()
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.close()
            raise InputError(f"{path}: is no AnnData file as anndata 0.8 and later write it ({error})") from error
        if len(self.names) != self.n_columns:
            self.close()
            raise InputError(f"{path}: var has {len(self.names)} names for the {self.n_columns} columns of X; mend it")

    def __enter__(self) -> AnnData:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()

    def columns_of_obs(self) -> list[str]:
        return [str(name) for name in self.file["obs"] if name != self.file["obs"].attrs.get("_index")]

    def labels(self, name: str):
        """take(first, last) of a column of obs: an array of numbers or strings; InputError where there is none."""
        try:
            column = self.file["obs"][name]
        except KeyError:
            found = ", ".join(self.columns_of_obs()[:12])
            raise InputError(f"{self.path}: obs has no column {name}; its columns are {found}") from None
        if isinstance(column, h5py.Group):
            try:
                categories, codes = column["categories"], column["codes"]
            except KeyError:
                raise InputError(f"{self.path}: the column {name} of obs is neither an array nor categorical") from None
            known = _strings(categories, 0, len(categories))
            return lambda first, last: _of_codes(known, codes[first:last])
        return lambda first, last: _strings(column, first, last)

    def entries(self, n_entries: int) -> Iterator[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]]:
        """(first row, last row, lengths, columns int64, values float64) of runs of rows of about so many entries."""
        with self._damage_named():
            if self.sparse:
                yield from self._stored(self.n_rows, self.n_columns, n_entries)
            else:
                yield from self._dense(n_entries)

    def triples(self, n_entries: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(rows, columns, values float64) of a matrix by columns, about so many at a time, a column at
        least."""
        with self._damage_named():
            for first, last, lengths, rows, values in self._stored(self.n_columns, self.n_rows, n_entries):
                yield rows, np.repeat(np.arange(first, last), lengths), values

    @property
    def n_entries(self) -> int:
        return len(self.X["data"])

    @contextmanager
    def _damage_named(self):
        try:
            yield
        except InputError:
            raise
        except (OSError, KeyError, ValueError) as error:
            raise InputError(f"{self.path}: X is damaged ({str(error).splitlines()[0]}); get it again") from error

    def _stored(self, n: int, n_across: int, n_entries: int):
        """Runs of the n rows of a matrix by rows, or of the n columns of one by columns."""
        for start in range(0, n, LENGTHS_AT_ONCE):
            ends = self.X["indptr"][start : min(start + LENGTHS_AT_ONCE, n) + 1].astype(np.int64)
            if (np.diff(ends) < 0).any():
                raise ValueError("its indptr does not rise")
            for row, stop in runs(ends, n_entries):
                columns = self.X["indices"][ends[row] : ends[stop]].astype(np.int64)
                values = self.X["data"][ends[row] : ends[stop]].astype(np.float64)
                if len(columns) != ends[stop] - ends[row] or len(values) != len(columns):
                    raise ValueError("it is shorter than its indptr says")
                if len(columns) and not (0 <= columns.min() and columns.max() < n_across):
                    raise ValueError(f"a {'column' if self.sparse else 'row'} is out of range")
                yield start + row, start + stop, np.diff(ends[row : stop + 1]), columns, values

    def _dense(self, n_entries: int):
        step = max(1, n_entries // max(1, self.n_columns))
        for start in range(0, self.n_rows, step):
            dense = self.X[start : min(start + step, self.n_rows)].astype(np.float64)
            rows, columns = np.nonzero(dense)
            lengths = np.bincount(rows, minlength=len(dense))
            yield start, start + len(dense), lengths, columns.astype(np.int64), dense[rows, columns]


def _strings(column: h5py.Dataset, first: int, last: int) -> np.ndarray:
    """Entries of a column; text as strings."""
    if h5py.check_string_dtype(column.dtype) is not None:
        return np.array(column.asstr()[first:last], dtype=str)
    return column[first:last]


def _of_codes(known: np.ndarray, codes: np.ndarray) -> np.ndarray | list:
    """The categories that codes mean; below 0 there is none."""
    if known.dtype.kind in "biuf":
        return np.where(codes < 0, np.nan, known.astype(np.float64)[np.maximum(codes, 0)])
    return [None if code < 0 else str(known[code]) for code in codes.tolist()]
