"""What workers of a cluster do: pure functions of a store's chunks, or of a file, and of what is sent with them.

    answer = make(job, part, whole, change)     by any worker, as often as it is asked

A worker holds nothing that could be lost: a store that is open, and w as it was made last.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import megabytes
from blocksvm.base.vectors import as_columns
from blocksvm.files.output import TemporaryFolder, sync_folder
from blocksvm.files.paths import Location, location
from blocksvm.kernels.compile import processor
from blocksvm.kernels.rows import Entries
from blocksvm.model.versions import versions
from blocksvm.solvers.solver import Solver, State, Task, Visit
from blocksvm.sources.block import Arena, Block, rows_of
from blocksvm.sources.source import ReadingCost
from blocksvm.store.reader import Store
from blocksvm.training.certificate import beyond_bounds

if TYPE_CHECKING:
    from blocksvm.model.shards import Wanted

MOST_SENT = 0.5  # of a part's rows: a nonzero takes four times as long to be sent as to be read and decoded
MEMORY_SHARE = 0.6  # of a worker's limit, at most: Dask ends a worker near its limit
SUMMED = "gradient", "hessian", "sums"  # of the state: what the rows of a part add to at one point (Newton's method)
File = tuple[str, str]  # its path, which all see, or an object's URL, and its fingerprint


def here() -> dict[str, str]:
    """What decides the bits of a result beside the data: versions, and the kind of processor."""
    return {**versions(), "processor": processor()}


@dataclass(frozen=True)
class Job:
    """What all parts of a run have in common: opened() gives what answers to a part at a w, or InputError where this
    thread cannot take part; n_bytes: memory for each thread of a worker; about: as ``here`` has it where the run is."""

    n_bytes: int
    opened: Callable[[], AbstractContextManager[Callable[[Any, np.ndarray | None], Any]]]
    about: dict[str, str] = field(default_factory=here)
    key: str = field(default_factory=lambda: uuid4().hex)


class Held(threading.local):
    """What a thread holds: of the last job what answers, and what closes it; and the w that the last change made."""

    key, answer, change, w = "", None, None, None

    def __init__(self) -> None:
        self.stack = ExitStack()


held: Any = Held()


def make(job: Job, part: Any, whole: np.ndarray | None = None, change: tuple | None = None) -> Any:
    """The answer to a part at the w that was sent whole, or that a change, (positions, numbers), makes of it."""
    if job.key != held.key:
        held.key, held.answer, held.change = "", None, None
        held.stack.close()
        check(job)
        held.answer = held.stack.enter_context(job.opened())
        held.key = job.key
    if whole is None or change is None:
        return held.answer(part, whole)
    if held.change is not change:
        held.change, held.w = change, whole.copy()
        held.w[change[0]] = change[1]
    return held.answer(part, held.w)


def check(job: Job) -> None:
    """InputError where bits could differ from those of other workers, or there is too little memory."""
    from distributed import get_worker

    worker = get_worker()
    limit, need = getattr(worker.memory_manager, "memory_limit", None), worker.state.nthreads * job.n_bytes
    mine = here()
    for name, own in job.about.items():
        if mine.get(name) != own:
            differ = f"has {name} {mine.get(name)}, and the run has {own}: bits could differ"
            raise InputError(f"worker {worker.address}: {differ}; make them the same")
    if limit and MEMORY_SHARE * limit < need:
        least = f"{MEMORY_SHARE:.0%} must be {megabytes(need)} or more"
        raise InputError(f"worker {worker.address}: may take {megabytes(limit)} of memory, of which {least}; raise its "
                         "limit")  # fmt: skip


@contextmanager
def opened_store(path: str, fingerprint: str) -> Iterator[Store]:
    """The store of a run, which each thread opens for itself."""
    with Store(path) as store:
        if store.fingerprint != fingerprint:
            raise InputError(f"{store.path}: is another store than the one that this run reads")
        yield store


# -- training ----------------------------------------------------------------------------------------------------------


class TrainingPart(NamedTuple):
    """Chunks that are read at a version of w.

    given: scalar arrays of the state, and alpha of the rows, unless all are 0; members: which rows the working set has,
    as packed bits; least: the share of the gap that a row has, at least, which is sent; certifies: the sums
    are those of a certificate, in which members count; else they are not looked at; saved: the checkpoint whose alpha
    are to be held against their bounds.
    """

    chunks: np.ndarray
    given: State
    members: np.ndarray = np.empty(0, np.uint8)
    least: float = 0.0
    certifies: bool = False
    saved: Location | None = None


class Answer(NamedTuple):
    """What became of a part.

    sums: what its rows add to a certificate's, or to arrays of the state; chosen (m,): those of its rows that can move,
    are no members and have a share that is large enough, movers: copies of them, or None where these are so many that
    it takes less to read them again; share (m,): of the gap, below: the sum of the shares of the others that can move;
    entries: of the state's row arrays beside alpha; of_rows: what matrices that have an entry for each row have gained;
    seconds: of the worker; cost: of reading.
    """

    sums: dict
    chosen: np.ndarray | None = None
    movers: Block | None = None
    share: np.ndarray | None = None
    below: float = 0.0
    entries: State = {}
    of_rows: State = {}
    seconds: float = 0.0
    cost: ReadingCost = ReadingCost()


@contextmanager
def training(
    store: File, make: Callable[[Task], Solver], task: Task, shape: tuple, block_bytes: int, slots: int | None
) -> Iterator[Callable]:
    """make: the solver of a task, which has no source yet; shape: of a version of w; block_bytes: of the largest part's
    rows; slots: how many Hessians are added up, None: rows are screened."""
    with opened_store(*store) as rows:
        solver: Any = make(replace(task, source=rows))
        real, packed = solver.real_targets, solver.packed
        source = rows.reader(real=real, packed=packed) if real or packed else rows
        arena = Arena(block_bytes)
        if slots is not None:
            solver.take_slots(slots)

        def answer(part: TrainingPart, w: np.ndarray) -> Answer:
            began, before = time.perf_counter(), replace(source.cost)
            block = source.read_block(part.chunks, arena)
            state = {
                array.name: np.zeros(array.shape(shape[0] - 1, block.n_samples), array.dtype)
                for array in solver.state_arrays
                if array.in_visits
            }
            state |= {name: values.copy() for name, values in part.given.items()}
            state["w" if slots is None else "trial"] = w.reshape(shape)
            if slots is None:
                found = screened(solver, block, state, part)
            else:
                solver.inner_pass(block, state, Visit({}), np.empty(0, np.int32))
                found = Answer({name: state[name] for name in SUMMED})
            whole = solver.row_matrices if part.certifies or slots is not None else ()
            of_rows = {name: state[name][block.rows] for name in whole}
            seconds = time.perf_counter() - began
            return found._replace(of_rows=of_rows, seconds=seconds, cost=source.cost - before)

        yield answer


def screened(solver: Any, block: Block, state: State, part: TrainingPart) -> Answer:
    """A row whose share of the gap is above 0 can move, so it is sent to whoever moves rows; of all rows the sums
    are."""
    problem, alpha = solver.problem_at(state), as_columns(state["alpha"])
    if part.saved is not None and not problem.allows(alpha, block):
        raise beyond_bounds(part.saved)
    sums = problem.sums(solver.weights(state, None))
    scores = sums.scores(block)
    within = sums.within(block) if part.certifies else np.zeros_like(scores)
    member = np.unpackbits(part.members, count=block.n_samples) > 0
    looked_at = np.flatnonzero(~member | part.certifies)
    light = rows_of(without_entries(block), looked_at)
    sums.add(scores[looked_at], light, alpha[looked_at], within[looked_at])
    entries = {a.name: state[a.name][looked_at] for a in solver.state_arrays if a.axis == "row" and a.in_visits}
    share = np.empty(len(looked_at))
    solver.shares(light, scores[looked_at], state | entries, share)
    can_move = (share > 0.0) & ~member[looked_at]
    sent = np.flatnonzero(can_move & (share >= part.least))
    below = float(share[can_move & (share < part.least)].sum())
    chosen = looked_at[sent]
    many = (block.indptr[chosen + 1] - block.indptr[chosen]).sum() > MOST_SENT * block.indptr[-1]
    del entries["alpha"]
    of_sent = {name: values[sent] for name, values in entries.items()}
    return Answer(sums.added(), chosen, None if many else rows_of(block, chosen), share[sent], below, of_sent)


def without_entries(block: Block) -> Block:
    """The rows of a block, as if they had none."""
    none = Entries(np.zeros_like(block.indptr), np.zeros(0, np.int32), None)
    return block._replace(entries=none, stored_lengths=None)


def size_of(answer: Any) -> int:
    """Bytes of the arrays in an answer or a part."""
    if isinstance(answer, np.ndarray):
        return answer.nbytes
    within = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, (tuple, list)) else ()
    return sum(map(size_of, within))


# -- predictions -------------------------------------------------------------------------------------------------------


def check_model(path: str, fingerprint: str) -> None:
    from blocksvm.formats.file_reader import fingerprint_of

    if not location(path).is_file() or fingerprint_of(path) != fingerprint:
        raise InputError(f"{path}: is not there, or is another model than the one that predicts")


@contextmanager
def scoring(store: File, model: File, n_bytes: int, options: dict) -> Iterator[Callable]:
    """Of chunks the scores; options: of a ``StoreScorer``."""
    from blocksvm.model.scoring import ScoredRows, StoreScorer

    check_model(*model)
    with opened_store(*store) as rows:
        scorer = StoreScorer(model[0], rows.path, n_bytes, **options)
        with scorer.by_threads(rows) as score_chunks:

            def answer(part: tuple[np.ndarray, int, int], w: None) -> list[ScoredRows]:
                """part: (chunks, low, high), of whose rows those of source numbers low .. high - 1 are scored."""
                found: list[ScoredRows] = []
                score_chunks(part[0].tolist(), *part[1:], found.append)
                return found

            yield answer


@contextmanager
def writing(model: File, n_bytes: int, options: dict, wanted: Wanted, apart: str | None) -> Iterator[Callable]:
    """Of a file what its rows have shown, whose scores are written; options: of ``scorer_of``; wanted: of each row;
    apart: the folder for files that are being written, None where these are objects."""
    from blocksvm.model import measures, probabilities, scoring, shards

    check_model(*model)

    def answer(part: tuple[str, str], w: None) -> tuple[measures.Measures, int, int, dict]:
        """(measures, how many rows were selected, lines without a row, ``figures`` of coverage).  part: (the input's
        name, its file of scores); whoever asks has looked whether that may be replaced."""
        (name, path), notes = part, list[str]()
        scorer = scoring.scorer_of(model[0], [name], n_bytes, **options)
        scorer.budget.take("output", shards.OUTPUT_SHARE * n_bytes)
        link = probabilities.known_link(scorer.description)
        results = shards.Results(wanted, scorer.description.labels, link)
        of_rows = measures.measures_of(scorer.model, link, scorer.budget)
        # a worker that has stopped may hold the name under which the file is written
        with nullcontext() if apart is None else TemporaryFolder(apart) as own:
            file = location(path) if own is None else own / os.path.basename(path)
            selected = sum(shards.written(scorer, name, file, True, results, of_rows, notes))
            if own is not None:
                os.replace(file, os.path.realpath(path))
                sync_folder(Path(path).parent, Path(path))
        scorer.coverage.notes += notes
        return of_rows, selected, scorer.empty, scorer.coverage.figures()

    yield answer
