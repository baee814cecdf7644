"""What workers of a cluster do: pure functions of chunks, or of a file, and of what is sent with them: ``make``,
by any worker, as often as it is asked.  A worker holds nothing that could be lost: an open store, and the last w."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import megabytes
from blocksvm.base.vectors import as_columns
from blocksvm.files.output import sync_folder
from blocksvm.files.paths import Location, absolute_name, location
from blocksvm.formats.file_reader import fingerprint_of
from blocksvm.kernels.compile import processor
from blocksvm.kernels.rows import Entries
from blocksvm.model.events import versions
from blocksvm.model.probabilities import known_link
from blocksvm.solvers.solver import State, Task, Visit
from blocksvm.sources.block import Arena, Block, rows_of
from blocksvm.sources.source import ReadingCost
from blocksvm.store.reader import Store
from blocksvm.training.loop import beyond_bounds

MOST_SENT = 0.5  # of a part's rows: a nonzero takes four times as long to be sent as to be read and decoded
MEMORY_SHARE = 0.6  # of a worker's limit, at most: Dask ends a worker near its limit
File = tuple[str, str]  # its path, which all see, or an object's URL, and its fingerprint


def here() -> dict[str, str]:
    """What decides the bits of a result beside the data: versions, and the kind of processor."""
    return {**versions(), "processor": processor()}


@dataclass(frozen=True)
class Job:
    n_bytes: int  # memory for each thread of a worker
    opened: Callable[[], AbstractContextManager[Callable]]  # what answers to (part, w); InputError: not by this thread
    about: dict[str, str] = field(default_factory=here)  # where the run is
    key: str = field(default_factory=lambda: uuid4().hex)


# what a thread holds: of the last job its key, what answers, and what closes it; the last change and the w that it made
held = threading.local()


def make(job: Job, part: Any, whole: np.ndarray | None = None, change: tuple | None = None) -> Any:
    """The answer to a part at the w that was sent whole, or that a change, (positions, numbers), makes of it."""
    if getattr(held, "key", None) != job.key:
        held.key = held.answer = held.change = held.w = None
        getattr(held, "stack", ExitStack()).close()
        held.stack = ExitStack()
        check(job)
        held.answer = held.stack.enter_context(job.opened())
        held.key = job.key
    if change is not None and held.change is not change:
        held.change, held.w = change, whole.copy()
        held.w[change[0]] = change[1]
    return held.answer(part, whole if change is None else held.w)


def check(job: Job) -> None:
    """InputError where bits could differ from those of other workers, or there is too little memory."""
    from distributed import get_worker

    worker = get_worker()
    limit, need = getattr(worker.memory_manager, "memory_limit", None), worker.state.nthreads * job.n_bytes
    who, mine = f"worker {worker.address}", here()
    for name, own in job.about.items():
        if (other := mine.get(name)) != own:
            raise InputError(f"{who}: has {name} {other}, and the run has {own}: bits could differ; make them the same")
    if limit and MEMORY_SHARE * limit < need:
        least = f"{MEMORY_SHARE:.0%} must be {megabytes(need)} or more"
        raise InputError(f"{who}: may take {megabytes(limit)} of memory, of which {least}; raise its limit")


@contextmanager
def opened_store(path: str, fingerprint: str) -> Iterator[Store]:
    """The store of a run, which each thread opens for itself."""
    with Store(path) as store:
        if store.fingerprint != fingerprint:
            raise InputError(f"{store.path}: is another store than the one that this run reads")
        yield store


class TrainingPart(NamedTuple):
    """Chunks that are read at a version of w."""

    chunks: np.ndarray
    given: State  # scalar arrays of the state, and alpha of the rows
    members: np.ndarray = np.empty(0, np.uint8)  # which rows the working set has, as packed bits
    least: float = 0.0  # the share of the gap that a row has, at least, which is sent
    certifies: bool = False  # the sums are those of a certificate, in which members count; else they are not looked at
    saved: Location | None = None  # the checkpoint whose alpha are to be held against their bounds


class Answer(NamedTuple):
    sums: dict  # what its rows add to a certificate's, or to arrays of the state
    chosen: np.ndarray | None = None  # (m,): those that can move, are no members and have a share that is large enough
    movers: Block | None = None  # copies of them; None: they are so many that it takes less to read them again
    share: np.ndarray | None = None  # (m,): of the gap
    below: float = 0.0  # the sum of the shares of the others that can move
    entries: State = {}  # of the state's row arrays beside alpha
    of_rows: State = {}  # what matrices that have an entry for each row have gained
    seconds: float = 0.0  # of the worker
    cost: ReadingCost = ReadingCost()


@contextmanager
def training(store: File, make: Callable, task: Task, shape: tuple, n_bytes: int, slots: int | None) -> Iterator:
    """make: the solver of a task, which has no source yet; shape: of a version of w; n_bytes: of the largest part's
    rows; slots: how many Hessians are added up, None: rows are screened."""
    with opened_store(*store) as rows:
        solver = make(replace(task, source=rows))
        source, arena = rows.reader(real=solver.real_targets, packed=solver.packed), Arena(n_bytes)
        if slots is not None:
            solver.take_slots(slots)
        arrays = [array for array in solver.state_arrays if array.in_visits]

        def answer(part: TrainingPart, w: np.ndarray) -> Answer:
            began, before = time.perf_counter(), replace(source.cost)
            block = source.read_block(part.chunks, arena)
            state = {a.name: np.zeros(a.shape(shape[0] - 1, block.n_samples), a.dtype) for a in arrays}
            state |= {name: values.copy() for name, values in part.given.items()}
            state["w" if slots is None else "trial"] = w.reshape(shape)
            if slots is None:
                found = screened(solver, block, state, part)
            else:
                solver.inner_pass(block, state, Visit({}), np.empty(0, np.int32))
                found = Answer({name: state[name] for name in ("gradient", "hessian", "sums")})
            whole = solver.row_matrices if part.certifies or slots is not None else ()
            of_rows = {name: state[name][block.rows] for name in whole}
            return found._replace(of_rows=of_rows, seconds=time.perf_counter() - began, cost=source.cost - before)

        yield answer


def screened(solver: Any, block: Block, state: State, part: TrainingPart) -> Answer:
    """Rows whose share of the gap is above 0 can move, so they are sent to whoever moves rows; of all rows the sums."""
    problem, alpha = solver.problem_at(state), as_columns(state["alpha"])
    if part.saved is not None and not problem.allows(alpha, block):
        raise beyond_bounds(part.saved)
    sums = problem.sums(solver.weights(state, None))
    scores = sums.scores(block)
    within = sums.within(block) if part.certifies else np.zeros_like(scores)
    member = np.unpackbits(part.members, count=block.n_samples) > 0
    looked_at = np.flatnonzero(~member | part.certifies)
    none = Entries(np.zeros_like(block.indptr), np.zeros(0, np.int32), None)
    light = rows_of(block._replace(entries=none, stored_lengths=None), looked_at)  # without their entries
    sums.add(scores[looked_at], light, alpha[looked_at], within[looked_at])
    entries = {a.name: state[a.name][looked_at] for a in solver.state_arrays if a.axis == "row" and a.in_visits}
    share = np.empty(len(looked_at))
    solver.shares(light, scores[looked_at], state | entries, share)
    can_move = (share > 0.0) & ~member[looked_at]
    sent = np.flatnonzero(can_move & (share >= part.least))
    below = float(share[can_move & (share < part.least)].sum())
    chosen = looked_at[sent]
    many = (block.indptr[chosen + 1] - block.indptr[chosen]).sum() > MOST_SENT * block.indptr[-1]
    of_sent = {name: values[sent] for name, values in entries.items() if name != "alpha"}
    return Answer(sums.added(), chosen, None if many else rows_of(block, chosen), share[sent], below, of_sent)


def size_of(answer: Any) -> int:
    """Bytes of the arrays in an answer or a part."""
    if isinstance(answer, np.ndarray):
        return answer.nbytes
    within = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, (tuple, list)) else ()
    return sum(map(size_of, within))


def file_at(path: str) -> File:
    return absolute_name(path), fingerprint_of(path)


def check_model(model: File) -> None:
    if not location(model[0]).is_file() or file_at(model[0]) != model:
        raise InputError(f"{model[0]}: is not there, or is another model than the one that predicts")


@contextmanager
def scoring(store: File, model: File, n_bytes: int, options: dict) -> Iterator[Callable]:
    """Of (chunks, low, high) the scores of their rows of source numbers low .. high - 1; options: of the scorer."""
    from blocksvm.model.scoring import ScoredRows, StoreScorer

    check_model(model)
    with opened_store(*store) as rows:
        scorer = StoreScorer(model[0], rows.path, n_bytes, **options)
        with scorer.by_threads(rows) as score_chunks:

            def answer(part: tuple[np.ndarray, int, int], w: None) -> list[ScoredRows]:
                found: list[ScoredRows] = []
                score_chunks(part[0].tolist(), *part[1:], found.append)
                return found

            yield answer


@contextmanager
def writing(model: File, n_bytes: int, options: dict, wanted: Any, apart: str) -> Iterator[Callable]:
    """Of (a file, the file of its scores), which are written, what its rows have shown: (measures, how many rows were
    selected, lines without a row, ``figures`` of coverage).  options: of ``scorer_of``; wanted: of each row; apart: a
    folder beside, for files that are being written."""
    from blocksvm.model import measures, scoring, shards

    check_model(model)

    def answer(part: tuple[str, str], w: None) -> tuple[measures.Measures, int, int, dict]:
        (name, path), notes = part, list[str]()
        scorer = scoring.scorer_of(model[0], [name], n_bytes, **options)
        scorer.budget.take("output", shards.OUTPUT_SHARE * n_bytes)
        link = known_link(scorer.description)
        results = shards.Results(wanted, scorer.description.labels, link)
        of_rows = measures.measures_of(scorer.model, link, scorer.budget)
        file = target = location(path)
        if isinstance(target, Path):  # a worker that has stopped may hold the name under which it is written
            file = Path(apart, uuid4().hex[:8] + target.name)
        selected = sum(shards.written(scorer, name, file, True, results, of_rows, notes))
        if isinstance(target, Path):
            os.replace(file, os.path.realpath(target))
            sync_folder(target.parent, target)
        scorer.coverage.notes += notes
        return of_rows, selected, scorer.empty, scorer.coverage.figures()

    yield answer
