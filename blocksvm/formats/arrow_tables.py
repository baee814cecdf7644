"""Tables of Arrow, some rows at a time: ``parquet``, ``arrow`` (IPC), those in memory, and ``folders``: a folder of
folders that are classes, with a file a text (those beside them have no label, hidden ones are left out)."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.row_batch import runs
from blocksvm.files.input import open_input
from blocksvm.files.paths import is_url
from blocksvm.formats import table_rows, tables
from blocksvm.formats.arrow_arrays import is_list, is_number, is_text, items_of, numbers_of, strings, without_nulls
from blocksvm.formats.choices import DECIDED, KEEP, KINDS, PARTS, WORDS, chosen
from blocksvm.formats.file_reader import FileFormat, FileInputs, RowPiece, damage_named, require_fit
from blocksvm.formats.format import EXPANSION, ReaderOptions
from blocksvm.formats.text.text_source import LineLimit, TextSource

# bytes of a piece that a cell, or an item of a list, and a byte of a word in columns stand for, by their memory
CELL_BYTES, WORD_BYTES = 9, 6
AT_ONCE = 4  # pieces that are decoded at once: a column takes some microseconds, however few its rows are
BUFFER = 1 << 16  # bytes of each column of a Parquet file that are read at a time
DECIDING, LONGEST_SHARE = 1 << 20, 60  # bytes of the first rows, and parts of the memory of which one may take one
OF_FOLDERS = {"text": "text", "label": "label"}  # their columns
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
                for name_, (of, part) in columns.calendar.items():
                    values = tables.CALENDAR[part](batch.column(of))
                    batch = batch.append_column(name_, values if part == "years" else values.cast(pa.string()))
                for piece in pieces_of(batch, n_bytes, limit, name, 1 if columns.texts else WORD_BYTES):
                    kept = piece.select(columns.kept) if columns.kept else None
                    yield table_rows.TableRows(columns, piece.select(columns.used()), begins, kept), done
                    begins = False

    def settled(self, requested: Mapping, name: str, memory: int) -> dict:
        """The settings, and what the first rows decide, unless it is known: kinds of columns and of labels."""
        options = chosen(self.name, requested, {key: None for key in requested if key in DECIDED})
        if KINDS in options:
            return options
        for (columns, batch, *_), _ in self.pieces(name, options, DECIDING, LineLimit.share(memory, LONGEST_SHARE)):
            first = batch.slice(0, tables.SAMPLED_ROWS)
            kinds = options[KINDS] = tables.kinds_of_types(columns)
            named = tables.chosen_categories(options, columns.names)[0].split(",")
            counts = {}
            for word in kinds["categorical"]:
                if word in named:
                    continue
                column = first.column(word)
                codes = column.indices if pa.types.is_dictionary(column.type) else column
                if pa.types.is_string_view(codes.type):  # which pyarrow does not count
                    codes = codes.cast(pa.large_string())
                counts[word] = compute.count_distinct(codes).as_py(), len(codes) - codes.null_count
            kinds |= tables.own_values(counts)
            type_ = columns.types.get(options["label"])
            if type_ is not None and tables.kind_of(type_) != "nothing":
                options[WORDS] = bool(columns.words) or not is_number(type_)
            break
        return options

    def reader(self, reading: ReaderOptions) -> table_rows.TableReader:
        expansion = 2 * EXPANSION if reading.named else EXPANSION
        return table_rows.TableReader(reading, reading.recipe.options, expansion, besides=1)


class Folders(ArrowFiles):
    def settled(self, requested: Mapping, name: str, memory: int) -> dict:
        given = {key: value for key, value in requested.items() if key not in DECIDED | OF_FOLDERS.keys()}
        return chosen(self.name, given) | OF_FOLDERS | {WORDS: True}


def columns_in(name: str, schema: pa.Schema, options: Mapping) -> tables.TableColumns:
    """The columns of a file; rows that are only predicted (``KEEP``) need no labels."""
    try:
        types = dict(zip(schema.names, schema.types, strict=True))
        return tables.columns_of(list(schema.names), types, options, KEEP not in options)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def parquet_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
    # else pyarrow reads the columns of a row group whole, as is best over a network
    reading: dict = {"pre_buffer": False, "buffer_size": 0 if is_url(name) else BUFFER}
    with arrow_file(name) as opened, pa.parquet.ParquetFile(opened, **reading) as file:
        about = file.metadata
        columns = columns_in(name, file.schema_arrow, options)
    wanted = columns.read()
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
    row_bytes = text / max(1, about.num_rows) + CELL_BYTES * len({*columns.kept, *columns.used()})
    reading["read_dictionary"] = [path for path, own in small.items() if own]  # strings that it has once are read once
    with arrow_file(name) as opened, pa.parquet.ParquetFile(opened, metadata=about, **reading) as file:
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
            columns = columns_in(name, file.schema, options)
            wanted = columns.read()
            n = file.num_record_batches if is_file else 0
            batches = map(file.get_batch, range(n)) if is_file else file
            for k, batch in enumerate(batches):
                buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]
                # what does not lie in the mapped file was compressed there
                unpacked = sum(one.size for one in buffers if not 0 <= one.address - data.address < data.size)
                require_memory(unpacked, f"{name}: batch {k} takes", "batches", limit)
                yield columns, batch.select(wanted), (k + 1) / n if is_file else opened.tell() / opened.size()


def folder_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
    """Batches of files, in the order of their classes and names."""
    folder, columns = Path(name), tables.text_columns(list(OF_FOLDERS), OF_FOLDERS, {})
    paths = [Path(part) for part in options[PARTS]]
    deeper = next((path for path in folder.glob("*/*") if path.is_dir() and not path.name.startswith(".")), None)
    if deeper is not None:
        raise InputError(f"{deeper}: is a folder within a class, whose files would be left out; move them up")
    if not paths:
        raise InputError(f"{name}: has no files, and no folders with files in them")
    labels: list[bytes | None] = []
    texts: list[bytes] = []
    size = 0
    for k, path in enumerate(paths):
        require_memory(path.stat().st_size, f"{path}: takes", "files", limit)
        try:
            text = path.read_bytes().decode(options["encoding"]).encode()
        except UnicodeError as error:
            cure = f"name its encoding, as {option('encoding', 'latin1')}"
            raise InputError(f"{path}: the text is not {options['encoding']} ({error.reason}); {cure}") from error
        texts.append(text)
        labels.append(path.parent.name.encode() if path.parent != folder else None)
        size += CELL_BYTES + len(text)
        if size >= n_bytes or k + 1 == len(paths):
            batch = pa.RecordBatch.from_arrays([strings(texts), strings(labels)], names=list(OF_FOLDERS))
            yield columns, batch, (k + 1) / len(paths)
            labels, texts, size = [], [], 0


def arrow_file(name: str, mapped: bool = False) -> pa.NativeFile:
    """A file as pyarrow reads it; an object in windows, of which the next ones are asked for ahead."""
    if not is_url(name):
        return pa.memory_map(name) if mapped else pa.OSFile(name)
    return pa.PythonFile(open_input(name), mode="r")


def require_memory(n_bytes: float, what: str, parts: str, limit: LineLimit | None) -> None:
    """InputError where what is unpacked at once takes more than the memory; parts: smaller ones take less."""
    memory = None if limit is None else limit.memory_for(limit.n_bytes)
    if memory is not None and n_bytes > memory:
        need = option("memory", Bytes(10**6 * (int(n_bytes // 10**6) + 1)))
        raise InputError(f"{what} {n_bytes / 1e6:,.0f} MB at once; give {need}, or write smaller {parts}")


def pieces_of(batch, n_bytes: int, limit: LineLimit | None, name: str, word_bytes: int = WORD_BYTES) -> Iterator:
    """A batch in pieces of some ``n_bytes``, ``word_bytes`` for each of strings; InputError for a row too long."""
    if not len(batch):
        yield batch
        return
    row_bytes = np.zeros(len(batch), np.int64)
    for k, type_ in enumerate(batch.schema.types):
        plain = pa.types.is_primitive(type_) or pa.types.is_dictionary(type_)
        row_bytes += CELL_BYTES if plain else lengths_of(batch.column(k), word_bytes)
    require_fit(int(row_bytes.max()) // word_bytes, limit, name, 1, "bytes")  # as a line of text takes them
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
        lengths = numbers_of(without_nulls(compute.binary_length(column), 0))
        return CELL_BYTES + word_bytes * lengths.astype(np.int64)
    return CELL_BYTES


class TableInputs(FileInputs):
    """A table in memory, or batches that come one after the other; readable once."""

    def __init__(self, batches: Iterator[pa.RecordBatch]):
        super().__init__(["the table"], "arrow", {})
        self.first = next(batches, None)
        self.batches = batches
        if self.first is None:
            raise InputError("the table has no batches of rows")
        self.files = ArrowFiles(self.format, "a table", self._batches)

    def settled(self, format_: ArrowFiles, requested: Mapping, memory: int) -> dict:
        """The settings, as ``ArrowFiles`` decides them by the first batch."""
        return self.files.settled(requested, self.names[0], memory)

    def pieces(self, piece_bytes: int, limit: LineLimit, *more, **others) -> Iterator[RowPiece]:
        source = TextSource(self.names[0], None)
        for rows, _ in self.files.pieces(source.name, self.options, piece_bytes, limit):
            yield RowPiece(source, rows, None)

    def _batches(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
        columns = columns_in(name, self.first.schema, options)
        for batch in chain([self.first], self.batches):
            yield columns, batch.select(columns.read()), None


def table_inputs(parts: Iterable) -> TableInputs:
    """What is read of tables with ``__arrow_c_stream__`` or of record batches, one after the other."""
    stream = pa.RecordBatchReader.from_stream
    batches = (stream(one) if hasattr(one, "__arrow_c_stream__") else [pa.record_batch(one)] for one in parts)
    return TableInputs(chain.from_iterable(batches))


PARQUET = ArrowFiles("parquet", "a Parquet table", parquet_batches)
ARROW = ArrowFiles("arrow", "an Arrow table (IPC file or stream)", ipc_batches)
FOLDERS = Folders("folders", "a folder for each class, with a file for each text", folder_batches)
