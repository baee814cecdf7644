"""What workers of a cluster do: pure functions of a store's chunks and of what is sent with them.

    answer = make(job, part, whole, change)     by any worker, as often as it is asked

A worker holds nothing that could be lost: a store that is open, and w as it was made last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import megabytes
from blocksvm.base.vectors import as_columns
from blocksvm.kernels.compile import processor
from blocksvm.kernels.rows import Entries
from blocksvm.model.events import versions
from blocksvm.solvers.solver import Solver, State, Task, Visit
from blocksvm.sources.block import Arena, Block, rows_of
from blocksvm.sources.source import ReadingCost
from blocksvm.store.reader import Store

MOST_SENT = 0.5  # of a part's rows: a nonzero takes four times as long to be sent as to be read and decoded
MEMORY_SHARE = 0.6  # of a worker's limit, at most: Dask ends a worker near its limit


def here() -> dict[str, str]:
    """What decides the bits of a result beside the data: versions, and the kind of processor."""
    return {**versions(), "processor": processor()}


@dataclass(frozen=True)
class Job:
    """What all parts of a run have in common.

    key: of this run alone; n_bytes: memory for each thread of a worker; about: as ``here`` has it where the run is.
    """

    key: str
    n_bytes: int
    about: dict[str, str] = field(default_factory=here, kw_only=True)

    def opened(self) -> AbstractContextManager[Callable[[Any, np.ndarray | None], Any]]:
        """What answers to a part at a w; InputError where this thread cannot take part."""
        raise NotImplementedError


@dataclass(frozen=True)
class StoreJob(Job):
    """path, fingerprint: of the store, which each thread opens for itself."""

    path: str
    fingerprint: str

    def store(self) -> Store:
        store = Store(self.path)
        if store.fingerprint != self.fingerprint:
            store.close()
            raise InputError(f"{store.path}: is another store than the one that this run reads")
        return store


class Held(threading.local):
    """What a thread holds: of the last job what answers, and what closes it; and the w that the last change made."""

    def __init__(self):
        self.key, self.answer, self.stack = "", None, ExitStack()
        self.changed: tuple[str, np.ndarray] | None = None


held = Held()


@dataclass(frozen=True)
class Change:
    """Where a w differs from the one that was sent whole before it; key: of this change alone."""

    key: str
    positions: np.ndarray
    numbers: np.ndarray

    def made(self, whole: np.ndarray) -> np.ndarray:
        """The w that it makes of that one."""
        if held.changed is None or held.changed[0] != self.key:
            held.changed = self.key, whole.copy()
            held.changed[1][self.positions] = self.numbers
        return held.changed[1]


def make(job: Job, part: Any, whole: np.ndarray | None = None, change: Change | None = None) -> Any:
    """The answer to a part at the w that was sent whole, or that a change makes of it."""
    if job.key != held.key:
        held.key, held.answer, held.changed = "", None, None
        held.stack.close()
        check(job)
        held.answer = held.stack.enter_context(job.opened())
        held.key = job.key
    return held.answer(part, whole if whole is None or change is None else change.made(whole))


def check(job: Job) -> None:
    """InputError where bits could differ from those of other workers, or there is too little memory."""
    who, n, limit = worker_here()
    mine, need = here(), n * job.n_bytes
    for name, own in job.about.items():
        if mine.get(name) != own:
            differ = f"has {name} {mine.get(name)}, and the run has {own}: bits could differ"
            raise InputError(f"worker {who}: {differ}; make them the same")
    if limit and MEMORY_SHARE * limit < need:
        least = f"{MEMORY_SHARE:.0%} must be {megabytes(need)} or more"
        raise InputError(f"worker {who}: may take {megabytes(limit)} of memory, of which {least}; raise its limit")


def worker_here() -> tuple[str, int, int | None]:
    """(address, threads, limit of memory or None) of the Dask worker that this is, if it is one."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        return "", 1, None
    return worker.address, worker.state.nthreads, getattr(worker.memory_manager, "memory_limit", None)


# -- parts of training -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingJob(StoreJob):
    """make: the solver of a task, which has no source yet; weights_shape: of a version of w; block_bytes: of the
    largest part's rows; slots: how many Hessians are added up, None: rows are screened."""

    make: Callable[[Task], Solver]
    task: Task
    weights_shape: tuple[int, ...]
    block_bytes: int
    slots: int | None

    @contextmanager
    def opened(self) -> Iterator[Callable]:
        with self.store() as store:
            yield (Screening if self.slots is None else AddingUp)(self, store).answer


class Training:
    """solver: without rows of its own; source: the store, its targets as the solver reads them."""

    def __init__(self, job: TrainingJob, store: Store):
        self.job = job
        self.solver: Any = job.make(replace(job.task, source=store))
        real, packed = self.solver.real_targets, self.solver.packed
        self.source = store.reader(real=real, packed=packed) if real or packed else store
        self.arena = Arena(job.block_bytes)

    def state(self, block: Block, **given: np.ndarray) -> State:
        """For a visit to the block, in zeros but for what is given."""
        state = {
            array.name: np.zeros(array.shape(self.job.weights_shape[0] - 1, block.n_samples), array.dtype)
            for array in self.solver.state_arrays
            if array.in_visits and array.name not in given
        }
        return state | given

    def answer(self, part: TrainingPart, w: np.ndarray) -> Answer:
        began, before = time.perf_counter(), replace(self.source.cost)
        block = self.source.read_block(part.chunks, self.arena)
        state, answer = self.of_block(block, part, w.reshape(self.job.weights_shape))
        whole = part.certifies or self.job.slots is not None
        of_rows = {name: state[name][block.rows] for name in self.solver.row_matrices if whole}
        return replace(answer, of_rows=of_rows, seconds=time.perf_counter() - began, cost=self.source.cost - before)

    def of_block(self, block: Block, part: TrainingPart, w: np.ndarray) -> tuple[State, Answer]:
        """(the state as the part's rows have changed it, the answer)"""
        raise NotImplementedError


