"""Tables of text: ``csv``, ``tsv`` and ``criteo``, a row a line, which pyarrow cuts into columns of cells.

Each file has its own header: columns are known by their names, whatever their order.  A line break within quotes is a
fault.  Criteo's rows (Kaggle 2014 and the terabyte set) are a label, 13 whole numbers and 26 categories between tabs,
without a header; the numbers x are counts, some large, a few below 0, and become sign(x) log(1 + |x|).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.csv

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.formats import table_rows, tables
from blocksvm.formats.arrow_arrays import POOL, WHOLE, cells_of
from blocksvm.formats.choices import COLUMNS, DELIMITERS, KEEP, KINDS, WORDS, chosen
from blocksvm.formats.format import ReaderOptions, lines_open
from blocksvm.formats.tables import NO_QUOTE, Dialect, Role, TableColumns
from blocksvm.formats.text.row_labels import MISSING, are_words
from blocksvm.formats.text.text_source import LONE_RETURNS, MOST_OPEN, TextPiece, last_newline, quoted, utf8_lines
from blocksvm.kernels.text_bytes import NEWLINE, RETURN

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class Cutter:
    """Cuts lines of text into columns of cells, as pyarrow does; a regular expression says what a row is where there is
    another number of rows than of lines.  whose: what says how many cells a line has, for a sentence."""

    def __init__(self, columns: TableColumns, dialect: Dialect, whose: str):
        self.columns, self.dialect, self.whose = columns, dialect, whose
        names, self.quoting = columns.names, dialect.quote != NO_QUOTE
        wanted = {*(columns.read() or names[:1])}
        self.wanted = [j for j, name in enumerate(names) if name in wanted]
        keys = [str(j) for j in range(len(names))]  # names of the columns, of which some may be empty
        included = [keys[j] for j in self.wanted]
        self.cutting = {
            "read_options": pa.csv.ReadOptions(use_threads=False, block_size=WHOLE, column_names=keys),
            "parse_options": pa.csv.ParseOptions(
                delimiter=chr(dialect.delimiter), quote_char=chr(dialect.quote) if self.quoting else False,
                newlines_in_values=bool(columns.texts),
            ),
            "convert_options": pa.csv.ConvertOptions(
                check_utf8=False, strings_can_be_null=False, include_columns=included,
                column_types=dict.fromkeys(included, pa.binary()),
            ),
        }  # fmt: skip
        mark = re.escape(bytes([dialect.delimiter]))
        cell = b"[^%b\r\n]*+" % mark
        if self.quoting:  # quotes count where they begin a cell
            quote, newline = re.escape(bytes([dialect.quote])), b"" if columns.texts else b"\n"
            cell = b"(?:%b(?:[^%b%b]++|%b%b)*+%b|(?!%b))%b" % (*[quote] * 2, newline, *[quote] * 4, cell)
        self.cell = re.compile(cell)
        self.line = re.compile(b"\r*\n|(%b(?:%b%b){%d}+\r?\n)" % (cell, mark, cell, len(names) - 1))

    def cut(self, text: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray | None, tuple | None]:
        """(the rows of some lines, the line of each, None where each is one, the first that is none: ``fault_at``)"""
        batch = self._batch(text)
        last = text[last_newline(text, len(text) - 1) + 1 :]
        open_ended = np.count_nonzero(last == self.dialect.quote) % 2  # the last line may end within quotes
        n_lines = np.count_nonzero(text == NEWLINE)
        lone_returns = (text[np.flatnonzero(text == RETURN) + 1] != NEWLINE).any()
        if batch is not None and len(batch) == n_lines and not open_ended and not lone_returns:
            return batch, None, None
        data = text.tobytes()
        begins, stop = self.rows_of(data, 0)
        if stop < len(data) or batch is None or len(batch) != len(begins):
            batch = self._whole(text[:stop], len(begins))
        lines = np.searchsorted(np.flatnonzero(text == NEWLINE), begins)
        return batch, lines, None if stop == len(data) else self.fault_at(data, stop)

    def rows_of(self, data: bytes, begin: int) -> tuple[list[int], int]:
        """(where the rows of whole lines begin, from the byte ``begin`` on, and where the first that is none does)"""
        begins = []
        while begin < len(data) and (line := self.line.match(data, begin)):
            if line.lastindex:
                begins.append(begin)
            begin = line.end()
        return begins, begin

    def fault_at(self, data: bytes, begin: int) -> tuple[int, str, int]:
        """(line, what is wrong with the row that begins there, the quote that it leaves open or ``NO_QUOTE``)"""
        line, names, n = data.count(b"\n", 0, begin), self.columns.names, 0
        while True:
            cell = self.cell.match(data, begin)
            if cell is None:
                wrong = f"column {names[min(n, len(names) - 1)]}: the quotes do not end on this line; a row is one line"
                wrong = f"{wrong}, so take line breaks out"
                if self.columns.texts:
                    wrong = f"the quotes that begin on this line do not end within {MOST_OPEN} lines; close them"
                return line, wrong, self.dialect.quote
            n, begin = n + 1, cell.end()
            if data[begin] == self.dialect.delimiter:
                begin += 1
                continue
            if data[begin] == RETURN and data[begin + 1] != NEWLINE:
                return line, LONE_RETURNS, NO_QUOTE
            few = f"the line has {n} cells, {self.whose} {len(names)}"
            many = f"the line has more cells than {self.whose} {len(names)}"
            return line, few if n < len(names) else many, NO_QUOTE

    def first_rows(self, head: bytes, begin: int) -> tuple[pa.RecordBatch, np.ndarray]:
        """(the rows of the first lines, from the byte ``begin`` on, bad ones left out; the line of each)"""
        text = np.frombuffer(head + b"\n" * (not head.endswith(b"\n")), np.uint8)
        data = text[: utf8_lines(text, len(text))[0]].tobytes()
        starts = np.append(0, np.flatnonzero(text[: len(data)] == NEWLINE) + 1)
        begins: list[int] = []
        rows = b""
        while begin < len(data):
            more, stop = self.rows_of(data, begin)
            begins += more
            rows += data[begin:stop]
            begin = stop
            if begin < len(data):
                line, _, quote = self.fault_at(data, begin)
                begin = int(starts[line + 1 + lines_open(text, starts[line:], quote)])
        return self._whole(rows, len(begins)), np.searchsorted(starts, begins, side="right") - 1

    def _whole(self, text: np.ndarray | bytes, n: int) -> pa.RecordBatch:
        """The columns of lines with n rows."""
        batch = self._batch(text if n else b"")
        if batch is None or len(batch) != n:
            raise InputError("the lines cannot be cut into cells; are its quotes or separators others?")
        return batch

    def _batch(self, text: np.ndarray | bytes) -> pa.RecordBatch | None:
        """The columns of some lines; None where one of these is no row."""
        arrays = [pa.nulls(0, pa.binary())] * len(self.wanted)
        if len(text):
            try:
                batches = pa.csv.read_csv(pa.py_buffer(text), memory_pool=POOL, **self.cutting).to_batches()
            except pa.ArrowInvalid:
                return None
            arrays = batches[0].columns if batches else arrays
        return pa.RecordBatch.from_arrays(arrays, names=[self.columns.names[j] for j in self.wanted])


class TextReader(table_rows.TableReader):
    def __init__(self, reading: ReaderOptions, table: Table):
        # the shortest cell, "1,", lies twice in columns, where it has two ends and a number, and becomes an id and a
        # value; of a word there is an entry in the table of words, too
        options = table.chosen_of(reading.recipe.options)
        super().__init__(reading, options, 28 if reading.named else 20, 2, table.dialect(options))
        self.table = table
        self.known: tuple[bytes, Cutter] | None = None  # the first line of the last file, and what cuts it

    def taken(self, piece: TextPiece) -> table_rows.TableRows:
        text, end = piece.text, piece.end
        first_line = piece.source.first_line or text[:end].tobytes().partition(b"\n")[0] + b"\n"
        skip = len(first_line) if piece.begins and self.options["header"] != "no" else 0
        known = self.known
        if known is None or known[0] != first_line:
            try:
                options = {**self.options, KEEP: self.reading.keep}
                cutter = self.table.cutter(first_line, options, self.reading.labelled)
            except InputError as error:  # of the file, not of a line
                raise InputError(f"{shown_name(piece.source.name)}:1: {error}") from None
            known = self.known = first_line, cutter
        cutter, columns = known[1], known[1].columns
        n_lines = int(np.count_nonzero(text[:end] == NEWLINE))
        end, fault = utf8_lines(text, end)
        batch, lines, wrong = cutter.cut(text[min(skip, end) : end])
        header, open_quote = int(skip > 0), -1
        lines = header + (np.arange(len(batch)) if lines is None else lines)
        if wrong is not None:
            line, sentence, open_quote = wrong
            fault = header + line, sentence
        kept = None
        if columns.kept:
            texts = [batch.column(name).cast(pa.string()) for name in columns.kept]
            kept = pa.RecordBatch.from_arrays(texts, names=columns.kept)
        return table_rows.TableRows(columns, batch, piece.begins, kept, lines, n_lines, fault, open_quote)


def has_header(names: list[str], options: Mapping) -> bool:
    """Whether a first line of these cells has the columns' names, where nobody says; InputError where it is unclear."""
    label = options["label"]
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    if not label.isdecimal() or not numbers:
        return True  # a label that it lacks is said elsewhere
    if label not in names or len(set(names)) < len(names):  # which names are not
        return False
    if names in ([str(k) for k in range(len(names))], [str(k + 1) for k in range(len(names))]):
        return True
    wrong = f"it is unclear whether the first line, in which a cell is {label}, has the columns' names"
    raise InputError(f"{wrong}; say {option('header', 'yes')} or {option('header', 'no')}")


