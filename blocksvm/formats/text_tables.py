"""Tables of text: ``csv``, ``tsv`` and ``criteo``, a row a line, which pyarrow cuts into columns of cells.

Each file has its own header: columns are known by their names, whatever their order.  A line break within quotes is a
fault.  Criteo's rows (Kaggle 2014 and the terabyte set) are a label, 13 whole numbers and 26 categories between tabs,
without a header; the numbers x are counts, some large, a few below 0, and become sign(x) log(1 + |x|).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import Origin, RowBatch, shown_name
from blocksvm.formats.choices import COLUMNS, DECIDED, KEEP, WORDS, added, chosen
from blocksvm.formats.format import ParseBuffer, ReaderOptions, lines_open
from blocksvm.formats.kernels import columns as kernels
from blocksvm.formats.kernels.numbers import FINE
from blocksvm.formats.kernels.svmlight import BIG_NORM
from blocksvm.formats.table_columns import (
    DELIMITERS,
    KINDS,
    NO_QUOTE,
    SAMPLED_ROWS,
    SEPARATORS,
    Dialect,
    Looks,
    Role,
    TableColumns,
    columns_of_text,
    decided_kinds,
    has_header,
    with_kept,
)
from blocksvm.formats.table_rows import (
    POOL,
    WHOLE,
    Cells,
    Layout,
    RowMaker,
    Rows,
    TableReader,
    cells_of,
    coded_labels,
    rows_of_texts,
    token_in,
)
from blocksvm.formats.text.row_labels import MISSING, are_words, inexact, sentence_of
from blocksvm.formats.text.text_source import LONE_RETURNS, MOST_OPEN, TextPiece, last_newline, quoted, utf8_lines
from blocksvm.kernels.text_bytes import NEWLINE, RETURN, SPARE

FAULTS = {
    kernels.FEW_CELLS: "the line has {column} cells, {whose} {n}",
    kernels.MANY_CELLS: "the line has more cells than {whose} {n}",
    kernels.OPEN_QUOTE: "column {name}: the quotes do not end on this line; a row is one line, so take line breaks out",
    kernels.LONE_RETURN: LONE_RETURNS,
}


def numbers_in(cells: Cells, dialect: Dialect, logarithms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(numbers (k, n) of the cells, what ``cell_numbers`` says of them)"""
    k, n = cells.k, cells.n
    values, looks = np.empty((k, n)), np.empty((k, 5), np.int64)
    kernels.cell_numbers(cells.text, cells.ends, dialect.comma, dialect.quote, logarithms, values, looks)
    return values, looks


