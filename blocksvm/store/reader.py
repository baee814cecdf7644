"""A store opened for reading: its description and tables once, then blocks of its chunks by several decoders."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self

import h5py
import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import LABEL_BYTES, NUMBERS, SETS, Coding, Labels, labels_of
from blocksvm.sources.block import INDEX_BYTES, Arena, Block
from blocksvm.sources.source import ChunkTable, Source, Step, largest_chunk_bytes, new_block
from blocksvm.store import codec
from blocksvm.store.arrays import PIECE, read_pieces, read_range, require_length
from blocksvm.store.decoder import Decoder, SharedWork
from blocksvm.store.hdf5_files import damage_named, member, open_hdf5, read_meta, read_table
from blocksvm.store.history import read_steps
from blocksvm.store.schema import CHUNK, PART, ROW, WEIGHTED_ROW
from blocksvm.store.tables import origins, read_labels, read_lines, read_strings
from blocksvm.store.writer import fill_offsets

# Threads that may decode a block together: one of the reader, one that waits for the block and helps (``help``), and
# more of its own.  Their buffers take this part of the memory, or what LEAST_DECODERS need.
LEAST_DECODERS, MOST_DECODERS = 3, 16
MEMORY_SHARE = 1 / 32

RUNS_WANTED = 4  # for each thread
LONGEST_RUN = 8  # chunks
CHUNKS_AHEAD = 16  # how many chunks ahead, at least, the system is asked to read from the disk

IDS_AT_ONCE = 1 << 22  # that are compared with each other in memory
NO_IDS = np.empty(0, np.int64)

VALUE_TYPES = {"float32": np.float32, "float64": np.float64, "ones": None}


class Store(Source):
    """A store opened for reading.  ``close`` it, or use it in a ``with`` statement.

    Raises InputError where the file is not a store, is of another version, or is damaged.
    """

    numbered = False  # a row's number is its place in the store, not what its record says

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.file = open_hdf5(self.path, "store")
        self.fd = -1
        self.owner: Store | None = None  # of the file, where this is a reader of another store object
        self.readers: weakref.WeakSet[Store] = weakref.WeakSet()
        self._start_decoders(LEAST_DECODERS)
        try:
            self.fd = os.dup(self.file.id.get_vfd_handle())  # the very file that HDF5 has opened
            self.meta = read_meta(self.file)
            self._open_tables()
        except BaseException:
            self.close()
            raise

    def _start_decoders(self, most: int) -> None:
        self.decoders = [Decoder(self) for _ in range(max(2, min(most, os.cpu_count() or 1)))]
        self.under_way: SharedWork | None = None
        self.pool = ThreadPoolExecutor(max(1, len(self.decoders) - 2), thread_name_prefix="blocksvm-decoder")

    def reader(self, labels: Labels | None = None, real: bool = False) -> Self:
        """The same rows for another consumer, which shares the file and its tables and nothing else; closed by its
        ``close``, or with this store."""
        if self.fd < 0:
            raise ValueError(f"{self.path}: the store is closed")
        other = super().reader(labels, real)
        other.owner = self.owner or self
        other._start_decoders(LEAST_DECODERS)
        other.owner.readers.add(other)
        return other

    def _open_tables(self) -> None:
        meta = self.meta
        with damage_named(self.file):
            chunks = self._table("chunks", CHUNK, meta["n_chunks"], meta["chunks_checksum"])
            self.parts = self._table("parts", PART, meta["n_parts"], meta["parts_checksum"])
            self.value_dtype = VALUE_TYPES[meta["values"]]
            self.chunk_nnz = int(meta["chunk_nonzeros"])
            n_rows, nnz = int(meta["n_samples"]), int(meta["n_nonzeros"])
            rows = member(self.file, "rows")
            self.weighted = meta.get("weighted", False)
            self.row_dtype = WEIGHTED_ROW if self.weighted else ROW
            if rows.dtype != self.row_dtype or rows.shape != (n_rows,):
                raise ValueError("/rows does not have the rows that the description names")
            self.rows_offset = rows.id.get_offset()
            stored = (self.parts.shape[0] * self.chunk_nnz,)
            indices = member(self.file, "indices")
            if indices.shape != stored or indices.chunks != (self.chunk_nnz,) or indices.dtype != np.int32:
                raise ValueError("/indices does not have the parts that the description names")
            if self.value_dtype is not None:
                values = member(self.file, "values")
                if values.shape != stored or values.chunks != (self.chunk_nnz,) or values.dtype != self.value_dtype:
                    raise ValueError("/values does not have the parts that the description names")
            check_tables(chunks, len(self.parts), self.chunk_nnz, n_rows, nnz)
            self._check_offsets()
            require_length(self._group("features"), "ids", meta["n_features"])
            kind = meta.get("label_kind", NUMBERS)
            counts = labels_in_json(meta["labels"])
            table = None
            if kind != NUMBERS:
                table = read_labels(self._group("labels"), meta["n_labels"], kind == SETS)
                if counts is not None and table != tuple(label for label, _ in counts):
                    raise ValueError("/labels has other labels than the description")
            super().__init__(
                name=str(self.path),
                n_samples=n_rows,
                n_features=int(meta["n_features"]),
                n_nonzeros=nnz,
                value_bytes=0 if self.value_dtype is None else np.dtype(self.value_dtype).itemsize,
                max_norm=float(meta["max_norm"]),
                chunks=ChunkTable(*(chunks[name].astype(np.int64) for name in ("first_row", "n_rows", "nnz"))),
                coding=Coding(labels_of(counts), table),
                label_kind=kind,
                label_counts=counts,
                n_unlabelled=meta.get("n_unlabelled", 0),
                weighted=self.weighted,
                total_weight=meta.get("total_weight", float(n_rows)),
                label_weights=meta.get("label_weights"),
                fingerprint=meta["fingerprint"],
                shuffled=meta["settings"]["order"] == "shuffled",
            )
            self.first_part = chunks["first_part"].astype(np.int64)
            self.n_parts = chunks["n_parts"].astype(np.int64)
            self.rows_checksum = chunks["rows_checksum"]
            sizes = self.parts["indices_size"].astype(np.int64) + self.parts["values_size"]
            self.largest_part = int(sizes.max(initial=0))

    def _table(self, name: str, dtype: np.dtype, length: int, checksum: int) -> np.ndarray:
        table = read_table(self.file, name, dtype, length)
        if codec.checksum(table.tobytes()) != checksum:
            raise ValueError(f"checksum of /{name} does not match")
        return table

    def _check_offsets(self) -> None:
        """Read the offsets from HDF5 where those of the table are stale, since another tool has rewritten the file."""
        names = ["indices"] if self.value_dtype is None else ["indices", "values"]
        for name in names:
            if len(self.parts) == 0:
                continue
            last = len(self.parts) - 1
            info = self.file[name].id.get_chunk_info_by_coord((last * self.chunk_nnz,))
            if info.byte_offset != self.parts[name + "_offset"][last]:
                fill_offsets(self.file[name], self.parts, name, self.chunk_nnz)
        size = os.fstat(self.fd).st_size
        for name in names:
            check_parts(self.parts, name, self.chunk_nnz * self.file[name].dtype.itemsize, size)
        if self.rows_offset is None or self.rows_offset + self.meta["n_samples"] * self.row_dtype.itemsize > size:
            raise ValueError("the file is truncated")

    def parts_of(self, chunk: int) -> list[tuple]:
        """The records of a chunk's parts (PART dtype, as tuples of int)."""
        first = int(self.first_part[chunk])
        return self.parts[first : first + int(self.n_parts[chunk])].tolist()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what is being read, and close the file (of a reader: leave it to its owner)."""
        for reader in list(self.readers if self.owner is None else ()):
            reader.close()
        if self.fd >= 0:
            self.pool.shutdown()
            if self.owner is None:
                with suppress(OSError):  # nothing is lost of what was read
                    os.close(self.fd)
            self.fd = -1
        if self.owner is None:
            self.file.close()

    def _decoders_within(self, memory: int) -> int:
        """How many there may be; as many on every machine, so that equal memory makes equal blocks."""
        return min(MOST_DECODERS, max(LEAST_DECODERS, int(MEMORY_SHARE * memory) // self._decoder_bytes))

    @property
    def _decoder_bytes(self) -> int:
        return 2 * self.chunk_nnz * (INDEX_BYTES + self.value_bytes)  # a compressed part and a padded one

    def working_bytes(self, memory: int = 0) -> int:
        buffers = self._decoders_within(memory) * self._decoder_bytes
        return buffers + LABEL_BYTES * self.meta.get("n_labels", 0)

    def decode_by(self, threads: int | None, memory: int) -> None:
        most = self._decoders_within(memory)
        self.pool.shutdown()
        self._start_decoders(most if threads is None else min(threads, most))

    def read_rows(self, chunk: int) -> np.ndarray:
        """The row records of a chunk (ROW dtype, or WEIGHTED_ROW), verified."""
        return self.decoders[0].read_rows(chunk)

    def read_labels(self, chunk: int) -> np.ndarray:
        """The user's labels of a chunk's rows: float64, nan where there is none; or strings or tuples, and None."""
        return self.coding.labels_of_rows(self.read_rows(chunk)["label"])

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        n_rows, entries = self.chunks.n_rows[chunks], self.chunks.nnz[chunks]
        n, nnz = int(n_rows.sum()), int(entries.sum())
        block = new_block(self, n, nnz, arena)
        work = SharedWork(block, self._runs(chunks, n_rows, entries))
        self.under_way = work
        others = [self.pool.submit(work.take_part, decoder) for decoder in self.decoders[2:]]
        try:
            work.take_part(self.decoders[0])
        finally:
            self.under_way = None
            for other in others:
                other.result()
            work.finish()  # all are done before the arena is used again
        for decoder in self.decoders:
            decoder.settle(self.cost)
        self.cost.blocks += 1
        self.cost.nnz += nnz
        return block

    def _runs(self, chunks: np.ndarray, n_rows: np.ndarray, entries: np.ndarray) -> list[tuple]:
        """Consecutive chunks with their place in a block, as ``SharedWork`` takes them."""
        # enough runs to share, long ones so that few parts have to be decoded beside their place
        length = max(1, min(LONGEST_RUN, len(chunks) // (RUNS_WANTED * len(self.decoders))))
        rows, places = np.append(0, np.cumsum(n_rows)).tolist(), np.append(0, np.cumsum(entries)).tolist()
        numbers = chunks.tolist()
        runs = []
        for start in range(0, len(chunks), length):
            stop = min(start + length, len(chunks))
            ahead = numbers[stop if start else 0 : stop + CHUNKS_AHEAD] if start % CHUNKS_AHEAD < length else []
            runs.append((numbers[start:stop], rows[start], places[start], places[stop], ahead))
        return runs

    def help(self) -> bool:
        work = self.under_way
        if work is not None:
            work.take_part(self.decoders[1])
        return work is not None

    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        return not_below_0(self.path, read_range(self._group("features"), "ids", np.dtype(np.int64), start, stop))

    def feature_id_pieces(self, start: int = 0, stop: int | None = None):
        """(first feature, ids) for each stored piece that has features from start to stop, verified."""
        for first, piece in read_pieces(self._group("features"), "ids", np.dtype(np.int64), start, stop):
            yield first, not_below_0(self.path, piece)

    def feature_names(self, start: int, stop: int) -> list[str] | None:
        if not self.meta.get("named", False):
            return None
        features = self._group("features")
        require_length(features, "name_ends", self.n_features)
        return read_strings(features, "names", "name_ends", start, stop)

    @cached_property
    def lines(self) -> tuple[np.ndarray, np.ndarray]:
        """Where its rows stand in the text, see ``write_lines``."""
        with damage_named(self.file):
            return read_lines(self.file)

    def origins(self, chunk: int, rows: np.ndarray) -> list[str]:
        return origins(self.meta["sources"], self.lines, self.read_rows(chunk)["source"][rows].astype(np.int64))

    def history(self) -> Iterator[Step]:
        return read_steps(self.file, self.meta)

    def _group(self, name: str):
        with damage_named(self.file):
            return member(self.file, name, h5py.Group)

    def verify(self, progress=None) -> None:
        """Read everything that matters against its checksums; InputError names what is damaged."""
        for done in self.verify_chunks(range(len(self.chunks))):
            if progress is not None:
                progress(done, len(self.chunks))
        self.verify_tables()

    def verify_chunks(self, chunks: Iterable[int]) -> Iterator[int]:
        """Read chunks against their checksums, one after the other; how many have been read."""
        arena = Arena(largest_chunk_bytes(self))
        for done, chunk in enumerate(chunks, 1):
            self.read_block(np.array([chunk]), arena)
            yield done

    def verify_tables(self) -> None:
        """Read what is in no chunk against its checksums."""
        for start in range(0, self.n_features if self.meta.get("named", False) else 0, PIECE):
            self.feature_names(start, min(start + PIECE, self.n_features))
        self.lines  # noqa: B018 - for what it raises
        for step in self.history():
            for _ in step.dropped():
                pass
        check_ids(self)


def check_parts(parts: np.ndarray, name: str, n_bytes: int, file_bytes: int) -> None:
    """ValueError where a part, which holds ``n_bytes``, is not in the file, or is larger than Blosc makes one."""
    offsets, sizes = parts[name + "_offset"], parts[name + "_size"].astype(np.uint64)
    if len(parts) and int(sizes.max()) > n_bytes + codec.HEADER:
        raise ValueError(f"a part of /{name} is larger than what it holds")
    if len(parts) and (int(offsets.max()) > file_bytes or int((offsets + sizes).max()) > file_bytes):
        raise ValueError("the file is truncated")


def not_below_0(path: Path, ids: np.ndarray) -> np.ndarray:
    if int(ids.min(initial=0)) < 0:
        raise InputError(f"{path}: a feature's id is below 0; the file is damaged, make it again")
    return ids


def check_ids(store: Store, at_once: int = IDS_AT_ONCE) -> None:
    """InputError where two features have the same id."""
    shares = 1 + store.n_features // at_once
    for share in range(shares):
        ids = np.concatenate([NO_IDS, *(piece[piece % shares == share] for _, piece in store.feature_id_pieces())])
        ids.sort()
        if (ids[1:] == ids[:-1]).any():
            raise InputError(f"{store.path}: two features have the same id; make the store again")


def check_tables(chunks: np.ndarray, n_parts: int, chunk_nnz: int, n_rows: int, nnz: int) -> None:
    """ValueError where the table of chunks does not say what the description does."""
    rows = chunks["n_rows"].astype(np.int64)
    entries = chunks["nnz"].astype(np.int64)
    parts = chunks["n_parts"].astype(np.int64)
    ends = np.cumsum(rows)
    part_ends = np.cumsum(parts)
    sound = (
        chunk_nnz > 0
        and len(chunks) > 0
        and np.array_equal(chunks["first_row"], ends - rows)
        and ends[-1] == n_rows
        and (entries >= 0).all()
        and entries.sum() == nnz
        and np.array_equal(chunks["first_part"], part_ends - parts)
        and part_ends[-1] == n_parts
        and np.array_equal(parts, -(-entries // chunk_nnz))
        and (rows > 0).all()
    )
    if not sound:
        raise ValueError("the table of chunks contradicts the description")


def labels_in_json(entries: list | None) -> list[tuple] | None:
    """[(label, rows)] of a description: numbers as float, sets as tuples."""
    if entries is None:
        return None
    return [
        (tuple(label) if isinstance(label, list) else label if isinstance(label, str) else float(label), rows)
        for label, rows in entries
    ]


def open_store(path: str | Path) -> Store:
    """Open a store made by ``blocksvm split``; a context manager."""
    return Store(path)
