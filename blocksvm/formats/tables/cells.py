"""Tables of text with a row a line: ``csv``, ``tsv``, and ``criteo``, the layout of Criteo's click logs.

Cells are as RFC 4180 has them, but a row ends with its line: a line break within quotes is a fault.  A number is the
value of a feature of the column's name; a category is a feature 'column=value' whose value is 1.  Which of the two a
column has the first rows decide (formats/tables/table_layout.py), unless ``numeric`` or ``categorical`` names it; where
``categorical`` does not say ``auto``, what is no number in other columns is a fault.  A cell of a column of numbers
that is none, and one of a column that the first file lacks, is what it looks like, and is counted.  Missing cells
(empty, na, n/a, nan, null, in quotes or not) and zeros are no entries; true and false are the numbers 1 and 0.  Each
file has its own header: columns are known by their names, whatever their order.

Criteo's rows (Kaggle 2014 and the terabyte set) are a label, 13 whole numbers and 26 categories between tabs, without a
header; their columns are label, I1 ... I13, C1 ... C26.  The numbers are counts, some large, and a few are below 0:
x becomes sign(x) log(1 + |x|).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import Origin, RowBatch, shown_name
from blocksvm.formats.choices import added, chosen
from blocksvm.formats.format import ParseBuffer, ReaderOptions, lines_open
from blocksvm.formats.kernels import cells as kernels
from blocksvm.formats.kernels.numbers import BAD_VALUE, FINE
from blocksvm.formats.tables.table_layout import (
    COLUMNS,
    DECIDED,
    DELIMITERS,
    KINDS,
    SAMPLED_ROWS,
    SEPARATORS,
    Dialect,
    Looks,
    TableLayout,
    chosen_categories,
    columns_before,
    columns_line,
    decided_kinds,
    has_header,
    layout_of,
    named_by,
    own_values,
    remarks,
    some_of,
)
from blocksvm.formats.text.row_labels import WORDS, are_words, labels_at, without_missing
from blocksvm.formats.text.text_source import TextPiece, quoted, utf8_lines
from blocksvm.formats.text.vw import BIG_NORM, BIG_VALUE
from blocksvm.kernels.row_arrays import NewNames, NewRows
from blocksvm.kernels.text_bytes import NEWLINE, SPARE

FAULTS = {
    kernels.FEW_CELLS: "the line has {column} cells, {whose} {n}",
    kernels.MANY_CELLS: "the line has more cells than {whose} {n}",
    kernels.OPEN_QUOTE: "column {name}: the quotes do not end on this line; a row is one line, so take line breaks out",
    kernels.AFTER_QUOTE: "column {name}: something stands between the end of the quotes and that of the cell",
    BAD_VALUE: "column {name}: {token} is not a number; mend it{categorical}",
}


class CellReader:
    """Rows of cells between delimiters."""

    def __init__(self, reading: ReaderOptions, table: Table):
        self.reading = reading
        self.table = table
        self.options = table.chosen_of(reading.recipe.options)
        self.dialect = table.dialect(self.options)
        # the shortest cell, "1,", has an id and a value, and a name's place
        self.expansion = 24 if reading.named else 12
        self.known: tuple[bytes, TableLayout, tuple] | None = None  # the columns of the file that was read last

    def buffer(self, n_bytes: int) -> ParseBuffer:
        """A row takes two bytes or more, and so does a cell."""
        return ParseBuffer(n_bytes // 2 + 1, n_bytes // 2 + 1)

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        text, end = piece.padded(), piece.end
        recipe, named = self.reading.recipe, self.reading.named
        first_line = piece.source.first_line or text[:end].tobytes().partition(b"\n")[0] + b"\n"
        skip = len(first_line) if piece.begins and self.options["header"] != "no" else 0
        try:
            layout, arrays = self._columns(first_line)
        except InputError as error:
            return self._nothing(piece, str(error))
        end, fault = utf8_lines(text, end)
        if buffer is None:
            delimiters = np.count_nonzero(text[:end] == self.dialect.delimiter)
            n_lines = np.count_nonzero(text[:end] == NEWLINE)
            buffer = ParseBuffer(n_lines, delimiters + n_lines)
        indptr, ids, values, lines = buffer.indptr, buffer.ids, buffer.values, buffer.lines
        spans = np.empty((len(lines), 2), np.int64)
        firsts, lasts = (np.empty(len(ids) if named else 0, np.int64) for _ in range(2))
        looks = np.empty((len(layout.names), 7), np.int64)
        (rows, line, code, column, position, _, _), undecided, names = run_parser(
            text, end, min(skip, end), self.dialect, layout.roles, arrays, named,
            NewRows(spans, indptr, ids, values, lines), (firsts, lasts, looks),
        )  # fmt: skip
        open_quote = -1
        if code != FINE:
            fault = line, self._sentence(code, layout, column, text, position)
            open_quote = self.dialect.quote if code == kernels.OPEN_QUOTE else -1
        for entry, start, stop in undecided.tolist():
            if entry >= indptr[rows]:
                continue  # in the bad line itself
            token = text[start:stop].tobytes()
            number = float(token.replace(b",", b".") if self.dialect.comma else token)
            with np.errstate(over="ignore"):
                values[entry] = np.sign(number) * np.log1p(abs(number)) if values[entry] == 1.0 else number
        if KINDS in self.reading.recipe.options and not self.words_requested:
            spans[:rows] = without_missing(text, spans[:rows])
        cure = words_by(self.options) if self.reading.offers and "categorical" in self.options else ""
        truths = KINDS in self.options
        labels, wrong = labels_at(text, spans[:rows], self.options[WORDS], self._cell, cure, truths)
        if wrong is not None:
            rows, sentence = wrong
            fault = int(lines[rows]), sentence
        done, code, entry, largest = kernels.close_cells(
            indptr, rows, ids, values, recipe.l2, recipe.single, named, firsts, lasts
        )
        if code != FINE:
            rows = done
            sentence = "the squares of the row's values add up to more than float64 holds; scale the columns"
            fault = int(lines[done]), sentence if code == BIG_NORM else self.reading.too_large("a cell")
        notes = self._notes(layout, looks, text, piece.begins)
        if fault is not None and looks[:, [1, 4]].any():  # what is counted must be of the rows before
            before = np.append(0, np.flatnonzero(text[:end] == NEWLINE) + 1)[fault[0]]
            if before < end:
                short = replace(piece, text=text, end=int(before))
                return replace(self.parse(short, buffer), fault=fault, open_quote=open_quote)
        return buffer.batch(
            piece, line, rows, labels, fault, largest, names=(names, firsts, lasts) if named else None, notes=notes,
            open_quote=open_quote,
        )  # fmt: skip

    def _columns(self, first_line: bytes) -> tuple[TableLayout, tuple]:
        """The columns of a file with this first line, and what the parser takes of them; InputError where one is not
        there."""
        known = self.known
        if known is None or known[0] != first_line:
            layout = self.table.layout(first_line, self.options, self.reading.labelled)
            known = self.known = first_line, layout, layout.arrays()
        return known[1:]

    @property
    def words_requested(self) -> bool:
        """Somebody said that labels are words: whatever a cell holds is one."""
        return self.options["label"] in self.options.get("categorical", "").split(",")

    def _notes(self, layout: TableLayout, looks: np.ndarray, text: np.ndarray, begins: bool) -> dict:
        """Notes on cells that were perhaps misread; see ``RowBatch``."""
        if KINDS not in self.reading.recipe.options:
            return {}
        notes = {}
        unnamed = layout.names.count("")
        if begins and unnamed:
            notes["columns without a name, which were left out (give them one in the header)"] = unnamed, 0, ""
        missing = [name for name in columns_before(self.options) if name not in layout.names] if begins else []
        if missing:
            what = "columns that the rows before had and the table lacks, taken as empty"
            notes[what] = len(missing), 0, some_of(missing)
        for column in np.flatnonzero(looks[:, 1]).tolist():
            if layout.decided[column] or self.reading.labelled:
                n, line, start = looks[column, 1:4].tolist()
                what = f"cells of the column {layout.names[column]} that are no numbers, and became categories"
                notes[what] = n, line, quoted(self.dialect.cell_at(text, start))
        for column in np.flatnonzero(
            (layout.roles == kernels.CATEGORY) & (looks[:, 4] > 0) & bool(self.reading.offers)
        ):
            n, line, start = looks[column, 4:].tolist()
            what = (
                f"cells of the column {layout.names[column]} that say na, n/a, nan or null, and were taken for missing"
            )
            notes[what] = n, line, quoted(self.dialect.cell_at(text, start))
        return notes

    def _nothing(self, piece: TextPiece, sentence: str) -> RowBatch:
        """No rows, and what is wrong with the first line."""
        nothing = np.empty(0, np.int64)
        labels = [] if self.options[WORDS] else np.empty(0)
        names = (np.empty(0, np.uint8), nothing, nothing) if self.reading.named else None
        origin = Origin(piece.source, piece.fraction, 0, nothing)
        return RowBatch(labels, np.zeros(1, np.int64), nothing, np.empty(0), origin, names=names, fault=(0, sentence))

    def _cell(self, token: bytes) -> bytes:
        """The text of a label's cell."""
        quote = bytes([max(0, self.dialect.quote)])
        return token.replace(2 * quote, quote) if self.dialect.quote != kernels.NO_QUOTE else token

    def _sentence(self, code: int, layout: TableLayout, column: int, text: np.ndarray, position: int) -> str:
        name = layout.names[min(column, len(layout.names) - 1)]
        offered = self.reading.offers and "categorical" in self.options
        category = f", or name the column by {option('categorical')}" if offered else ""
        if code == BIG_VALUE:
            return self.reading.too_large(f"column {name}") + category
        return FAULTS[code].format(
            column=column, n=len(layout.names), name=name, token=quoted(self.dialect.cell_at(text, position)),
            categorical=category,
            whose="the header" if self.options["header"] != "no" else "the first line",
        )  # fmt: skip