class TextLayout(Layout):
    """The columns of a file of text, and how pyarrow cuts it: ``wanted``, the positions of the columns that are."""

    def __init__(self, columns: TableColumns, dialect: Dialect):
        super().__init__(columns)
        self.dialect = dialect
        label = [] if self.label is None else [self.label]
        self.kept = [self.names.index(name) for name in columns.kept]
        self.wanted = list(dict.fromkeys(label + self.numbers + self.words + self.texts + self.kept)) or [0]
        self.at = {j: k for k, j in enumerate(self.wanted)}
        keys = [str(j) for j in range(len(self.names))]  # names of the columns, of which some may be empty
        wanted = [keys[j] for j in self.wanted]
        quoting = dialect.quote != NO_QUOTE
        self.cutting = {
            "read_options": pa.csv.ReadOptions(use_threads=False, block_size=WHOLE, column_names=keys),
            "parse_options": pa.csv.ParseOptions(
                delimiter=chr(dialect.delimiter), quote_char=chr(dialect.quote) if quoting else False,
                newlines_in_values=bool(self.texts),
            ),
            "convert_options": pa.csv.ConvertOptions(
                check_utf8=False, strings_can_be_null=False, include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.binary()),
            ),
        }  # fmt: skip

    def cut(self, text: np.ndarray, begin: int, end: int) -> Cut:
        """The columns of the lines ``text[begin:end]``, up to the first that is no row."""
        lines, fault, stop = None, None, end
        n_lines = np.count_nonzero(text[begin:end] == NEWLINE)
        table = self._table(text[begin:end])
        broken = self.texts and (table is None or len(table) != n_lines)
        if broken and (records := self._records(text[begin:end])) is not None:
            return records
        last = last_newline(text[begin : end - 1], end - 1 - begin) + 1 + begin  # the last line may end within quotes
        open_ended = np.count_nonzero(text[last:end] == self.dialect.quote) % 2
        if table is None or len(table) != n_lines or open_ended or lone_returns(text[begin:end]):
            lines = np.empty(n_lines, np.int64)
            n, line, code, column, position = kernels.split_lines(
                text, begin, end, self.dialect.delimiter, self.dialect.quote, len(self.names), lines
            )
            lines = lines[:n]
            if code != FINE:
                fault = line, code, column, position
                starts = np.append(begin, begin + np.flatnonzero(text[begin:end] == NEWLINE) + 1)
                stop = int(starts[line])
                table = self._table(text[begin:stop])
            if table is None or len(table) != n:
                raise InputError("the lines cannot be cut into cells; are its quotes or separators others?")
        batches = table.to_batches()
        return Cut(len(table), batches[0].columns if batches else [], lines, fault, self.dialect.quote)

    def _records(self, text: np.ndarray) -> Cut | None:
        """The same of lines some of which break within quotes, up to a record whose quotes do not end; None where there
        is another fault."""
        ends = np.flatnonzero(text == NEWLINE)
        inside = np.cumsum(text == self.dialect.quote, dtype=np.uint8)[ends] % 2
        last = np.append(-1, np.flatnonzero(inside == 0))  # of each record
        begins = np.append(0, ends + 1)
        lines = last[:-1] + 1
        lines = lines[(text[begins[lines]] != NEWLINE) & (text[begins[lines]] != RETURN)]
        stop = int(last[-1]) + 1
        table = self._table(text[: begins[stop]])
        if table is None or len(table) != len(lines):
            return None
        fault = None if stop == len(ends) else (stop, kernels.OPEN_QUOTE, self.texts[0], -1)
        batches = table.combine_chunks().to_batches()
        return Cut(len(table), batches[0].columns if batches else [], lines, fault, self.dialect.quote)

    def kept_of(self, cut: Cut) -> pa.RecordBatch | None:
        """The columns that are wanted beside the rows."""
        if not self.kept:
            return None
        cells = [cut.columns[self.at[j]].cast(pa.string()) if cut.n else pa.nulls(0, pa.string()) for j in self.kept]
        return pa.RecordBatch.from_arrays(cells, names=self.columns.kept)

    def _table(self, text: np.ndarray) -> pa.Table | None:
        """The columns of some lines; None where one of these is no row."""
        if not len(text):
            return pa.table({})
        try:
            return pa.csv.read_csv(pa.py_buffer(text), memory_pool=POOL, **self.cutting)
        except pa.ArrowInvalid:
            return None


class Cut(NamedTuple):
    """n lines in columns; lines: of each row, None where each line is one; fault: (line, code, cell, position) of the
    first line that is not a row, which comes after them."""

    n: int
    columns: list
    lines: np.ndarray | None
    fault: tuple | None
    quote: int

    def cells(self, columns: list[int]) -> Cells:
        arrays = [self.columns[k] if self.n else pa.nulls(0, pa.binary()) for k in columns]
        return cells_of(arrays, self.n)._replace(quote=self.quote)


def lone_returns(text: np.ndarray) -> bool:
    """Whether there are carriage returns that no newline follows."""
    returns = np.flatnonzero(text == RETURN)
    return bool(len(returns)) and not (text[np.minimum(returns + 1, len(text) - 1)] == NEWLINE).all()


