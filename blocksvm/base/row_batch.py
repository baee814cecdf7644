"""RowBatch: rows of an input in one form for all formats, from readers to their consumers (split, predict, stream)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import CodedLabels, label_fault

MOST_NOTES = 20  # that are shown


@dataclass(frozen=True)
class Origin:
    """Where the rows of a batch came from."""

    source: Any  # the input, whose ``name`` is a path or '-' for standard input
    fraction: float | None  # of all input read so far, None where it cannot be known
    n_records: int  # lines (or records) of the input that the batch covers
    records: np.ndarray  # (n,) int64: the record of each row, 0-based within the batch


@dataclass(frozen=True)
class RowBatch:
    """Rows in compressed sparse row form, named by the user's feature ids.

    labels: (n,) float64, nan where a row has none; or, of formats that have them, strings, or sets (tuples) of numbers
    or strings: ``CodedLabels``, made of a list where one is given.  ids (nnz,) int64, unique in each row (of formats
    whose text has ids, ascending), or int32, the hashes of ids, unique in each row.  names: of formats whose features
    have names, (bytes, first (nnz,) int64, last (nnz,) int64): that of entry k is bytes[first[k]:last[k]], UTF-8.
    fault: (record, sentence) of the first bad record, which comes after these rows, 0-based within the batch.  notes:
    of what was left out or taken otherwise than it looks (a noun in the plural), (how many, the record of the first,
    what that looks like or ''), 0-based likewise.
    """

    labels: np.ndarray | CodedLabels
    indptr: np.ndarray  # (n + 1,) int64 from 0
    ids: np.ndarray
    values: np.ndarray | None  # (nnz,) float64, already rounded to the dtype wanted; None: all 1
    origin: Origin
    weights: np.ndarray | None = None  # (n,) float64, the importance of each row, 0 or more; None: all 1
    names: tuple | None = None
    fault: tuple[int, str] | None = None
    largest: float = 0.0  # no ||x||^2 of the rows lies above it
    open_quote: int = -1  # the byte that the bad record's first line leaves open, so that its rest follows; -1: none
    notes: Mapping[str, tuple[int, int, str]] = field(default_factory=dict)
    left_out: np.ndarray | None = None  # ids of entries left out since their features have no factor; None: not weighed
    kept: Any = None  # Arrow's record batch (n rows) of the columns that were asked for beside the rows

    def __post_init__(self) -> None:
        given: object = self.labels
        if isinstance(given, list):
            object.__setattr__(self, "labels", CodedLabels.of(given))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def until(self, row: int, wrong: str) -> Self:
        """The rows before ``row``, whose fault is ``wrong``; where that is their number all of them, with theirs."""
        if row == len(self):
            return self
        end, names, records = int(self.indptr[row]), self.names, self.origin.records
        return replace(
            self, labels=self.labels[:row], indptr=self.indptr[: row + 1], ids=self.ids[:end],
            values=None if self.values is None else self.values[:end],
            weights=None if self.weights is None else self.weights[:row],
            names=None if names is None else (names[0], names[1][:end], names[2][:end]),
            origin=replace(self.origin, records=records[:row]), fault=(int(records[row]), wrong),
        )  # fmt: skip

    def label_array(self) -> np.ndarray:
        """The labels (n,): float64 with nan, or objects with None, where a row has none."""
        return self.labels if isinstance(self.labels, np.ndarray) else self.labels.array()

    @property
    def n_labelled(self) -> int:
        """How many rows have a label."""
        labels = self.labels
        return int(np.count_nonzero(~np.isnan(labels) if isinstance(labels, np.ndarray) else labels.codes >= 0))


def shown_name(name: str) -> str:
    """An input's name in a sentence."""
    return "standard input" if name == "-" else name


class RecordCounter:
    """Turns faults within batches into sentences with file and line, in the order of the batches."""

    def __init__(self) -> None:
        self.source: Any = None
        self.records = 0
        self.noted: dict[str, tuple[int, str]] = {}

    def location(self, batch: RowBatch, record: int) -> str:
        """'file:line' of a record (0-based) of a batch that follows those that were counted."""
        source = batch.origin.source
        if source is not self.source:
            self.source = source
            self.records = 0
        return f"{shown_name(source.name)}:{self.records + record + 1}"

    def at(self, batch: RowBatch, record: int, what: str) -> str:
        """'file:line: what'."""
        return f"{self.location(batch, record)}: {what}"

    def check(self, batch: RowBatch) -> None:
        """Raise InputError if the batch had a fault or a label that is none; else count its records."""
        self.check_labels(batch)
        if batch.fault is not None:
            raise InputError(self.at(batch, *batch.fault))
        self.count(batch)

    def check_labels(self, batch: RowBatch) -> None:
        """Raise InputError for the first label that is not finite, or is no text of one line."""
        fault = label_fault(batch.labels)
        if fault is not None:
            raise InputError(self.at(batch, int(batch.origin.records[fault[0]]), fault[1]))

    def count(self, batch: RowBatch) -> None:
        """Count the records of a batch, whatever was found in it."""
        self.location(batch, 0)
        for what, (n, record, look) in batch.notes.items():
            first = 0, f"the first{look and f', {look},'} at {self.location(batch, record)}"
            before, where = self.noted.get(what, first)
            self.noted[what] = before + n, where
        self.records += batch.origin.n_records

    def notes(self) -> list[str]:
        """Sentences on values that were left out or read otherwise than they look, with number and first location."""
        noted = list(self.noted.items())
        more = [f"and {len(noted) - MOST_NOTES:,} kinds more of such"] if len(noted) > MOST_NOTES else []
        return [f"{what}: {n:,} ({where})" for what, (n, where) in noted[:MOST_NOTES]] + more


def runs(bounds: np.ndarray, most: int, most_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """(first, last) of runs of rows, one after the other, that take at most ``most``, or are one row; bounds (n + 1,)
    rising: what row i takes lies between bounds[i] and bounds[i + 1]; most_rows: of a run."""
    row, n = 0, len(bounds) - 1
    while row < n:
        stop = int(np.searchsorted(bounds, bounds[row] + most, side="right")) - 1
        stop = max(row + 1, min(stop, n if most_rows is None else row + most_rows))
        yield row, stop
        row = stop
