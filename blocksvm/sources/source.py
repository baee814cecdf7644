"""The interface of sources of blocks, such as a store on disk or a matrix in memory; one thread reads and decodes the
next block while the caller works on the current one."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import copy
from dataclasses import astuple, dataclass, field, replace
from typing import Self

import numpy as np

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.labels import NUMBERS, Coding, Labels
from blocksvm.base.memory import MEMORY
from blocksvm.base.row_batch import runs
from blocksvm.sources.block import Arena, Block, Shape

# Small chunks mix well when blocks are redrawn from them, but each costs some seventeen microseconds of Python to read:
# some 400 a store where the data allows, between these bounds of nonzeros.  With 800 five data sets took 4-18 % longer.
CHUNKS_WANTED = 400
SMALLEST_CHUNK = 4_096
LARGEST_CHUNK = 262_144
IDS_AT_ONCE = 1 << 17
FORESEEN = 16  # blocks that a source may begin to read beforehand


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where the chunks lie among the rows: first_row, n_rows, nnz and words (n_chunks,) int64 each; words: of packed
    rows, None where there are none."""

    first_row: np.ndarray
    n_rows: np.ndarray
    nnz: np.ndarray
    words: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.nnz)

    def rows(self, chunks: np.ndarray) -> np.ndarray:
        """(n,) int64: the numbers of the chunks' rows, one chunk after the other."""
        n_rows = self.n_rows[chunks]
        ends = np.cumsum(n_rows)
        return np.arange(n_rows.sum()) + np.repeat(self.first_row[chunks] - ends + n_rows, n_rows)


@dataclass
class ReadingCost:
    """The cost of reading so far: compressed bytes, seconds of reading and of decoding, summed over threads;
    seconds_waiting: of who takes the blocks; requests: to an object store."""

    bytes_read: int = 0
    seconds_reading: float = 0.0
    seconds_decoding: float = 0.0
    blocks: int = 0
    nnz: int = 0
    seconds_waiting: float = 0.0
    requests: int = 0

    def __sub__(self, before: ReadingCost) -> ReadingCost:
        return ReadingCost(*(a - b for a, b in zip(astuple(self), astuple(before), strict=True)))

    def __add__(self, other: ReadingCost) -> ReadingCost:
        return ReadingCost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(eq=False)
