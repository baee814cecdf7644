"""Blocks as a run takes them: each asked for while the one before it is trained on, what reading costs counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from blocksvm.sources.block import Block
from blocksvm.sources.reading import BlockReader
from blocksvm.sources.source import ReadingCost
from blocksvm.training.memory_plan import Blocks
from blocksvm.training.record import Progress


class Feed(BlockReader):
    """The blocks at hand; bytes read, and the seconds of reading, decoding and waiting, go into the tally of the
    progress."""

    def __init__(self, blocks: Blocks, progress: Progress):
        super().__init__(blocks.source, blocks.arena_bytes, blocks.partition.resident)
        self.progress = progress
        self.told = ReadingCost()  # of what reading has cost, what is in a tally already

    def take(self, chunks: np.ndarray) -> Block:
        before = self.seconds_waiting
        block = super().take(chunks)
        # the block was read while the one before it was trained on; at this moment nothing is being read
        tally, cost = self.progress.tally, replace(self.source.cost)
        tally.bytes_read += cost.bytes_read - self.told.bytes_read
        tally.seconds_reading += cost.seconds_reading - self.told.seconds_reading
        tally.seconds_decoding += cost.seconds_decoding - self.told.seconds_decoding
        self.told = cost
        tally.seconds_waiting += self.seconds_waiting - before
        return block

    def all_blocks(self, blocks: list[np.ndarray], then: list[np.ndarray] | None = None) -> Iterator[Block]:
        """Every row once; the first block may have been asked for already, and at the end that of ``then``, which are
        read next (None: the same again), is."""
        ahead = [*blocks[1:], (then or blocks)[0]]
        for chunks, following in zip(blocks, ahead, strict=True):
            block = self.take(chunks)
            self.request(following)
            yield block
