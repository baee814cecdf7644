"""The rows of tables of every form, by what their columns are (tables.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from blocksvm.base.errors import InputError
from blocksvm.base.labels import CodedLabels, RowError
from blocksvm.base.row_batch import Origin, RowBatch, shown_name
from blocksvm.formats import arrow_arrays as arrays
from blocksvm.formats.arrow_arrays import Cells, as_words, cells_of, floats, is_text, strings, value_type, without_nulls
from blocksvm.formats.choices import added
from blocksvm.formats.file_reader import damage_named
from blocksvm.formats.format import ParseBuffer, ReaderOptions
from blocksvm.formats.kernels import columns as kernels
from blocksvm.formats.kernels.closing import BIG_NORM, BIG_VALUE, DUPLICATE
from blocksvm.formats.kernels.columns import Words
from blocksvm.formats.kernels.numbers import FINE
from blocksvm.formats.ngram_features import NgramFeatures, Rows
from blocksvm.formats.tables import NO_QUOTE, Dialect, Role, TableColumns, number_id
from blocksvm.formats.text.row_labels import MISSING, require_exact, sentence_of
from blocksvm.formats.text.text_source import quoted
from blocksvm.kernels.hash_table import RECENT

PLAIN = Dialect(ord(","), NO_QUOTE)  # of strings that are numbers
BLANKS = b" \t\r"
NO_ENTRIES = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)  # as of ``list_entries``


class TableRows(NamedTuple):
    """Some rows of a table.  batch: their columns by name, of text as bytes; begins: they are the first of a file;
    kept: the columns wanted beside them; lines (n,): the record of each, None where each is one, n_records: how many
    there are; fault: (record, sentence) of the one after them that is none; open_quote: as of ``RowBatch``."""

    columns: TableColumns
    batch: pa.RecordBatch
    begins: bool = False
    kept: pa.RecordBatch | None = None
    lines: np.ndarray | None = None
    n_records: int | None = None
    fault: tuple[int, str] | None = None
    open_quote: int = -1


class TableReader:
    """Rows of tables of every form, as of ``Reader``.  expansion: bytes for a byte of text of columns, with ``besides``
    for one of texts alone; dialect: of what numbers in strings look like."""

    def __init__(self, reading: ReaderOptions, options: Mapping, expansion: int, besides: int, dialect=PLAIN):
        self.reading, self.options, self.dialect = reading, options, dialect
        self.ngrams = None if options.get("text") is None else NgramFeatures(reading.recipe, reading.named)
        self.expansion = expansion if self.ngrams is None else besides + self.ngrams.expansion
        self.curable = bool(reading.offers) and "categorical" in options  # by naming columns of categories

    def taken(self, piece) -> TableRows:
        """The rows of a piece, as they were read."""
        return piece.payload

    def parse(self, piece, buffer: ParseBuffer | None = None) -> RowBatch:
        rows = self.taken(piece)
        columns, batch, kept, fault, open_quote = rows.columns, rows.batch, rows.kept, rows.fault, rows.open_quote
        buffer = buffer or ParseBuffer()
        lines = np.arange(len(batch)) if rows.lines is None else rows.lines
        with damage_named(shown_name(piece.source.name)):
            while True:
                try:
                    labels = self._labels(columns, batch)
                    made, notes = self._rows(columns, batch, lines, buffer)
                    break
                except RowError as wrong:  # it, and what is counted, are of the rows before it
                    fault, open_quote = (int(lines[wrong.row]), str(wrong)), -1
                    batch = batch.slice(0, wrong.row)
        n = len(batch)
        n_records = len(rows.batch) if rows.n_records is None else rows.n_records
        origin = Origin(piece.source, piece.fraction, fault[0] if fault else n_records, lines[:n])
        return RowBatch(
            labels, made.indptr, made.ids, made.values, origin, names=made.names, fault=fault, open_quote=open_quote,
            largest=made.largest, notes=(columns.notes if rows.begins else {}) | notes,
            kept=None if kept is None else kept.slice(0, n),
        )  # fmt: skip

    def _labels(self, columns: TableColumns, batch: pa.RecordBatch) -> np.ndarray | list | CodedLabels:
        label, words = columns.label, columns.words
        if label is None or pa.types.is_null(batch.column(label).type):
            return [None] * len(batch) if words else np.full(len(batch), np.nan)
        column, cure = batch.column(label), words_by(self.options) if self.curable else ""
        if arrays.is_list(column.type):
            return [None if labels is None else tuple(labels) for labels in column.to_pylist()]
        if arrays.is_number(column.type) and not words:
            numbers = floats(column).astype(np.float64) + 0.0  # -0 is 0
        elif pa.types.is_binary(column.type) and not words:
            dialect = self.dialect._replace(comma=False)
            found, looks = numbers_in(cells_of([column], len(column)), dialect, np.zeros(1, bool))
            numbers = found[0] + 0.0
            wrong = [int(looks[0, 2])] * int(looks[0, 1] > 0) + np.flatnonzero(np.isinf(numbers))[:1].tolist()
            if wrong:
                raise RowError(min(wrong), sentence_of(self._token(column, min(wrong)), False, cure))
        else:
            # whatever is in a column that is named is a word
            named = label in self.options.get("categorical", "").split(",")

            def word(value: str | bytes | int) -> str | None:
                if not isinstance(value, bytes):
                    return str(value).strip()
                token = token_in(value, self.dialect.quote)
                return token.decode() if token and (named or token.lower() not in MISSING) else None

            return coded_labels(column, word)
        require_exact(numbers, lambda row: self._token(column, row), cure)
        return numbers

    def _rows(self, columns: TableColumns, batch: pa.RecordBatch, lines: np.ndarray, buffer: ParseBuffer) -> tuple:
        """(rows, notes on their cells)"""
        if self.ngrams is not None:
            texts = [batch.column(name) for name in columns.texts]
            return rows_of_texts(self.ngrams, texts, len(batch), buffer), {}
        numbers, named = self._numbers(columns, batch, buffer), self.reading.named
        rows, missing = self._made(columns, batch, numbers, buffer, named)
        if rows.code != FINE:
            row, code = len(rows.indptr) - 1, rows.code
            own = np.ascontiguousarray(numbers[:, row : row + 1])
            name = self._made(columns, batch.slice(row, 1), own, ParseBuffer(), True)[0].name
            if columns.types or code in (BIG_NORM, DUPLICATE):
                raise RowError(row, self.reading.fault_of(code, name, "columns"))
            # in text a large number may be a category
            raise RowError(row, self.reading.fault_of(BIG_VALUE, f"column {name}") + self._category(name))
        notes = {}
        for j, (n, row) in zip(columns.categories, missing.tolist(), strict=True):
            if n and self.reading.offers:
                name = columns.names[j]
                what = f"cells of the column {name} that say na, n/a, nan or null, and were taken for missing"
                notes[what] = n, int(lines[row]), quoted(self._token(batch.column(name), row))
        return rows, notes

    def _numbers(self, columns: TableColumns, batch: pa.RecordBatch, buffer: ParseBuffer) -> np.ndarray:
        """The columns of numbers (k, n), nan where there is none."""
        k, n = len(columns.numbers), len(batch)
        numbers = buffer.take("numbers", k * n, np.float64).reshape(k, n)
        texts, cells = [], []
        for row, j in enumerate(columns.numbers):
            column = batch.column(columns.names[j])
            if pa.types.is_binary(column.type) or is_text(value_type(column.type)):
                texts.append(row)
                cells.append(column)
            else:
                numbers[row] = floats(column)
        if texts:
            if columns.types:
                cells = [as_words(column).cast(pa.large_binary()) for column in cells]
            into = numbers if len(texts) == k else np.empty((len(texts), n))
            logarithms = columns.roles[np.array(columns.numbers)[texts]] == Role.LOGARITHM
            _, looks = numbers_in(cells_of(cells, n), self.dialect, logarithms, into)
            wrong = np.flatnonzero(looks[:, 1])
            if len(wrong):
                first = int(wrong[np.argmin(looks[wrong, 2])])
                name, row = columns.names[columns.numbers[texts[first]]], int(looks[first, 2])
                token = quoted(self._token(batch.column(name), row)[:40])
                raise RowError(row, f"column {name}: {token} is not a number; mend it{self._category(name)}")
            if into is not numbers:
                numbers[texts] = into
        return numbers

    def _made(
        self, columns: TableColumns, batch: pa.RecordBatch, numbers: np.ndarray, buffer: ParseBuffer, named: bool
    ) -> tuple[Rows, np.ndarray]:
        """(rows, what ``cell_words`` says of missing cells of text)"""
        maker, n = RowMaker(columns, self.reading, buffer, named), len(batch)
        words = [batch.column(columns.names[j]) for j in columns.categories]
        if columns.types:
            codes, missing = np.empty((len(words), n), np.int32), np.zeros((len(words), 2), np.int64)
            for row, column, j in zip(codes, words, columns.categories, strict=True):
                row[:] = coded(maker, column, j)
        else:
            codes, missing = maker.codes_of(cells_of(words, n), columns.categories, self.dialect)
        entries = [NO_ENTRIES, *(list_entries(maker, batch.column(columns.names[j]), j) for j in columns.lists)]
        rows, own, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        order = np.argsort(rows, kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(rows, minlength=n)))
        return maker.rows(n, numbers, codes, ends, own[order], values[order]), missing

    def _token(self, column: pa.Array, row: int) -> bytes:
        """What a cell says."""
        value = column[row].as_py()
        return token_in(value, self.dialect.quote) if isinstance(value, bytes) else str(value).encode()

    def _category(self, name: str) -> str:
        """The cure for a cell that does not fit its column, where there is one."""
        return f", or name the column by {added('categorical', self.options, name)}" if self.curable else ""


def words_by(options: Mapping) -> str:
    """The setting that takes labels as words, for a sentence."""
    return f"say {added('categorical', options, options['label'])}, which takes labels as words"


class RowMaker:
    """Makes the rows of some columns; named: with names.  Its memory is the buffer's, where there is one."""

    def __init__(self, columns: TableColumns, reading: ReaderOptions, buffer: ParseBuffer, named: bool):
        self.columns, self.reading, self.buffer, self.named = columns, reading, buffer, named
        self.n_words = m = len(columns.ids)
        self.filled = len(columns.prefixes)
        self.recent = np.zeros(RECENT, np.int64)
        self.words = Words(*(np.empty(0, kind) for kind in (np.int64, np.int64, np.int64, np.uint8)))
        self._make_room(max(1, m), self.filled)
        self.words.ids[:m] = columns.ids
        self.words.names[: self.filled] = columns.prefixes
        if m and named:
            spans = np.array([columns.spans[j] for j in columns.numbers])
            self.words.firsts[:m], self.words.lasts[:m] = spans[:, 0], spans[:, 1] - 1

    def _make_room(self, n_words: int, n_bytes: int) -> None:
        """For so many words in all, whose names take so many bytes."""
        sizes = n_words, n_words * self.named, n_words * self.named, n_bytes
        for name, old, size in zip(Words._fields, self.words, sizes, strict=True):
            if len(old) < size:
                new = self.buffer.take(f"words' {name}", max(size, 2 * len(old)), old.dtype.type)
                new[: len(old)] = old
                self.words = self.words._replace(**{name: new})

    def codes_of(self, cells: Cells, columns: list[int], text: Dialect | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(numbers of the words (c, n) of the cells of these columns, what ``cell_words`` says of missing ones); text:
        of cells of text, where words may say that one is missing."""
        c, n = cells.k, cells.n
        spans = np.array([self.columns.spans[j] for j in columns], np.int64).reshape(c, 2)
        n_bytes = (len(cells.text) + n * int(np.diff(spans).sum())) if self.named else 0
        self._make_room(self.n_words + c * n, self.filled + n_bytes)
        codes, looks = np.empty((c, n), np.int32), np.zeros((c, 2), np.int64)
        seeds = np.array([self.columns.seeds[j] for j in columns], np.uint64)
        self.n_words, self.filled = kernels.cell_words(
            cells.text, cells.ends, text is not None, text.quote if text else NO_QUOTE, seeds, spans, self.named,
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

    def rows(self, n: int, numbers: np.ndarray, codes: np.ndarray, *more: np.ndarray) -> Rows:
        """The rows, up to the first that is at fault; more: as of ``columns_to_rows``."""
        recipe, take = self.reading.recipe, self.buffer.take
        most = n * len(self.columns.order) + len(more[1]) + 1
        indptr = take("indptr", n + 1, np.int64)
        ids, values = take("ids", most, np.int64), take("values", most, np.float64)
        entries = take("words of entries", most if self.named else 0, np.int64)
        rows, code, entry, largest = kernels.columns_to_rows(
            self.columns.order, numbers, codes, *more, self.words.ids,
            recipe.sums, recipe.l2, recipe.single, indptr, ids, values, entries,
        )  # fmt: skip
        nnz = int(indptr[rows])
        name, names, (_, firsts, lasts, text) = "", None, self.words
        if self.named:
            if code not in (FINE, BIG_NORM):
                name = text[firsts[entries[entry]] : lasts[entries[entry]]].tobytes().decode()
            of_names, gathered = entries[:nnz], self.buffer.gathered
            firsts, lasts = gathered("first of names", firsts, of_names), gathered("last of names", lasts, of_names)
            names = text[: self.filled], firsts, lasts
        return Rows(indptr[: rows + 1], ids[:nnz], values[:nnz], names, largest, code, name)


def numbers_in(cells: Cells, dialect: Dialect, logarithms: np.ndarray, values: np.ndarray | None = None) -> tuple:
    """(numbers (k, n) of the cells, what ``cell_numbers`` says of them)"""
    k, n = cells.k, cells.n
    values = np.empty((k, n)) if values is None else values
    looks = np.empty((k, 3), np.int64)
    kernels.cell_numbers(cells.text, cells.ends, dialect.comma, dialect.quote, logarithms, values, looks)
    return values, looks


def token_in(cell: bytes, quote: int) -> bytes:
    """What a cell has, as ``bounds_of`` finds it."""
    token = cell.strip(BLANKS)
    quoted_late = len(token) > 1 and token[0] == token[-1] == quote and cell[0] != quote
    return token[1:-1] if quoted_late else token


def coded_labels(column: pa.Array, label_of: Callable[[Any], Any]) -> CodedLabels:
    """The labels that a column (n,) of strings or bytes has; label_of(value): that of one of its values.  RowError
    where it raises InputError, for the first row of that value."""
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values, codes = column.dictionary.to_pylist(), arrays.indices_of(column)
    labels = []
    for code, value in enumerate(values):
        try:
            labels.append(None if value is None else label_of(value))
        except InputError as error:
            raise RowError(int(np.argmax(codes == code)), str(error)) from None
    of_value = CodedLabels.of(labels)
    return CodedLabels(np.append(of_value.codes, np.int32(-1))[codes], of_value.distinct)


def coded(maker: RowMaker, column, j: int) -> np.ndarray:
    """The numbers of the words (n,) of a column, -1 where there is none."""
    if pa.types.is_dictionary(column.type) and len(column.dictionary) <= len(column):
        return np.append(coded(maker, column.dictionary, j), np.int32(-1))[arrays.indices_of(column)]
    return maker.codes_of(cells_of([as_words(column)], len(column)), [j])[0][0]


def list_entries(maker: RowMaker, column, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, numbers of words, values) of the items of a column of lists or maps."""
    role = maker.columns.roles[j]
    rows, items = arrays.items_of(column)
    if role == Role.MAP:
        keys, values = items
        return rows, coded(maker, keys, j), floats(values).astype(np.float64)
    if role == Role.BAG:
        return rows, coded(maker, items, j), np.ones(len(rows))
    lengths = np.bincount(rows, minlength=len(column))
    values = floats(items).astype(np.float64)
    first = maker.codes_of_names([f"{maker.columns.names[j]}[{k}]" for k in range(int(lengths.max(initial=0)))])
    return rows, first + np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths), values