class TextReader(TableReader):
    def __init__(self, reading: ReaderOptions, table: Table):
        # the shortest cell, "1,", lies twice in columns, where it has two ends and a number, and becomes an id and a
        # value; of a word there is an entry in the table of words, too
        super().__init__(reading, table.chosen_of(reading.recipe.options), 28 if reading.named else 20, besides=2)
        self.table = table

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        text, end = piece.padded(), piece.end
        buffer = ParseBuffer() if buffer is None else buffer
        first_line = piece.source.first_line or text[:end].tobytes().partition(b"\n")[0] + b"\n"
        skip = len(first_line) if piece.begins and self.options["header"] != "no" else 0
        try:
            layout = self._layout(first_line)
        except InputError as error:  # of the file, not of a line
            raise InputError(f"{shown_name(piece.source.name)}:1: {error}") from None
        n_lines = int(np.count_nonzero(text[:end] == NEWLINE))
        end, fault = utf8_lines(text, end)
        cut = layout.cut(text, min(skip, end), end)
        n = cut.n
        header = int(skip > 0)
        lines = header + (np.arange(n) if cut.lines is None else cut.lines)
        open_quote = -1
        if cut.fault is not None:
            line, code, column, _ = cut.fault
            fault = header + line, self._sentence(code, layout, column)
            open_quote = layout.dialect.quote if code == kernels.OPEN_QUOTE else -1
        cells = cut.cells([layout.at[j] for j in layout.numbers])
        numbers, looks = numbers_in(cells, layout.dialect, layout.logarithms)
        if looks[:, 1].any():
            bad = np.flatnonzero(looks[:, 1])
            column = int(bad[np.argmin(looks[bad, 2])])
            n, name = int(looks[column, 2]), layout.names[layout.numbers[column]]
            token = quoted(cells.token(column, n)[:40])
            fault = int(lines[n]), f"column {name}: {token} is not a number; mend it{self._category(name)}"
        labels, wrong = self._labels(layout, cut, n)
        if wrong is not None:
            n, sentence = wrong
            fault = int(lines[n]), sentence
        words = cut.cells([layout.at[j] for j in layout.words])

        def made(named: bool) -> tuple[Rows, np.ndarray]:
            if self.ngrams is not None:
                texts = [cut.columns[layout.at[j]] for j in layout.texts] if n else [pa.nulls(0, pa.binary())]
                return rows_of_texts(self.ngrams, texts, cut.n, buffer), np.zeros((0, 2), np.int64)
            maker = RowMaker(layout, self.reading, buffer, named)
            codes, marks = maker.codes_of(words, layout.words, layout.dialect)
            return maker.rows(n, numbers, codes), marks

        rows, marks = made(self.reading.named)
        if rows.code != FINE:
            n = len(rows.indptr) - 1
            if rows.code != BIG_NORM and not self.reading.named:
                rows = rows._replace(name=made(True)[0].name)
            category = "" if rows.code == BIG_NORM else self._category(rows.name)
            fault = int(lines[n]), rows.sentence(self.reading, text=True) + category
        if fault is not None and marks[:, 0].any():  # what is counted must be of the rows before
            before = int(np.append(0, np.flatnonzero(text[: piece.end] == NEWLINE) + 1)[fault[0]])
            if before < end:
                short = replace(piece, text=text, end=before)
                return replace(self.parse(short, buffer), fault=fault, open_quote=open_quote)
        return RowBatch(
            labels[:n], rows.indptr, rows.ids, rows.values,
            Origin(piece.source, piece.fraction, fault[0] if fault else n_lines, lines[:n]), names=rows.names,
            fault=fault, open_quote=open_quote, largest=rows.largest,
            notes=self._notes(layout, marks, words, lines, piece.begins), kept=layout.kept_of(cut),
        )  # fmt: skip

    def _layout(self, first_line: bytes) -> TextLayout:
        """The columns of a file with this first line; InputError where one is not there."""
        known = self.known
        if known is None or known[0] != first_line:
            columns = self.table.columns(first_line, self.options, self.reading.labelled)
            columns = with_kept(columns, {KEEP: self.reading.keep})
            known = self.known = first_line, TextLayout(columns, self.table.dialect(self.options))
        return known[1]

    def _labels(self, layout: TextLayout, cut: Cut, n: int) -> tuple:
        """(labels of the first n rows, None, or (row, sentence) of the first label that is none)."""
        words = self.options[WORDS]
        if layout.label is None:
            return ([None] * n if words else np.full(n, np.nan)), None
        cells = cut.cells([layout.at[layout.label]])
        options = self.options
        offered = self.reading.offers and "categorical" in options
        cure = words_by(options) if offered else ""
        if words:
            column = cut.columns[layout.at[layout.label]] if n else pa.nulls(0, pa.binary())
            # whatever is in a column that is named is a word
            named = options["label"] in options.get("categorical", "").split(",")

            def word(cell: bytes) -> str | None:
                token = token_in(cell, cells.quote)
                return token.decode() if token and (named or token.lower() not in MISSING) else None

            return coded_labels(column.slice(0, n), word), None
        numbers, looks = numbers_in(cells, layout.dialect._replace(comma=False), np.zeros(1, bool))
        labels = numbers[0, :n] + 0.0  # -0 is 0
        wrong = [int(looks[0, 2])] if looks[0, 1] else []
        wrong += np.flatnonzero(np.isinf(labels))[:1].tolist()
        wrong = min(wrong, default=n)
        if wrong < n:
            return labels[:wrong], (wrong, sentence_of(cells.token(0, wrong), False, cure))
        merged = inexact(labels, lambda row: cells.token(0, row), cure)
        return (labels, None) if merged is None else (labels[: merged[0]], merged)

    def _notes(self, layout: TextLayout, marks: np.ndarray, words: Cells, lines: np.ndarray, begins: bool) -> dict:
        """Notes on cells and columns that were perhaps misread; see ``RowBatch``."""
        notes = dict(layout.columns.notes) if begins else {}
        if self.reading.offers:
            for k in np.flatnonzero(marks[:, 0]).tolist():
                n, row = marks[k].tolist()
                name = layout.names[layout.words[k]]
                what = f"cells of the column {name} that say na, n/a, nan or null, and were taken for missing"
                notes[what] = n, int(lines[row]), quoted(words.token(k, row))
        return notes

    def _category(self, name: str) -> str:
        """The cure for a cell that does not fit its column, where the caller can choose."""
        if not (self.reading.offers and "categorical" in self.options):
            return ""
        return f", or name the column by {added('categorical', self.options, name)}"

    def _sentence(self, code: int, layout: TextLayout, column: int) -> str:
        whose = "the header" if self.options["header"] != "no" else "the first line"
        name = layout.names[min(column, len(layout.names) - 1)]
        if code == kernels.OPEN_QUOTE and layout.texts:
            return f"the quotes that begin on this line do not end within {MOST_OPEN} lines; close them"
        return FAULTS[code].format(column=column, n=len(layout.names), name=name, whose=whose)


