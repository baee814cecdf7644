"""Tables of Arrow: ``parquet``, ``arrow`` (files and streams of IPC), and those in memory, some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.labels import EXACT, CodedLabels, exact
from blocksvm.base.row_batch import Origin, RowBatch, runs
from blocksvm.files.input import open_input
from blocksvm.files.paths import is_url
from blocksvm.formats.choices import DECIDED, KEEP, WORDS, added, chosen
from blocksvm.formats.file_reader import FileFormat, FileInputs, RowPiece, damage_named
from blocksvm.formats.format import EXPANSION, ParseBuffer, ReaderOptions
from blocksvm.formats.kernels.numbers import FINE
from blocksvm.formats.kernels.svmlight import BIG_NORM
from blocksvm.formats.table_columns import (
    KINDS,
    SAMPLED_ROWS,
    Role,
    TableColumns,
    chosen_categories,
    columns_of_types,
    is_list,
    is_number,
    is_text,
    is_word,
    kind_of,
    kinds_of_types,
    own_values,
    with_calendar,
    with_kept,
)
from blocksvm.formats.table_rows import (
    EMPTY,
    ZERO,
    Layout,
    RowMaker,
    Rows,
    TableReader,
    array_of,
    cells_of,
    coded_labels,
    numbers_of,
    rows_of_texts,
    without_nulls,
)
from blocksvm.formats.text.text_source import LineLimit, TextSource, quoted

# bytes of a piece that a cell, or an item of a list, and a byte of a word in columns stand for, by their memory
CELL_BYTES, WORD_BYTES = 9, 6
AT_ONCE = 4  # pieces that are decoded at once: a column takes some microseconds, however few its rows are
BUFFER = 1 << 16  # bytes of each column of a Parquet file that are read at a time
DECIDING, LONGEST_SHARE = 1 << 20, 60  # bytes of the first rows, and parts of the memory of which one may take one
SMALL_DICTIONARY = 16  # a Parquet file's own dictionary is taken with each batch up to such a part of a piece


class ArrowFiles(FileFormat):
    """The two formats; batches(name, options, n_bytes, limit): (columns, rows, fraction that was read) of a file."""

    def __init__(self, name: str, lines: str, batches):
        self.name, self.lines, self.batches = name, lines, batches
        self.objects = True

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        begins = True
        with damage_named(name):
            for columns, batch, done in self.batches(name, options, n_bytes, limit):
                batch.validate(full=True)  # kernels take what it holds by its offsets
                for name_ in columns.texts:
                    if not pa.types.is_string(batch.schema.field(name_).type):
                        column = batch.column(name_).cast(pa.large_string())
                        batch = batch.set_column(batch.schema.get_field_index(name_), name_, column)
                batch = with_calendar(batch, columns)
                wanted = [name for name in used_columns(columns) if name in batch.schema.names]
                for piece in pieces_of(batch, n_bytes, limit, name, 1 if columns.texts else WORD_BYTES):
                    kept = piece.select(columns.kept) if columns.kept else None
                    yield ArrowRows(name, columns, piece.select(wanted), begins, kept), done
                    begins = False

    def settled(self, requested: Mapping, name: str, memory: int) -> dict:
        """The settings, and what the first rows decide, unless it is known: kinds of columns and of labels."""
        known = {key: requested[key] for key in DECIDED if key in requested}
        options = chosen(self.name, {key: requested[key] for key in requested if key not in known}) | known
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
            text_like = chunk.physical_type == "BYTE_ARRAY"
            text += chunk.total_uncompressed_size * (text_like or "." in path)
            if text_like and "." not in path and path not in (options["label"], *columns.texts):
                has = chunk.has_dictionary_page
                stored = chunk.data_page_offset - chunk.dictionary_page_offset if has else n_bytes
                small[path] = small.get(path, True) and SMALL_DICTIONARY * stored < n_bytes
        require_memory(sizes[k], f"{name}: row group {k} takes", "row groups", limit)
    row_bytes = text / max(1, about.num_rows) + CELL_BYTES * len({*columns.kept, *used_columns(columns)})
    dictionaries = [path for path, own in small.items() if own]  # strings that the file has once are read once
    with (
        arrow_file(name) as opened,
        pa.parquet.ParquetFile(opened, metadata=about, read_dictionary=dictionaries, **reading) as file,
    ):
        done = 0
        for batch in file.iter_batches(max(1, int(AT_ONCE * n_bytes / row_bytes)), columns=wanted, use_threads=False):
            done += len(batch)
            yield columns, batch, done / max(1, about.num_rows)
        if not done:
            nothing = [pa.nulls(0, file.schema_arrow.field(column).type) for column in wanted]
            yield columns, pa.RecordBatch.from_arrays(nothing, names=wanted), 1.0


def ipc_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
    """The batches of a file, mapped where it lies on a disk, or of a stream in a file."""
    with arrow_file(name, mapped=True) as opened:
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


def arrow_file(name: str, mapped: bool = False) -> pa.NativeFile:
    """A file as pyarrow reads it; an object in windows, of which the next ones are asked for ahead."""
    if not is_url(name):
        return pa.memory_map(name) if mapped else pa.OSFile(name)
    return pa.PythonFile(open_input(name), mode="r")


def unpacked_bytes(batch, mapped: pa.Buffer) -> int:
    """The bytes of a batch that do not lie in the mapped file, as they were compressed there."""
    buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]
    return sum(one.size for one in buffers if not 0 <= one.address - mapped.address < mapped.size)


def used_columns(columns: TableColumns) -> list[str]:
    """The columns that rows are made of."""
    return [name for name, role in zip(columns.names, columns.roles.tolist(), strict=True) if role != Role.LEFT_OUT]


def wanted_columns(columns: TableColumns) -> list[str]:
    """The columns that are read, those that are wanted beside the rows among them."""
    wanted = {columns.calendar.get(name, (name,))[0] for name in used_columns(columns)} | {*columns.kept}
    return [name for name in columns.names if name in wanted]


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
        lengths = numbers_of(without_nulls(compute.binary_length(column), ZERO))
        return CELL_BYTES + word_bytes * lengths.astype(np.int64)
    return CELL_BYTES


def items_of(column) -> tuple:
    """(row of each item, items, of a map (keys, values)) of a column of lists or maps."""
    n = len(column)
    if pa.types.is_map(column.type):
        ends = numbers_of(column.offsets)
        first, last = int(ends[0]), int(ends[-1])
        rows = np.repeat(np.arange(n), np.diff(ends))
        keys, values = column.keys.slice(first, last - first), column.items.slice(first, last - first)
        if column.null_count:  # what is null may have items
            known = array_of(numbers_of(column.is_valid())[rows]).cast(pa.bool_())
            rows, keys, values = rows[numbers_of(known) > 0], keys.filter(known), values.filter(known)
        return rows, (keys, values)
    lengths = numbers_of(without_nulls(compute.list_value_length(column), ZERO)).astype(np.int64)
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
    if column.null_count:
        column = without_nulls(column.cast(pa.float64(), safe=False), array_of(np.full(1, math.nan)))
    return numbers_of(column)


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


class ArrowReader(TableReader):
    """Rows of batches of columns."""

    def __init__(self, reading: ReaderOptions):
        expansion = 2 * EXPANSION if reading.named else EXPANSION
        super().__init__(reading, reading.recipe.options, expansion, besides=1)

    def parse(self, piece: RowPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        name, columns, batch, begins, kept = piece.payload
        buffer = ParseBuffer() if buffer is None else buffer
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
                    wrong = first_word(batch, layout.names[j], j)
                    rows_before = piece.payload._replace(batch=batch.slice(0, wrong[0]))
                    before = ArrowReader.parse(self, replace(piece, payload=rows_before), buffer)
                    return replace(before, fault=before.fault or wrong)
            rows = self._rows(layout, batch, numbers, buffer, self.reading.named)
            fault = None
            if rows.code != FINE:
                if rows.code != BIG_NORM and not self.reading.named:
                    again = self._rows(layout, batch, numbers, ParseBuffer(), True)
                    rows = rows._replace(name=again.name)
                fault = len(rows.indptr) - 1, rows.sentence(self.reading, text=False)
        n_rows = len(rows.indptr) - 1
        return RowBatch(
            labels[:n_rows], rows.indptr, rows.ids, rows.values,
            Origin(piece.source, piece.fraction, n, np.arange(n_rows)), names=rows.names, fault=fault,
            largest=rows.largest, notes=columns.notes if begins else {}, kept=kept,
        )  # fmt: skip

    def _layout(self, name: str, schema: pa.Schema) -> Layout:
        known = self.known
        if known is None or known[0] != name or not known[1].equals(schema):
            options = {**self.options, "ignore": None, KEEP: None}
            columns = columns_of(name, schema, options, self.reading.labelled, False)
            known = self.known = name, schema, Layout(columns)
        return known[2]

    def _rows(self, layout: Layout, batch, numbers: np.ndarray, buffer: ParseBuffer, named: bool) -> Rows:
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

    def _labels(self, layout: Layout, batch) -> np.ndarray | list | CodedLabels:
        """The rows' labels; InputError for a column of another kind."""
        words, options = layout.columns.words, self.options
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
        return coded_labels(column, lambda value: str(value).strip())


