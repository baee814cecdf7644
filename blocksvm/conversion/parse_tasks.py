"""Tasks of other processes, of this machine or of a cluster: a piece of text is parsed, its rows are left in a file.

A task is given paths and byte ranges, never arrays.  It numbers the ids of its rows by first occurrence, so that who
merges the files looks up each distinct id of a piece once.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from xxhash import xxh3_128_hexdigest

from blocksvm.base.errors import InputError, use_option_names
from blocksvm.base.outputs.temporary import owner, put_array, take_array
from blocksvm.base.outputs.writing import named_errors
from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.base.user_code import by_user
from blocksvm.conversion.factor_counts import factors_like
from blocksvm.conversion.feature_ids import IdTable, gather_spans
from blocksvm.conversion.numbered_rows import NumberedBatch
from blocksvm.formats.format import ParseBuffer, Reader, ReaderOptions
from blocksvm.formats.hashing import reader_of
from blocksvm.formats.recipe import Recipe
from blocksvm.formats.text.text_source import SPARE, TextPiece, TextSource
from blocksvm.kernels.text_bytes import NEWLINE

OFFERS = ("duplicates", "dtype", "bits")  # settings of the recipe that messages may advise


@dataclass(frozen=True)
class ParseRun:
    """What the tasks of a run have in common.

    folder: for texts and rows, the run's own; recipe, with all settings of its format; like: the store whose factors
    values are multiplied by, or None; as_options: messages name settings as options.
    """

    folder: Path
    recipe: Recipe
    like: Path | None
    as_options: bool

    def reader(self) -> Reader:
        factors = None if self.like is None else factors_like(self.like)
        return reader_of(ReaderOptions(self.recipe, named=True, offers=OFFERS, factors=factors))


@dataclass(frozen=True)
class ParseTask:
    """Whole lines of an input, ``name``: the bytes from ``start`` to ``stop`` of the file ``text``, and a newline where
    the last one has none; digest: of these bytes; first_line: of the input; begins: as of ``TextPiece``; rows: the file
    to write."""

    name: str
    text: str
    start: int
    stop: int
    digest: str
    first_line: bytes
    begins: bool
    rows: str


@dataclass(frozen=True)
class ParsedRows:
    """What a task answers: the sizes of what its file holds, and the rest of the batch.  labels: bytes of the distinct
    labels, 0 where they are numbers; value_dtype: '' where all values are 1; names: bytes, -1 where features have none;
    error: what the task failed with, or None."""

    n_rows: int = 0
    n_entries: int = 0
    n_distinct: int = 0
    labels: int = 0
    value_dtype: str = ""
    weighted: bool = False
    names: int = -1
    n_records: int = 0
    fault: tuple[int, str] | None = None
    notes: Mapping = field(default_factory=dict)
    error: Exception | None = None
    left_out: np.ndarray | None = None


def parsed(reader: Reader, piece: TextPiece, dtype: str, buffer: ParseBuffer | None = None) -> RowBatch:
    """Rows of a piece, their values as they will be stored: of the dtype wanted, or None where all are 1."""
    batch = reader.parse(piece, buffer)
    values = None if batch.values is None or (batch.values == 1.0).all() else batch.values.astype(dtype)
    left_out = None if batch.left_out is None else np.unique(batch.left_out)
    return replace(batch, ids=batch.ids.astype(np.int64, copy=False), values=values, left_out=left_out)


_readers: dict[Path, Reader] = {}  # that of the run which this process works for, by its folder


def run_task(run: ParseRun, task: ParseTask) -> ParsedRows:
    """Parse a piece of text and write its rows to a file, which takes its name when it is whole."""
    use_option_names(run.as_options)
    try:
        by_user(run.recipe.format)  # who gives the task has looked whether the user did
        reader = _readers.get(run.folder)
        if reader is None:
            _readers.clear()
            reader = _readers[run.folder] = run.reader()
        batch = parsed(reader, piece_of(task), run.recipe.dtype)
        return put_rows(Path(task.rows), batch)
    except (InputError, OSError) as error:
        return ParsedRows(error=error)  # in its turn: a piece before this one may have a fault


def piece_of(task: ParseTask) -> TextPiece:
    """The text of a task; InputError where this process sees another one, or none."""
    text = np.empty(task.stop - task.start + 1 + SPARE, np.uint8)
    size = task.stop - task.start
    try:
        with open(task.text, "rb", buffering=0) as file:
            file.seek(task.start)
            filled = 0
            while filled < size and (n := file.readinto(memoryview(text)[filled:size])):
                filled += n
    except FileNotFoundError:
        filled = -1
    if filled < size or xxh3_128_hexdigest(text[:size]) != task.digest:
        what = "has no such file" if filled < 0 else "sees other bytes in it"
        raise InputError(
            f"{task.text}: a process on {platform.node()} {what}; every process must see the same files under the "
            "same paths, and they must not change meanwhile"
        )
    if text[size - 1] != NEWLINE:
        text[size] = NEWLINE
        size += 1
    return TextPiece(TextSource(task.name, None, first_line=task.first_line), text, size, None, task.begins)


def put_rows(path: Path, batch: RowBatch) -> ParsedRows:
    """Write a batch to a file, its ids numbered."""
    n_entries, labels, names = len(batch.ids), b"", batch.names
    table = IdTable(1_000_000 + 64 * n_entries)  # which holds as many ids, however they grow
    places = table.add(batch.ids)
    n_distinct = len(table)
    arrays = [batch.labels]
    if not isinstance(batch.labels, np.ndarray):
        known: dict = {None: -1}
        codes = [known.setdefault(label, len(known) - 1) for label in batch.labels]
        labels = json.dumps(list(known)[1:]).encode()
        arrays = [np.array(codes, np.int32), np.frombuffer(labels, np.uint8)]
    arrays += [batch.indptr, batch.origin.records, places]
    arrays += [array for array in (batch.values, batch.weights) if array is not None]
    arrays += [table.known[:n_distinct], table.counts[:n_distinct]]
    text = np.empty(0, np.uint8)
    if names is not None:
        # a new id has the largest place so far
        first = np.flatnonzero(np.diff(np.maximum.accumulate(places), prepend=-1))
        begins, ends = names[1][first], names[2][first]
        text = gather_spans(np.frombuffer(names[0], np.uint8), begins, ends)
        arrays += [np.cumsum(ends - begins), text]
    partial_path = path.with_name(f"{path.name}.{owner()}")
    with named_errors(path.parent, path.parent), open(partial_path, "wb") as file:
        for array in arrays:
            put_array(file, array)
    os.replace(partial_path, path)
    return ParsedRows(
        len(batch), n_entries, n_distinct, len(labels), "" if batch.values is None else batch.values.dtype.name,
        batch.weights is not None, -1 if names is None else len(text), batch.origin.n_records, batch.fault, batch.notes,
        left_out=batch.left_out,
    )  # fmt: skip


def take_rows(path: Path, answer: ParsedRows, piece: TextPiece) -> NumberedBatch:
    """The rows of a task's file, which is removed."""
    with open(path, "rb") as file:
        take = partial(take_array, file, place=path)
        if answer.labels:
            codes = take(np.int32, answer.n_rows)
            known = [_label(label) for label in json.loads(take(np.uint8, answer.labels).tobytes())] + [None]
            labels = [known[code] for code in codes.tolist()]
        else:
            labels = take(np.float64, answer.n_rows)
        indptr, records = take(np.int64, answer.n_rows + 1), take(np.int64, answer.n_rows)
        places = take(np.int32, answer.n_entries)
        values = take(answer.value_dtype, answer.n_entries) if answer.value_dtype else None
        weights = take(np.float64, answer.n_rows) if answer.weighted else None
        distinct, counts = take(np.int64, answer.n_distinct), take(np.uint32, answer.n_distinct)
        names = None
        if answer.names >= 0:
            ends = take(np.int64, answer.n_distinct)
            names = take(np.uint8, answer.names), np.append(0, ends[:-1])[: len(ends)], ends
    path.unlink()
    origin = Origin(piece.source, piece.fraction, answer.n_records, records)
    return NumberedBatch(
        labels, indptr, places, values, origin, weights, names, answer.fault, notes=answer.notes, distinct=distinct,
        counts=counts, left_out=answer.left_out,
    )  # fmt: skip


def _label(label):
    """A label as JSON gives it back."""
    return tuple(label) if isinstance(label, list) else label