def words_by(options: Mapping) -> str:
    """The setting that takes labels as words, for a sentence."""
    return f"say {added('categorical', options, options['label'])}, which takes labels as words"


def _beginning(static: np.ndarray, n: int) -> np.ndarray:
    """Room for n bytes of names, which begin with those."""
    names = np.empty(max(n, len(static)), np.uint8)
    names[: len(static)] = static
    return names


def run_parser(text, end, skip, dialect: Dialect, roles, arrays, named, rows: NewRows, cells: tuple) -> tuple:
    """(what ``parse_cells`` returns, numbers for Python to parse, the bytes of names) of whole lines."""
    seeds, prefixes, static = arrays
    firsts, lasts, looks = cells
    undecided = np.empty((1024, 3), np.int64)
    names = _beginning(static, len(static) + end if named else len(static))
    while True:
        parsed = kernels.parse_cells(
            text, end, skip, dialect, roles, seeds, prefixes, named, rows,
            undecided, NewNames(names, firsts, lasts), looks,
        )  # fmt: skip
        n_undecided, name_bytes = parsed[-2:]
        if n_undecided <= len(undecided) and name_bytes <= max(len(names), len(static)):
            return parsed, undecided[:n_undecided], names
        undecided = np.empty((max(n_undecided, len(undecided)), 3), np.int64)
        names = _beginning(static, max(name_bytes, len(names)))


