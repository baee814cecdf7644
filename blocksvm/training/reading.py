"""A reading of all rows: each block visited in turn, the rows that can still move gathered as they pass by, and passed
over between two blocks and behind the last one."""

from __future__ import annotations

import numpy as np

from blocksvm.training.visitor import Visitor


class Reading:
    """The visits of a run's outer iterations.

    run: the loop, for its plan, progress, state, working set and blocks, and to be told of what was done; visitor: has
    the visits made.
    """

    def __init__(self, run, visitor: Visitor):
        self.run = run
        self.visitor = visitor

    def visit_all(self, following: list[np.ndarray]) -> str | None:
        """The visits of the outer iteration at hand, or what is left of them; a status where the run ends here.

        following: the blocks of the next one.
        """
        run, position = self.run, self.run.progress.position
        if position.renewed:
            position.of_the_set = True
            if not self._visit_set(between_blocks=False):
                return self._broken_off()
            position.of_the_set = position.renewed = False
        if position.check:
            return None
        if position.between_outers():
            run.plan.solver.begin_outer(run.state)
        if run.working_set is not None and position.between_outers():
            run.working_set.begin_reading(anew=False)
            run.progress.cycle_gain, run.progress.cycle_work, run.progress.worth = 0.0, 0.0, 1.0
        blocks = run.supply.blocks.partition.blocks(position.outer)
        while position.visit < len(blocks):
            more = position.visit + 1 < len(blocks)
            if not position.of_the_set:
                block = run.supply.feed.take(blocks[position.visit])
                run.supply.feed.request(blocks[position.visit + 1] if more else following[0])
                if not self.visitor.visit(block, run.state, run.working_set):
                    return self._broken_off()
                position.of_the_set = run.working_set is not None
                run.emit("visit", visit=position.visit + 1, blocks=len(blocks))
            if position.of_the_set and not self._visit_set(more):
                return self._broken_off()
            position.of_the_set = False
            position.visit += 1
            if more and run.seconds() > run.plan.settings.max_seconds:
                return "max-seconds"
            run.save_if_due()
        return None

    def _visit_set(self, between_blocks: bool) -> bool:
        return self.visitor.visit_set(self.run.working_set, self.run.state, between_blocks)

    def _broken_off(self) -> str:
        return "interrupted" if self.run.watch.stop() else "max-seconds"
