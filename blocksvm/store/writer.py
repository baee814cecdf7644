"""Writing a store: rows in their final order go in, compressed chunks with their tables come out."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import h5py
import numpy as np
from xxhash import xxh3_128_hexdigest

from blocksvm.base.labels import MOST_LABELS, STRINGS, kind_of
from blocksvm.store import codec
from blocksvm.store.arrays import write_array, write_arrays, write_labels, write_names
from blocksvm.store.descriptions import CHUNK, PART, ROW, WEIGHTED_ROW
from blocksvm.store.hdf5_files import create_group

SYNC_BYTES = 48_000_000  # written, after which the disk is set to work: the last sync then has little left to wait for


def blosc_dataset(group, name: str, dtype, chunk: int) -> h5py.Dataset:
    """An empty 1-D dataset that grows, whose chunks hold what ``codec.encode`` makes, readable by any HDF5 with
    hdf5plugin."""
    import hdf5plugin

    options = hdf5plugin.Blosc(cname=codec.CODEC, clevel=codec.LEVEL, shuffle=hdf5plugin.Blosc.SHUFFLE)
    return group.create_dataset(
        name, shape=(0,), maxshape=(None,), dtype=dtype, chunks=(chunk,), fillvalue=0, **dict(options)
    )


class StoreWriter:
    """Cuts rows into chunks, compresses them in a pool of threads and writes them in order.

    file: an open ``NewHdf5`` without members of a store.  n_rows: the rows that will be added in all.  chunk_nnz:
    entries of a part; a chunk has at most so many entries and rows, or is one longer row.  value_dtype: float32 or
    float64, or None where every value is 1, of which nothing is stored.  pool: threads that compress parts.  jobs: how
    many; twice as many compressed parts, at most, wait in memory.  weighted: the rows have weights.

    ``append`` adds rows, ``copy`` whole chunks of another store, ``finish`` writes the tables.  The file is the same
    for any pool.  Rows are not checked here; a reader refuses features that do not rise or do not exist, and values,
    norms and weights that are not finite.
    """

    def __init__(
        self,
        file: h5py.File,
        n_rows: int,
        chunk_nnz: int,
        value_dtype,
        pool: ThreadPoolExecutor,
        jobs: int,
        weighted: bool = False,
    ):
        self.file = file
        self.chunk_nnz = chunk_nnz
        self.value_dtype = None if value_dtype is None else np.dtype(value_dtype)
        self.pool = pool
        self.most_pending = 2 * jobs
        self.indices = blosc_dataset(file, "indices", np.int32, chunk_nnz)
        self.values = None
        if self.value_dtype is not None:
            self.values = blosc_dataset(file, "values", self.value_dtype, chunk_nnz)
        self.weighted = weighted
        self.rows = file.create_dataset("rows", shape=(n_rows,), dtype=WEIGHTED_ROW if weighted else ROW)
        self.row_type = h5py.h5t.py_create(self.rows.dtype)
        self.chunks: list[tuple] = []
        self.checksums: list[int] = []
        self.pending: deque = deque()
        self.disk = ThreadPoolExecutor(1, thread_name_prefix="blocksvm-sync")
        self.syncing: Future | None = None
        self.unsynced = 0
        self.parts_submitted = 0
        self.parts_written = 0
        self.rows_cut = 0
        self.counts = RowCounts(weighted)
        self._start_chunk()

    def _start_chunk(self) -> None:
        self.open_indices = np.zeros(self.chunk_nnz, np.int32)
        self.open_values = None if self.values is None else np.zeros(self.chunk_nnz, self.value_dtype)
        self.open_rows: list[np.ndarray] = []
        self.n_open_rows = 0
        self.open_nnz = 0

    def append(self, rows: np.ndarray, indices: np.ndarray, values: np.ndarray | None) -> None:
        """Add rows and their entries, one row's after the other's.

        rows (n,): records of ROW, or of WEIGHTED_ROW where the rows have weights.  length: entries; label: nan for
        none, or the place of a label that is no number among the labels of ``finish``; sq_norm: ||x||^2 of the values
        as they are stored; source: the row's number in the source, from 0; weight: finite, 0 or more.
        indices (nnz,) int32: features from 0 to n_features - 1, rising within a row, none twice.
        values (nnz,) of ``value_dtype``, finite, without zeros, which would be stored as entries; None where that is.
        """
        stops = np.cumsum(rows["length"], dtype=np.int64)
        row = entry = 0
        while row < len(rows):
            # as many rows as still fit in the open chunk
            capacity = entry + self.chunk_nnz - self.open_nnz
            last = int(np.searchsorted(stops, capacity, side="right"))
            last = min(last, row + self.chunk_nnz - self.n_open_rows)
            if last <= row and self.n_open_rows:
                self._close_chunk()
                continue
            # one row longer than a part is a chunk of its own
            write, last = (self._fill, last) if last > row else (self._write_long_row, row + 1)
            stop = int(stops[last - 1])
            write(rows[row:last], indices[entry:stop], None if values is None else values[entry:stop])
            row, entry = last, stop

    def _fill(self, rows, indices, values) -> None:
        start = self.open_nnz
        stop = start + len(indices)
        self.open_indices[start:stop] = indices
        if self.open_values is not None:
            self.open_values[start:stop] = values
        self.open_rows.append(rows.copy())
        self.n_open_rows += len(rows)
        self.open_nnz = stop

    def _close_chunk(self) -> None:
        if not self.n_open_rows:
            return
        parts = [(self.open_indices, self.open_values)] if self.open_nnz else []
        self._submit(np.concatenate(self.open_rows), self.open_nnz, parts)
        self._start_chunk()

    def _write_long_row(self, rows, indices, values) -> None:
        parts = self._padded(indices, np.int32)
        more = [None] * len(parts) if values is None else self._padded(values, self.value_dtype)
        self._submit(rows.copy(), len(indices), list(zip(parts, more, strict=True)))

    def _padded(self, entries: np.ndarray, dtype) -> np.ndarray:
        """(parts, chunk_nnz): the last one filled up with zeros."""
        padded = np.zeros((-(-len(entries) // self.chunk_nnz), self.chunk_nnz), dtype)
        padded.reshape(-1)[: len(entries)] = entries
        return padded

    def copy(self, rows: np.ndarray, nnz: int, parts: list[Callable[[], tuple]]) -> None:
        """Add a chunk of another store of the same ``chunk_nonzeros``: its records, the number of its entries, and for
        each part a function that gives its bytes, as ``encode_part`` does."""
        self._close_chunk()
        self._cut(rows, nnz, len(parts))
        for part in parts:
            self._queue(self.pool.submit(part))

    def _submit(self, rows: np.ndarray, nnz: int, parts: list) -> None:
        self._cut(rows, nnz, len(parts))
        for indices, values in parts:
            self._queue(self.pool.submit(encode_part, indices, values))

    def _queue(self, part: Future) -> None:
        self.pending.append(part)
        while len(self.pending) > self.most_pending:
            self._write_part(self.pending.popleft().result())

    def _cut(self, rows: np.ndarray, nnz: int, n_parts: int) -> None:
        """The records of a chunk, which are whole."""
        record = (self.rows_cut, len(rows), nnz, self.parts_submitted, n_parts, codec.checksum(rows.tobytes()))
        self.chunks.append(record)
        self.counts.add(rows)
        # self.rows[first:last] = rows, in a third of the time
        place = self.rows.id.get_space()
        place.select_hyperslab((self.rows_cut,), rows.shape)
        self.rows.id.write(h5py.h5s.create_simple(rows.shape), place, rows, self.row_type)
        self.rows_cut += len(rows)
        self.parts_submitted += n_parts

    def _write_part(self, encoded: tuple[bytes, tuple[bytes | None, int], int]) -> None:
        indices, (values, mask), checksum = encoded
        length = self.indices.shape[0]
        start = self.parts_written * self.chunk_nnz
        if start + self.chunk_nnz > length:
            grown = max(64 * self.chunk_nnz, 2 * length)
            self.indices.resize((grown,))
            if self.values is not None:
                self.values.resize((grown,))
        self.indices.id.write_direct_chunk((start,), indices)
        if values is not None:
            self.values.id.write_direct_chunk((start,), values, filter_mask=mask)
        self.checksums.append(checksum)
        self.file.sink.check()
        self.parts_written += 1
        self.unsynced += len(indices) + (0 if values is None else len(values))
        if self.unsynced > SYNC_BYTES and (self.syncing is None or self.syncing.done()):
            self._end_sync()
            # a descriptor of its own: the file may be closed, on an error, before this is done
            self.syncing = self.disk.submit(_sync, os.dup(self.file.sink.fileno()))
            self.unsynced = 0

    def _end_sync(self) -> None:
        if self.syncing is not None:
            self.syncing.result()

    def finish(
        self,
        n_features: int,
        feature_ids: Callable[[int, int], np.ndarray],
        meta: dict,
        labels: tuple | None = None,
        names: tuple[np.ndarray, Callable] | None = None,
        factors: np.ndarray | None = None,
    ) -> dict:
        """Write what is open, and the tables; returns the whole description, which ``write_meta`` ends the file with.

        feature_ids(start, stop): the users' ids (int64) of these features; meta: what the description has besides the
        counts; labels: the distinct labels, rising, where they are strings or sets; names: (lengths, text_at) of the
        features' names, as ``write_names`` takes them; factors (d,): what each feature's values were multiplied by.
        """
        self._close_chunk()
        while self.pending:
            self._write_part(self.pending.popleft().result())
        self._end_sync()
        self.disk.shutdown()
        length = self.parts_written * self.chunk_nnz
        self.indices.resize((length,))
        if self.values is not None:
            self.values.resize((length,))
        chunks = np.array(self.chunks, dtype=CHUNK)
        parts = np.zeros(self.parts_written, dtype=PART)
        parts["checksum"] = self.checksums
        self.file.flush()
        fill_offsets(self.indices, parts, "indices", self.chunk_nnz)
        if self.values is not None:
            fill_offsets(self.values, parts, "values", self.chunk_nnz)
        self.file.create_dataset("chunks", data=chunks)
        self.file.create_dataset("parts", data=parts)
        features = create_group(self.file, "features")
        content = [chunks.tobytes(), parts["checksum"].tobytes()]
        content.append(write_array(features, "ids", n_features, np.int64, feature_ids))
        if names is not None:
            write_names(features, *names)
        if factors is not None:
            write_arrays(features, {"idf": factors})
        if labels is not None:
            content.append(write_labels(self.file, labels))
        meta = meta | {
            "n_samples": self.rows_cut,
            "n_features": n_features,
            "n_nonzeros": self.counts.nnz,
            "n_chunks": len(chunks),
            "n_parts": len(parts),
            "chunk_nonzeros": self.chunk_nnz,
            "values": "ones" if self.value_dtype is None else self.value_dtype.name,
            "max_norm": float(np.sqrt(self.counts.max_sq_norm)),
            "labels": self.counts.labels(labels),
            "codec": f"blosc-{codec.CODEC}-{codec.LEVEL}-shuffle",
            "chunks_checksum": codec.checksum(chunks.tobytes()),
            "parts_checksum": codec.checksum(parts.tobytes()),
            "fingerprint": xxh3_128_hexdigest(b"".join(content)),
        }
        return meta | self.counts.beyond_numbers(labels, names is not None)


def _sync(descriptor: int) -> None:
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def encode_part(indices: np.ndarray, values: np.ndarray | None) -> tuple[bytes, tuple[bytes | None, int], int]:
    """(bytes of the indices, (bytes of the values or None, HDF5's filter mask), checksum of both)."""
    raw_indices = codec.encode(indices)
    if values is None:
        return raw_indices, (None, 0), codec.checksum(raw_indices)
    raw_values, mask = codec.encode_or_store(values)
    return raw_indices, (raw_values, mask), codec.checksum(raw_indices, raw_values)


def fill_offsets(dataset: h5py.Dataset, parts: np.ndarray, name: str, chunk_nnz: int) -> None:
    """Write where each HDF5 chunk of ``dataset`` lies into the table (one walk: asking chunk by chunk is slow)."""

    def visit(info) -> None:
        k = info.chunk_offset[0] // chunk_nnz
        parts[name + "_offset"][k] = info.byte_offset
        parts[name + "_size"][k] = info.size

    if len(parts):
        dataset.id.chunk_iter(visit)


class RowCounts:
    """Counts over records of rows.  weighted: they have weights."""

    def __init__(self, weighted: bool):
        self.weighted = weighted
        self.max_sq_norm = 0.0
        self.nnz = 0
        self.label_counts: dict[float, int] | None = {}  # of labels as they are kept, see blocksvm/base/labels.py
        self.label_weights: dict[float, float] = {}
        self.total_weight = 0.0
        self.n_unlabelled = 0

    def add(self, rows: np.ndarray) -> None:
        """Count the rows of a chunk: the sums of weights are the same however the rows came."""
        self.max_sq_norm = max(self.max_sq_norm, float(rows["sq_norm"].max()))
        self.nnz += int(rows["length"].sum(dtype=np.int64))
        self.n_unlabelled += int(np.isnan(rows["label"]).sum())
        if self.weighted:
            self.total_weight += float(rows["weight"].sum())
        if self.label_counts is None:
            return
        known, place = np.unique(rows["label"], return_inverse=True)
        weights = np.bincount(place, rows["weight"]) if self.weighted else np.zeros(len(known))
        counts = zip(known.tolist(), np.bincount(place).tolist(), weights.tolist(), strict=True)
        for label, count, weight in counts:
            if not math.isnan(label):
                self.label_counts[label] = self.label_counts.get(label, 0) + count
                self.label_weights[label] = self.label_weights.get(label, 0.0) + weight
        if len(self.label_counts) > MOST_LABELS:
            self.label_counts = None

    def labels(self, table: tuple | None) -> list | None:
        """Each label with its rows, rising; None where there are too many.  table: the labels, where they are not
        numbers."""
        if self.label_counts is None:
            return None
        counts = sorted(self.label_counts.items())
        return counts if table is None else [(table[int(place)], count) for place, count in counts]

    def beyond_numbers(self, table: tuple | None, named: bool) -> dict:
        """The entries for other labels than numbers, rows without one, weights and names, where there are any."""
        description: dict = {}
        if table is not None:
            description = {"label_kind": kind_of(table[0]) if table else STRINGS, "n_labels": len(table)}
        if self.n_unlabelled:
            description["n_unlabelled"] = self.n_unlabelled
        if self.weighted:
            description |= {"weighted": True, "total_weight": self.total_weight}
            if self.label_counts is not None:
                description["label_weights"] = [self.label_weights[label] for label in sorted(self.label_counts)]
        return description | ({"named": True} if named else {})
