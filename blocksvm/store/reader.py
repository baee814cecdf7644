"""A store opened for reading: its description and tables once, then blocks of its chunks by several decoders."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from threading import Lock
from typing import Self

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import LABEL_BYTES, NUMBERS, SETS, Coding, Labels, labels_of
from blocksvm.base.threads import n_processors
from blocksvm.files.paths import Location, ObjectUrl, location
from blocksvm.sources.block import WORD_BYTES, Arena, Block
from blocksvm.sources.source import ChunkTable, ReadingCost, Source, largest_chunk_bytes
from blocksvm.store import codec
from blocksvm.store.arrays import PIECE, read_labels, read_names, read_range, read_text, require_length
from blocksvm.store.decoder import ChunkBytes, Decoder, Span
from blocksvm.store.descriptions import CHUNK, PART, ROW, WEIGHTED_ROW, StepMeta, StoreMeta
from blocksvm.store.hdf5_files import damage_named, group, member, open_hdf5, read_meta, read_table

UNITS_WANTED = 800
UNIT_BYTES = 16_000_000
UNIT_SHARE = 1 / 6  # of the memory for what is under way; also of what is asked for at once


class PartTable:
    """Of a store's file of so many bytes and its tables, PART and CHUNK records; ValueError where the file has not the
    datasets that they are of, where these do not lie in it, or a part is larger than Blosc makes one."""

    def __init__(self, file, file_bytes: int, records: np.ndarray, chunks: np.ndarray, part_words: int, row_dtype):
        rows, words = member(file, "rows"), member(file, "words")
        if rows.dtype != row_dtype or rows.shape != (int(chunks["n_rows"].sum(dtype=np.int64)),):
            raise ValueError("/rows does not have the rows that the description names")
        if words.shape != (len(records) * part_words,) or words.chunks != (part_words,) or words.dtype != np.uint64:
            raise ValueError("/words does not have the parts that the description names")
        offsets, sizes = records["offset"], records["size"].astype(np.uint64)
        if int(sizes.max()) > part_words * WORD_BYTES + codec.HEADER:
            raise ValueError("a part of /words is larger than what it holds")
        offset, n_bytes = rows.id.get_offset(), rows.shape[0] * row_dtype.itemsize
        if offset is None or max(offset + n_bytes, int(offsets.max()), int((offsets + sizes).max())) > file_bytes:
            raise ValueError("the file is truncated")
        self.records = records
        self.first_part, self.n_parts = chunks["first_part"].astype(np.int64), chunks["n_parts"].astype(np.int64)
        ends = offset + np.append(0, np.cumsum(chunks["n_rows"].astype(np.int64))) * row_dtype.itemsize
        self.rows: list[Span] = list(pairwise(ends.tolist()))  # where the records of each chunk's rows lie
        self.largest_part = int(sizes.max())
        self.most_words = int(self.n_parts.max()) * part_words  # of a chunk, with those that fill up its last part
        ends_of_parts = np.append(0, np.cumsum(sizes.astype(np.int64)))
        self.sizes = np.diff(ends) + ends_of_parts[self.first_part + self.n_parts] - ends_of_parts[self.first_part]

    def of_chunk(self, chunk: int) -> list[tuple]:
        """The records of a chunk's parts (PART dtype, as tuples of int)."""
        first = int(self.first_part[chunk])
        return self.records[first : first + int(self.n_parts[chunk])].tolist()

    def spans(self, chunk: int) -> list[Span]:
        """Where the bytes of a chunk lie."""
        return [self.rows[chunk], *((offset, offset + size) for offset, size, _ in self.of_chunk(chunk))]


# Threads that decode a block together: the one that reads it, one that waits for it and helps, and more of the store's
# own.  Their buffers take this part of the memory, or what LEAST_DECODERS need.
LEAST_DECODERS, MOST_DECODERS = 3, 16
MEMORY_SHARE = 1 / 32

# what a store is as its description says it
AS_DESCRIBED = ("n_samples", "n_features", "n_nonzeros", "max_norm", "label_kind", "n_unlabelled", "weighted", "named",
                "label_weights", "fingerprint")  # fmt: skip