class Source(ABC):
    """Rows in chunks, from which blocks are made; used by one consumer at a time.

    name: for messages; coding: how the labels become ``y``; label_kind: 'numbers', 'strings' or 'sets'; label_counts:
    each label with its rows, or None where there are too many; label_weights: the sum of the weights of each of these
    labels' rows, or None where all are 1; total_weight: of all rows; n_unlabelled: rows without a label; fingerprint:
    equal only for equal rows in equal order; weighted: some row has another weight than 1; named: features have names;
    shuffled: the rows are in random order already; in_memory: a block of everything is no copy; packed: blocks have
    packed rows; cost: of reading so far.
    """

    name: str
    n_samples: int
    n_features: int
    n_nonzeros: int
    value_bytes: int
    max_norm: float
    chunks: ChunkTable
    coding: Coding
    label_kind: str
    label_counts: list[tuple] | None
    fingerprint: str
    total_weight: float
    label_weights: list[float] | None = None
    n_unlabelled: int = 0
    weighted: bool = False
    named: bool = False
    shuffled: bool = False
    in_memory: bool = False
    packed: bool = False
    cost: ReadingCost = field(default_factory=ReadingCost)

    @property
    def labels(self) -> Labels | None:
        """The labels by which ``y`` is coded (None: y is 0); ``reader`` sets others."""
        return self.coding.labels

    @property
    def shape(self) -> Shape:
        """What its blocks consist of."""
        dtype = {0: None, 4: np.float32, 8: np.float64}[self.value_bytes]
        return Shape(self.packed, dtype, self.coding.real, self.weighted)

    @property
    def sizes(self) -> np.ndarray:
        """(n_chunks,) int64: the words of each chunk's rows in a block, or their entries."""
        if not self.packed:
            return self.chunks.nnz
        assert self.chunks.words is not None
        return self.chunks.words

    @property
    def size(self) -> int:
        """Of all chunks."""
        return int(self.sizes.sum())

    def reader(self, labels: Labels | None = None, real: bool = False, packed: bool = False) -> Self:
        """The same rows for another consumer, with buffers, decoders and costs of its own; to be closed by ``close``,
        or when this source is closed.  labels: those by which ``y`` is made (None: this source's); real: y float64 is
        the label itself, which must be a number; packed: its blocks have packed rows, where the source has them."""
        if real and self.label_kind != NUMBERS:
            raise InputError(f"{self.name}: its labels are {self.label_kind}, and real numbers are needed")
        other = copy(self)
        other.cost = ReadingCost()
        other.packed = self.packed or (packed and self.chunks.words is not None)
        if labels is not None or real:
            other.coding = Coding(labels, self.coding.source_labels, real)
        return other

    def close(self) -> None:
        return

    @abstractmethod
    def working_bytes(self, memory: int = 0) -> int:
        """Memory that reading takes beside the block, where so much may be used for both."""

    def decode_by(self, threads: int | None, memory: int) -> None:
        """Let so many threads (None: one a processor) make a block together, where they can; memory: as of
        ``working_bytes``."""
        return

    def unit_bytes(self, memory: int) -> int | None:
        """Stored bytes of the chunks that are read, and so drawn, together; memory: as it was given to
        ``working_bytes``; None: each chunk is read alone."""
        return None

    def units(self, n_bytes: int | None) -> np.ndarray | None:
        """The first chunks of those that are drawn together, where these have so many bytes; None: each is alone."""
        return None

    def foresee(self, blocks: list[np.ndarray]) -> None:
        """The next blocks that will be read are of these chunks, one after the other."""
        return

    @abstractmethod
    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        """The rows of the chunks, one after the other, in the arena's memory (valid until it is filled again)."""

    def help(self) -> bool:
        """Take part in a ``read_block`` that another thread has under way, where there is work to share; False where
        that thread has not begun yet."""
        return True

    @abstractmethod
    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        """The user's ids of features start..stop-1, int64."""

    def feature_id_pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first feature, ids) for all features, piece by piece."""
        for first in range(0, self.n_features, IDS_AT_ONCE):
            yield first, self.feature_ids(first, min(first + IDS_AT_ONCE, self.n_features))

    def feature_names(self, start: int, stop: int) -> list[str] | None:
        """The names of features start..stop-1, or None where features have ids only."""
        return None

    def history(self) -> Sequence:
        """The states of the source before rows were added, first to last, by their ``fingerprint`` and ``n_samples``;
        rows come after those that were there, and features keep their numbers."""
        return ()

    def origins(self, chunk: int, rows: np.ndarray) -> list[str]:
        """Where some rows of a chunk came from: their numbers from 1, as 'row 17', with the file if it is known."""
        first = int(self.chunks.first_row[chunk])
        return [f"row {first + row + 1}" for row in rows.tolist()]


def block_bytes_of_chunks(source: Source) -> np.ndarray:
    """(n_chunks,): what each chunk takes in a block."""
    return source.sizes * source.shape.element_bytes + source.chunks.n_rows * source.shape.row_bytes


def largest_chunk_bytes(source: Source) -> int:
    """Memory that an arena needs for any one chunk of this source."""
    return source.shape.block_bytes(int(source.chunks.n_rows.max()), int(source.sizes.max()))


def first_chunk(source: Source, real: bool = False) -> Block:
    """The rows of a source's first chunk, which tell what is typical of all; real: as ``Source.reader`` has it."""
    reader = source.reader(real=real)
    block = reader.read_block(np.zeros(1, np.int64), None)
    reader.close()
    return block


