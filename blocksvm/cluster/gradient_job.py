"""A part of a reading of Newton's method, as a worker makes it: the sums of its rows at one point."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from blocksvm.base.vectors import on_lines
from blocksvm.cluster.job import Context
from blocksvm.cluster.solver_job import SolverContext, SolverJob
from blocksvm.solvers.solver import State, Visit
from blocksvm.sources.source import ReadingCost
from blocksvm.store.reader import Store

SUMMED = "gradient", "hessian"  # arrays of the state that rows are added to, beside its sums


@dataclass(frozen=True)
class GradientJob(SolverJob):
    """slots: how many Hessians are added up."""

    slots: int = 1

    def make_context(self, store: Store) -> Context:
        return GradientContext(self, store)


@dataclass(frozen=True)
class GradientPart:
    """Chunks whose rows are added up at the point ``version``; figures: of the state, which tell the problems that are
    evaluated."""

    number: int
    version: int
    chunks: np.ndarray
    size: int
    figures: np.ndarray

    @property
    def n_bytes(self) -> int:
        return self.chunks.nbytes + self.figures.nbytes


@dataclass(frozen=True)
class Summed:
    """What a part adds: to the arrays ``SUMMED`` by name, and to the state's sums."""

    number: int
    arrays: dict[str, np.ndarray]
    sums: np.ndarray
    seconds: float
    cost: ReadingCost

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values()) + self.sums.nbytes


class GradientContext(SolverContext):
    def __init__(self, job: GradientJob, store: Store):
        super().__init__(job, store)
        self.solver.take_slots(job.slots)
        self.solver.at_once = self.solver.threads.n

    def answer(self, part: GradientPart) -> Summed:
        began, before = time.perf_counter(), replace(self.source.cost)
        solver = self.solver
        block = self.source.read_block(part.chunks, None)
        state: State = {
            array.name: on_lines(array.shape(self.weights_shape[0] - 1, block.n_samples), array.dtype)
            for array in solver.state_arrays
            if array.in_visits
        }
        state["figures"][:] = part.figures
        state["trial"] = self.versions[part.version].reshape(self.weights_shape)
        solver.inner_pass(block, state, Visit({}), np.empty(0, np.int32))
        return Summed(
            part.number, {name: state[name] for name in SUMMED}, state["sums"],
            time.perf_counter() - began, self.source.cost - before,
        )  # fmt: skip
