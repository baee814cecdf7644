"""``h5ad``: the matrix X of an AnnData file, the names of its variables, and a column of obs (``label``) as labels.

A feature's id is the hash of its name, as of a column of a table, so that files meet by names, whatever the order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.formats.file_reader import ENTRY_BYTES, Features, FileFormat, RowBuffer, SparseRows, finite, require_fit
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.matrices.by_row import ENTRY, by_row
from blocksvm.formats.text.text_source import LineLimit
from blocksvm.kernels.name_hashes import hash_of
from blocksvm.store import anndata_file
from blocksvm.store.foreign import Frame, frames_from, memory_for


class H5ad(FileFormat):
    """The format."""

    name = "h5ad"
    lines = "an AnnData file"

    def pieces(
        self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None
    ) -> Iterator[tuple[SparseRows, float]]:
        memory, label = memory_for(n_bytes if limit is None else max(n_bytes, limit.n_bytes)), options.get("label")
        arguments = label, n_bytes, 2 * ENTRY_BYTES
        with frames_from(anndata_file.__name__, os.path.abspath(name), *arguments, memory=memory, shown=name) as take:
            file = H5adMatrix(take, name, label)
            features, places = features_of(take, file.n_columns, name)
            for first, rows in file.rows(n_bytes, limit):
                last = first + len(rows.lengths)
                yield (
                    replace(rows, ids=places[rows.ids], labels=file.labels(last - first), features=features),
                    last / file.n_rows,
                )

    @staticmethod
    def rows_of(payload: SparseRows, reading: ReaderOptions, buffer: RowBuffer) -> SparseRows:
        return finite(payload, payload.name_at)


def features_of(take, n_columns: int, name: str) -> tuple[Features, np.ndarray]:
    """The columns of X, and the place of each among them."""
    texts, all_ends, done = [], [np.empty(0, np.int64)], 0
    while sum(map(len, all_ends)) < n_columns:
        text, ends = arrays_of(take("names"), name, np.uint8, np.int64)
        if not len(ends) or ends[-1] != len(text) or (np.diff(ends, prepend=0) < 0).any():
            raise broken(name)
        texts.append(text)
        all_ends.append(ends + done)
        done += len(text)
    text, ends = np.concatenate([np.empty(0, np.uint8), *texts]), np.concatenate(all_ends)
    if len(ends) != n_columns:
        raise broken(name)
    begins = np.append(0, ends[:-1])[: len(ends)]
    raw, bounds = text.tobytes(), zip(begins.tolist(), ends.tolist(), strict=True)
    ids = np.array([hash_of(raw[begin:end], np.uint64(0)) >> np.uint64(1) for begin, end in bounds], np.int64)
    rising = np.argsort(ids, kind="stable")
    features = Features(text, ids[rising], begins[rising], ends[rising])
    again = np.flatnonzero(np.diff(features.ids) == 0)
    if len(again):
        raise InputError(f"{name}: var names {features.name(again[0])} twice; rename one (var_names_make_unique)")
    places = np.empty(n_columns, np.int64)
    places[rising] = np.arange(n_columns)
    return features, places


def broken(name: str) -> InputError:
    return InputError(f"{name}: what HDF5 read of it contradicts itself; it is damaged: get it again")


def arrays_of(frame: Frame | None, name: str, *dtypes) -> list[np.ndarray]:
    """A frame's arrays, which must be of these types."""
    if frame is None or [array.dtype for array in frame.arrays] != [np.dtype(dtype) for dtype in dtypes]:
        raise broken(name)
    return frame.arrays


class H5adMatrix:
    """X and the labels of its rows, as frames bring them (store/anndata_file.py); everything is checked here, since
    what read the file may have been damaged by it."""

    def __init__(self, take, name: str, label: str | None):
        self.take, self.name, self.label = take, name, label
        frame = take("matrix")
        counts = [] if frame is None else [frame.about.get(key) for key in ("n_rows", "n_columns", "n_entries")]
        if not counts or not all(type(count) is int and 0 <= count < 1 << 62 for count in counts):
            raise broken(name)
        self.n_rows, self.n_columns, self.n_entries = counts
        self.by_columns = frame.about.get("by_columns") is True
        self.ready: list[np.ndarray | list] = []  # labels that no row has taken yet

    def rows(self, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple[int, SparseRows]]:
        """(first row, rows whose ids are columns, without labels) of runs of X."""
        if self.by_columns:
            yield from by_row(self._entries(), self.n_rows, self.n_entries, n_bytes, limit, self.name)
            return
        first = 0
        while first < self.n_rows:
            lengths, columns, values = arrays_of(self.take("rows"), self.name, np.int64, np.int64, np.float64)
            if not len(lengths) or lengths.min() < 0 or first + len(lengths) > self.n_rows:
                raise broken(self.name)
            if int(lengths.sum()) != len(columns) or len(columns) != len(values):
                raise broken(self.name)
            self._within(columns, self.n_columns, "column")
            require_fit(int(lengths.max()), limit, self.name)
            yield first, SparseRows(lengths, columns, values, np.empty(0))
            first += len(lengths)

    def _entries(self) -> Iterator[np.ndarray]:
        left = self.n_entries
        while left > 0:
            rows, columns, values = arrays_of(self.take("entries"), self.name, np.int64, np.int64, np.float64)
            if len(rows) > left or len(columns) != len(rows) or len(values) != len(rows):
                raise broken(self.name)
            self._within(rows, self.n_rows, "row")
            self._within(columns, self.n_columns, "column")
            entries = np.empty(len(rows), ENTRY)
            entries["row"], entries["column"], entries["value"] = rows, columns, values
            left -= len(rows)
            yield entries

    def _within(self, places: np.ndarray, n: int, what: str) -> None:
        if len(places) and not (0 <= places.min() and places.max() < n):
            raise InputError(f"{self.name}: X is damaged (a {what} is out of range); get it again")

    def labels(self, n: int) -> np.ndarray | list:
        """The labels of the next n rows."""
        if self.label is None:
            return np.full(n, np.nan)
        while sum(map(len, self.ready)) < n:
            self.ready.append(self._labels())
        if isinstance(self.ready[0], list):
            labels = [label for part in self.ready for label in part]
        else:
            labels = np.concatenate(self.ready)
        self.ready = [labels[n:]]
        return labels[:n]

    def _labels(self) -> np.ndarray | list:
        frame = self.take("labels")
        if frame is not None and len(frame.arrays) == 1:
            (numbers,) = arrays_of(frame, self.name, np.float64)
            return numbers + 0.0  # -0 is 0
        codes, text, ends = arrays_of(frame, self.name, np.int32, np.uint8, np.int64)
        sound = len(ends) == 0 or (ends[-1] == len(text) and (np.diff(ends, prepend=0) >= 0).all())
        if not len(codes) or not sound or not (codes.min() >= -1 and codes.max() < len(ends)):
            raise broken(self.name)
        raw, bounds = text.tobytes(), zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=False)
        words: list = [raw[begin:end].decode(errors="backslashreplace") for begin, end in bounds]
        words.append(None)  # of code -1
        return [words[code] for code in codes.tolist()]


H5AD = H5ad()
