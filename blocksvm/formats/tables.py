"""Tables: columns with names, read by pyarrow, to rows.

``csv``, ``tsv`` and ``criteo`` are text with a row a line: pyarrow cuts a piece of whole lines into columns of cells.
Each file has its own header: columns are known by their names, whatever their order.  A line break within quotes is a
fault.  Criteo's rows (Kaggle 2014 and the terabyte set) are a label, 13 whole numbers and 26 categories between tabs,
without a header; the numbers x are counts, some large, a few below 0, and become sign(x) log(1 + |x|).

``parquet`` and ``arrow`` (files and streams of IPC) are read some rows at a time.  Numbers and booleans are values of a
feature of the column's name; words, and the whole numbers that ``categorical`` names, are features 'column=value' of
value 1; a list of words is several of them; a list of numbers is features 'column[0]', 'column[1]', ...; a map features
'column=key' with the map's values.  Nulls, nan, empty words and zeros are no entries.  What columns have is decided in
table_columns.py; ids are the same in every form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv
import pyarrow.parquet

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.labels import EXACT, exact
from blocksvm.base.row_batch import Origin, RowBatch, runs, shown_name
from blocksvm.files.input import open_input
from blocksvm.files.paths import is_url
from blocksvm.formats.choices import COLUMNS, DECIDED, KEEP, WORDS, added, chosen
from blocksvm.formats.file_reader import FileFormat, RowBuffer, RowPiece, damage_named
from blocksvm.formats.format import EXPANSION, ReaderOptions, lines_open
from blocksvm.formats.kernels import columns as kernels
from blocksvm.formats.kernels.columns import Words
from blocksvm.formats.kernels.name_hashes import RECENT, hash_of
from blocksvm.formats.kernels.numbers import FINE, NOT_FINITE
from blocksvm.formats.kernels.svmlight import BIG_NORM, DUPLICATE
from blocksvm.formats.ngram_features import NgramFeatures
from blocksvm.formats.table_columns import (
    BAG,
    DELIMITERS,
    KINDS,
    LABEL,
    LEFT_OUT,
    LOGARITHM,
    MAP,
    NO_QUOTE,
    NUMBER,
    SAMPLED_ROWS,
    SEPARATORS,
    VECTOR,
    WORD,
    Dialect,
    Looks,
    TableColumns,
    chosen_categories,
    columns_line,
    columns_of_text,
    columns_of_types,
    decided_kinds,
    has_header,
    is_list,
    is_number,
    is_text,
    is_word,
    kind_of,
    kinds_of_types,
    own_values,
    remarks,
    with_kept,
)
from blocksvm.formats.text.row_labels import MISSING, are_words, inexact, sentence_of
from blocksvm.formats.text.text_source import (
    LONE_RETURNS,
    LineLimit,
    TextPiece,
    TextSource,
    last_newline,
    quoted,
    utf8_lines,
)
from blocksvm.kernels.text_bytes import NEWLINE, RETURN, SPARE

CATEGORIES_GO_ON = np.uint64(0x452821E638D01377)  # a category's hash goes on from another one than that of a number
FAULTS = {
    kernels.FEW_CELLS: "the line has {column} cells, {whose} {n}",
    kernels.MANY_CELLS: "the line has more cells than {whose} {n}",
    kernels.OPEN_QUOTE: "column {name}: the quotes do not end on this line; a row is one line, so take line breaks out",
    kernels.LONE_RETURN: LONE_RETURNS,
}
BLANKS = b" \t\r"
WHOLE = 1 << 30  # bytes of a block of text, above those of a piece
# bytes of a piece that a cell, or an item of a list, and a byte of a word in columns stand for, by their memory
CELL_BYTES, WORD_BYTES = 9, 6
AT_ONCE = 4  # pieces that are decoded at once: a column takes some microseconds, however few its rows are
POOL = pa.system_memory_pool()  # the others keep some 30 MB of what was given back
BUFFER = 1 << 16  # bytes of each column of a Parquet file that are read at a time
DECIDING, LONGEST_SHARE = 1 << 20, 60  # bytes of the first rows, and parts of the memory of which one may take one
SMALL_DICTIONARY = 16  # a Parquet file's own dictionary is taken with each batch up to such a part of a piece
NO_ENTRIES = np.zeros(1, np.int64), np.empty((0,), np.int64), np.empty(0)


class Layout:
    """The columns of one file as kernels take them.

    numbers, words, lists, texts: positions of the columns of these roles; order: as of ``columns_to_rows``; ids (m,) of
    the numbers' features; seeds (c,) of the words' hashes; static: the bytes 'column=' of all, then of lists; places:
    column -> where its own lie.
    """

    def __init__(self, columns: TableColumns):
        self.columns = columns
        self.names = columns.names
        self.numbers = columns.of(NUMBER, LOGARITHM)
        self.words = columns.of(WORD)
        self.lists = columns.of(VECTOR, BAG, MAP)
        self.texts = [self.names.index(name) for name in columns.texts]
        self.label = next(iter(columns.of(LABEL)), None)
        self.logarithms = columns.roles[self.numbers] == LOGARITHM
        codes = {j: k for k, j in enumerate(self.numbers)} | {j: -1 - k for k, j in enumerate(self.words)}
        self.order = np.array([codes[j] for j in sorted(codes)], np.int64)
        used = self.numbers + self.words + self.lists
        prefixes = [self.names[j].encode() + b"=" for j in used]
        ends = np.cumsum([0, *map(len, prefixes)])
        self.static = np.frombuffer(b"".join(prefixes), np.uint8)
        self.places = {j: (a, b) for j, a, b in zip(used, ends[:-1].tolist(), ends[1:].tolist(), strict=True)}
        self.ids = np.array([number_id(self.names[j]) for j in self.numbers], np.int64)
        self.seeds = {j: hash_of(self.names[j].encode(), CATEGORIES_GO_ON) for j in self.words + self.lists}


def number_id(name: str) -> int:
    return int(hash_of(name.encode(), np.uint64(0)) >> np.uint64(1))


class RowMaker:
    """Makes the rows of some columns; named: with names.  Its memory is the buffer's, where there is one."""

    def __init__(self, layout: Layout, reading: ReaderOptions, buffer: RowBuffer, named: bool):
        self.layout, self.reading, self.buffer, self.named = layout, reading, buffer, named
        self.n_words = m = len(layout.ids)
        self.filled = len(layout.static)
        self.recent = np.zeros(RECENT, np.int64)
        self.words = Words(*(np.empty(0, kind) for kind in (np.int64, np.int64, np.int64, np.uint8)))
        self._make_room(m, self.filled, kept=False)
        self.words.ids[:m] = layout.ids
        self.words.names[: self.filled] = layout.static
        if m and named:
            places = np.array([layout.places[j] for j in layout.numbers])
            self.words.firsts[:m], self.words.lasts[:m] = places[:, 0], places[:, 1] - 1

    def _make_room(self, n_words: int, n_bytes: int, kept: bool = True) -> None:
        """Room for so many words and bytes of names."""
        sizes = n_words, n_words * self.named, n_words * self.named, n_bytes
        used = self.n_words, self.n_words * self.named, self.n_words * self.named, self.filled
        arrays = []
        for name, old, size, n in zip(Words._fields, self.words, sizes, used, strict=True):
            new = old
            if len(old) < size or not kept:
                new = self.buffer.take(f"words' {name}", max(1, size, 2 * len(old)), old.dtype.type)
                if kept:
                    new[:n] = old[:n]
            arrays.append(new)
        self.words = Words(*arrays)

    def codes_of(self, cells: Cells, columns: list[int], text: Dialect | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(numbers of the words (c, n) of the cells of these columns, what ``cell_words`` says of missing ones); text:
        of cells of text, where words may say that one is missing."""
        c, n = cells.k, cells.n
        places = np.array([self.layout.places[j] for j in columns], np.int64).reshape(c, 2)
        n_bytes = (len(cells.text) + n * int(np.diff(places).sum())) if self.named else 0
        self._make_room(self.n_words + c * n, self.filled + n_bytes)
        codes, looks = np.empty((c, n), np.int32), np.zeros((c, 2), np.int64)
        seeds = np.array([self.layout.seeds[j] for j in columns], np.uint64)
        self.n_words, self.filled = kernels.cell_words(
            cells.text, cells.ends, text is not None, text.quote if text else NO_QUOTE, seeds, places, self.named,
            self.words, self.n_words, self.filled, self.recent, codes, looks,
        )  # fmt: skip
        return codes, looks

    def codes_of_names(self, names: list[str]) -> int:
        """The first of the numbers of these features of numbers."""
        first, encoded = self.n_words, [name.encode() for name in names]
        self._make_room(first + len(names), self.filled + sum(map(len, encoded)))
        for k, (name, own) in enumerate(zip(names, encoded, strict=True), first):
            self.words.ids[k] = number_id(name)
            if self.named:
                self.words.firsts[k] = self.filled
                self.words.names[self.filled : self.filled + len(own)] = np.frombuffer(own, np.uint8)
                self.filled = self.words.lasts[k] = self.filled + len(own)
        self.n_words += len(names)
        return first

    def rows(self, n: int, numbers: np.ndarray, codes: np.ndarray, more: tuple = NO_ENTRIES) -> Rows:
        """The rows, up to the first that is at fault."""
        recipe = self.reading.recipe
        most = n * len(self.layout.order) + len(more[1]) + 1
        take = self.buffer.take
        indptr = take("indptr", n + 1, np.int64)
        ids, values = take("ids", most, np.int64), take("values", most, np.float64)
        n_names = most if self.named else 0
        firsts, lasts = take("first of names", n_names, np.int64), take("last of names", n_names, np.int64)
        ends = more[0] if len(more[0]) == n + 1 else np.zeros(n + 1, np.int64)
        rows, code, entry, largest = kernels.columns_to_rows(
            self.layout.order, numbers, codes, ends, more[1].astype(np.int64), more[2], self.words, self.named,
            recipe.sums, recipe.l2, recipe.single, indptr, ids, values, firsts, lasts,
        )  # fmt: skip
        nnz = int(indptr[rows])
        name = ""
        if code not in (FINE, BIG_NORM) and self.named:
            name = self.words.names[firsts[entry] : lasts[entry]].tobytes().decode()
        names = (self.words.names[: self.filled], firsts[:nnz], lasts[:nnz]) if self.named else None
        return Rows(indptr[: rows + 1], ids[:nnz], values[:nnz], names, largest, code, name)


class Rows(NamedTuple):
    """Rows, as of ``RowBatch``; code, name: what is wrong with the one after them, and the feature where it is."""

    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    names: tuple | None
    largest: float
    code: int
    name: str

    def sentence(self, reading: ReaderOptions, text: bool) -> str:
        """What is wrong; text: the numbers were in text, where a large one may be a category."""
        if self.code == BIG_NORM:
            return "the squares of the row's values add up to more than float64 holds; scale the columns"
        if self.code == DUPLICATE:
            return reading.twice(self.name)
        if self.code == NOT_FINITE and not text:
            return f"the value of {self.name} is not a finite number; leave it out or give it one"
        return reading.too_large(f"column {self.name}" if text else self.name)


class Cells(NamedTuple):
    """Cells of k columns of n rows: cell r of column j is ``text[ends[j n + r]:ends[j n + r + 1]]``; bytes before and
    after them are readable."""

    text: np.ndarray
    ends: np.ndarray
    k: int
    n: int
    quote: int = NO_QUOTE

    def token(self, j: int, r: int) -> bytes:
        """What a cell has, as ``bounds_of`` finds it."""
        at = j * self.n + r
        cell = self.text[self.ends[at] : self.ends[at + 1]].tobytes()
        token = cell.strip(BLANKS)
        quoted_late = len(token) > 1 and token[0] == token[-1] == self.quote and cell[0] != self.quote
        return token[1:-1] if quoted_late else token


def rows_of_texts(ngrams: NgramFeatures, columns: list, n: int, buffer: RowBuffer) -> Rows:
    """Of columns of texts (n,), joined by a space."""
    if len(columns) > 1:
        kind = pa.large_binary() if pa.types.is_binary(columns[0].type) else pa.large_string()
        space, nothing = pa.scalar(" ", kind), {"null_handling": "replace", "null_replacement": ""}
        columns = [compute.binary_join_element_wise(*(column.cast(kind) for column in columns), space, **nothing)]
    cells = cells_of([column.fill_null("") if column.null_count else column for column in columns], n)
    spans = np.stack((cells.ends[:-1], cells.ends[1:]), axis=1)
    most = int(ngrams.entries * (cells.ends[-1] - cells.ends[0] + n)) + 1
    take = buffer.take
    indptr, ids, values = take("indptr", n + 1, np.int64), take("ids", most, np.int64), take("values", most, np.float64)
    rows = ngrams.rows(cells.text, spans, indptr, ids, values)
    return Rows(rows.indptr, rows.ids, rows.values, rows.names, rows.largest, FINE, "")


def cells_of(arrays: list, n: int) -> Cells:
    """The cells of columns of text (n,), all of one type, without nulls."""
    type_ = arrays[0].type if arrays else pa.binary()
    # not of a list, for which Arrow imports pandas
    ends = pa.py_buffer(np.array([0, SPARE], np.int32))
    around = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(bytes(SPARE))]).cast(type_)
    joined = pa.concat_arrays([around, *arrays, around])
    _, ends, text = joined.buffers()
    large = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
    ends = np.frombuffer(ends, np.int64 if large else np.int32, len(joined) + 1)
    return Cells(np.frombuffer(text, np.uint8), ends[1:-1].astype(np.int64), len(arrays), n)


def numbers_in(cells: Cells, dialect: Dialect, logarithms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(numbers (k, n) of the cells, what ``cell_numbers`` says of them)"""
    k, n = cells.k, cells.n
    values, looks, undecided = np.empty((k, n)), np.empty((k, 5), np.int64), np.empty((1024, 3), np.int64)
    while True:
        n_open = kernels.cell_numbers(
            cells.text, cells.ends, dialect.comma, dialect.quote, logarithms, values, undecided, looks
        )
        if n_open <= len(undecided):
            break
        undecided = np.empty((n_open, 3), np.int64)
    for at, start, stop in undecided[:n_open].tolist():
        token = cells.text[start:stop].tobytes()
        number = float(token.replace(b",", b".") if dialect.comma else token)
        j, r = divmod(at, n)
        values[j, r] = np.sign(number) * np.log1p(abs(number)) if logarithms[j] else number
    return values, looks


def strings(values: list[bytes | None]) -> pa.Array:
    """An array of strings of their bytes (Arrow's own way from lists imports pandas)."""
    ends = np.cumsum([0, *(len(value or b"") for value in values)], dtype=np.int64)
    known = np.packbits([value is not None for value in values], bitorder="little")
    buffers = [pa.py_buffer(array) for array in (known, ends, b"".join(value or b"" for value in values))]
    return pa.Array.from_buffers(pa.large_string(), len(values), buffers)


def table_of_texts(texts: Sequence[str], labels: Sequence | None = None) -> pa.Table:
    """A table of texts in memory, with their labels where there are some; InputError for what is no text."""
    wrong = next((k for k, text in enumerate(texts) if not isinstance(text, str)), None)
    if wrong is not None:
        raise InputError(f"row {wrong}: is {type(texts[wrong]).__name__}, and texts are strings")
    columns: dict[str, pa.Array] = {"text": strings([text.encode("utf-8", "surrogatepass") for text in texts])}
    if labels is not None:
        if len(labels) != len(texts):
            raise InputError(f"there are {len(texts):,} texts and {len(labels):,} labels; give a label for each")
        columns["label"] = pa.array(list(labels))
    return pa.table(columns)


def array_of(numbers: np.ndarray) -> pa.Array:
    """An array of the same numbers, whose memory it shares, none of them missing."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)])


# -- text -----------------------------------------------------------------------------------------------------------


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
                delimiter=chr(dialect.delimiter), quote_char=chr(dialect.quote) if quoting else False
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


class TextReader:
    """Rows of lines of cells."""

    def __init__(self, reading: ReaderOptions, table: Table):
        self.reading = reading
        self.table = table
        self.options = table.chosen_of(reading.recipe.options)
        # the shortest cell, "1,", lies twice in columns, where it has two ends and a number, and becomes an id and a
        # value; of a word there is an entry in the table of words, too
        self.expansion = 28 if reading.named else 20
        self.ngrams = None
        if self.options.get("text") is not None:
            self.ngrams = NgramFeatures(reading.recipe, reading.named)
            self.expansion = 2 + self.ngrams.expansion
        self.known: tuple[bytes, TextLayout] | None = None  # the columns of the file that was read last

    def buffer(self, n_bytes: int) -> RowBuffer:
        return RowBuffer()

    def parse(self, piece: TextPiece, buffer: RowBuffer | None = None) -> RowBatch:
        text, end = piece.padded(), piece.end
        buffer = RowBuffer() if buffer is None else buffer
        first_line = piece.source.first_line or text[:end].tobytes().partition(b"\n")[0] + b"\n"
        skip = len(first_line) if piece.begins and self.options["header"] != "no" else 0
        try:
            layout = self._layout(first_line)
        except InputError as error:
            return self._nothing(piece, str(error))
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
            known: dict[bytes, str | None] = {b"": None}
            # whatever is in a column that is named is a word
            if options["label"] not in options.get("categorical", "").split(","):
                known |= {token: None for token in distinct(cells, n) if token.lower() in MISSING}
            labels: list[str | None] = []
            for r in range(n):
                token = cells.token(0, r)
                if token not in known:
                    known[token] = token.decode()
                labels.append(known[token])
            return labels, None
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

    def _nothing(self, piece: TextPiece, sentence: str) -> RowBatch:
        """No rows, and what is wrong with the first line."""
        nothing = np.empty(0, np.int64)
        labels = [] if self.options[WORDS] else np.empty(0)
        names = (np.empty(0, np.uint8), nothing, nothing) if self.reading.named else None
        origin = Origin(piece.source, piece.fraction, 0, nothing)
        return RowBatch(labels, np.zeros(1, np.int64), nothing, np.empty(0), origin, names=names, fault=(0, sentence))

    def _category(self, name: str) -> str:
        """The cure for a cell that does not fit its column, where the caller can choose."""
        if not (self.reading.offers and "categorical" in self.options):
            return ""
        return f", or name the column by {added('categorical', self.options, name)}"

    def _sentence(self, code: int, layout: TextLayout, column: int) -> str:
        whose = "the header" if self.options["header"] != "no" else "the first line"
        name = layout.names[min(column, len(layout.names) - 1)]
        return FAULTS[code].format(column=column, n=len(layout.names), name=name, whose=whose)


def distinct(cells: Cells, n: int) -> set[bytes]:
    return {cells.token(0, r) for r in range(n)}


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
        return Dialect(ord(delimiter), ord(quote) if quotes else NO_QUOTE, options.get("decimal") == ",")

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
            columns = self.columns(first_line, options, True)
            words = self._label_kind(options)
            looks = looks_of(head, columns, dialect, headed, bool(words))
            options[KINDS] = decided_kinds(columns, looks)
            if words is None:
                place = f"{shown_name(name)}:"
                words = are_words(looks.labels, words_by(options))
            options[WORDS] = words
        except InputError as error:
            raise InputError(f"{place}{error}") from None
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

    remarks = staticmethod(remarks)
    columns_line = staticmethod(columns_line)

    def reader(self, reading: ReaderOptions) -> TextReader:
        return TextReader(reading, self)


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

    def columns(self, first_line: bytes, options: Mapping, labelled: bool) -> TableColumns:
        names = self.NAMES
        if not labelled and len(self.dialect(options).cells(first_line)) + 1 == len(names):
            names = names[1:]
        roles = {"l": LABEL, "I": LOGARITHM, "C": WORD}
        return TableColumns(names, np.array([roles[name[0]] for name in names]), np.ones(len(names), bool))


CSV = Table("csv", ",")
TSV = Table("tsv", "\t")
CRITEO = Criteo("criteo", "\t")


# -- Parquet and Arrow ------------------------------------------------------------------------------------------------


class ArrowFiles(FileFormat):
    """The two formats; batches(name, options, n_bytes, limit): (columns, rows, fraction that was read) of a file."""

    def __init__(self, name: str, lines: str, batches):
        self.name = name
        self.lines = lines
        self.batches = batches
        self.objects = True

    def pieces(
        self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None
    ) -> Iterator[tuple[tuple, float]]:
        begins = True
        with damage_named(name):
            for columns, batch, done in self.batches(name, options, n_bytes, limit):
                batch.validate(full=True)  # kernels take what it holds by its offsets
                for name_ in columns.texts:
                    if not pa.types.is_string(batch.schema.field(name_).type):
                        column = batch.column(name_).cast(pa.large_string())
                        batch = batch.set_column(batch.schema.get_field_index(name_), name_, column)
                wanted = [name for name in wanted_columns(columns, kept=False) if name in batch.schema.names]
                for piece in pieces_of(batch, n_bytes, limit, name, 1 if columns.texts else WORD_BYTES):
                    kept = piece.select(columns.kept) if columns.kept else None
                    yield ArrowRows(name, columns, piece.select(wanted), begins, kept), done
                    begins = False

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        known = {key: requested[key] for key in DECIDED if key in requested}
        return chosen(self.name, {key: requested[key] for key in requested if key not in known}) | known

    def decided(self, requested: Mapping, name: str, memory: int) -> dict:
        """The settings, and what the first rows decide, unless it is known: kinds of columns and of labels."""
        options = self.settled(requested, b"", name)
        if KINDS in options:
            return options
        for (_, columns, batch, *_), _ in self.pieces(name, options, DECIDING, LineLimit.share(memory, LONGEST_SHARE)):
            first = batch.slice(0, SAMPLED_ROWS)
            kinds = options[KINDS] = kinds_of_types(columns)
            named = chosen_categories(options, columns.names)[0].split(",")
            words = set(kinds["categorical"]) - set(named)
            kinds |= own_values({name: counts_in(first.column(name)) for name in words})
            type_ = columns.types.get(options["label"])
            if type_ is not None and kind_of(type_) != "nothing":
                options[WORDS] = bool(columns.words) or not is_number(type_)
            break
        return options

    remarks = staticmethod(remarks)
    columns_line = staticmethod(columns_line)

    def reader(self, reading: ReaderOptions) -> ArrowReader:
        return ArrowReader(reading)


class ArrowRows(NamedTuple):
    """Some rows of a file; begins: its first ones; kept: the columns that are wanted beside them."""

    name: str
    columns: TableColumns
    batch: pa.RecordBatch
    begins: bool
    kept: pa.RecordBatch | None = None


def columns_of(name: str, schema: pa.Schema, options: Mapping, labelled: bool, whole: bool = True) -> TableColumns:
    try:
        return with_kept(columns_of_types(schema, options, labelled, whole), options)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def counts_in(column) -> tuple[int, int]:
    """(different values, values) of a column of words."""
    codes = column.indices if pa.types.is_dictionary(column.type) else column
    codes = codes.cast(pa.large_string()) if pa.types.is_string_view(codes.type) else codes  # pyarrow counts no views
    return compute.count_distinct(codes).as_py(), len(codes) - codes.null_count


def parquet_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
    """Batches of the rows of all row groups."""
    # else pyarrow reads the columns of a row group whole, as is best over a network
    reading = {"pre_buffer": False, "buffer_size": 0 if is_url(name) else BUFFER}
    with arrow_file(name) as opened, pa.parquet.ParquetFile(opened, **reading) as file:
        about = file.metadata
        columns = columns_of(name, file.schema_arrow, options, False)
    wanted = wanted_columns(columns)
    groups = [about.row_group(k) for k in range(about.num_row_groups)]
    sizes, text, small = np.zeros(len(groups)), 0, {}
    for k, group in enumerate(groups):
        for chunk in map(group.column, range(group.num_columns)):
            path = chunk.path_in_schema
            if path.partition(".")[0] not in wanted:
                continue
            sizes[k] += chunk.total_uncompressed_size + chunk.total_compressed_size * is_url(name)
            text += chunk.total_uncompressed_size * (chunk.physical_type == "BYTE_ARRAY" or "." in path)
            if (
                chunk.physical_type == "BYTE_ARRAY"
                and "." not in path
                and path not in (options["label"], *columns.texts)
            ):
                has = chunk.has_dictionary_page
                stored = chunk.data_page_offset - chunk.dictionary_page_offset if has else n_bytes
                small[path] = small.get(path, True) and SMALL_DICTIONARY * stored < n_bytes
        require_memory(sizes[k], f"{name}: row group {k} takes", "row groups", limit)
    row_bytes = text / max(1, about.num_rows) + CELL_BYTES * len(wanted)
    dictionaries = [path for path, own in small.items() if own]  # strings that the file has once are read once
    with (
        arrow_file(name) as opened,
        pa.parquet.ParquetFile(opened, metadata=about, read_dictionary=dictionaries, **reading) as file,
    ):
        done = 0
        for batch in file.iter_batches(max(1, int(AT_ONCE * n_bytes / row_bytes)), columns=wanted, use_threads=False):
            done += len(batch)
            yield columns, batch, done / max(1, about.num_rows)


def ipc_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
    """The batches of a file, mapped where it lies on a disk, or of a stream in a file."""
    with arrow_file(name) as opened:
        is_file = opened.read(6) == b"ARROW1"
        opened.seek(0)
        data = pa.py_buffer(b"") if is_url(name) else opened.read_buffer()
        opened.seek(0)
        with (pa.ipc.open_file if is_file else pa.ipc.open_stream)(opened) as file:
            columns = columns_of(name, file.schema, options, False)
            wanted = wanted_columns(columns)
            n = file.num_record_batches if is_file else 0
            batches = map(file.get_batch, range(n)) if is_file else file
            for k, batch in enumerate(batches):
                require_memory(unpacked_bytes(batch, data), f"{name}: batch {k} takes", "batches", limit)
                yield columns, batch.select(wanted), (k + 1) / n if is_file else opened.tell() / opened.size()


def arrow_file(name: str) -> pa.NativeFile:
    """A file as pyarrow reads it; an object in windows, of which the next ones are asked for ahead."""
    if not is_url(name):
        return pa.memory_map(name)
    return pa.PythonFile(open_input(name), mode="r")


def unpacked_bytes(batch, mapped: pa.Buffer) -> int:
    """The bytes of a batch that do not lie in the mapped file, as they were compressed there."""
    buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]
    return sum(one.size for one in buffers if not 0 <= one.address - mapped.address < mapped.size)


def wanted_columns(columns: TableColumns, kept: bool = True) -> list[str]:
    """The columns that are read; kept: those that are wanted beside the rows among them."""
    roles = zip(columns.names, columns.roles.tolist(), strict=True)
    return [name for name, role in roles if role != LEFT_OUT or (kept and name in columns.kept)]


def require_memory(n_bytes: float, what: str, parts: str, limit: LineLimit | None) -> None:
    """InputError where what is unpacked at once takes more than the memory; parts: smaller ones take less."""
    memory = None if limit is None else limit.memory_for(limit.n_bytes)
    if memory is not None and n_bytes > memory:
        need = option("memory", Bytes(10**6 * (int(n_bytes // 10**6) + 1)))
        raise InputError(f"{what} {n_bytes / 1e6:,.0f} MB at once; give {need}, or write smaller {parts}")


def pieces_of(batch, n_bytes: int, limit: LineLimit | None, name: str, word_bytes: int = WORD_BYTES) -> Iterator:
    """A batch in pieces that take about so many bytes, ``word_bytes`` for each of strings; InputError for a row that
    does not fit in the memory."""
    if not len(batch):
        yield batch
        return
    row_bytes = np.zeros(len(batch), np.int64)
    for k, type_ in enumerate(batch.schema.types):
        plain = pa.types.is_primitive(type_) or pa.types.is_dictionary(type_)
        row_bytes += CELL_BYTES if plain else lengths_of(batch.column(k), word_bytes)
    longest = int(row_bytes.max()) // word_bytes  # as a line of text takes them
    if limit is not None and longest > limit.n_bytes:
        need = option("memory", Bytes(10**6 * -(-limit.memory_for(longest) // 10**6)))
        raise InputError(f"{name} has a row of {longest:,} bytes; give {need} or more, or check the file")
    for first, last in runs(np.append(0, np.cumsum(row_bytes)), n_bytes):
        yield batch.slice(first, last - first)


def lengths_of(column, word_bytes: int) -> np.ndarray | int:
    """Bytes of a piece that each cell of a column takes, as of ``CELL_BYTES``."""
    t, type_ = pa.types, column.type
    if t.is_map(type_) or is_list(type_):
        rows, items = items_of(column)
        items = items[0] if isinstance(items, tuple) else items
        own = np.broadcast_to(lengths_of(items, word_bytes), len(items))
        return CELL_BYTES + np.bincount(rows, own, len(column)).astype(np.int64)
    if t.is_string_view(type_):
        column = column.cast(pa.large_string())
    if is_text(column.type):
        lengths = compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        return CELL_BYTES + word_bytes * lengths.astype(np.int64)
    return CELL_BYTES


def items_of(column) -> tuple:
    """(row of each item, items, of a map (keys, values)) of a column of lists or maps."""
    n = len(column)
    if pa.types.is_map(column.type):
        ends = column.offsets.to_numpy()
        first, last = int(ends[0]), int(ends[-1])
        rows = np.repeat(np.arange(n), np.diff(ends))
        keys, values = column.keys.slice(first, last - first), column.items.slice(first, last - first)
        if column.null_count:  # what is null may have items
            known = pa.array(column.is_valid().to_numpy(zero_copy_only=False)[rows])
            rows, keys, values = rows[known.to_numpy(zero_copy_only=False)], keys.filter(known), values.filter(known)
        return rows, (keys, values)
    lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.repeat(np.arange(n), lengths), column.flatten()


def floats(column) -> np.ndarray:
    """A column of numbers as an array (n,), nan where there is none."""
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type):  # whose own cast is not the nearest float64
            column = column.cast(pa.string())
        if is_text(column.type):
            words = compute.utf8_trim_whitespace(column.cast(pa.string()))
            column = compute.if_else(compute.equal(words, ""), None, words)
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def first_word(batch, name: str, j: int) -> tuple[int, str]:
    """(row, sentence) of the first cell that is no number in a column of strings."""
    for row, word in enumerate(batch.column(j)):
        try:
            floats(pa.array([word.as_py()], pa.string()))
        except pa.ArrowInvalid:
            token = quoted(word.as_py().encode()[:60])
            cure = f"mend it, or take the column as categories by {option('categorical', name)}"
            return row, f"column {name}: {token} is not a number; {cure}"
    raise InputError(f"column {name}: its strings are not numbers; take it as categories")


class ArrowReader:
    """Rows of batches of columns.  Threads share it."""

    def __init__(self, reading: ReaderOptions):
        self.reading = reading
        self.expansion = 2 * EXPANSION if reading.named else EXPANSION
        self.ngrams = None
        if reading.recipe.options.get("text") is not None:
            self.ngrams = NgramFeatures(reading.recipe, reading.named)
            self.expansion = 1 + self.ngrams.expansion
        self.known: tuple | None = None  # the columns of the file that was read last

    def buffer(self, n_bytes: int) -> RowBuffer:
        return RowBuffer()

    def parse(self, piece: RowPiece, buffer: RowBuffer | None = None) -> RowBatch:
        name, columns, batch, begins, kept = piece.payload
        buffer = RowBuffer() if buffer is None else buffer
        if columns.refusal and self.reading.labelled:
            raise InputError(f"{name}: {columns.refusal}")
        with damage_named(name):
            layout = self._layout(name, batch.schema)
            n = len(batch)
            try:
                labels = self._labels(layout, batch)
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
            numbers = buffer.take("numbers", len(layout.numbers) * n, np.float64).reshape(len(layout.numbers), n)
            for row, j in zip(numbers, layout.numbers, strict=True):
                try:
                    row[:] = floats(batch.column(j))
                except pa.ArrowInvalid:
                    return self._until(piece, buffer, *first_word(batch, layout.names[j], j))
            rows = self._rows(layout, batch, numbers, buffer, self.reading.named)
            fault = None
            if rows.code != FINE:
                if rows.code != BIG_NORM and not self.reading.named:
                    again = self._rows(layout, batch, numbers, RowBuffer(), True)
                    rows = rows._replace(name=again.name)
                fault = len(rows.indptr) - 1, rows.sentence(self.reading, text=False)
        n_rows = len(rows.indptr) - 1
        return RowBatch(
            labels[:n_rows], rows.indptr, rows.ids, rows.values,
            Origin(piece.source, piece.fraction, n, np.arange(n_rows)), names=rows.names, fault=fault,
            largest=rows.largest, notes=columns.notes if begins else {}, kept=kept,
        )  # fmt: skip

    def _until(self, piece: RowPiece, buffer: RowBuffer, row: int, sentence: str) -> RowBatch:
        """The rows before one that is at fault."""
        rows = piece.payload._replace(batch=piece.payload.batch.slice(0, row))
        batch = self.parse(replace(piece, payload=rows), buffer)
        return replace(batch, fault=batch.fault or (row, sentence))

    def _layout(self, name: str, schema: pa.Schema) -> Layout:
        known = self.known
        if known is None or known[0] != name or not known[1].equals(schema):
            columns = columns_of(
                name, schema, self.reading.recipe.options | {"ignore": None, KEEP: None}, self.reading.labelled, False
            )
            known = self.known = name, schema, Layout(columns)
        return known[2]

    def _rows(self, layout: Layout, batch, numbers: np.ndarray, buffer: RowBuffer, named: bool) -> Rows:
        if self.ngrams is not None:
            return rows_of_texts(self.ngrams, [batch.column(j) for j in layout.texts], len(batch), buffer)
        maker, n = RowMaker(layout, self.reading, buffer, named), len(batch)
        codes = np.empty((len(layout.words), n), np.int32)
        for row, j in zip(codes, layout.words, strict=True):
            row[:] = coded(maker, batch.column(j), j)
        entries = [list_entries(maker, batch.column(j), j) for j in layout.lists]
        if not entries:
            return maker.rows(n, numbers, codes)
        rows, words, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        order = np.argsort(rows, kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(rows, minlength=n)))
        return maker.rows(n, numbers, codes, (ends, words[order], values[order]))

    def _labels(self, layout: Layout, batch) -> np.ndarray | list:
        """The rows' labels; InputError for a column of another kind."""
        words, options = layout.columns.words, self.reading.recipe.options
        if layout.label is None or pa.types.is_null(batch.column(layout.label).type):
            return np.full(len(batch), np.nan)
        column = batch.column(layout.label)
        if is_list(column.type):
            return [None if labels is None else tuple(labels) for labels in column.to_pylist()]
        if is_number(column.type) and not words:
            numbers = floats(column).astype(np.float64) + 0.0  # -0 is 0
            if (np.abs(numbers) >= EXACT).any() and not pa.types.is_floating(column.type):
                exact_values = np.array(column.to_pylist(), dtype=object)
                exact(numbers, exact_values, f"{added('categorical', options, options['label'])} takes labels as words")
            return numbers
        if not is_word(column.type) or words is False:
            wanted = "words and whole numbers make such" if words else "they were numbers in the rows before"
            wanted = "labels are numbers or strings" if words is None else wanted
            raise InputError(f"the column {options['label']} is of the type {column.type}; {wanted}")
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return [word and word.strip() for word in column.cast(pa.string()).to_pylist()]


def coded(maker: RowMaker, column, j: int) -> np.ndarray:
    """The numbers of the words (n,) of a column, -1 where there is none."""
    if pa.types.is_dictionary(column.type):
        if len(column.dictionary) <= len(column):
            codes = np.append(coded(maker, column.dictionary, j), np.int32(-1))
            indices = column.indices.cast(pa.int64(), safe=False)
            indices = indices.fill_null(len(codes) - 1) if indices.null_count else indices
            return codes[indices.to_numpy()]
        column = column.dictionary_decode()
    if not pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    column = column.fill_null("") if column.null_count else column
    return maker.codes_of(cells_of([column], len(column)), [j])[0][0]


def list_entries(maker: RowMaker, column, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, numbers of words, values) of the items of a column of lists or maps."""
    role = maker.layout.columns.roles[j]
    rows, items = items_of(column)
    if role == MAP:
        keys, values = items
        return rows, coded(maker, keys, j), floats(values).astype(np.float64)
    if role == BAG:
        return rows, coded(maker, items, j), np.ones(len(rows))
    lengths = np.bincount(rows, minlength=len(column))
    values = floats(items).astype(np.float64)
    first = maker.codes_of_names([f"{maker.layout.names[j]}[{k}]" for k in range(int(lengths.max(initial=0)))])
    return rows, first + np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths), values


class TableInputs:
    """A table in memory, or batches that come one after the other, as ``FileInputs`` are of files; readable once."""

    def __init__(self, batches: Iterator[pa.RecordBatch]):
        self.names, self.format, self.options = ["the table"], "arrow", {}
        self.first = next(batches, None)
        self.batches = batches
        if self.first is None:
            raise InputError("the table has no batches of rows")

    def __enter__(self) -> TableInputs:
        return self

    def __exit__(self, *error) -> None:
        pass

    def head(self, lines: int = 1) -> bytes:
        return b""

    def decided(self, requested: Mapping, memory: int) -> dict:
        """The settings, as ``ArrowFiles`` decides them by the first batch."""
        return self._files([self.first]).decided(requested, self.names[0], memory)

    def pieces(self, piece_bytes: int, limit: LineLimit, *more, **others) -> Iterator[RowPiece]:
        source = TextSource(self.names[0], None)
        pieces = self._files(chain([self.first], self.batches)).pieces(source.name, self.options, piece_bytes, limit)
        for rows, _ in pieces:
            yield RowPiece(source, rows, None)

    def _files(self, batches: Iterable[pa.RecordBatch]) -> ArrowFiles:
        def of(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
            columns = columns_of(name, self.first.schema, options, False)
            for batch in batches:
                yield columns, batch.select(wanted_columns(columns)), None

        return ArrowFiles(self.format, "a table", of)


def table_inputs(parts: Iterable) -> TableInputs:
    """What is read of tables with ``__arrow_c_stream__``, as pyarrow, pandas, polars and DuckDB have them, or of record
    batches, one after the other."""
    return TableInputs(chain.from_iterable(map(_batches_of, parts)))


def _batches_of(part) -> Iterable[pa.RecordBatch]:
    if hasattr(part, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(part)
    return [pa.record_batch(part)]


PARQUET = ArrowFiles("parquet", "a Parquet table", parquet_batches)
ARROW = ArrowFiles("arrow", "an Arrow table (IPC file or stream)", ipc_batches)
