"""What a run reads: blocks of all rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blocksvm.sources.block import Block
from blocksvm.training.feed import Feed
from blocksvm.training.memory_plan import Blocks
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress


class Supply:
    """The blocks of a plan: ``blocks`` tells which, ``feed`` brings them."""

    def __init__(self, plan: Plan, progress: Progress):
        self.blocks: Blocks = plan.blocks
        self.feed = Feed(self.blocks, progress)

    def __enter__(self) -> Supply:
        return self

    def __exit__(self, *exception) -> None:
        self.feed.__exit__()

    def all_blocks(self, blocks: list[np.ndarray], then: list[np.ndarray] | None = None) -> Iterator[Block]:
        """Every row once; then: the blocks that are read next."""
        return self.feed.all_blocks(blocks, then)

    def every_row(self) -> Iterator[Block]:
        """The same, in the order of the source."""
        return self.all_blocks(self.blocks.partition.stored)