def coded(maker: RowMaker, column, j: int) -> np.ndarray:
    """The numbers of the words (n,) of a column, -1 where there is none."""
    if pa.types.is_dictionary(column.type):
        if len(column.dictionary) <= len(column):
            codes = np.append(coded(maker, column.dictionary, j), np.int32(-1))
            indices = column.indices.cast(pa.int64(), safe=False)
            indices = without_nulls(indices, array_of(np.full(1, len(codes) - 1)))
            return codes[numbers_of(indices)]
        column = column.dictionary_decode()
    if not pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    column = without_nulls(column, EMPTY)
    return maker.codes_of(cells_of([column], len(column)), [j])[0][0]


def list_entries(maker: RowMaker, column, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, numbers of words, values) of the items of a column of lists or maps."""
    role = maker.layout.columns.roles[j]
    rows, items = items_of(column)
    if role == Role.MAP:
        keys, values = items
        return rows, coded(maker, keys, j), floats(values).astype(np.float64)
    if role == Role.BAG:
        return rows, coded(maker, items, j), np.ones(len(rows))
    lengths = np.bincount(rows, minlength=len(column))
    values = floats(items).astype(np.float64)
    first = maker.codes_of_names([f"{maker.layout.names[j]}[{k}]" for k in range(int(lengths.max(initial=0)))])
    return rows, first + np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths), values


class TableInputs(FileInputs):
    """A table in memory, or batches that come one after the other; readable once."""

    def __init__(self, batches: Iterator[pa.RecordBatch]):
        super().__init__(["the table"], "arrow", {})
        self.first = next(batches, None)
        self.batches = batches
        if self.first is None:
            raise InputError("the table has no batches of rows")

    def settled(self, format_: ArrowFiles, requested: Mapping, memory: int) -> dict:
        """The settings, as ``ArrowFiles`` decides them by the first batch."""
        return self._files([self.first]).settled(requested, self.names[0], memory)

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
    stream = pa.RecordBatchReader.from_stream
    batches = (stream(one) if hasattr(one, "__arrow_c_stream__") else [pa.record_batch(one)] for one in parts)
    return TableInputs(chain.from_iterable(batches))


PARQUET = ArrowFiles("parquet", "a Parquet table", parquet_batches)
ARROW = ArrowFiles("arrow", "an Arrow table (IPC file or stream)", ipc_batches)