def chunk_nonzeros(n_nonzeros: int, n_rows: int) -> int:
    """L, the nonzeros (and at most the rows) of a chunk, for a store of this size."""
    wanted = max(n_nonzeros, n_rows) / CHUNKS_WANTED
    return int(min(LARGEST_CHUNK, max(SMALLEST_CHUNK, -(-wanted // 1024) * 1024)))


class BlockReader:
    """Two arenas and one reading thread (or one arena, where a single block holds everything and stays).
    ``request(chunks)`` starts a read into the free arena; ``take(chunks)`` gives the block, waiting for it if need be;
    a block is valid until the second next request.  A caller who has to wait helps to decode.  ``cost`` is what the
    block taken last has cost, with the seconds that its caller waited."""

    def __init__(self, source: Source, arena_bytes: int, resident: bool):
        self.source = source.reader()  # others may read the same rows meanwhile
        self.resident = resident
        # a matrix in memory that stays whole needs no arena
        self.arenas = [Arena(arena_bytes) for _ in range(1 if resident else 2)] if arena_bytes else [None, None]
        self.next_arena = 0
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="blocksvm-reader")
        self.pending: tuple[bytes, Future] | None = None
        self.resident_block: Block | None = None
        self.cost = self.before = ReadingCost()

    def __enter__(self) -> BlockReader:
        return self

    def __exit__(self, *exception) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.source.close()
        self.arenas, self.resident_block, self.pending = [], None, None  # whoever keeps the reader has not their memory

    def request(self, chunks: np.ndarray, then: Sequence[np.ndarray] = ()) -> None:
        """Start to read a block, unless it is stored or under way; then: those that will be requested next."""
        if self.resident_block is not None or self.pending is not None:
            return
        arena = self.arenas[self.next_arena]
        self.next_arena = (self.next_arena + 1) % len(self.arenas)
        self.pending = (chunks.tobytes(), self.pool.submit(self._read, chunks, then, arena))

    def _read(self, chunks: np.ndarray, then: Sequence[np.ndarray], arena: Arena | None) -> Block:
        self.source.foresee([chunks, *then])
        return self.source.read_block(chunks, arena)

    def ready(self) -> bool:
        """The block requested last has been read (or nothing is being read)."""
        return self.pending is None or self.pending[1].done()

    def blocks(self, blocks: list[np.ndarray], then: Sequence[np.ndarray] = ()) -> Iterator[Block]:
        """One block after the other, each requested while the one before it is worked on; then: those that will be
        taken next, of which the first is requested in the same way."""
        order = [*blocks, *then[:FORESEEN]]
        for k, chunks in enumerate(blocks):
            block = self.take(chunks, order[k + 1 : k + 1 + FORESEEN])
            if k + 1 < len(order):
                self.request(order[k + 1], order[k + 2 : k + 2 + FORESEEN])
            yield block

    def take(self, chunks: np.ndarray, then: Sequence[np.ndarray] = ()) -> Block:
        """The block of these chunks; then: those that will be requested next."""
        if self.resident_block is not None:
            self.cost = ReadingCost()
            return self.resident_block
        if self.pending is not None and self.pending[0] != chunks.tobytes():
            # another block was foreseen: its arena is the next one to be filled
            self.pending[1].result()
            self.pending = None
            self.next_arena = (self.next_arena - 1) % len(self.arenas)
        self.request(chunks, then)
        assert self.pending is not None
        began = time.perf_counter()
        while not self.pending[1].done() and not self.source.help():
            wait([self.pending[1]], timeout=0.001)  # the other thread is about to begin
        block = self.pending[1].result()
        # at this moment nothing is being read
        before, self.before = self.before, replace(self.source.cost)
        self.cost = self.before - before
        self.cost.seconds_waiting = time.perf_counter() - began
        self.pending = None
        if self.resident:
            self.resident_block = block
        return block


def iterate_blocks(source: Source, memory: int | str) -> Iterator[Block]:
    """All rows of a source in its order, in blocks of which two fit in ``memory`` bytes (also as text, "2GB"); the
    next is read meanwhile.

    A block is valid until the next one is requested: copy what is needed longer.  Raises InputError where not even one
    chunk fits.

        >>> with blocksvm.open_store("rows.h5") as store:
        ...     sum(len(block.y) for block in blocksvm.iterate_blocks(store, "10MB"))
        60
    """
    yield from blocks_of(source, memory, np.arange(len(source.chunks)))


def blocks_of(source: Source, memory: int | str, order: np.ndarray) -> Iterator[Block]:
    """The same of all chunks in this order."""
    memory = int(MEMORY.checked(memory))
    edges, limit = source.shape.block_bytes(0, 0), memory // 2
    bounds = np.append(0, np.cumsum(block_bytes_of_chunks(source)[order]))
    parts = list(runs(bounds, limit - edges))
    need = edges + max(int(bounds[last] - bounds[first]) for first, last in parts)
    if need > limit:
        given, needed = (option("memory", Bytes(n_bytes)) for n_bytes in (memory, 2 * need))
        raise InputError(f"{given} is too small: two blocks of one chunk need {needed}")
    with BlockReader(source, need, resident=len(parts) == 1) as reader:
        yield from reader.blocks([order[first:last] for first, last in parts])
