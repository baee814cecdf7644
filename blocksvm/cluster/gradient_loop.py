"""The outer loop of Newton's method where workers read: they add up their rows, this process adds up theirs.

Parts are made by counts alone, and added in their order: no bit depends on the workers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from blocksvm.cluster.cluster_loop import ClusterLoop
from blocksvm.cluster.gradient_job import GradientJob, GradientPart, Summed
from blocksvm.solvers.solver import PassResult
from blocksvm.training.visit import VisitResult


class GradientLoop(ClusterLoop):
    """The loop of Newton's method."""

    job_type = GradientJob

    def of_job(self) -> dict:
        return {"slots": self.plan.solver.slots}

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        dispatcher, visit = self.dispatcher, self.progress.visit
        dispatcher.forget()
        version = dispatcher.new_version(self.state["trial"])
        dispatcher.want(partial(self._part, chunks, version) for chunks in blocks[visit:])
        for chunks in blocks[visit:]:
            self._add(chunks, self.next_answer())
            yield

    def _part(self, chunks: np.ndarray, version: int, number: int) -> GradientPart:
        table = self.plan.source.chunks
        size = int(table.nnz[chunks].sum() + table.n_rows[chunks].sum())
        return GradientPart(number, version, chunks, size, self.state["figures"])

    def _add(self, chunks: np.ndarray, answer: Summed) -> None:
        """A part of the reading, to the state."""
        state, source = self.state, self.plan.source
        began = time.perf_counter()
        for name, part in answer.arrays.items():
            state[name] += part
        state["sums"] += answer.sums
        n_rows, n_nonzeros = (int(numbers[chunks].sum()) for numbers in (source.chunks.n_rows, source.chunks.nnz))
        result = VisitResult([PassResult(n_rows, n_nonzeros, 0.0, True)], [time.perf_counter() - began])
        self.count(result, self.block_stats(n_nonzeros), n_nonzeros)
