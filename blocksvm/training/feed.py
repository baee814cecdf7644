"""Blocks as a run takes them: each asked for while the one before it is trained on, what reading costs counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blocksvm.sources.block import Block
from blocksvm.sources.reading import BlockReader
from blocksvm.training.memory_plan import Blocks
from blocksvm.training.record import Progress


class Feed(BlockReader):
    """The blocks at hand; bytes read and seconds waited go into the tally of the progress."""

    def __init__(self, blocks: Blocks, progress: Progress):
        super().__init__(blocks.source, blocks.arena_bytes, blocks.partition.resident)
        self.progress = progress
        self.bytes_seen = 0  # of what the source has read, already in a tally

    def take(self, chunks: np.ndarray) -> Block:
        waited = self.seconds_waiting
        block = super().take(chunks)
        # the block was read while the one before it was trained on; at this moment nothing is being read
        tally, bytes_read = self.progress.tally, self.source.cost.bytes_read
        tally.bytes_read += bytes_read - self.bytes_seen
        self.bytes_seen = bytes_read
        tally.seconds_waiting += self.seconds_waiting - waited
        return block

    def all_blocks(self, blocks: list[np.ndarray], then: list[np.ndarray] | None = None) -> Iterator[Block]:
        """Every row once; the first block may have been asked for already, and at the end that of ``then``, which are
        read next (None: the same again), is."""
        ahead = [*blocks[1:], (then or blocks)[0]]
        for chunks, following in zip(blocks, ahead, strict=True):
            block = self.take(chunks)
            self.request(following)
            yield block
