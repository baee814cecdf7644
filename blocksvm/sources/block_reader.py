"""One thread reads and decodes the next block while the caller works on the current one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.memory import MEMORY
from blocksvm.base.row_batch import runs
from blocksvm.sources.block import Arena, Block
from blocksvm.sources.source import ReadingCost, Source, block_bytes_of_chunks

FORESEEN = 16  # blocks that a source may begin to read beforehand


class BlockReader:
    """Two arenas and one reading thread (or one arena, where a single block holds everything and stays).

    ``request(chunks)`` starts a read into the free arena; ``take(chunks)`` gives the block, waiting for it if need be;
    a block is valid until the second next request.  A caller who has to wait helps to decode.  ``cost`` is what the
    block taken last has cost, with the seconds that its caller waited.
    """

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
        raise InputError(
            f"{option('memory', Bytes(memory))} is too small: two blocks of one chunk need "
            f"{option('memory', Bytes(2 * need))}"
        )
    with BlockReader(source, need, resident=len(parts) == 1) as reader:
        yield from reader.blocks([order[first:last] for first, last in parts])
