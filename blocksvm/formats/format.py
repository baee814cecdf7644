"""The interface of input formats, and what formats of text share: memory for rows, and parsing after a bad line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from blocksvm.base.errors import option
from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.formats.kernels.closing import BIG_NORM, DUPLICATE
from blocksvm.formats.kernels.numbers import NOT_FINITE
from blocksvm.formats.text.text_source import MOST_OPEN, TextPiece
from blocksvm.kernels.text_bytes import NEWLINE
from blocksvm.store.recipe import Recipe

if TYPE_CHECKING:
    from blocksvm.formats.weighing import FeatureFactors

LINES_AFTER_FAULT = 64
EXPANSION = 5  # bytes in memory for a byte of text, by which pieces are planned: they are shorter where it takes more


@dataclass(frozen=True)
class ReaderOptions:
    """The options of a format's reader.  recipe: how features are made (``format`` and ``bits`` are not the reader's);
    labelled: rows must have a label, where the format's have one each; named: ``RowBatch.names`` are wanted; offers:
    settings of the recipe that the caller can change, for messages; keep: columns that are wanted beside rows
    (``choices.KEEP``); factors: of a recipe that weighs; None where these rows' are counted: they come unscaled."""

    recipe: Recipe = Recipe()
    labelled: bool = True
    named: bool = False
    offers: tuple[str, ...] = ()
    keep: str | None = None
    factors: FeatureFactors | None = None

    def fault_of(self, code: int, feature: str = "", made_of: str = "features") -> str:
        """The sentence for what is wrong with a row, or with the value of this feature in it, by a kernel's code."""
        if code == BIG_NORM:
            return f"the squares of the row's values add up to more than float64 holds; scale the {made_of}"
        if code == NOT_FINITE:
            return f"the value of {feature} is not a finite number; leave it out or give it one"
        if code == DUPLICATE and "duplicates" in self.offers:
            return f"{feature} occurs twice in the row; mend it, or add them up with {option('duplicates', 'sum')}"
        if code == DUPLICATE:
            return f"{feature} occurs twice in the row, as in no row that the model was trained on; mend it"
        recipe = self.recipe
        other = f"use {option('dtype', 'float64')} or " if recipe.single and "dtype" in self.offers else ""
        return f"the value of {feature} lies beyond {recipe.dtype}; {other}scale the feature"


class ParseBuffer:
    """Memory for the rows of one piece, which can be used again: fresh memory costs half as much as parsing into it.
    n_bytes: of the pieces of text that it is for; arrays, by name: each as large as the largest piece so far took.
    labels, indptr, lines (int64, the line of each row), ids, values: as in a RowBatch, once there is ``room``."""

    def __init__(self, n_bytes: int = 0):
        self.n_bytes = n_bytes
        self.arrays: dict[str, np.ndarray] = {}

    def take(self, name: str, n: int, dtype: type) -> np.ndarray:
        """An array (n,), of no certain content."""
        if name not in self.arrays or len(self.arrays[name]) < n:
            self.arrays[name] = np.empty(n + n // 8, dtype)
        return self.arrays[name][:n]

    def gathered(self, name: str, array: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.take(array, at, out=self.take(name, len(at), array.dtype.type), mode="clip")

    def room(self, n_bytes: int, entries: float) -> ParseBuffer:
        """This, with room for the rows of so many bytes of text, two or more each, with so many entries a byte."""
        n_bytes = max(n_bytes, self.n_bytes)
        rows, n_entries = n_bytes // 2 + 1, int(entries * n_bytes) + 1
        self.labels, self.lines = self.take("labels", rows, np.float64), self.take("lines", rows, np.int64)
        self.indptr = self.take("indptr", rows + 1, np.int64)
        self.ids, self.values = self.take("ids", n_entries, np.int64), self.take("values", n_entries, np.float64)
        return self

    def batch(self, piece: TextPiece, n_lines: int, rows: int, labels, fault, largest: float, **more) -> RowBatch:
        """The first rows of a piece of so many lines; more: of ``RowBatch``, names of all entries."""
        nnz = self.indptr[rows]
        names = more.pop("names", None)
        return RowBatch(
            labels[:rows], self.indptr[: rows + 1], self.ids[:nnz], self.values[:nnz],
            Origin(piece.source, piece.fraction, n_lines, self.lines[:rows]), fault=fault, largest=largest,
            names=None if names is None else (names[0], names[1][:nnz], names[2][:nnz]), **more,
        )  # fmt: skip


class Reader(Protocol):
    """Turns pieces of text into rows, in one way that a ``ReaderOptions`` chose.  Threads share it: what it keeps is
    replaced whole, and no row depends on it.  expansion: bytes in memory for a byte of text at most, with the text."""

    expansion: int

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        """Rows of whole lines; the first bad line is ``RowBatch.fault``, and nothing after it is read.  buffer: memory
        for the rows, which are valid until it is used again."""
        ...


@runtime_checkable
class Format(Protocol):
    """An input format of text in which every row lies on a line of its own; lines: what one looks like, for messages.
    Its name is the registry's (``formats.FORMATS``), or its location, 'module:attribute'.  settled(requested, head,
    name), where it has settings: all of them (``Recipe.options``), as requested or by the first bytes; looks_at, where
    these are to be whole lines: (the setting that they decide, how many)."""

    lines: str

    def reader(self, reading: ReaderOptions) -> Reader: ...


def parse_skipping(reader: Reader, piece: TextPiece) -> list[RowBatch]:
    """A piece in parts, each of which ends with a bad line, but the last.  After a bad line only some lines are tried,
    then twice as many each time, so that it costs little."""
    parts: list[RowBatch] = []
    starts: np.ndarray | None = None  # of lines, once there was a bad one
    line, most, last = 0, LINES_AFTER_FAULT, 0
    while True:
        begin, end = 0, piece.end
        if starts is not None:
            last = min(line + most, len(starts) - 1)
            begin, end = int(starts[line]), int(starts[last])
        begins = piece.begins and begin == 0
        batch = reader.parse(TextPiece(piece.source, piece.text[begin:], end - begin, piece.fraction, begins))
        if batch.fault is None:
            parts.append(batch)
            if end == piece.end:
                return parts
            line, most = last, 2 * most
        else:
            if starts is None:
                starts = np.append(0, np.flatnonzero(piece.text[: piece.end] == NEWLINE) + 1)
            bad = batch.fault[0] + 1 + lines_open(piece.text, starts[line + batch.fault[0] :], batch.open_quote)
            parts.append(replace(batch, origin=replace(batch.origin, n_records=bad)))
            line, most = line + bad, LINES_AFTER_FAULT
            if line == len(starts) - 1:
                return parts


def lines_open(text: np.ndarray, starts: np.ndarray, quote: int) -> int:
    """The number of lines after the first one that belong to its record, whose quotes are open, up to the line that
    closes them; 0 where none of the next lines does.  starts: where lines begin; the last one is the end."""
    if quote < 0:
        return 0
    starts = starts[: MOST_OPEN + 1]
    quotes = np.append(0, np.cumsum(text[starts[0] : starts[-1]] == quote))[starts[1:] - starts[0]]
    closed = np.flatnonzero(quotes % 2 == 0)
    return int(closed[0]) if len(closed) else 0
