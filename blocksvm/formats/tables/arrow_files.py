"""``parquet`` and ``arrow`` (the IPC file format, Feather 2): columns of a table, read some rows at a time by pyarrow.

Numbers and booleans are values of a feature of the column's name; strings, dictionaries and the columns of whole
numbers that ``categorical`` names are categories, features 'column=value' of value 1; a list of strings is several of
them; a list of numbers is features 'column[0]', 'column[1]', ...; a map features 'column=key' with the map's values.
Nulls, nan, empty strings and zeros are no entries.  Ids are those of the same columns in a csv.  What the first file's
columns have is stored in the recipe, as it is of text, and columns of later files have the same, or are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, product

import numpy as np

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.files.input import open_input
from blocksvm.formats.choices import chosen
from blocksvm.formats.file_reader import (
    ClosedRows,
    FileFormat,
    FileReader,
    RowBuffer,
    RowFault,
    SparseRows,
    damage_named,
    require_fit,
)
from blocksvm.formats.format import EXPANSION, ReaderOptions
from blocksvm.formats.tables.arrow_columns import ArrowColumns, arrow, is_text, listed, values_of
from blocksvm.formats.tables.table_layout import DECIDED, KINDS, SAMPLED_ROWS, columns_line, own_values, remarks
from blocksvm.formats.tables.unpacked import ipc_blocks, pages, unpacked_bytes
from blocksvm.formats.text.row_labels import WORDS
from blocksvm.formats.text.text_source import LineLimit

TEXT_COST = 6  # bytes of a piece for a byte of text, which becomes more in memory
CELL_COST = 44  # bytes under way for a number: in its column, and as an entry with its feature
DECODED = 32  # of these, in columns: pyarrow keeps a run of rows until it has decoded the next one
NAMED = 20  # more bytes for an entry that has an id and a name in the place of a hashed feature
AT_ONCE = 4  # pieces, at most, that are decoded at once: a column takes some microseconds, however few its rows are
BUFFER = 1 << 16  # bytes of each column that are read at a time
PAGE = 1 << 20  # bytes of a Parquet page, as its writers make them, at most
PAGES_SHARE = 3  # a part of the memory for the pages that are open at once
SPARED = 64_000_000  # bytes of them that fit beside the memory
COPIES = 4  # of a dictionary's page and of strings that are decoded, while they are: buffers grow by doubling
DECIDING, LONGEST_SHARE = 1 << 20, 60  # bytes of the first rows, and parts of the memory of which one may take one
RUN = 16  # times as many rows as are decoded at once, before the pages that come next are looked at
ITEM = 12  # bytes of an item of a list beside its value, whose page may have one sign for many
VIEW = np.dtype([("length", "<i4"), ("", "V12")])
DELTA_BYTE_ARRAY = 7  # of Parquet's encodings that in which a value may have the beginning of the one before it
UNPACKED = 16  # times as many bytes as packed ones a dictionary may have


class ArrowFiles(FileFormat):
    """The two formats; batches(name, options, n_bytes): the pieces of a file."""

    def __init__(self, name: str, lines: str, batches):
        self.name = name
        self.lines = lines
        self.batches = batches

    def pieces(
        self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None
    ) -> Iterator[tuple[tuple, float]]:
        begins = True
        with damage_named(name):
            for (file, batch), done in self.batches(name, options, n_bytes, limit):
                require_fit(longest_row(batch), limit, name)
                yield (file, batch, begins), done
                begins = False

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        known = {key: requested[key] for key in DECIDED if key in requested}
        return chosen(self.name, {key: requested[key] for key in requested if key not in known}) | known

    def decided(self, requested: Mapping, name: str, memory: int) -> dict:
        """The settings, and what the first rows decide, unless it is known: kinds of columns and of labels."""
        options = self.settled(requested, b"", name)
        if KINDS in options:
            return options
        for (file, batch, _), _ in self.pieces(name, options, DECIDING, LineLimit.share(memory, LONGEST_SHARE)):
            types = {field.name: field.type for field in batch.schema}
            columns, first = file.columns, batch.slice(0, SAMPLED_ROWS)
            kinds = options[KINDS] = columns.kinds_by_type(types)
            words = set(kinds["categorical"]) - columns.categories
            kinds |= own_values({name: counts_in(first.column(name)) for name in words})
            if columns.label is not None and columns.kind_of(types[columns.label]) != "nothing":
                options[WORDS] = bool(columns.words) or not columns.is_number(types[columns.label])
            break
        return options

    remarks = staticmethod(remarks)
    columns_line = staticmethod(columns_line)

    def reader(self, reading: ReaderOptions) -> FileReader:
        cost = CELL_COST if reading.recipe.bits is not None else CELL_COST + NAMED
        return FileReader(reading, rows_of, -(-EXPANSION * cost // CELL_COST))


class File:
    """A file's name and columns."""

    def __init__(self, name: str, schema, options: Mapping):
        self.name = name
        self.options = options
        try:
            self.columns = ArrowColumns(schema, options, labelled=False)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        wanted = self.columns.wanted
        self.worded = [name for name in wanted if not self.columns.is_number(schema.field(name).type)]
        self.read: ArrowColumns | None = None  # as a reader wants those that are wanted

    def columns_of(self, batch, labelled: bool) -> ArrowColumns:
        """The columns of its batches, the same in all of them; InputError where one is not as it should be."""
        if labelled and self.columns.refused:
            raise InputError(self.columns.refusal())
        if self.read is None:
            self.read = ArrowColumns(batch.schema, self.options | {"ignore": None}, labelled)
        return self.read

    def require_text(self, batch, limit: LineLimit | None) -> float:
        """Bytes of strings in a row, in the mean; InputError where those of one do not fit in the caller's memory."""
        texts = [text_in(batch.column(name)) for name in self.worded]
        require_text(sum(longest for _, longest in texts), limit, self.name)
        return sum(length for length, _ in texts) / max(1, len(batch))