def inspect_head(head: bytes, dialect: Dialect, layout: TableLayout, skip: int, label_requested: bool) -> Looks:
    """Counts over the rows of the first lines, bad ones left out; ``skip``: bytes of the header."""
    # kernels are compiled for memory that can be written
    text = np.frombuffer(bytearray(head + b"\n" * (not head.endswith(b"\n")) + bytes(SPARE)), np.uint8)
    end, _ = utf8_lines(text, len(text) - SPARE)
    roles = np.where((layout.roles == kernels.EITHER) & ~layout.decided, kernels.UNSEEN, kernels.LEFT_OUT)
    roles[layout.roles == kernels.LABEL] = kernels.LABEL
    arrays = layout.arrays()
    n_lines = np.count_nonzero(text[:end] == NEWLINE)
    buffer = ParseBuffer(n_lines, np.count_nonzero(text[:end] == dialect.delimiter) + n_lines)
    spans, nothing = np.empty((n_lines, 2), np.int64), np.empty(0, np.int64)
    looks, counts = np.empty((len(roles), 7), np.int64), np.zeros((2, len(roles)), np.int64)
    first: dict[int, tuple[int, bytes]] = {}
    labels: list[tuple[int, bytes]] = []
    start, done = skip, int(skip > 0)
    while start < end:
        part = text[start:]
        stop = end - start
        while True:
            (rows, line, code, *_), _, _ = run_parser(
                part, stop, 0, dialect, roles, arrays, False,
                NewRows(spans, buffer.indptr, buffer.ids, buffer.values, buffer.lines), (nothing, nothing, looks),
            )  # fmt: skip
            if code == FINE:
                break
            # cells of the bad line were counted, too
            starts = np.append(0, np.flatnonzero(part[: end - start] == NEWLINE) + 1)
            stop, quote = int(starts[line]), dialect.quote if code == kernels.OPEN_QUOTE else -1
            bad = lines_open(part, starts[line:], quote)
        counts += looks[:, :2].T
        for column in np.flatnonzero(looks[:, 1]).tolist():
            number, place = looks[column, 2:4].tolist()
            first.setdefault(column, (done + number, dialect.cell_at(part, place)))
        known = spans[:rows] if label_requested else without_missing(part, spans[:rows])
        labels += [
            (done + number, part[a:b].tobytes())
            for number, (a, b) in zip(buffer.lines[:rows].tolist(), known.tolist(), strict=True)
            if b > a
        ]
        if stop == end - start:
            break
        start, done = start + int(starts[line + 1 + bad]), done + line + 1 + bad
    return Looks(*counts, first, labels)


