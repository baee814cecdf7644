"""Pieces of inputs to batches of rows, in their order: by threads of this process, or by tasks of joblib in others."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np
from xxhash import xxh3_128_hexdigest

from blocksvm.base.errors import InputError, option
from blocksvm.base.held_signals import signals_held
from blocksvm.base.objects.remote_path import absolute_name
from blocksvm.base.outputs.temporary import put_array
from blocksvm.base.outputs.writing import named_errors
from blocksvm.base.row_batch import RowBatch
from blocksvm.conversion.numbered_rows import NumberedBatch
from blocksvm.conversion.parse_tasks import ParsedRows, ParseRun, ParseTask, parsed, run_task, take_rows
from blocksvm.formats.file_reader import FileInputs, RowPiece
from blocksvm.formats.format import BufferPool, ParseBuffer, Reader
from blocksvm.formats.recipe import Recipe
from blocksvm.formats.text.text_source import TextInputs, TextPiece

# of a run of tasks, whose end the processes wait for: one of them in so many each
TASKS_A_PROCESS = 16
NO_TEXT = np.empty(0, np.uint8)


def ordered_map(pool: ThreadPoolExecutor, function, items: Iterable, ahead: int, alone=lambda item: False) -> Iterator:
    """``map`` over a pool that keeps the order and holds at most ``ahead`` results; alone(item): none beside it."""
    pending: deque = deque()
    try:
        for item in items:
            by_itself = alone(item)
            while pending and by_itself:
                yield pending.popleft().result()
            pending.append(pool.submit(function, item))
            if by_itself or len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def by_threads(
    reader: Reader, pieces: Iterable, dtype: str, pool: ThreadPoolExecutor, jobs: int
) -> Generator[RowBatch, None, None]:
    """Batches of the pieces' rows, parsed by a pool of ``jobs`` threads."""
    spare = BufferPool()

    def of_piece(piece) -> tuple[RowBatch, ParseBuffer | None]:
        # that of rows from a file grows with them
        buffer = spare.take(reader, 0) if isinstance(piece, RowPiece) else None
        return parsed(reader, piece, dtype, buffer), buffer

    for batch, buffer in ordered_map(pool, of_piece, pieces, jobs):
        yield batch
        if buffer is not None:
            spare.give_back(buffer)


def n_processes(wanted: int) -> int:
    """Processes as joblib counts them where it is configured now: -1 is as many as there are."""
    from joblib import effective_n_jobs  # importing it takes a tenth of a second

    try:
        return effective_n_jobs(wanted)
    except TimeoutError as error:
        raise InputError("the cluster has no workers; start some, with 'dask worker HOST:PORT'") from error


def parse_run(text: TextInputs | FileInputs, folder: Path, recipe: Recipe, like: Path | None) -> ParseRun:
    """What tasks need to parse the inputs; like: the store whose factors rows are weighed by, or None.  InputError
    where the inputs are not text."""
    if isinstance(text, FileInputs):
        raise InputError(
            f"{text.names[0]}: is {text.format}, and {option('processes')} divides text by its lines; leave it out"
        )
    as_options = option("processes") != "processes"  # a command, not Python
    return ParseRun(folder.absolute(), recipe, None if like is None else like.absolute(), as_options)


def by_processes(
    pieces: Iterable[TextPiece], run: ParseRun, processes: int, seconds: float
) -> Generator[NumberedBatch, None, None]:
    """Batches of the pieces' rows, parsed by tasks of joblib: in ``processes`` processes of this machine, or where
    ``joblib.parallel_config`` says.  seconds: that a task may take.  InputError where a process dies or does not
    answer."""
    from joblib import Parallel, delayed

    given = _tasks(pieces, run.folder)
    most = processes * TASKS_A_PROCESS
    ahead = list(islice(given, 2 * processes))  # few at first: who reads a pipe does not wait for more
    # more tasks at once would only wait in a queue, whose owner trips over it when they are given up
    parallel = Parallel(processes, return_as="generator", pre_dispatch=2 * processes, batch_size=1, max_nbytes=None,
                        timeout=seconds if processes > 1 else None)  # fmt: skip
    with parallel:
        while ahead:
            now, ahead = ahead, []
            tasks = [delayed(run_task)(run, task) for task, _ in now if isinstance(task, ParseTask)]
            with _answers(parallel, tasks, seconds) as answers:
                for task, piece in now:
                    if isinstance(task, Exception):
                        raise task
                    answer = next(answers)
                    if answer.error is not None:
                        raise answer.error
                    yield take_rows(Path(task.rows), answer, piece)
                    if piece.at is None:
                        os.unlink(task.text)
                    ahead += islice(given, min(2, most - len(ahead)))


@contextmanager
def _answers(parallel, tasks: list, seconds: float) -> Iterator[Iterator[ParsedRows]]:
    """The answers of tasks, in their order; what is left of them is given up in the end."""
    answers = None
    try:
        with signals_held():
            answers = parallel(tasks)  # raises at once where a process has died since the last tasks
        yield answers
    except BrokenProcessPool as error:
        raise InputError(
            "a process that parses has died, killed or for want of memory; run it again, with less "
            f"{option('memory')} or fewer {option('processes')}"
        ) from error
    except (TimeoutError, multiprocessing.TimeoutError) as error:
        raise InputError(
            f"a task has not been answered for {seconds:g} seconds; look after the processes, and run it again"
        ) from error
    except Exception as error:
        if not type(error).__module__.startswith("distributed"):
            raise
        raise InputError(
            f"the cluster has given tasks up ({type(error).__name__}); see that its scheduler and its workers live, "
            "and run it again"
        ) from error
    finally:
        if answers is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that tasks are given up
                answers.close()


def _tasks(pieces: Iterable[TextPiece], folder: Path) -> Iterator[tuple[ParseTask | Exception, TextPiece | None]]:
    """A task for each piece, with the piece without its text; in the end, where the next piece cannot be had, why.
    Text that lies in no file as it is becomes one of ``folder``."""
    numbers = count()
    try:
        for piece in pieces:
            number = next(numbers)
            text, start, end = piece.source.name, piece.at, piece.end
            if start is None:
                text, start = str(folder / f"text-{number}"), 0
                with named_errors(folder, folder), open(text, "wb") as file:
                    put_array(file, piece.text[:end])
            elif start + end > piece.source.text_bytes:
                end -= 1  # a newline that the file lacks
            task = ParseTask(
                piece.source.name, absolute_name(text), start, start + end, xxh3_128_hexdigest(piece.text[:end]),
                piece.source.first_line, piece.begins, str(folder / f"rows-of-{number}"),
            )  # fmt: skip
            yield task, replace(piece, text=NO_TEXT)
    except (InputError, OSError) as error:
        yield error, None
