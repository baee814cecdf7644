"""A part of a reading, as a worker makes it: chunks are read, decoded and screened at one w.  Data in, data out.

    screened = run_part(job, part, weights)        anywhere: a thread, a process, another machine

A row whose share of the gap is above 0 at this w can move, so it is sent to whoever moves rows; of all rows the sums
are, which are those of a certificate at this w.  A worker holds nothing that could be lost: a store that is open, a
solver without rows, and copies of w by version.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.threads import Threads
from blocksvm.base.vectors import on_lines
from blocksvm.learners.engine.methods import get_method
from blocksvm.problems.problem import CertificateSums
from blocksvm.solvers.solver import State, Task, problem_of
from blocksvm.sources.block import Block
from blocksvm.store.reader import Store

VERSIONS = 2  # of w that a worker holds: that of the batch at work, and that of the next
CONTEXTS = 2  # runs of which a worker holds the store open


@dataclass(frozen=True)
class Job:
    """What a worker has to know of a run.

    key: of this run alone; store: its path, which all see, and fingerprint; method: name and whether it is an online
    learner; task: without its source; weights_shape: of w; n_bytes: memory that each worker needs; threads: in each.
    """

    key: str
    store: str
    fingerprint: str
    method: tuple[str, bool]
    task: dict[str, Any]
    weights_shape: tuple[int, ...]
    n_bytes: int
    threads: int | None = 1


@dataclass(frozen=True)
class Weights:
    """A version of w: its numbers, or those at ``places`` that differ from the version ``base``."""

    version: int
    numbers: np.ndarray
    places: np.ndarray | None = None
    base: int = -1

    @classmethod
    def between(cls, version: int, w: np.ndarray, base: int, before: np.ndarray) -> Weights:
        """What changes one version into another, or all of w where that is smaller."""
        places = np.flatnonzero(w != before)
        if len(places) * 3 > 2 * len(w):
            return cls(version, w)
        return cls(version, w[places], places.astype(np.int32 if len(w) < 2**31 else np.int64), base)

    @property
    def n_bytes(self) -> int:
        return self.numbers.nbytes + (0 if self.places is None else self.places.nbytes)


@dataclass(frozen=True)
class Part:
    """Chunks of one batch, to be screened at a version of w.

    size: nonzeros and rows; alpha (n,) or (n, k) of their rows, None where all are 0; members: which rows the
    working set has, as packed bits, or None; scalars: of the state; leaves_out: those rows are not looked at;
    checked: whether each alpha is held against its bounds.
    """

    number: int
    version: int
    chunks: np.ndarray
    size: int
    alpha: np.ndarray | None
    members: np.ndarray | None
    scalars: State
    leaves_out: bool
    checked: bool = False

    @property
    def n_bytes(self) -> int:
        return sum(0 if array is None else array.nbytes for array in (self.chunks, self.alpha, self.members))


@dataclass(frozen=True)
class Screened:
    """What became of a part.

    sums: what its rows add to a certificate's; movers: the rows that can move and are no members, share (m,) their
    shares of the gap, entries: of the state's row arrays beside alpha; allowed: every alpha lies within its bounds;
    seconds: of the worker; bytes_read.
    """

    number: int
    sums: dict
    movers: Block
    share: np.ndarray
    entries: State
    allowed: bool
    seconds: float
    bytes_read: int

    @property
    def n_bytes(self) -> int:
        block = self.movers
        arrays = (*block.row_arrays, block.rows, self.share, *self.entries.values())
        return sum(0 if array is None else array.nbytes for array in arrays)


@dataclass(frozen=True)
class Missing:
    """The worker lacks the version of w that a part names."""

    number: int


class Context:
    """What a worker has of a run."""

    def __init__(self, job: Job):
        self.job = job
        self.store = Store(job.store)
        if self.store.fingerprint != job.fingerprint:
            self.store.close()
            raise InputError(f"{job.store}: is another store than the one that is trained on")
        source = self.store
        solver = get_method(*job.method).make(Task(source=source, **job.task))
        if solver.real_targets:
            source = source.reader(real=True)
        self.source, self.solver = source, solver
        self.solver.threads = Threads(job.threads)
        self.versions: dict[int, np.ndarray] = {}
        self.sums: dict[int, CertificateSums] = {}
        self.lock = threading.Lock()

    def close(self) -> None:
        self.store.close()

    def take(self, weights: Weights) -> bool:
        """Hold a version of w; False where the one that it is made from is not held."""
        if weights.version in self.versions:
            return True
        if weights.places is None:
            w = on_lines((len(weights.numbers),))
            w[:] = weights.numbers
        elif weights.base in self.versions:
            w = on_lines(self.versions[weights.base].shape)
            w[:] = self.versions[weights.base]
            w[weights.places] = weights.numbers
        else:
            return False
        self.versions[weights.version] = w
        for old in sorted(self.versions)[:-VERSIONS]:
            del self.versions[old]
            self.sums.pop(old, None)
        return True

    def screen(self, part: Part) -> Screened:
        began, cost = time.perf_counter(), self.source.cost.bytes_read
        solver = self.solver
        block = self.source.read_block(part.chunks, None)
        state = self._state(part, block.n_samples)
        problem = problem_of(solver, state)
        if part.version not in self.sums:
            self.sums[part.version] = problem.sums(solver.weights(state, None))
        sums = self.sums[part.version]
        sums.problem = problem  # at the same w, other problems may have ended
        sums.clear()
        sums.threads = solver.threads
        alpha, scores = state["alpha"], sums.scores(block)
        allowed = not part.checked or problem.allows(alpha, block)
        member = np.zeros(block.n_samples, bool)
        if part.members is not None:
            member[:] = np.unpackbits(part.members, count=block.n_samples)
        looked_at = np.flatnonzero(~member) if part.leaves_out else np.arange(block.n_samples)
        light = without_entries(block, looked_at)
        entries = {a.name: state[a.name][looked_at] for a in solver.state_arrays if a.axis == "row" and a.in_visits}
        share = np.empty(len(looked_at))
        sums.add(scores[looked_at], light, entries["alpha"])
        solver.shares(light, scores[looked_at], state | entries, share)  # type: ignore[attr-defined]
        chosen = np.flatnonzero((share > 0.0) & ~member[looked_at])
        del entries["alpha"]
        return Screened(
            part.number, sums.added(), rows_of(block, looked_at[chosen]), share[chosen],
            {name: of_rows[chosen] for name, of_rows in entries.items()}, allowed,
            time.perf_counter() - began, self.source.cost.bytes_read - cost,
        )  # fmt: skip

    def _state(self, part: Part, n_samples: int) -> State:
        state = {}
        for array in self.solver.state_arrays:
            if array.axis == "row" and array.in_visits:
                state[array.name] = np.zeros(array.shape(0, n_samples), array.dtype)
            elif array.axis == "scalar":
                state[array.name] = part.scalars[array.name].copy()
        if part.alpha is not None:
            state["alpha"][:] = part.alpha
        state["w"] = self.versions[part.version].reshape(self.job.weights_shape)
        return state


def rows_of(block: Block, rows: np.ndarray) -> Block:
    """Copies of some rows (m,) of a block."""
    starts, lengths = block.indptr[rows], np.diff(block.indptr)[rows]
    indptr = np.append(0, np.cumsum(lengths))
    places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
    return Block(
        indptr,
        block.indices[places],
        None if block.values is None else block.values[places],
        block.y[rows],
        block.sq_norms[rows],
        block.rows[rows],
        block.n_features,
        None if block.weights is None else block.weights[rows],
    )


def without_entries(block: Block, rows: np.ndarray) -> Block:
    """Some rows (m,) of a block, as if they had no entries."""
    return rows_of(replace(block, indptr=np.zeros_like(block.indptr), values=None), rows)


contexts: dict[str, Context] = {}
contexts_lock = threading.Lock()


def context_of(job: Job) -> Context:
    """This process's context of a run, made where there is none yet."""
    with contexts_lock:
        if job.key not in contexts:
            while len(contexts) >= CONTEXTS:
                contexts.pop(next(iter(contexts))).close()
            contexts[job.key] = Context(job)
        return contexts[job.key]


def run_part(job: Job, part: Part, weights: Weights | None, context: Context | None = None) -> Screened | Missing:
    """Screen a part; weights: what makes its version of w, None where the worker should have it."""
    context = context or context_of(job)
    with context.lock:  # one part at a time, each by all of the worker's threads
        if (weights is not None and not context.take(weights)) or part.version not in context.versions:
            return Missing(part.number)
        return context.screen(part)