@dataclass(frozen=True)
class TrainingPart:
    """Chunks that are read at a version of w.

    given: scalar arrays of the state; alpha (n,) or (n, k) of their rows, None where all are 0; members: which rows the
    working set has, as packed bits, or None; least: the share of the gap that a row has, at least, which is sent;
    certifies: the sums are those of a certificate, in which members count; else they are not looked at; checked:
    whether each alpha is held against its bounds.
    """

    chunks: np.ndarray
    given: State
    alpha: np.ndarray | None = None
    members: np.ndarray | None = None
    least: float = 0.0
    certifies: bool = False
    checked: bool = False


@dataclass(frozen=True)
class Answer:
    """What became of a part.

    sums: what its rows add to a certificate's, or to arrays of the state; chosen (m,): those of its rows that can move,
    are no members and have a share that is large enough, movers: copies of them, or None where these are so many that
    it takes less to read them again; share (m,): of the gap, below: the sum of the shares of the others that can move;
    entries: of the state's row arrays beside alpha; allowed: every alpha lies within its bounds; of_rows: what matrices
    that have an entry for each row have gained; seconds: of the worker; cost: of reading.
    """

    sums: dict
    chosen: np.ndarray | None = None
    movers: Block | None = None
    share: np.ndarray | None = None
    below: float = 0.0
    entries: State = field(default_factory=dict)
    allowed: bool = True
    of_rows: State = field(default_factory=dict)
    seconds: float = 0.0
    cost: ReadingCost = field(default_factory=ReadingCost)


class Screening(Training):
    """Chunks are read, decoded and screened at one w: a row whose share of the gap is above 0 there can move, so it is
    sent to whoever moves rows; of all rows the sums are."""

    def of_block(self, block: Block, part: TrainingPart, w: np.ndarray) -> tuple[State, Answer]:
        solver = self.solver
        given = {name: values.copy() for name, values in part.given.items()}
        if part.alpha is not None:
            given["alpha"] = part.alpha.copy()
        state = self.state(block, w=w, **given)
        problem = solver.problem_at(state)
        sums = problem.sums(solver.weights(state, None))
        alpha, scores = as_columns(state["alpha"]), sums.scores(block)
        allowed = not part.checked or problem.allows(alpha, block)
        member = np.zeros(block.n_samples, bool)
        if part.members is not None:
            member[:] = np.unpackbits(part.members, count=block.n_samples)
        looked_at, light = np.arange(block.n_samples), block
        if part.members is not None and not part.certifies:
            looked_at = np.flatnonzero(~member)
            light = rows_of(without_entries(block), looked_at)
            scores, alpha = scores[looked_at], alpha[looked_at]
        within = sums.within(block) if part.certifies else np.zeros_like(scores)
        sums.add(scores, light, alpha, within)
        entries = {a.name: state[a.name][looked_at] for a in solver.state_arrays if a.axis == "row" and a.in_visits}
        share = np.empty(len(looked_at))
        solver.shares(light, scores, state | entries, share)
        can_move = (share > 0.0) & ~member[looked_at]
        sent = np.flatnonzero(can_move & (share >= part.least))
        chosen = looked_at[sent]
        many = (block.indptr[chosen + 1] - block.indptr[chosen]).sum() > MOST_SENT * block.indptr[-1]
        del entries["alpha"]
        below, of_sent = float(share[can_move & (share < part.least)].sum()), {n: e[sent] for n, e in entries.items()}
        movers = None if many else rows_of(block, chosen)
        return state, Answer(sums.added(), chosen, movers, share[sent], below, of_sent, allowed)


def without_entries(block: Block) -> Block:
    """The rows of a block, as if they had none."""
    none = Entries(np.zeros_like(block.indptr), np.zeros(0, np.int32), None)
    return block._replace(entries=none, stored_lengths=None)


class AddingUp(Training):
    """A reading of Newton's method: the sums of the rows at one point."""

    SUMMED = "gradient", "hessian", "sums"

    def __init__(self, job: TrainingJob, store: Store):
        super().__init__(job, store)
        self.solver.take_slots(job.slots)

    def of_block(self, block: Block, part: TrainingPart, w: np.ndarray) -> tuple[State, Answer]:
        state = self.state(block, trial=w, figures=part.given["figures"].copy())
        self.solver.inner_pass(block, state, Visit({}), np.empty(0, np.int32))
        return state, Answer({name: state[name] for name in self.SUMMED})


def size_of(answer: Any) -> int:
    """Bytes of the arrays in an answer or a part."""
    if isinstance(answer, np.ndarray):
        return answer.nbytes
    if isinstance(answer, dict):
        answer = answer.values()
    elif hasattr(answer, "__dataclass_fields__"):
        answer = [getattr(answer, name) for name in answer.__dataclass_fields__]
    elif not isinstance(answer, (list, tuple)):
        return 0
    return sum(map(size_of, answer))
