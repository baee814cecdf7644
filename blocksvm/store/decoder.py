"""Decoding of a block by one thread or several: chunks from the disk, verified, decoded, checked, to their place.

Chunks are read at their offsets and decoded outside HDF5's lock and the GIL, so that one thread reads while another
trains.  Everything is verified against its checksum and checked before a kernel may see it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.files.input import named_errors
from blocksvm.files.paths import Location
from blocksvm.kernels.rows import Entries, packed_entries
from blocksvm.sources import block_kernels as kernels
from blocksvm.sources.block import Block
from blocksvm.sources.source import ReadingCost
from blocksvm.store import codec

Span = tuple[int, int]  # from a byte to the one behind the last

RUNS_WANTED = 4  # for each thread that decodes
LONGEST_RUN = 8  # chunks

FAULTS = {
    kernels.VALUE_NOT_FINITE: "a value is not finite", kernels.NORM_NOT_FINITE: "a row's norm is not a number",
    kernels.LENGTHS_DISAGREE: "rows and nonzeros disagree",
    kernels.INDICES_DO_NOT_RISE: "the features of a row do not rise, or are out of range",
    kernels.WORDS_DISAGREE: "rows and their words disagree",
}  # fmt: skip


class Truncated(Exception):
    """There are fewer bytes than the tables say."""


class Run:
    """Chunks that follow each other in a block, which one thread reads, begins and ends."""

    def __init__(self, of: ChunkBytes, chunks: Sequence[int]):
        self.of, self.chunks = of, chunks

    def begin(self, cost: ReadingCost) -> None:
        """Its chunks are read from now on; cost: of all that the thread has read, to which requests are added."""

    def read(self, offset: int, out: memoryview) -> memoryview:
        """As ``ChunkBytes.read``, until ``end()``."""
        return self.of.read(offset, out)

    def end(self) -> None:
        """What was begun is done, or has failed."""


class ChunkBytes:
    """The bytes of a store for one consumer, by the descriptor of its file, which is closed with it unless ``owned`` by
    another; size: of the whole file."""

    def __init__(self, path: Location, descriptor: int, owned: bool = True):
        self.path, self.descriptor, self.owned = path, descriptor, owned
        self.size = os.fstat(descriptor).st_size

    def runs(self, chunks: Sequence[int], threads: int) -> Sequence[Run]:
        """A block's chunks, which will be read now, in runs that are shared among threads."""
        # enough runs to share, long ones so that few parts have to be decoded beside their place.  To have the system
        # read 16 chunks ahead (posix_fadvise) takes 1.2 s of a cold 373 MB where this takes 1.0.
        length = max(1, min(LONGEST_RUN, len(chunks) // (RUNS_WANTED * threads)))
        return [Run(self, chunks[start : start + length]) for start in range(0, len(chunks), length)]

    def read(self, offset: int, out: memoryview) -> memoryview:
        """As many bytes from ``offset`` on as ``out`` holds, there or where memory has them; raises Truncated."""
        left = out
        while left:
            with named_errors(self.path):
                n = os.preadv(self.descriptor, [left], offset)
            if n == 0:
                raise Truncated
            offset += n
            left = left[n:]
        return out

    def foresee(self, blocks: Sequence[Sequence[int]]) -> None:
        """The next blocks will be of these chunks, one after the other."""

    def within(self, budget: int, longest: int) -> ChunkBytes:
        """The same; budget: of bytes that wait to be decoded; longest: of a range that is read at once."""
        return self

    def reader(self) -> ChunkBytes:
        """The same for another consumer."""
        return ChunkBytes(self.path, self.descriptor, owned=False)

    def close(self) -> None:
        if self.owned and self.descriptor >= 0:
            with suppress(OSError):  # nothing is lost of what was read
                os.close(self.descriptor)
        self.descriptor = -1


class Decoder:
    """Reads chunks of one store; used by one thread at a time, with buffers of its own."""

    def __init__(self, store):
        self.store = store
        self.compressed = np.empty(0, np.uint8)  # the part being decoded, as the file has it
        self.words = np.empty(0, np.uint64)  # room for any chunk, for what is not decoded to its place
        self.cost = ReadingCost()
        self.run: Run | None = None  # that is read

    def decode(self, block: Block, run: Run, row: int, element: int, end: int) -> None:
        """Fill the block with a run's chunks from a row and a word or entry on; nothing from ``end`` on is touched."""
        self.run, began = run, time.perf_counter()
        try:
            run.begin(self.cost)
            self.cost.seconds_reading += time.perf_counter() - began
            with codec.one_thread():  # once for all chunks: it takes a lock
                for chunk in run.chunks:
                    row, element = self._decode_chunk(block, chunk, row, element, end)
        finally:
            self.run = None
            run.end()

    def _read(self, chunk: int, offset: int, out: memoryview) -> memoryview:
        began = time.perf_counter()
        try:
            raw = (self.run or self.store.bytes).read(offset, out)
        except Truncated:
            raise self._broken(chunk, "is truncated") from None
        self.cost.seconds_reading += time.perf_counter() - began
        self.cost.bytes_read += len(out)
        return raw

    def _broken(self, chunk: int, what: str) -> InputError:
        return InputError(f"{self.store.path}: chunk {chunk}: {what}; make the store again")

    def read_rows(self, chunk: int) -> np.ndarray:
        """The row records of a chunk (ROW dtype, or WEIGHTED_ROW), verified."""
        store = self.store
        rows = np.empty(int(store.chunks.n_rows[chunk]), dtype=store.row_dtype)
        out = memoryview(rows).cast("B")
        raw = self._read(chunk, store.parts.rows[chunk][0], out)
        if codec.checksum(raw) != int(store.rows_checksum[chunk]):
            raise self._broken(chunk, "checksum of its rows does not match")
        if raw is not out:
            out[:] = raw
        if store.weighted and not (np.isfinite(rows["weight"]) & (rows["weight"] >= 0.0)).all():
            raise self._broken(chunk, "a row's weight is not a number of 0 or more")
        if (table := store.coding.source_labels) is not None:
            codes = rows["label"][~np.isnan(rows["label"])]
            if not ((codes >= 0.0) & (codes < len(table)) & (codes == np.floor(codes))).all():
                raise self._broken(chunk, "a row's label is not in the table of labels")
        return rows

    def _decode_chunk(self, block: Block, chunk: int, row: int, element: int, end: int) -> tuple[int, int]:
        """Decode a chunk to a row and a word or entry of a block; returns those after it."""
        began, read_before = time.perf_counter(), self.cost.seconds_reading
        store, packed, coding = self.store, block.packed, self.store.coding
        rows = self.read_rows(chunk)
        n, n_words = len(rows), int(store.chunks.words[chunk])
        here, stop = slice(row, row + n), element + int(store.sizes[chunk])
        codes = block.y[here] if coding.by_kernel else np.empty(n, np.int16)
        code = kernels.fill_rows(
            np.frombuffer(rows, np.uint8), rows.itemsize, int(store.chunks.first_row[chunk]), coding.table,
            block.sq_norms[here].view(np.uint64), block.rows[here], codes,
        )  # fmt: skip
        if code != kernels.SOUND:
            raise self._broken(chunk, FAULTS[code])
        words = self._decode_words(chunk, block.words[element:end] if packed else None, n_words)
        entries, lengths = self._placed(chunk, words, n, block.stored_lengths[here] if packed else None)
        starts = block.indptr[row : row + n + 1]
        if packed:
            np.add(entries.indptr, element, out=starts)
        else:
            # in one go: the last one is the first of another thread's run
            starts[1:] = element + np.cumsum(lengths, dtype=np.int64)
            values = None if block.values is None else block.values[:stop]
            kernels.unpack_rows(entries, element, block.indices[:stop], values)
        if not coding.by_kernel:
            block.y[here] = coding.y(rows["label"])
        if store.numbered:
            block.rows[here] = rows["source"]
        if store.weighted:
            block.weights[here] = rows["weight"]
        self.cost.seconds_decoding += time.perf_counter() - began - (self.cost.seconds_reading - read_before)
        return row + n, stop

    def _placed(self, chunk: int, words: np.ndarray, n: int, lengths: np.ndarray | None) -> tuple[Entries, np.ndarray]:
        """The n rows of a chunk among its words, and their lengths (n,), int32.  Whether they are sound is looked at
        once: afterwards their checksums tell."""
        store = self.store
        indptr, lengths = np.empty(n + 1, np.int64), np.empty(n, np.int32) if lengths is None else lengths
        entries = packed_entries(indptr, words, store.value_dtype)
        code = kernels.place_rows(entries.longs, np.uint64(store.value_bytes), store.chunks.nnz[chunk], indptr, lengths)
        if code == kernels.SOUND and not store.checked[chunk]:
            code = kernels.check_words(entries, store.n_features)
        if code != kernels.SOUND:
            raise self._broken(chunk, FAULTS[code])
        store.checked[chunk] = True
        return entries, lengths

    def _decode_words(self, chunk: int, out: np.ndarray | None, n_words: int) -> np.ndarray:
        """The words of a chunk, in ``out`` (None: in this decoder's own).

        A part is decoded whole: its padding is overwritten by the next one, or, where it would run over what this
        thread owns, does not get into the block.
        """
        size, parts = self.store.part_words, self.store.parts
        if not len(self.words):
            self.words, self.compressed = np.empty(parts.most_words, np.uint64), np.empty(parts.largest_part, np.uint8)
        target = self.words if out is None else out
        for k, record in enumerate(parts.of_chunk(chunk)):
            start, stop = k * size, (k + 1) * size
            if stop <= len(target):
                self._decode_part(chunk, record, target[start:stop])
            else:
                own = self.words[:size]
                self._decode_part(chunk, record, own)
                target[start:n_words] = own[: n_words - start]
        return target[:n_words]

    def _decode_part(self, chunk: int, record: tuple, words: np.ndarray) -> None:
        offset, size, checksum = record
        stored = size == words.nbytes  # words that hardly compress, which are read straight to their place
        out = memoryview(words).cast("B") if stored else memoryview(self.compressed)[:size]
        raw = self._read(chunk, offset, out)
        if codec.checksum(raw) != checksum:
            raise self._broken(chunk, "checksum does not match")
        if stored:
            if raw is not out:
                out[:] = raw
            return
        try:
            codec.decode(raw, words)
        except ValueError as error:
            raise self._broken(chunk, str(error)) from error