def rows_at_once(n_bytes: int, text_bytes: float, cells: float) -> int:
    """The number of rows, of so many bytes of text in the file and so many cells, that fit in a piece."""
    return max(1, int(n_bytes / (TEXT_COST * text_bytes + CELL_COST * max(1.0, cells) / EXPANSION)))


def parquet_batches(
    name: str, options: Mapping, n_bytes: int, limit: LineLimit | None
) -> Iterator[tuple[tuple, float]]:
    """Batches of the rows of all row groups, whose columns are decoded as far as these rows need them."""
    arrow()
    import pyarrow.parquet as parquet

    # else pyarrow reads the columns of a row group whole
    options_of_reading = {"pre_buffer": False, "buffer_size": BUFFER}
    with parquet.ParquetFile(name, **options_of_reading) as file:
        about = file.metadata
        table = File(name, file.schema_arrow, options)
        wanted = set(table.columns.wanted)
        require_pages(name, about, wanted, limit)
        packed, cells = row_size(about)
        step = rows_at_once(n_bytes, packed, cells)
        dictionaries = table.columns.texts & dictionaries_in(about, n_bytes // 2)
        at_once = max(1, min(AT_ONCE, int(DECODED / 2 / table.columns.cell_bytes)))
    # strings that the file has once are read once
    with (
        parquet.ParquetFile(name, metadata=about, read_dictionary=sorted(dictionaries), **options_of_reading) as file,
        open_input(name) as stored,
    ):
        done = 0
        for groups in runs_of_groups(about, RUN * at_once * step):
            n = at_once * step
            if limit is not None:
                n = rows_that_fit(n, name, stored.fileno(), about, groups, wanted, dictionaries, limit)
            for batch in file.iter_batches(n, row_groups=groups, columns=table.columns.wanted, use_threads=False):
                cut = min(step, rows_at_once(n_bytes, table.require_text(sound(batch), limit), cells))
                for start in range(0, len(batch), cut):
                    piece = batch.slice(start, cut)
                    done += len(piece)
                    yield (table, piece), done / max(1, about.num_rows)


def runs_of_groups(about, n_rows: int) -> Iterator[list[int]]:
    """The row groups in runs of so many rows, or one."""
    run: list[int] = []
    rows = 0
    for k in range(about.num_row_groups):
        run.append(k)
        rows += about.row_group(k).num_rows
        if rows >= n_rows:
            yield run
            run, rows = [], 0
    if run:
        yield run


def require_pages(name: str, about, wanted: set[str], limit: LineLimit | None) -> None:
    """InputError where the pages of a row group's columns, of which one each is decoded at once, take more than their
    share of the memory."""
    if limit is None:
        return
    for k in range(about.num_row_groups):
        group = about.row_group(k)
        columns = [group.column(j) for j in range(group.num_columns)]
        wide = [one.total_uncompressed_size for one in columns if one.path_in_schema.partition(".")[0] in wanted]
        what = f"{name}: the pages of the {len(wide):,} columns of row group {k} take"
        require_share(sum(min(size, PAGE) for size in wide), what, "row groups", limit)


def require_share(n_bytes: float, what: str, parts: str, limit: LineLimit) -> None:
    """InputError where what is unpacked at once takes more than its share of the memory; parts: smaller ones take
    less."""
    if n_bytes > at_once_bytes(limit):
        need = option("memory", Bytes(10**6 * (int(PAGES_SHARE * n_bytes // 10**6) + 1)))
        raise InputError(f"{what} {n_bytes / 1e6:,.0f} MB at once; give {need}, or write smaller {parts}")


def at_once_bytes(limit: LineLimit) -> float:
    return max(SPARED, limit.memory_for(limit.n_bytes) / PAGES_SHARE)


def rows_that_fit(
    n: int, name: str, file: int, about, groups: list[int], wanted: set[str], dictionaries: set[str], limit: LineLimit
) -> int:
    """The number, of n rows of these row groups, that may be decoded at once; InputError where a page of each column
    takes more than its share of the memory.

    A value may stand for more bytes than its page has: a word of a dictionary that is not read as one, or what begins
    as the value before it does.
    """
    paths = [about.schema.column(j).path for j in range(about.num_columns)]
    columns = [(j, path) for j, path in enumerate(paths) if path.partition(".")[0] in wanted]
    repeated: dict[str, tuple[int, int]] = {}
    for k in groups:
        group, total = about.row_group(k), 0
        for j, path in columns:
            column = group.column(j)
            largest, nested = 0, "." in path
            by_length = column.physical_type == "BYTE_ARRAY" and path not in dictionaries
            words, begun = repeated.get(path, (0, 0))
            for page in pages(file, column):
                times = COPIES if page.words and page.n_bytes > 2 * PAGE else 1
                largest = max(largest, times * page.n_bytes + nested * ITEM * page.n)
                words = max(words, by_length * page.words * page.n_bytes)
                begun = max(begun, by_length * (page.encoding == DELTA_BYTE_ARRAY) * page.n_bytes)
            repeated[path] = words, begun
            total += largest
        require_share(total, f"{name}: the pages of the columns of row group {k} take", "pages", limit)
    if n * sum(map(max, repeated.values())) > at_once_bytes(limit):
        words = longest_words(name, about, groups, [path for path, (by_length, _) in repeated.items() if by_length])
        require_text(max(words.values(), default=0), limit, name)
        longest = sum(max(words.get(path, 0), begun) for path, (_, begun) in repeated.items())
        n = min(n, max(1, int(at_once_bytes(limit) / COPIES / max(1, longest))))
    return n


def longest_words(name: str, about, groups: list[int], paths: list[str]) -> dict[str, int]:
    """The bytes of the longest word of each of these columns' dictionaries, which come whole with a row."""
    import pyarrow.parquet as parquet

    longest = dict.fromkeys(paths, 0)
    with parquet.ParquetFile(name, metadata=about, read_dictionary=paths, pre_buffer=False, buffer_size=BUFFER) as file:
        for k, path in product(groups, paths):
            top_level = [path.partition(".")[0]]
            for batch in islice(file.iter_batches(1, row_groups=[k], columns=top_level, use_threads=False), 1):
                longest[path] = max(longest[path], text_in(batch.column(0))[1])
    return longest


def row_size(about) -> tuple[float, float]:
    """(bytes of strings in the file, cells) of a row of a Parquet file, in the mean."""
    text = cells = 0
    for k in range(about.num_row_groups):
        group = about.row_group(k)
        for j in range(group.num_columns):
            column = group.column(j)
            cells += column.num_values
            if column.physical_type == "BYTE_ARRAY":
                text += column.total_uncompressed_size
    return text / max(1, about.num_rows), cells / max(1, about.num_rows)


def dictionaries_in(about, n_bytes: int) -> set[str]:
    """The columns of strings that have dictionaries, of so many bytes together at most; small ones first.

    A column that was found to have too many different strings while it was written goes on without its dictionary,
    which the file does not say; then, though, its strings take more than the four bytes each that tell their lengths.
    """
    sizes: dict[str, int] = {}
    plain = set()
    for k in range(about.num_row_groups):
        group = about.row_group(k)
        for j in range(group.num_columns):
            column = group.column(j)
            path = column.path_in_schema
            if column.physical_type != "BYTE_ARRAY" or "." in path:
                continue
            if not column.has_dictionary_page or column.total_uncompressed_size >= 4 * column.num_values:
                plain.add(path)
            else:
                packed = column.data_page_offset - column.dictionary_page_offset
                most = min(column.total_uncompressed_size, UNPACKED * packed)
                sizes[path] = max(sizes.get(path, 0), most)
    paths_with_dictionary = set()
    for path in sorted(set(sizes) - plain, key=sizes.__getitem__):
        n_bytes -= sizes[path]
        if n_bytes < 0:
            break
        paths_with_dictionary.add(path)
    return paths_with_dictionary


def ipc_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple[tuple, float]]:
    """The batches of a mapped file, cut where they are long."""
    pa = arrow()
    with pa.memory_map(name) as mapped, pa.ipc.open_file(mapped) as file:
        table = File(name, file.schema, options)
        data = memoryview(mapped.read_buffer())
        dictionaries, batches = ipc_blocks(data)
        words = sum(sum(unpacked_bytes(data, block)) for block in dictionaries)  # copies are made of all of them
        for k in range(file.num_record_batches):
            if limit is not None:
                unpacked = words + unpacked_bytes(data, batches[k])[0]
                require_share(unpacked, f"{name}: batch {k} and the dictionaries take", "batches", limit)
            batch = sound(file.get_batch(k).select(table.columns.wanted))
            table.require_text(batch, limit)
            step = rows_at_once(n_bytes, *batch_row_size(batch))
            for start in range(0, len(batch), step):
                yield (table, batch.slice(start, step)), (k + 1) / file.num_record_batches


def sound(batch):
    """The batch, if all of its buffers are as long as it says, offsets rise, codes lie in their dictionaries and text
    is UTF-8: kernels, and pyarrow itself, take what it holds by its address.  ArrowInvalid where they are not."""
    batch.validate(full=True)
    return batch


def longest_row(batch) -> int:
    """The entries of a row at most: a cell has one, a list or map as many as it has items."""
    types = arrow().types
    total = 0
    for column in batch.columns:
        if types.is_list(column.type) or types.is_large_list(column.type) or types.is_map(column.type):
            total += int(np.diff(column.offsets.to_numpy()).max(initial=1))
        else:
            total += column.type.list_size if types.is_fixed_size_list(column.type) else 1
    return total


def require_text(length: int, limit: LineLimit | None, name: str) -> None:
    """InputError where a row with so many bytes of strings does not fit in the caller's memory."""
    if limit is not None and length > limit.n_bytes:
        need = option("memory", Bytes(10**6 * -(-limit.memory_for(length) // 10**6)))
        raise InputError(f"{name} has a row of {length:,} bytes of text; give {need} or more, or check the file")


def text_in(column) -> tuple[int, int]:
    """(bytes of a column's strings, of those of a row at most); a word of a dictionary is there once, for any row."""
    import pyarrow.compute as compute

    types, rows, items = arrow().types, None, column
    if types.is_map(column.type):
        ends = column.offsets.to_numpy()
        rows, items = np.repeat(np.arange(len(column)), np.diff(ends)), column.keys.slice(ends[0], ends[-1] - ends[0])
    elif types.is_nested(column.type) and not types.is_floating(column.type.value_type):
        rows, items = listed(column)
    if types.is_dictionary(items.type):
        return 0, text_in(items.dictionary)[1]
    if not is_text(items.type, types) or not len(items):
        return 0, 0
    if types.is_string_view(items.type):  # any of them may be the same bytes
        lengths = values_of(items, VIEW)["length"]
    else:
        lengths = compute.binary_length(items).fill_null(0).to_numpy(zero_copy_only=False)
    return int(lengths.sum(dtype=np.int64)), int((lengths if rows is None else np.bincount(rows, lengths)).max())


def counts_in(column) -> tuple[int, int]:
    """(different values, values) of a column of words; of views, which pyarrow can't count, none."""
    import pyarrow.compute as compute

    if arrow().types.is_string_view(column.type):
        return 0, 0
    codes = column.indices if arrow().types.is_dictionary(column.type) else column
    return compute.count_distinct(codes).as_py(), len(codes) - codes.null_count


def batch_row_size(batch) -> tuple[float, float]:
    """(bytes of strings, cells) of a row, at most."""
    types = arrow().types
    text = cells = 0.0
    for column in batch.columns:
        type_ = column.type
        if types.is_primitive(type_) or types.is_decimal(type_):
            cells += len(column)
        else:
            text += column.nbytes
    return text / max(1, len(batch)), cells / max(1, len(batch))


def rows_of(payload: tuple, reading: ReaderOptions, buffer: RowBuffer) -> SparseRows | ClosedRows:
    file, batch, begins = payload
    with damage_named(file.name):
        try:
            rows = file.columns_of(batch, reading.labelled).rows(batch, reading, buffer)
        except RowFault:
            raise
        except InputError as error:
            raise InputError(f"{file.name}: {error}") from error
    return replace(rows, notes=file.columns.notes) if begins else rows


PARQUET = ArrowFiles("parquet", "a Parquet table", parquet_batches)
ARROW = ArrowFiles("arrow", "an Arrow table (IPC file)", ipc_batches)