def names_of_text(cells: list[str], options: Mapping, labelled: bool) -> list[str]:
    """The names of the columns of a file of text in whose first line these cells stand."""
    if options["header"] != "no":
        return cells
    n, before = len(cells), options[COLUMNS]
    shorter = not labelled and n + 1 == before
    if options.get(KINDS) is not None and before is not None and n != before and not shorter:
        raise InputError(f"the line has {n:,} cells, but the rows before, which have no header either, {before:,}")
    return [str(k + 1) for k in range(n + shorter) if not (shorter and str(k + 1) == options["label"])]


def hint_of(cells: list[str], options: Mapping) -> str:
    """Another meaning of the file, as a hint where the labels' column is missing."""
    if options["header"] == "no":
        return ""
    if len(cells) == 1:
        counts = {other: cells[0].count(other) for other in SEPARATORS}
        other = max(counts, key=counts.__getitem__)
        if counts[other]:
            word = next(word for word, mark in DELIMITERS.items() if mark == other)
            return f", or its cells stand between {SEPARATORS[other]} ({option('delimiter', word)})"
    hint = f", or the file has no header ({option('header', 'no')})"
    documents = len(cells) == 2 and " " in cells[1]
    return f"{hint}, or these are documents ({option('format', 'documents')})" if documents else hint