def rows_of_texts(ngrams: NgramFeatures, columns: list, n: int, buffer: ParseBuffer) -> Rows:
    """Of columns of texts (n,), joined by a space."""
    if len(columns) > 1:
        kind = pa.large_binary() if pa.types.is_binary(columns[0].type) else pa.large_string()
        space, nothing = strings([b" "]).cast(kind)[0], {"null_handling": "replace", "null_replacement": ""}
        columns = [compute.binary_join_element_wise(*(column.cast(kind) for column in columns), space, **nothing)]
    cells = cells_of([without_nulls(column, b"") for column in columns], n)
    spans = np.stack((cells.ends[:-1], cells.ends[1:]), axis=1)
    most = int(ngrams.entries * (cells.ends[-1] - cells.ends[0] + n)) + 1
    take = buffer.take
    indptr, ids, values = take("indptr", n + 1, np.int64), take("ids", most, np.int64), take("values", most, np.float64)
    return ngrams.rows(cells.text, spans, indptr, ids, values)


def table_of_texts(texts: Sequence[str], labels: Sequence | None = None) -> pa.Table:
    """A table of texts in memory, with their labels where there are some; InputError for what is no text."""
    wrong = next((k for k, text in enumerate(texts) if not isinstance(text, str)), None)
    if wrong is not None:
        raise InputError(f"row {wrong}: is {type(texts[wrong]).__name__}, and texts are strings")
    columns: dict[str, pa.Array] = {"text": strings([text.encode("utf-8", "surrogatepass") for text in texts])}
    if labels is not None:
        if len(labels) != len(texts):
            raise InputError(f"there are {len(texts):,} texts and {len(labels):,} labels; give a label for each")
        try:
            columns["label"] = pa.array(labels.tolist() if hasattr(labels, "tolist") else list(labels))
        except pa.ArrowException as error:
            raise InputError(f"labels are all numbers, all strings, or all lists of strings ({error})") from None
    return pa.table(columns)