IDS_AT_ONCE = 1 << 22  # that are compared with each other in memory


class Store(Source):
    """A store opened for reading.  ``close`` it, or use it in a ``with`` statement.

    path: of a file, or the URL of an object.  InputError for what is no store, of another version, or damaged.
    """

    numbered = False  # a row's number is its position in the store, not what its record says

    def __init__(self, path: str | Location):
        self.path = location(path)
        self.file = open_hdf5(self.path, "store")
        self.is_open = False
        self.owner: Store | None = None  # of the file, where this is a reader of another store object
        self.readers: weakref.WeakSet[Store] = weakref.WeakSet()
        self.pool = ThreadPoolExecutor(1)
        try:
            if isinstance(self.path, ObjectUrl):
                from blocksvm.store.remote_chunks import RemoteBytes  # which takes a while to import

                self.bytes: ChunkBytes = RemoteBytes(self.path.remote, lambda chunk: self.parts.spans(chunk))
            else:  # the very file that HDF5 has opened
                self.bytes = ChunkBytes(self.path, os.dup(self.file.id.get_vfd_handle()))
            self.is_open = True
            self._start_decoders(LEAST_DECODERS)
            self.meta: StoreMeta = read_meta(self.file)
            self._open_tables()
        except BaseException:
            self.close()
            raise

    def _start_decoders(self, most: int) -> None:
        self.decoders = [Decoder(self) for _ in range(max(2, min(most, n_processors())))]
        self.pool = ThreadPoolExecutor(max(1, len(self.decoders) - 2), thread_name_prefix="blocksvm-decoder")
        self.under_way: tuple | None = None  # what ``_take_part`` takes of the block that is read
        self.helping = Lock()

    def reader(self, labels: Labels | None = None, real: bool = False, packed: bool = False) -> Self:
        """The same rows for another consumer, by the same file and tables; closed by its ``close``, or with this."""
        if not self.is_open:
            raise ValueError(f"{self.path}: the store is closed")
        other = super().reader(labels, real, packed)
        other.owner = self.owner or self
        other.bytes = self.bytes.reader()
        other._start_decoders(LEAST_DECODERS)
        other.owner.readers.add(other)
        return other

    def _open_tables(self) -> None:
        meta = self.meta
        with damage_named(self.file):
            chunks = self._table("chunks", CHUNK, meta.n_chunks, meta.chunks_checksum)
            parts = self._table("parts", PART, meta.n_parts, meta.parts_checksum)
            self.value_dtype = None if meta.values == "ones" else np.dtype(meta.values)
            self.part_words, self.row_dtype = meta.part_words, WEIGHTED_ROW if meta.weighted else ROW
            check_tables(chunks, meta)
            self.parts = PartTable(self.file, self.bytes.size, parts, chunks, self.part_words, self.row_dtype)
            require_length(self._group("features"), "ids", meta.n_features)
            table = None
            if meta.label_kind != NUMBERS:
                table = read_labels(self.file, meta.n_labels, meta.label_kind == SETS)
                if meta.labels is not None and table != tuple(label for label, _ in meta.labels):
                    raise ValueError("/labels has other labels than the description")
            columns = (chunks[name].astype(np.int64) for name in ("first_row", "n_rows", "nnz", "words"))
            super().__init__(
                name=str(self.path), value_bytes=0 if self.value_dtype is None else self.value_dtype.itemsize,
                chunks=ChunkTable(*columns), coding=Coding(labels_of(meta.labels), table), label_counts=meta.labels,
                total_weight=float(meta.n_samples) if meta.total_weight is None else meta.total_weight,
                shuffled=meta.settings.order == "shuffled", **{name: getattr(meta, name) for name in AS_DESCRIBED},
            )  # fmt: skip
            self.rows_checksum = chunks["rows_checksum"]
            self.checked = np.zeros(len(chunks), bool)  # chunks whose words have been found sound

    def _table(self, name: str, dtype: np.dtype, length: int, checksum: int) -> np.ndarray:
        table = read_table(self.file, name, dtype, length)
        if codec.checksum(table.tobytes()) != checksum:
            raise ValueError(f"checksum of /{name} does not match")
        return table

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what is being read, and close the file (of a reader: leave it to its owner)."""
        for reader in list(self.readers if self.owner is None else ()):
            reader.close()
        self.pool.shutdown()
        if self.is_open:
            self.bytes.close()
            self.is_open = False
        if self.owner is None:
            self.file.close()

    def _decoders_within(self, memory: int) -> int:
        """How many there may be; as many on every machine, so that equal memory makes equal blocks."""
        return min(MOST_DECODERS, max(LEAST_DECODERS, int(MEMORY_SHARE * memory) // self._decoder_bytes))

    @property
    def _decoder_bytes(self) -> int:
        # a compressed part and the words of a chunk
        return WORD_BYTES * (self.part_words + self.parts.most_words) + codec.HEADER

    def working_bytes(self, memory: int = 0) -> int:
        return self._decoders_within(memory) * self._decoder_bytes + LABEL_BYTES * self.meta.n_labels

    def decode_by(self, threads: int | None, memory: int) -> None:
        most = self._decoders_within(memory)
        self.pool.shutdown()
        share = max(int(MEMORY_SHARE * memory), LEAST_DECODERS * self._decoder_bytes)
        self.bytes = self.bytes.within(share, self._most_bytes(memory))
        self._start_decoders(most if threads is None else min(threads, most))

    def _most_bytes(self, memory: int) -> int:
        return max(1, min(UNIT_BYTES, int(UNIT_SHARE * int(MEMORY_SHARE * memory))))

    def unit_bytes(self, memory: int) -> int | None:
        return max(1, min(self._most_bytes(memory), int(self.parts.sizes.sum()) // UNITS_WANTED))

    def units(self, n_bytes: int | None) -> np.ndarray | None:
        sizes = self.parts.sizes
        return None if n_bytes is None else np.unique((np.cumsum(sizes) - sizes) // n_bytes, return_index=True)[1]

    def read_rows(self, chunk: int) -> np.ndarray:
        """The row records of a chunk (ROW dtype, or WEIGHTED_ROW), verified."""
        return self.decoders[0].read_rows(chunk)

    def read_labels(self, chunk: int) -> np.ndarray:
        """The user's labels of a chunk's rows: float64, nan where there is none; or strings or tuples, and None."""
        return self.coding.labels_of_rows(self.read_rows(chunk)["label"])

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        n_rows, sizes = self.chunks.n_rows[chunks], self.sizes[chunks]
        block = self.shape.new_block(arena, int(n_rows.sum()), int(sizes.sum()), self.n_features)
        failed: dict[int, BaseException] = {}
        # each run knows its position in the block beforehand: the block is the same whichever thread decodes it
        rows, positions = np.append(0, np.cumsum(n_rows)).tolist(), np.append(0, np.cumsum(sizes)).tolist()
        runs, stop = list[tuple](), 0
        for run in self.bytes.runs(chunks.tolist(), len(self.decoders)):
            start, stop = stop, stop + len(run.chunks)
            runs.append((run, rows[start], positions[start], positions[stop]))
        work = block, iter(list(enumerate(runs))), failed
        self.under_way = work
        others = [self.pool.submit(self._take_part, decoder, *work) for decoder in self.decoders[2:]]
        self._take_part(self.decoders[0], *work)
        wait(others)
        with self.helping:  # all are done before the arena is used again
            self.under_way = None
        if failed:
            raise failed[min(failed)]  # what went wrong first in the order of the runs
        for decoder in self.decoders:
            self.cost += decoder.cost
            decoder.cost = ReadingCost()
        self.cost.blocks += 1
        self.cost.nnz += int(self.chunks.nnz[chunks].sum())
        return block

    def _take_part(self, decoder: Decoder, block: Block, runs: Iterator, failed: dict[int, BaseException]) -> None:
        """Decode runs, each of which the list's iterator gives to one thread, until none is left or one has failed."""
        for number, run in runs:
            try:
                decoder.decode(block, *run)
            except BaseException as error:
                failed[number] = error
            if failed:
                break

    def help(self) -> bool:
        with self.helping:
            work = self.under_way
            if work is not None:
                self._take_part(self.decoders[1], *work)
        return work is not None

    def foresee(self, blocks: list[np.ndarray]) -> None:
        self.bytes.foresee([chunks.tolist() for chunks in blocks])

    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        ids = read_range(self._group("features"), "ids", np.dtype(np.int64), start, stop)
        if int(ids.min(initial=0)) < 0:
            raise InputError(f"{self.path}: a feature's id is below 0; the file is damaged, make it again")
        return ids

    def feature_names(self, start: int, stop: int) -> list[str] | None:
        if not self.named:
            return None
        features = self._group("features")
        require_length(features, "name_ends", self.n_features)
        return read_names(features, start, stop)

    @property
    def name_bytes(self) -> int:
        """Of all features' names, 0 where they have none."""
        return require_length(self._group("features"), "names", None) if self.named else 0

    def feature_texts(self, start: int, stop: int) -> tuple[bytes, np.ndarray] | None:
        """The names of some features as UTF-8, one after the other, and where each begins and the last ends."""
        return read_text(self._group("features"), start, stop) if self.named else None

    def history(self) -> list[StepMeta]:
        return self.meta.history

    def origins(self, chunk: int, rows: np.ndarray) -> list[str]:
        sources = self.meta.sources
        first = np.array([source.first_row for source in sources], np.int64)
        numbers = self.read_rows(chunk)["source"][rows].astype(np.int64)
        which = np.maximum(np.searchsorted(first, numbers, side="right") - 1, 0)
        within = zip((numbers - first[which]).tolist(), which.tolist(), strict=True)
        return [f"{sources[k].name}, row {number + 1}" for number, k in within]

    def _group(self, name: str):
        with damage_named(self.file):
            return group(self.file, name)

    def verify(self, progress=None) -> None:
        """Read everything that matters against its checksums; InputError names what is damaged."""
        arena = Arena(largest_chunk_bytes(self))
        for chunk in range(len(self.chunks)):
            self.read_block(np.array([chunk]), arena)
            if progress is not None:
                progress(chunk + 1, len(self.chunks))
        for start in range(0, self.n_features if self.named else 0, PIECE):
            self.feature_names(start, min(start + PIECE, self.n_features))
        check_ids(self)


