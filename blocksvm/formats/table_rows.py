"""Columns of a table to rows, for tables of every form; and Arrow's arrays of what numpy and Python have.

Numbers and booleans are values of a feature of the column's name; words, and the whole numbers that ``categorical``
names, are features 'column=value' of value 1; a list of words is several of them; a list of numbers is features
'column[0]', 'column[1]', ...; a map features 'column=key' with the map's values.  Nulls, nan, empty words and zeros are
no entries.  Columns of texts are n-grams.  What columns have is decided in table_columns.py; ids are the same in every
form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from blocksvm.base.errors import InputError
from blocksvm.base.labels import CodedLabels, RowError
from blocksvm.formats.format import ParseBuffer, ReaderOptions
from blocksvm.formats.kernels import columns as kernels
from blocksvm.formats.kernels.columns import Words
from blocksvm.formats.kernels.name_hashes import RECENT, hash_of
from blocksvm.formats.kernels.numbers import FINE, NOT_FINITE
from blocksvm.formats.kernels.svmlight import BIG_NORM, DUPLICATE
from blocksvm.formats.ngram_features import NgramFeatures
from blocksvm.formats.table_columns import NO_QUOTE, Dialect, Role, TableColumns
from blocksvm.kernels.text_bytes import SPARE

CATEGORIES_GO_ON = np.uint64(0x452821E638D01377)  # a category's hash goes on from another one than that of a number
WHOLE = 1 << 30  # bytes of a block of text, above those of a piece
BLANKS = b" \t\r"
NO_ENTRIES = np.zeros(1, np.int64), np.empty((0,), np.int64), np.empty(0)
POOL = pa.system_memory_pool()  # the others keep some 30 MB of what was given back


class Layout:
    """The columns of one file as kernels take them.

    numbers, words, lists, texts: positions of the columns of these roles; order: as of ``columns_to_rows``; ids (m,) of
    the numbers' features; seeds (c,) of the words' hashes; static: the bytes 'column=' of all, then of lists;
    positions: column -> where its own lie.
    """

    def __init__(self, columns: TableColumns):
        self.columns = columns
        self.names = columns.names
        self.numbers = columns.of(Role.NUMBER, Role.LOGARITHM)
        self.words = columns.of(Role.WORD)
        self.lists = columns.of(Role.VECTOR, Role.BAG, Role.MAP)
        self.texts = [self.names.index(name) for name in columns.texts]
        self.label = next(iter(columns.of(Role.LABEL)), None)
        self.logarithms = columns.roles[self.numbers] == Role.LOGARITHM
        codes = {j: k for k, j in enumerate(self.numbers)} | {j: -1 - k for k, j in enumerate(self.words)}
        self.order = np.array([codes[j] for j in sorted(codes)], np.int64)
        used = self.numbers + self.words + self.lists
        prefixes = [self.names[j].encode() + b"=" for j in used]
        ends = np.cumsum([0, *map(len, prefixes)])
        self.static = np.frombuffer(b"".join(prefixes), np.uint8)
        self.positions = {j: (a, b) for j, a, b in zip(used, ends[:-1].tolist(), ends[1:].tolist(), strict=True)}
        self.ids = np.array([number_id(self.names[j]) for j in self.numbers], np.int64)
        self.seeds = {j: hash_of(self.names[j].encode(), CATEGORIES_GO_ON) for j in self.words + self.lists}


def number_id(name: str) -> int:
    return int(hash_of(name.encode(), np.uint64(0)) >> np.uint64(1))


class TableReader:
    """What readers of tables share, as of ``Reader``; expansion: bytes for a byte of text of columns, with ``besides``
    for one of texts alone.  Threads share it."""

    def __init__(self, reading: ReaderOptions, options: Mapping, expansion: int, besides: int):
        self.reading, self.options = reading, options
        self.ngrams = None if options.get("text") is None else NgramFeatures(reading.recipe, reading.named)
        self.expansion = expansion if self.ngrams is None else besides + self.ngrams.expansion
        self.known: tuple | None = None  # the columns of the file that was read last


class RowMaker:
    """Makes the rows of some columns; named: with names.  Its memory is the buffer's, where there is one."""

    def __init__(self, layout: Layout, reading: ReaderOptions, buffer: ParseBuffer, named: bool):
        self.layout, self.reading, self.buffer, self.named = layout, reading, buffer, named
        self.n_words = m = len(layout.ids)
        self.filled = len(layout.static)
        self.recent = np.zeros(RECENT, np.int64)
        self.words = Words(*(np.empty(0, kind) for kind in (np.int64, np.int64, np.int64, np.uint8)))
        self._make_room(m, self.filled, kept=False)
        self.words.ids[:m] = layout.ids
        self.words.names[: self.filled] = layout.static
        if m and named:
            positions = np.array([layout.positions[j] for j in layout.numbers])
            self.words.firsts[:m], self.words.lasts[:m] = positions[:, 0], positions[:, 1] - 1

    def _make_room(self, n_words: int, n_bytes: int, kept: bool = True) -> None:
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
        positions = np.array([self.layout.positions[j] for j in columns], np.int64).reshape(c, 2)
        n_bytes = (len(cells.text) + n * int(np.diff(positions).sum())) if self.named else 0
        self._make_room(self.n_words + c * n, self.filled + n_bytes)
        codes, looks = np.empty((c, n), np.int32), np.zeros((c, 2), np.int64)
        seeds = np.array([self.layout.seeds[j] for j in columns], np.uint64)
        self.n_words, self.filled = kernels.cell_words(
            cells.text, cells.ends, text is not None, text.quote if text else NO_QUOTE, seeds, positions, self.named,
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
        at = j * self.n + r
        return token_in(self.text[self.ends[at] : self.ends[at + 1]].tobytes(), self.quote)


def token_in(cell: bytes, quote: int) -> bytes:
    """What a cell has, as ``bounds_of`` finds it."""
    token = cell.strip(BLANKS)
    quoted_late = len(token) > 1 and token[0] == token[-1] == quote and cell[0] != quote
    return token[1:-1] if quoted_late else token


def coded_labels(column: pa.Array, label_of: Callable[[Any], Any]) -> CodedLabels:
    """The labels that a column (n,) of strings or bytes has; label_of(value): that of one of its values.  RowError
    where it raises InputError, for the first row of that value."""
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = column.dictionary.to_pylist()
    codes = numbers_of(without_nulls(column.indices.cast(pa.int64()), array_of(np.full(1, len(values)))))
    labels = []
    for code, value in enumerate(values):
        try:
            labels.append(None if value is None else label_of(value))
        except InputError as error:
            raise RowError(int(np.argmax(codes == code)), str(error)) from None
    of_value = CodedLabels.of(labels)
    return CodedLabels(np.append(of_value.codes, np.int32(-1))[codes], of_value.distinct)


def tokens_at(text: np.ndarray, spans: np.ndarray) -> pa.Array:
    """The column (n,) of bytes ``text[spans[r, 0]:spans[r, 1]]``, each of which begins after the one before."""
    if not len(spans):
        return pa.nulls(0, pa.large_binary())
    buffers = [None, pa.py_buffer(np.ascontiguousarray(spans)), pa.py_buffer(text)]
    tokens_and_gaps = pa.Array.from_buffers(pa.large_binary(), 2 * len(spans) - 1, buffers)
    return tokens_and_gaps.take(array_of(np.arange(0, len(tokens_and_gaps), 2)))


def rows_of_texts(ngrams: NgramFeatures, columns: list, n: int, buffer: ParseBuffer) -> Rows:
    """Of columns of texts (n,), joined by a space."""
    if len(columns) > 1:
        kind = pa.large_binary() if pa.types.is_binary(columns[0].type) else pa.large_string()
        space, nothing = strings([b" "]).cast(kind)[0], {"null_handling": "replace", "null_replacement": ""}
        columns = [compute.binary_join_element_wise(*(column.cast(kind) for column in columns), space, **nothing)]
    cells = cells_of([without_nulls(column, EMPTY) for column in columns], n)
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
        try:
            columns["label"] = pa.array(labels.tolist() if hasattr(labels, "tolist") else list(labels))
        except pa.ArrowException as error:
            raise InputError(f"labels are all numbers, all strings, or all lists of strings ({error})") from None
    return pa.table(columns)


def numbers_of(column: pa.Array) -> np.ndarray:
    """A column of numbers or booleans (n,) without nulls, which shares its memory (Arrow's own way imports pandas)."""
    column = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
    if not len(column):
        return np.empty(0, column.type.to_pandas_dtype())
    part = slice(column.offset, column.offset + len(column))
    return np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype())[part]


def without_nulls(column: pa.Array, value: pa.Array) -> pa.Array:
    """A column with the value of an array (1,) in the place of nulls."""
    return column.fill_null(value.cast(column.type)[0]) if column.null_count else column


def array_of(numbers: np.ndarray) -> pa.Array:
    """An array of the same numbers, whose memory it shares, none of them missing."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)])


ZERO, EMPTY = array_of(np.zeros(1, np.int32)), strings([b""])