class Table:
    """A format of cells between delimiters."""

    def __init__(self, name: str, delimiter: str, quotes: bool = True):
        self.name = name
        self.delimiter = delimiter
        self.quotes = quotes
        self.lines = f"cells between {SEPARATORS[delimiter]}, the first with the columns' names"

    def chosen_of(self, options: Mapping) -> dict:
        requested = {name: value for name, value in options.items() if name not in DECIDED}
        kinds = {KINDS: options[KINDS]} if KINDS in options else {}
        return chosen(self.name, requested) | {WORDS: options.get(WORDS, False), COLUMNS: options.get(COLUMNS)} | kinds

    def dialect(self, options: Mapping) -> Dialect:
        """The delimiter and the quote of lines."""
        delimiter_name, quote = options.get("delimiter"), options.get("quote", '"')
        delimiter = DELIMITERS.get(delimiter_name, delimiter_name) or self.delimiter
        quotes = self.quotes and quote != "none"
        return Dialect(ord(delimiter), ord(quote) if quotes else kernels.NO_QUOTE, options.get("decimal") == ",")

    def head_lines(self, requested: Mapping) -> int:
        """The number of first lines that ``settled`` reads."""
        return 1 if WORDS in requested else SAMPLED_ROWS + 1

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        """The settings, and, unless these are known, what the first rows decide: the kinds of columns and of labels,
        and, where no header tells it, the number of columns."""
        options = self.chosen_of({key: value for key, value in requested.items() if value is not None})
        first_line = head.partition(b"\n")[0]
        place = f"{shown_name(name)}:1: "
        dialect = self.dialect(options)
        try:
            if options["header"] == "auto":
                known = WORDS in requested or not head
                headed = known or has_header(dialect.cells(first_line), options)
                options["header"] = "yes" if headed else "no"
            if WORDS in requested or not head:
                return options
            headed = options["header"] == "yes"
            if not headed:
                options[COLUMNS] = len(dialect.cells(first_line))
            layout = self.layout(first_line, options, True)
            words = self._label_kind(options)
            looks = inspect_head(head, dialect, layout, headed * (len(first_line) + 1), bool(words))
            kinds = options[KINDS] = decided_kinds(layout, looks)
            named = named_by(chosen_categories(options, layout.names)[0], layout.names, "categorical", missing=True)
            kinds |= own_values(
                self._counts(head.split(b"\n")[headed:], dialect, layout, set(kinds["categorical"]) - named)
            )
            if words is None:
                place = f"{shown_name(name)}:"
                words = are_words(looks.labels, words_by(options))
            options[WORDS] = words
        except InputError as error:
            raise InputError(f"{place}{error}") from None
        return options

    @staticmethod
    def _counts(lines: list[bytes], dialect: Dialect, layout: TableLayout, wanted: set[str]) -> dict:
        """(different cells, cells) of the lines in each column that is wanted, by name; of lines that are in order."""
        counts = {}
        with suppress(csv.Error):
            rows = list(dialect.rows(line.decode(errors="replace") for line in lines)) if wanted else []
            columns = zip(*(row for row in rows if len(row) == len(layout.names)), strict=True)
            for name, cells in zip(layout.names, columns, strict=False):
                if name in wanted:
                    counts[name] = len({*cells} - {""}), sum(map(bool, cells))
        return counts

    @staticmethod
    def _label_kind(options: Mapping) -> bool | None:
        """Whether labels are words, where the settings say it."""
        label = options["label"]
        if label in options["categorical"].split(","):
            return True
        return False if label in (options["numeric"] or "").split(",") else None

    def layout(self, first_line: bytes, options: Mapping, labelled: bool) -> TableLayout:
        """The columns of a file whose first line this is; InputError where a column is not there."""
        return layout_of(self.dialect(options).cells(first_line), options, labelled)

    remarks = staticmethod(remarks)
    columns_line = staticmethod(columns_line)

    def reader(self, reading: ReaderOptions) -> CellReader:
        return CellReader(reading, self)


class Criteo(Table):
    """Criteo's click logs."""

    NAMES = ["label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27))]

    def __init__(self, name: str, delimiter: str):
        super().__init__(name, delimiter, quotes=False)
        self.lines = "a label, 13 numbers and 26 categories between tabs"

    def chosen_of(self, options: Mapping) -> dict:
        requested = {name: value for name, value in options.items() if name not in DECIDED}
        return chosen(self.name, requested) | {"header": "no", "label": "label", WORDS: False, COLUMNS: 40}

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        self.chosen_of({key: value for key, value in requested.items() if value is not None and key not in DECIDED})
        return {}

    def head_lines(self, requested: Mapping) -> int:
        return 1

    def layout(self, first_line: bytes, options: Mapping, labelled: bool) -> TableLayout:
        names = self.NAMES
        if not labelled and len(self.dialect(options).cells(first_line)) + 1 == len(names):
            names = names[1:]
        kinds = {"l": kernels.LABEL, "I": kernels.LOGARITHM, "C": kernels.CATEGORY}
        return TableLayout(names, np.array([kinds[name[0]] for name in names]), np.ones(len(names), bool))


CSV = Table("csv", ",")
TSV = Table("tsv", "\t")
CRITEO = Criteo("criteo", "\t")