def decided_kinds(columns: TableColumns, batch: pa.RecordBatch, lines: np.ndarray, dialect: Dialect) -> dict:
    """The kinds of the columns by the first rows, as the recipe keeps them; a column without a cell has numbers."""
    kinds: dict = {"numeric": [], "categorical": [], "mixed": {}}
    undecided = [j for j in columns.numbers if columns.names[j] not in columns.decided]
    cells = [batch.column(columns.names[j]) for j in undecided]
    _, looks = table_rows.numbers_in(cells_of(cells, len(batch)), dialect, np.zeros(len(cells), bool))
    found = {j: (column, *look) for j, column, look in zip(undecided, cells, looks.tolist(), strict=True)}
    counts = {}
    for j in sorted(columns.numbers + columns.categories):
        name = columns.names[j]
        column, numbers, others, row = found.get(j, (None, 0, 0, 0))
        kinds["categorical" if j in columns.categories or others else "numeric"].append(name)
        if others:
            tokens = [table_rows.token_in(cell, dialect.quote) for cell in column.to_pylist()]
            counts[name] = len({*tokens} - {b""}), len(tokens) - tokens.count(b"")
            if others < numbers or tables.COMMA_NUMBER.fullmatch(tokens[row][:40]):
                kinds["mixed"][name] = [others, others + numbers, int(lines[row]) + 1, quoted(tokens[row][:40])]
    return kinds | tables.own_values(counts)