def words_by(options: Mapping) -> str:
    """The setting that takes labels as words, for a sentence."""
    return f"say {added('categorical', options, options['label'])}, which takes labels as words"


def looks_of(head: bytes, columns: TableColumns, dialect: Dialect, headed: bool, words_requested: bool) -> Looks:
    """Counts over the rows of the first lines, bad ones left out."""
    text = np.frombuffer(head + b"\n" * (not head.endswith(b"\n")) + bytes(SPARE), np.uint8)
    end, _ = utf8_lines(text, len(text) - SPARE)
    starts = np.append(0, np.flatnonzero(text[:end] == NEWLINE) + 1)
    layout = TextLayout(columns, dialect)
    m = len(columns.names)
    looks = Looks(np.zeros(m, np.int64), np.zeros(m, np.int64), {}, {}, [])
    line = int(headed)
    while line < len(starts) - 1:
        cut = layout.cut(text, int(starts[line]), end)
        n = cut.n
        lines = line + (np.arange(n) if cut.lines is None else cut.lines)
        undecided = [j for j in layout.numbers if not columns.decided[j]]
        cells = cut.cells([layout.at[j] for j in undecided])
        _, found = numbers_in(cells, dialect, np.zeros(len(undecided), bool))
        for k, j in enumerate(undecided):
            looks.numbers[j] += found[k, 0]
            looks.others[j] += found[k, 1]
            if found[k, 1]:
                row = int(found[k, 2])
                looks.first.setdefault(j, (int(lines[row]), cells.token(k, row)[:40]))
        for k, j in enumerate(undecided):
            if looks.others[j]:
                tokens = [token for token in (cells.token(k, r) for r in range(n)) if token]
                before, n_before = looks.words.get(j, (set(), 0))
                looks.words[j] = before | {*tokens}, n_before + len(tokens)
        cells = cut.cells([layout.at[layout.label]])
        for r in range(n):
            token = cells.token(0, r)
            if token and (words_requested or token.lower() not in MISSING):
                looks.labels.append((int(lines[r]), token))
        if cut.fault is None:
            break
        bad, code = cut.fault[:2]
        line += bad
        quote = dialect.quote if code == kernels.OPEN_QUOTE else NO_QUOTE
        line += 1 + lines_open(text, starts[line:], quote)
    return looks


