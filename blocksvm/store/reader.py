"""Reading a store: its description and tables once, then chunks straight from the file, verified and checked.

Chunks are read with pread at their offsets and decoded outside HDF5's lock and the GIL, so that one thread reads
while another trains.  Everything is verified against its checksum and checked before a kernel may see it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from blocksvm.block import Arena, Block, block_bytes
from blocksvm.errors import InputError
from blocksvm.kernels.check import INDEX_OUT_OF_RANGE, SOUND, check_entries, fill_indptr
from blocksvm.store import codec
from blocksvm.store.arrays import read_pieces
from blocksvm.store.files import first_line, open_hdf5, read_meta
from blocksvm.store.schema import CHUNK, PART, ROW
from blocksvm.store.source import ChunkTable, Labels, SourceBase
from blocksvm.store.writer import fill_offsets

# How many chunks ahead the system is asked to read from the disk.
CHUNKS_AHEAD = 16

VALUE_TYPES = {"float32": np.float32, "float64": np.float64, "ones": None}


class Store(SourceBase):
    """A store opened for reading; a ``Source``.  ``close`` it, or use it in a ``with`` statement.

    Raises InputError where the file is not a store, is of another version, or is damaged.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.file = open_hdf5(self.path, "store")
        self.fd = -1
        self.raw = memoryview(bytearray())  # compressed bytes of the part being decoded; one reader at a time
        try:
            self.fd = os.open(self.path, os.O_RDONLY)
            self.meta = read_meta(self.file)
            self._open_tables()
        except BaseException:
            self.close()
            raise

    def _open_tables(self) -> None:
        meta = self.meta
        try:
            chunks = self._table("chunks", CHUNK, meta["n_chunks"], meta["chunks_checksum"])
            self.parts = self._table("parts", PART, meta["n_parts"], meta["parts_checksum"])
            self.value_dtype = VALUE_TYPES[meta["values"]]
            self.chunk_nnz = int(meta["chunk_nonzeros"])
            n_rows, nnz = int(meta["n_samples"]), int(meta["n_nonzeros"])
            rows = self.file["rows"]
            if rows.dtype != ROW or rows.shape != (n_rows,):
                raise ValueError("/rows does not have the rows that the description names")
            self.rows_offset = rows.id.get_offset()
            stored = (self.parts.shape[0] * self.chunk_nnz,)
            if self.file["indices"].shape != stored or self.file["indices"].chunks != (self.chunk_nnz,):
                raise ValueError("/indices does not have the parts that the description names")
            if self.value_dtype is not None:
                values = self.file["values"]
                if values.shape != stored or values.chunks != (self.chunk_nnz,) or values.dtype != self.value_dtype:
                    raise ValueError("/values does not have the parts that the description names")
            self._check_tables(chunks, n_rows, nnz)
            self._check_offsets()
            labels = meta["labels"]
            counts = None if labels is None else [(float(label), int(count)) for label, count in labels]
            pair = Labels(counts[0][0], counts[1][0]) if counts is not None and len(counts) == 2 else None
            super().__init__(
                name=str(self.path),
                n_samples=n_rows,
                n_features=int(meta["n_features"]),
                n_nonzeros=nnz,
                value_bytes=0 if self.value_dtype is None else np.dtype(self.value_dtype).itemsize,
                max_norm=float(meta["max_norm"]),
                chunks=ChunkTable(*(chunks[name].astype(np.int64) for name in ("first_row", "n_rows", "nnz"))),
                labels=pair,
                label_counts=counts,
                fingerprint=meta["fingerprint"],
                shuffled=meta["settings"]["order"] == "shuffled",
            )
            self.first_part = chunks["first_part"].astype(np.int64)
            self.n_parts = chunks["n_parts"].astype(np.int64)
            self.rows_checksum = chunks["rows_checksum"]
        except (KeyError, OSError, ValueError, TypeError, RuntimeError, AttributeError) as error:
            raise InputError(f"{self.path}: is damaged ({first_line(error)}); make it again") from error

    def _table(self, name: str, dtype: np.dtype, length: int, checksum: int) -> np.ndarray:
        dataset = self.file[name]
        if dataset.dtype != dtype or dataset.shape != (length,):
            raise ValueError(f"/{name} is not of the expected type or length")
        table = dataset[()]
        if codec.checksum(table.tobytes()) != checksum:
            raise ValueError(f"checksum of /{name} does not match")
        return table

    def _check_tables(self, chunks: np.ndarray, n_rows: int, nnz: int) -> None:
        rows = chunks["n_rows"].astype(np.int64)
        entries = chunks["nnz"].astype(np.int64)
        parts = chunks["n_parts"].astype(np.int64)
        ends = np.cumsum(rows)
        part_ends = np.cumsum(parts)
        sound = (
            self.chunk_nnz > 0
            and len(chunks) > 0
            and np.array_equal(chunks["first_row"], ends - rows)
            and ends[-1] == n_rows
            and entries.sum() == nnz
            and np.array_equal(chunks["first_part"], part_ends - parts)
            and part_ends[-1] == len(self.parts)
            and np.array_equal(parts, -(-entries // self.chunk_nnz))
            and (rows > 0).all()
        )
        if not sound:
            raise ValueError("the table of chunks contradicts the description")

    def _check_offsets(self) -> None:
        """Offsets in the table go stale where another tool has rewritten the file: then find them anew."""
        names = ["indices"] if self.value_dtype is None else ["indices", "values"]
        for name in names:
            if len(self.parts) == 0:
                continue
            last = len(self.parts) - 1
            found = self.file[name].id.get_chunk_info_by_coord((last * self.chunk_nnz,))
            if found.byte_offset != self.parts[name + "_offset"][last]:
                fill_offsets(self.file[name], self.parts, name, self.chunk_nnz)
        size = self.path.stat().st_size
        for name in names:
            if len(self.parts) and int((self.parts[name + "_offset"] + self.parts[name + "_size"]).max()) > size:
                raise ValueError("the file is truncated")
        if self.rows_offset is None or self.rows_offset + self.meta["n_samples"] * ROW.itemsize > size:
            raise ValueError("the file is truncated")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        self.file.close()

    def slack(self) -> int:
        # the last part of a block is decoded whole, padding included
        return self.chunk_nnz

    def _pread(self, offset: int, size: int, buffer: memoryview, chunk: int) -> None:
        """Fill ``buffer[:size]`` from the file."""
        filled = 0
        while filled < size:
            n = os.preadv(self.fd, [buffer[filled:size]], offset + filled)
            if n == 0:
                raise InputError(f"{self.path}: chunk {chunk} is truncated; make the store again")
            filled += n
        self.cost.bytes_read += size

    def _announce(self, chunk: int) -> None:
        """Ask the system to read a chunk soon, so that the disk works while others are decoded."""
        first_row, n = int(self.chunks.first_row[chunk]), int(self.chunks.n_rows[chunk])
        spans = [(self.rows_offset + first_row * ROW.itemsize, n * ROW.itemsize)]
        first = int(self.first_part[chunk])
        for record in self.parts[first : first + int(self.n_parts[chunk])]:
            spans.append((int(record["indices_offset"]), int(record["indices_size"])))
            if self.value_dtype is not None:
                spans.append((int(record["values_offset"]), int(record["values_size"])))
        for offset, size in spans:
            os.posix_fadvise(self.fd, offset, size, os.POSIX_FADV_WILLNEED)

    def read_rows(self, chunk: int) -> np.ndarray:
        """The row records of a chunk (ROW dtype), verified."""
        first, n = int(self.chunks.first_row[chunk]), int(self.chunks.n_rows[chunk])
        rows = np.empty(n, dtype=ROW)
        self._pread(self.rows_offset + first * ROW.itemsize, rows.nbytes, memoryview(rows).cast("B"), chunk)
        if codec.checksum(memoryview(rows).cast("B")) != int(self.rows_checksum[chunk]):
            raise InputError(f"{self.path}: chunk {chunk}: checksum of its rows does not match; make the store again")
        return rows

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        n = int(self.chunks.n_rows[chunks].sum())
        nnz = int(self.chunks.nnz[chunks].sum())
        if arena is None:
            arena = Arena(block_bytes(n, nnz + self.chunk_nnz, self.value_bytes))
        wanted = [(n + 1, np.int64), (n, np.float64), (n, np.int64), (n, np.int8), (nnz + self.chunk_nnz, np.int32)]
        if self.value_dtype is not None:
            wanted.append((nnz + self.chunk_nnz, self.value_dtype))
        carved = arena.carve(*wanted)
        indptr, sq_norms, numbers, y, indices = carved[:5]
        values = carved[5] if self.value_dtype is not None else None
        indptr[0] = 0
        row = 0
        entry = 0
        listed = chunks.tolist()
        for chunk in listed[:CHUNKS_AHEAD]:
            self._announce(chunk)
        for k, chunk in enumerate(listed):
            if k + CHUNKS_AHEAD < len(listed):
                self._announce(listed[k + CHUNKS_AHEAD])
            row, entry = self._read_chunk(chunk, row, entry, indptr, sq_norms, numbers, y, indices, values)
        self.cost.blocks += 1
        self.cost.nnz += nnz
        values = None if values is None else values[:nnz]
        return Block(indptr, indices[:nnz], values, y, sq_norms, numbers, self.n_features)

    def _read_chunk(self, chunk, row, entry, indptr, sq_norms, numbers, y, indices, values) -> tuple[int, int]:
        """Decode a chunk to position (row, entry) of a block; returns the position behind it."""
        began = time.perf_counter()
        rows = self.read_rows(chunk)
        n = len(rows)
        stop = entry + int(self.chunks.nnz[chunk])
        reading = time.perf_counter() - began
        first = int(self.first_part[chunk])
        for k, record in enumerate(self.parts[first : first + int(self.n_parts[chunk])]):
            start = entry + k * self.chunk_nnz
            whole = slice(start, start + self.chunk_nnz)
            reading += self._read_part(chunk, record, indices[whole], None if values is None else values[whole])
        lengths = np.ascontiguousarray(rows["length"])
        if int(lengths.sum(dtype=np.int64)) != stop - entry:
            raise InputError(f"{self.path}: chunk {chunk}: rows and nonzeros disagree; make the store again")
        fill_indptr(lengths, indptr[row], indptr[row : row + n + 1])
        code = check_entries(indices[entry:stop], None if values is None else values[entry:stop], self.n_features)
        if code != SOUND:
            what = "a feature index is out of range" if code == INDEX_OUT_OF_RANGE else "a value is not finite"
            raise InputError(f"{self.path}: chunk {chunk}: {what}; make the store again")
        norms = rows["sq_norm"]
        if not (np.isfinite(norms).all() and (norms >= 0.0).all()):
            raise InputError(f"{self.path}: chunk {chunk}: a row's norm is not a number; make the store again")
        sq_norms[row : row + n] = norms
        numbers[row : row + n] = np.arange(int(self.chunks.first_row[chunk]), int(self.chunks.first_row[chunk]) + n)
        y[row : row + n] = 0 if self.labels is None else self.labels.signs(rows["label"])
        self.cost.seconds_reading += reading
        self.cost.seconds_decoding += time.perf_counter() - began - reading
        return row + n, stop

    def _read_part(self, chunk: int, record, indices: np.ndarray, values: np.ndarray | None) -> float:
        """Decode one part, padding included; returns the seconds that reading alone took."""
        began = time.perf_counter()
        middle = int(record["indices_size"])
        end = middle + int(record["values_size"])
        if len(self.raw) < end:
            self.raw = memoryview(bytearray(end + end // 4))
        self._pread(int(record["indices_offset"]), middle, self.raw, chunk)
        if values is not None:
            self._pread(int(record["values_offset"]), end - middle, self.raw[middle:], chunk)
        reading = time.perf_counter() - began
        if codec.checksum(self.raw[:end]) != int(record["checksum"]):
            raise InputError(f"{self.path}: chunk {chunk}: checksum does not match; make the store again")
        try:
            codec.decode(self.raw[:middle], indices)
            if values is not None:
                codec.decode(self.raw[middle:end], values)
        except ValueError as error:
            raise InputError(f"{self.path}: chunk {chunk}: {error}; make the store again") from error
        return reading

    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        out = np.empty(stop - start, dtype=np.int64)
        for first, piece in self.feature_id_pieces(start, stop):
            low, high = max(start, first), min(stop, first + len(piece))
            if low < high:
                out[low - start : high - start] = piece[low - first : high - first]
        return out

    def feature_id_pieces(self, start: int = 0, stop: int | None = None):
        """(first feature, ids) for each stored piece that has features from start to stop, verified."""
        try:
            features = self.file["features"]
        except (KeyError, OSError, RuntimeError) as error:
            raise InputError(f"{self.path}: is damaged ({first_line(error)}); make it again") from error
        return read_pieces(features, "ids", np.dtype(np.int64), start, stop)

    def verify(self, progress=None) -> None:
        """Read everything that matters against its checksums; InputError names what is damaged."""
        largest = int(self.chunks.nnz.max())
        arena_rows = int(self.chunks.n_rows.max())
        arena = Arena(block_bytes(arena_rows, largest + self.chunk_nnz, self.value_bytes))
        sources_seen = 0
        for chunk in range(len(self.chunks)):
            self.read_block(np.array([chunk]), arena)
            sources_seen += int(self.chunks.n_rows[chunk])
            if progress is not None:
                progress(chunk + 1, len(self.chunks))
        n_ids = sum(len(piece) for _, piece in self.feature_id_pieces())
        if n_ids != self.n_features or sources_seen != self.n_samples:
            raise InputError(f"{self.path}: the map of features is incomplete; make the store again")


def open_store(path: str | Path) -> Store:
    """Open a store made by ``python -m blocksvm.split``; a context manager."""
    return Store(path)
