"""A part of a reading of training, as a worker makes it: chunks are read, decoded and screened at one w.

A row whose share of the gap is above 0 at this w can move, so it is sent to whoever moves rows; of all rows the sums
are, which are those of a certificate at this w.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace

import numpy as np

from blocksvm.base.vectors import as_columns
from blocksvm.cluster.job import Context
from blocksvm.cluster.solver_job import SolverContext, SolverJob
from blocksvm.problems.certificate import CertificateSums
from blocksvm.solvers.solver import State
from blocksvm.sources.block import Block
from blocksvm.sources.source import ReadingCost
from blocksvm.store.reader import Store


@dataclass(frozen=True)
class ScreeningJob(SolverJob):
    def make_context(self, store: Store) -> Context:
        return ScreeningContext(self, store)


@dataclass(frozen=True)
class ScreeningPart:
    """Chunks of one batch, to be screened at a version of w.

    size: nonzeros and rows; alpha (n,) or (n, k) of their rows, None where all are 0; members: which rows the
    working set has, as packed bits, or None; scalars: of the state; leaves_out: those rows are not looked at; least:
    the share of the gap that a row has, at least, which is sent; checked: whether each alpha is held against its
    bounds.
    """

    number: int
    version: int
    chunks: np.ndarray
    size: int
    alpha: np.ndarray | None
    members: np.ndarray | None
    scalars: State
    leaves_out: bool
    least: float
    checked: bool = False

    @property
    def n_bytes(self) -> int:
        return sum(0 if array is None else array.nbytes for array in (self.chunks, self.alpha, self.members))


@dataclass(frozen=True)
class Screened:
    """What became of a part.

    sums: what its rows add to a certificate's; movers: the rows that can move, are no members and have a share that is
    large enough, share (m,) their shares of the gap, below: the sum of the shares of the others that can move; entries:
    of the state's row arrays beside alpha; allowed: every alpha lies within its bounds; seconds: of the worker;
    cost of reading.
    """

    number: int
    sums: dict
    movers: Block
    share: np.ndarray
    below: float
    entries: State
    allowed: bool
    seconds: float
    cost: ReadingCost

    @property
    def n_bytes(self) -> int:
        block = self.movers
        arrays = (*(getattr(block, name.name) for name in fields(block)), self.share, *self.entries.values())
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


class ScreeningContext(SolverContext):
    """sums: of a certificate, for each version that was screened at."""

    def __init__(self, job: SolverJob, store: Store):
        super().__init__(job, store)
        self.sums: dict[int, CertificateSums] = {}

    def answer(self, part: ScreeningPart) -> Screened:
        began, before = time.perf_counter(), replace(self.source.cost)
        solver = self.solver
        block = self.source.read_block(part.chunks, None)
        state = self._state(part, block.n_samples)
        problem = solver.problem_at(state)
        if part.version not in self.sums:
            self.sums = {version: sums for version, sums in self.sums.items() if version in self.versions}
            self.sums[part.version] = problem.sums(solver.weights(state, None))
        sums = self.sums[part.version]
        sums.problem = problem  # at the same w, other problems may have ended
        sums.clear()
        sums.threads = solver.threads
        alpha, scores = as_columns(state["alpha"]), sums.scores(block)
        within = sums.within(block)
        allowed = not part.checked or problem.allows(alpha, block)
        member = np.zeros(block.n_samples, bool)
        if part.members is not None:
            member[:] = np.unpackbits(part.members, count=block.n_samples)
        looked_at = np.flatnonzero(~member) if part.leaves_out else np.arange(block.n_samples)
        light = without_entries(block, looked_at)
        entries = {a.name: state[a.name][looked_at] for a in solver.state_arrays if a.axis == "row" and a.in_visits}
        share = np.empty(len(looked_at))
        sums.add(scores[looked_at], light, alpha[looked_at], within[looked_at])
        solver.shares(light, scores[looked_at], state | entries, share)
        can_move = (share > 0.0) & ~member[looked_at]
        sent = can_move & (share >= part.least)
        chosen = np.flatnonzero(sent)
        del entries["alpha"]
        return Screened(
            part.number, sums.added(), rows_of(block, looked_at[chosen]), share[chosen],
            float(share[can_move & ~sent].sum()),
            {name: of_rows[chosen] for name, of_rows in entries.items()}, allowed,
            time.perf_counter() - began, self.source.cost - before,
        )  # fmt: skip

    def _state(self, part: ScreeningPart, n_samples: int) -> State:
        state = {}
        for array in self.solver.state_arrays:
            if array.axis == "row" and array.in_visits:
                state[array.name] = np.zeros(array.shape(0, n_samples), array.dtype)
            elif array.axis == "scalar":
                state[array.name] = part.scalars[array.name].copy()
        if part.alpha is not None:
            state["alpha"][:] = part.alpha
        state["w"] = self.versions[part.version].reshape(self.weights_shape)
        return state


def rows_of(block: Block, rows: np.ndarray) -> Block:
    """Copies of some rows (m,) of a block."""
    starts, sizes = block.indptr[rows], np.diff(block.indptr)[rows]
    indptr = np.append(0, np.cumsum(sizes))
    places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)

    def copied(array: np.ndarray | None, chosen: np.ndarray = rows) -> np.ndarray | None:
        return None if array is None else array[chosen]

    return Block(
        indptr, copied(block.indices, places), copied(block.values, places), block.y[rows], block.sq_norms[rows],
        block.rows[rows], block.n_features, copied(block.weights), copied(block.words, places),
        copied(block.stored_lengths), block.value_dtype,
    )  # fmt: skip


def without_entries(block: Block, rows: np.ndarray) -> Block:
    """Some rows (m,) of a block, as if they had no entries."""
    none = np.zeros(0, np.int32)
    return rows_of(
        replace(block, indptr=np.zeros_like(block.indptr), indices=none, values=None, words=None, stored_lengths=None),
        rows,
    )