class Table:
    """A format of cells between delimiters."""

    looks_at = WORDS, SAMPLED_ROWS + 1

    def __init__(self, name: str, delimiter: str, quotes: bool = True):
        self.name, self.delimiter, self.quotes = name, delimiter, quotes
        self.lines = f"cells between {SEPARATORS[delimiter]}, the first with the columns' names"

    def chosen_of(self, options: Mapping) -> dict:
        kinds = {KINDS: None} if KINDS in options else {}
        return chosen(self.name, options, {WORDS: False, COLUMNS: None} | kinds)

    def dialect(self, options: Mapping) -> Dialect:
        """The delimiter and the quote of lines."""
        delimiter_name, quote = options.get("delimiter"), options.get("quote", '"')
        delimiter = DELIMITERS.get(delimiter_name, delimiter_name) or self.delimiter
        quotes = self.quotes and quote != "none"
        return Dialect(ord(delimiter), ord(quote) if quotes else NO_QUOTE, options.get("decimal") == ",")

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        """The settings, and, unless these are known, what the first rows decide: the kinds of columns and of labels,
        and, where no header tells it, the number of columns."""
        options = self.chosen_of({key: value for key, value in requested.items() if value is not None})
        first_line = head.partition(b"\n")[0]
        location = f"{shown_name(name)}:1: "
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
            columns = self.columns(first_line, options, True)
            words = self._label_kind(options)
            looks = looks_of(head, columns, dialect, headed, bool(words))
            options[KINDS] = decided_kinds(columns, looks)
            if words is None:
                location = f"{shown_name(name)}:"
                words = are_words(looks.labels, words_by(options))
            options[WORDS] = words
        except InputError as error:
            raise InputError(f"{location}{error}") from None
        return options

    @staticmethod
    def _label_kind(options: Mapping) -> bool | None:
        """Whether labels are words, where the settings say it."""
        label = options["label"]
        if label in options["categorical"].split(","):
            return True
        return False if label in (options["numeric"] or "").split(",") else None

    def columns(self, first_line: bytes, options: Mapping, labelled: bool) -> TableColumns:
        """The columns of a file whose first line this is; InputError where one is not there."""
        return columns_of_text(self.dialect(options).cells(first_line), options, labelled)

    def reader(self, reading: ReaderOptions) -> TextReader:
        return TextReader(reading, self)


class Criteo(Table):
    looks_at = "", 1
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

    def columns(self, first_line: bytes, options: Mapping, labelled: bool) -> TableColumns:
        names = self.NAMES
        if not labelled and len(self.dialect(options).cells(first_line)) + 1 == len(names):
            names = names[1:]
        roles = {"l": Role.LABEL, "I": Role.LOGARITHM, "C": Role.WORD}
        return TableColumns(names, np.array([roles[name[0]] for name in names]), np.ones(len(names), bool))


CSV = Table("csv", ",")
TSV = Table("tsv", "\t")
CRITEO = Criteo("criteo", "\t")
