"""What a run reads: blocks of all rows, and later of those alone that no gap has decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from blocksvm.solvers.protocol import State
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source
from blocksvm.training.feed import Feed
from blocksvm.training.memory_plan import Blocks, blocks_of_undecided
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress
from blocksvm.training.screening import Screening, Stopped


class Supply:
    """The blocks of a plan: ``blocks`` tells which, ``feed`` brings them; screening: knows which rows are decided, None
    where no rows are ever left out.

    temp: the folder for a smaller store of the undecided rows; stop() ends a reading that is under way.
    """

    def __init__(self, plan: Plan, progress: Progress, temp: Path, stop: Callable[[], bool]):
        self.plan = plan
        self.progress = progress
        self.temp = temp
        self.stop = stop
        self.blocks: Blocks = plan.blocks
        self.feed = Feed(self.blocks, progress)
        self.screening: Screening | None = None
        if self.blocks.decided_bytes is not None:
            source = plan.source
            self.screening = Screening(plan.solver, source.n_samples, plan.n_features, source.max_norm)

    def __enter__(self) -> Supply:
        return self

    def __exit__(self, *exception) -> None:
        self.feed.__exit__()
        if self.blocks.source is not self.plan.source:
            self.blocks.source.close()

    def all_blocks(self, blocks: list[np.ndarray], then: list[np.ndarray] | None = None) -> Iterator[Block]:
        """Every row that is read at all, once; then: the blocks that are read next."""
        return self.feed.all_blocks(blocks, then)

    def every_row(self) -> Iterator[Block]:
        """The same, in the order of the source."""
        return self.all_blocks(self.blocks.partition.stored)

    def restore(self, screening: State) -> None:
        """Leave out the rows that were left out when the run was broken off."""
        self.screening.restore(screening)
        if self.screening.decided.rows:
            self._read(self.screening.leave_out_again(*self._of_the_rest(lambda: False)))

    def leave_out(self, first: int, state: State) -> bool:
        """Leave out the rows in bins of distances from ``first`` on, at the run's ``state``; False where the run was
        stopped meanwhile."""
        try:
            self._read(self.screening.leave_out(first, state, *self._of_the_rest(self.stop)))
        except Stopped:
            return False
        return True

    def _of_the_rest(self, stop: Callable[[], bool]) -> tuple:
        return self.blocks.source, self.every_row(), self.blocks.decided_bytes, self.temp, stop

    def _read(self, rest: Source) -> None:
        """Read this source from now on."""
        self.__exit__()
        self.blocks = blocks_of_undecided(rest, self.plan.blocks, self.plan.solver, self.plan.settings)
        self.feed = Feed(self.blocks, self.progress)