class Table:
    """A format of cells between delimiters."""

    looks_at = WORDS, tables.SAMPLED_ROWS + 1

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
        options = self.chosen_of(requested)
        first_line = head.partition(b"\n")[0]
        location = f"{shown_name(name)}:1: "
        dialect = self.dialect(options)
        try:
            known = WORDS in requested or not head
            if options["header"] == "auto":
                headed = known or has_header(dialect.cells(first_line), options)
                options["header"] = "yes" if headed else "no"
            if known:
                return options
            headed = options["header"] == "yes"
            if not headed:
                options[COLUMNS] = len(dialect.cells(first_line))
            cutter = self.cutter(first_line, options | {WORDS: None}, True)
            batch, lines = cutter.first_rows(head, len(first_line) + 1 if headed else 0)
            options[KINDS] = decided_kinds(cutter.columns, batch, lines, dialect)
            options[WORDS] = cutter.columns.words
            if options[WORDS] is None:
                cells = batch.column(options["label"]).to_pylist()
                tokens = [table_rows.token_in(cell, dialect.quote) for cell in cells]
                labels = [(line, token) for line, token in zip(lines.tolist(), tokens, strict=True)
                          if token and token.lower() not in MISSING]  # fmt: skip
                location = f"{shown_name(name)}:"
                options[WORDS] = are_words(labels, table_rows.words_by(options))
        except InputError as error:
            raise InputError(f"{location}{error}") from None
        return options

    def cutter(self, first_line: bytes, options: Mapping, labelled: bool) -> Cutter:
        """What cuts a file whose first line this is; InputError where a column is not there."""
        dialect = self.dialect(options)
        columns = self.columns(dialect.cells(first_line), options, labelled)
        return Cutter(columns, dialect, "the header" if options["header"] != "no" else "the first line")

    def columns(self, cells: list[str], options: Mapping, labelled: bool) -> TableColumns:
        names = names_of_text(cells, options, labelled)
        return tables.columns_of(names, {}, options, labelled, hint_of(cells, options))

    def reader(self, reading: ReaderOptions) -> TextReader:
        return TextReader(reading, self)


class Criteo(Table):
    looks_at = "", 1
    NAMES = ["label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27))]

    def __init__(self, name: str, delimiter: str):
        super().__init__(name, delimiter, quotes=False)
        self.lines = "a label, 13 numbers and 26 categories between tabs"

    def chosen_of(self, options: Mapping) -> dict:
        return chosen(self.name, options, {WORDS: False, COLUMNS: 40}) | {"header": "no", "label": "label"}

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        self.chosen_of(requested)
        return {}

    def columns(self, cells: list[str], options: Mapping, labelled: bool) -> TableColumns:
        names = self.NAMES if labelled or len(cells) + 1 != len(self.NAMES) else self.NAMES[1:]
        roles = {"l": Role.LABEL, "I": Role.LOGARITHM, "C": Role.WORD}
        return TableColumns(names, np.array([roles[name[0]] for name in names]))


CSV = Table("csv", ",")
TSV = Table("tsv", "\t")
CRITEO = Criteo("criteo", "\t")