def check_ids(store: Store, at_once: int = IDS_AT_ONCE) -> None:
    """InputError where two features have the same id."""
    shares = 1 + store.n_features // at_once
    for share in range(shares):
        pieces = (piece[piece % shares == share] for _, piece in store.feature_id_pieces())
        ids = np.concatenate([np.empty(0, np.int64), *pieces])
        ids.sort()
        if (ids[1:] == ids[:-1]).any():
            raise InputError(f"{store.path}: two features have the same id; make the store again")


def check_tables(chunks: np.ndarray, meta: StoreMeta) -> None:
    """ValueError where the table of chunks does not say what the description does."""
    rows, entries, words, parts = (chunks[name].astype(np.int64) for name in ("n_rows", "nnz", "words", "n_parts"))
    ends, part_ends = np.cumsum(rows), np.cumsum(parts)  # of one chunk or more
    whole = ends[-1] == meta.n_samples and entries.sum() == meta.n_nonzeros and part_ends[-1] == meta.n_parts
    in_range = (rows > 0) & (entries >= 0) & (words >= rows) & (parts == -(-words // meta.part_words))
    in_order = (chunks["first_row"] == ends - rows) & (chunks["first_part"] == part_ends - parts)
    if not (whole and in_range.all() and in_order.all()):
        raise ValueError("the table of chunks contradicts the description")


def open_store(path: str | Location) -> Store:
    """Open a store made by ``blocksvm split``; a context manager.

    path: of a file, or the URL of an object (s3://, gs://, az://, https://).

        >>> with blocksvm.open_store("rows.h5") as store:
        ...     print(store.n_samples, store.n_features, store.labels.values)
        60 4 (-1.0, 1.0)
    """
    return Store(path)
