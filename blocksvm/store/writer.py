"""Writing a store: rows in their final order go in, compressed chunks with their tables come out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import h5py
import numpy as np
from xxhash import xxh3_128_hexdigest

from blocksvm.base.labels import MOST_LABELS, MOST_SETS, NUMBERS, SETS, STRINGS, kind_of
from blocksvm.kernels.rows import HEADER, HOT
from blocksvm.sources.block import WORD_BYTES
from blocksvm.sources.block_kernels import pack_rows
from blocksvm.store import codec
from blocksvm.store.arrays import Piecewise, write_array, write_labels, write_names
from blocksvm.store.descriptions import CHUNK, PART, ROW, WEIGHTED_ROW, StoreMeta, typed


class StoreWriter:
    """Cuts rows into chunks, compresses them in a pool of threads and writes them in order.

    file: an open ``NewHdf5`` without members of a store.  n_rows: the rows that will be added in all.  chunk_nnz: a
    chunk has about so many entries and at most so many rows, or is one longer row.  value_dtype: float32 or float64, or
    None where every value is 1, of which nothing is stored.  pool: threads that compress parts.  jobs: how many; twice
    as many compressed parts, at most, wait in memory.  weighted: the rows have weights.  part_words: of a part, which
    are the most of a chunk of several rows; None: those of the first rows of ``chunk_nnz`` entries.  codec_name: of
    ``codec.CODECS``.

    ``append`` adds rows, ``copy`` whole chunks of another store of the same ``part_words``, ``finish`` writes the
    tables.  The file is the same for any pool.  Rows are not checked here; a reader refuses features that do not rise
    or do not exist, and values, norms and weights that are not finite.
    """

    def __init__(self, file: h5py.File, n_rows: int, chunk_nnz: int, value_dtype, pool: ThreadPoolExecutor, jobs: int,
                 weighted: bool = False, part_words: int | None = None, codec_name: str = codec.CODEC):  # fmt: skip
        self.file, self.chunk_nnz, self.pool, self.most_pending = file, chunk_nnz, pool, 2 * jobs
        self.value_dtype = None if value_dtype is None else np.dtype(value_dtype)
        self.part_words, self.codec_name, self.weighted = part_words, codec_name, weighted
        self.words: h5py.Dataset | None = None
        self.rows = file.create_dataset("rows", shape=(n_rows,), dtype=WEIGHTED_ROW if weighted else ROW)
        self.row_type = h5py.h5t.py_create(self.rows.dtype)
        self.chunks: list[tuple] = []
        self.checksums: list[int] = []  # of the parts that are written
        self.pending: deque = deque()
        self.parts_submitted = self.rows_cut = self.nnz = self.n_unlabelled = 0
        self.max_sq_norm = self.total_weight = 0.0
        # rows and weight of labels as they are kept, see blocksvm/base/labels.py; None: there are too many
        self.by_label: dict[float, tuple[int, float]] | None = {}
        self._start_chunk()

    def _start_chunk(self) -> None:
        self.open_words: list[np.ndarray] = []
        self.open_rows: list[np.ndarray] = []
        self.n_open_rows = self.open_nnz = self.n_open_words = 0

    def append(self, rows: np.ndarray, packed: PackedRows) -> None:
        """Add rows.

        rows (n,): records of ROW, or of WEIGHTED_ROW where the rows have weights.  label: nan for none, or the position
        of a label that is no number among the labels of ``finish``; sq_norm: ||x||^2 of the values as they are stored;
        source: the row's number in the source, from 0; weight: finite, 0 or more.
        """
        words, lengths = packed.words, packed.lengths
        ends, stops = (np.cumsum(sizes, dtype=np.int64) for sizes in (packed.sizes, lengths))
        row = word = entry = 0
        while row < len(rows):
            # as many rows as still fit in the open chunk
            known, room = stops, entry + self.chunk_nnz - self.open_nnz
            if self.part_words is not None:
                known, room = ends, word + self.part_words - self.n_open_words
            last = min(int(np.searchsorted(known, room, side="right")), row + self.chunk_nnz - self.n_open_rows)
            if last <= row and self.n_open_rows:
                self._close_chunk()
                continue
            last = max(last, row + 1)  # one row longer than a part is a chunk of its own
            self.open_rows.append(rows[row:last])
            self.open_words.append(words[word : ends[last - 1]])
            self.n_open_rows += last - row
            self.n_open_words += int(ends[last - 1]) - word
            self.open_nnz += int(stops[last - 1]) - entry
            row, word, entry = last, int(ends[last - 1]), int(stops[last - 1])
        if self.n_open_rows:  # what is left over does not keep all the rest
            self.open_rows[-1], self.open_words[-1] = self.open_rows[-1].copy(), self.open_words[-1].copy()

    def _close_chunk(self) -> None:
        if not self.n_open_rows:
            return
        if self.part_words is None:
            # of a long first row only so much as would be a chunk of shorter ones
            self.part_words = -(-self.n_open_words * self.chunk_nnz // max(self.chunk_nnz, self.open_nnz))
        n_parts = -(-self.n_open_words // self.part_words)
        padded = np.zeros(n_parts * self.part_words, np.uint64)
        np.concatenate(self.open_words, out=padded[: self.n_open_words])
        self._cut(np.concatenate(self.open_rows), self.open_nnz, self.n_open_words, n_parts)
        for part in padded.reshape(n_parts, -1):
            self._queue(self.pool.submit(codec.encode, part, self.codec_name))
        self._start_chunk()

    def copy(self, rows: np.ndarray, nnz: int, n_words: int, parts: list[Callable[[], tuple]]) -> None:
        """Add a chunk of another store of the same ``part_words``: its records, entries and words, and for each part a
        function that gives its bytes, as ``codec.encode`` does."""
        self._close_chunk()
        self._cut(rows, nnz, n_words, len(parts))
        for part in parts:
            self._queue(self.pool.submit(part))

    def _queue(self, part: Future) -> None:
        self.pending.append(part)
        while len(self.pending) > self.most_pending:
            self._write_part(self.pending.popleft().result())

    def _cut(self, rows: np.ndarray, nnz: int, n_words: int, n_parts: int) -> None:
        """The records of a chunk, which are whole."""
        checksum = codec.checksum(rows.tobytes())
        self.chunks.append((self.rows_cut, len(rows), nnz, n_words, self.parts_submitted, n_parts, checksum))
        self._count(rows, nnz)
        # self.rows[first:last] = rows, in a third of the time
        position = self.rows.id.get_space()
        position.select_hyperslab((self.rows_cut,), rows.shape)
        self.rows.id.write(h5py.h5s.create_simple(rows.shape), position, rows, self.row_type)
        self.rows_cut += len(rows)
        self.parts_submitted += n_parts

    def _write_part(self, encoded: tuple[bytes, int, int]) -> None:
        raw, mask, checksum = encoded
        assert self.part_words is not None
        if self.words is None:
            import hdf5plugin

            # its chunks hold what ``codec.encode`` makes, readable by any HDF5 with hdf5plugin
            blosc = hdf5plugin.Blosc(cname=codec.CODEC, clevel=codec.LEVEL, shuffle=hdf5plugin.Blosc.SHUFFLE)
            self.words = self.file.create_dataset("words", shape=(0,), maxshape=(None,), dtype=np.uint64,
                                                  chunks=(self.part_words,), fillvalue=0, **dict(blosc))  # fmt: skip
        start = len(self.checksums) * self.part_words
        if start + self.part_words > self.words.shape[0]:
            self.words.resize((max(64 * self.part_words, 2 * self.words.shape[0]),))
        self.words.id.write_direct_chunk((start,), raw, filter_mask=mask)
        self.checksums.append(checksum)
        self.file.sink.check()

    def finish(self, n_features: int, feature_ids: Callable[[int, int], np.ndarray], described: dict,
               labels: tuple | None = None, names: tuple[np.ndarray, Callable] | None = None,
               factors: np.ndarray | None = None) -> StoreMeta:  # fmt: skip
        """Write what is open, and the tables; returns the description, which ``write_meta`` ends the file with.

        feature_ids(start, stop): the users' ids (int64) of these features; described: what the description has besides
        the counts; labels: the distinct labels, rising, where they are strings or sets; names: (lengths, text_at) of
        the features' names, as ``write_names`` takes them; factors (d,): what each feature's values were multiplied by.
        """
        self._close_chunk()
        while self.pending:
            self._write_part(self.pending.popleft().result())
        size = self.part_words
        assert self.words is not None
        assert size is not None
        chunks, parts = np.array(self.chunks, dtype=CHUNK), np.zeros(len(self.checksums), dtype=PART)
        self.words.resize((len(parts) * size,))
        parts["checksum"] = self.checksums
        self.file.flush()

        def note(info) -> None:
            k = info.chunk_offset[0] // size
            parts["offset"][k], parts["size"][k] = info.byte_offset, info.size

        self.words.id.chunk_iter(note)  # one walk: asking chunk by chunk is slow
        self.file.create_dataset("chunks", data=chunks)
        self.file.create_dataset("parts", data=parts)
        features = self.file.create_group("features")
        content = [chunks.tobytes(), parts["checksum"].tobytes()]
        content.append(write_array(features, "ids", Piecewise(n_features, np.int64, feature_ids)))
        if names is not None:
            write_names(features, *names)
        if factors is not None:
            write_array(features, "idf", factors)
        if labels is not None:
            content.append(write_labels(self.file, labels))
        counted = {
            "n_samples": self.rows_cut, "n_features": n_features, "n_chunks": len(chunks), "n_parts": len(parts),
            "chunk_nonzeros": self.chunk_nnz, "part_words": size,
            "values": "ones" if self.value_dtype is None else self.value_dtype.name,
            "codec": codec.NONE if self.codec_name == codec.NONE else f"blosc-{self.codec_name}-{codec.LEVEL}",
            "chunks_checksum": codec.checksum(chunks.tobytes()), "parts_checksum": codec.checksum(parts.tobytes()),
            "fingerprint": xxh3_128_hexdigest(b"".join(content)),
        }  # fmt: skip
        return typed(described | counted | self._counted(labels, names is not None), StoreMeta)

    def _count(self, rows: np.ndarray, nnz: int) -> None:
        """Count the rows of a chunk: the sums of weights are the same however the rows came."""
        self.max_sq_norm = max(self.max_sq_norm, float(rows["sq_norm"].max()))
        self.nnz += nnz
        self.n_unlabelled += int(np.isnan(rows["label"]).sum())
        if self.weighted:
            self.total_weight += float(rows["weight"].sum())
        if self.by_label is None:
            return
        known, position = np.unique(rows["label"], return_inverse=True)
        weights = np.bincount(position, rows["weight"]) if self.weighted else np.zeros(len(known))
        for label, count, weight in zip(known.tolist(), np.bincount(position).tolist(), weights.tolist(), strict=True):
            if not math.isnan(label):
                before, total = self.by_label.get(label, (0, 0.0))
                self.by_label[label] = before + count, total + weight
        if len(self.by_label) > MOST_SETS:
            self.by_label = None

    def _counted(self, table: tuple | None, named: bool) -> dict:
        """What a description has of these counts.  table: the labels, rising, where they are not numbers."""
        kind = NUMBERS if table is None else kind_of(table[0]) if table else STRINGS
        labels = weights = None
        if self.by_label is not None and (len(self.by_label) <= MOST_LABELS or kind == SETS):
            counts = sorted(self.by_label.items())
            labels = [(label if table is None else table[int(label)], rows) for label, (rows, _) in counts]
            weights = [weight for _, (_, weight) in counts]
        return {
            "n_nonzeros": self.nnz, "max_norm": math.sqrt(self.max_sq_norm), "labels": labels, "label_kind": kind,
            "n_labels": len(table or ()), "n_unlabelled": self.n_unlabelled, "weighted": self.weighted,
            "total_weight": self.total_weight if self.weighted else None,
            "label_weights": weights if self.weighted else None, "named": named,
        }  # fmt: skip


class PackedRows(NamedTuple):
    """Rows one after the other: words (m,) uint64; sizes (n,) uint32 and lengths (n,) int64: words, entries of each."""

    words: np.ndarray
    sizes: np.ndarray
    lengths: np.ndarray


def packed(lengths: np.ndarray, indices: np.ndarray, values: np.ndarray | None, hot: int = HOT) -> PackedRows:
    """Rows of these lengths (n,), packed.

    indices (nnz,) int32: features from 0 on, rising within a row, none twice; ``hot`` = 0: any, in any order.
    values (nnz,) float32 or float64, finite, without zeros, which would be stored as entries; None: every value is 1.
    """
    value_bytes = 0 if values is None else values.itemsize
    most = (2 * HEADER * len(lengths) + (4 + value_bytes) * len(indices)) // WORD_BYTES + 1
    # memory that is not touched is not taken
    words, sizes = np.empty(most, np.uint64), np.empty(len(lengths), np.uint32)
    bits = None if values is None else values.view(f"u{value_bytes}")
    kinds = (words.view(kind) for kind in (np.uint32, np.uint16, np.uint8))
    numbers = None if values is None else words.view(values.dtype)
    of_one_type = lengths.astype(np.int64, copy=False)  # the kernel is compiled once
    n = pack_rows(of_one_type, indices, hot, values, bits, *kinds, numbers, sizes)
    return PackedRows(words[:n], sizes, lengths)
