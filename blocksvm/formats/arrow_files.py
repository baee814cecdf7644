"""``parquet`` and ``arrow`` (the IPC file format, Feather 2): columns of a table, read some rows at a time by pyarrow.

Numbers and booleans are values of a feature of the column's name; strings, dictionaries and the columns that
``categorical`` names are categories, features 'column=value' of value 1; a list of strings or whole numbers is several
of them; a list of floats is features 'column[0]', 'column[1]', ...; a map features 'column=key' with the map's values.
Nulls, nan, empty strings and zeros are no entries.  Ids are those of the same columns in a csv.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from blocksvm.errors import InputError, said
from blocksvm.formats.arrow_columns import Columns, arrow
from blocksvm.formats.choices import chosen
from blocksvm.formats.files import ClosedRows, FileReader, RowFault, RowRoom, SparseRows, require_room
from blocksvm.formats.parquet_trial import try_footer
from blocksvm.formats.protocol import EXPANSION, Reading
from blocksvm.formats.text import LineLimit
from blocksvm.inputs import raise_system_error

TEXT_COST = 6  # bytes of a piece for a byte of text, which becomes more in memory
CELL_COST = 44  # bytes under way for a number: in its column, and as an entry with its feature
DECODED = 32  # of these, in columns: pyarrow keeps a run of rows until it has decoded the next one
NAMED = 20  # more bytes for an entry that has an id and a name in the place of a hashed feature
AT_ONCE = 4  # pieces, at most, that are decoded at once: a column takes some microseconds, however few its rows are
BUFFER = 1 << 16  # bytes of each column that are read at a time
PAGE = 1 << 20  # bytes of a Parquet page, as its writers make them, at most
PAGES_SHARE = 3  # a part of the memory for the pages that are open at once
SPARED = 64_000_000  # bytes of them that fit beside the memory
UNPACKED = 16  # times as many bytes as packed ones a dictionary may have


class ArrowFiles:
    """The two formats; batches(name, options, n_bytes): the pieces of a file."""

    def __init__(self, name: str, lines: str, batches):
        self.name = name
        self.lines = lines
        self.batches = batches

    def score(self, head: bytes, name: str) -> float:
        """Its first bytes are told before text is read."""
        return 0.0

    def settled(self, given: Mapping, head: bytes, name: str) -> dict:
        return chosen(self.name, given)

    def pieces(
        self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None
    ) -> Iterator[tuple[tuple, float]]:
        begins = True
        with damage_named(name):
            for (own, batch), done in self.batches(name, options, n_bytes, limit):
                require_room(longest_row(batch), limit, name)
                yield (own, batch, begins), done
                begins = False

    def reader(self, reading: Reading) -> FileReader:
        cost = CELL_COST if reading.recipe.bits is not None else CELL_COST + NAMED
        return FileReader(reading, rows_of, -(-EXPANSION * cost // CELL_COST))


@contextmanager
def damage_named(name: str) -> Iterator[None]:
    """What pyarrow raises on a damaged file, of any kind, as InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise_system_error(error, name)
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise InputError(f"{name}: cannot be read ({first}); get it again") from error


class File:
    """A file's name and columns."""

    def __init__(self, name: str, schema, options: Mapping):
        self.name = name
        self.options = options
        try:
            self.columns = Columns(schema, options, labelled=False)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        self.read: Columns | None = None  # as a reader wants those that are wanted

    def columns_of(self, batch, labelled: bool) -> Columns:
        """The columns of its batches, the same in all of them; InputError where one is not as it should be."""
        if labelled and self.columns.refused:
            raise InputError(self.columns.refusal())
        if self.read is None:
            self.read = Columns(batch.schema, self.options | {"ignore": None}, labelled)
        return self.read


def rows_at_once(n_bytes: int, text_bytes: float, cells: float) -> int:
    """How many rows of so many bytes of text, as the file has it, and of so many cells fit in a piece."""
    return max(1, int(n_bytes / (TEXT_COST * text_bytes + CELL_COST * max(1.0, cells) / EXPANSION)))


def parquet_batches(
    name: str, options: Mapping, n_bytes: int, limit: LineLimit | None
) -> Iterator[tuple[tuple, float]]:
    """Batches of the rows of all row groups, whose columns are decoded as far as these rows need them."""
    arrow()
    import pyarrow.parquet as parquet

    try_footer(os.path.abspath(name), name)
    # else pyarrow reads the columns of a row group whole
    options_of_reading = {"pre_buffer": False, "buffer_size": BUFFER}
    with parquet.ParquetFile(name, **options_of_reading) as file:
        about = file.metadata
        own = File(name, file.schema_arrow, options)
        require_pages(name, about, set(own.columns.wanted), limit)
        step = rows_at_once(n_bytes, *row_size(about))
        dictionaries = own.columns.words & dictionaries_in(about, n_bytes // 2)
    # strings that the file has once are read once
    with parquet.ParquetFile(name, metadata=about, read_dictionary=sorted(dictionaries), **options_of_reading) as file:
        done = 0
        at_once = max(1, min(AT_ONCE, int(DECODED / 2 / own.columns.cell_bytes)))
        for batch in file.iter_batches(at_once * step, columns=own.columns.wanted, use_threads=False):
            sound(batch)
            for start in range(0, len(batch), step):
                piece = batch.slice(start, step)
                done += len(piece)
                yield (own, piece), done / max(1, about.num_rows)


def require_pages(name: str, about, wanted: set[str], limit: LineLimit | None) -> None:
    """InputError where the pages of a row group's columns, of which one each is decoded at once, take more than their
    share of the memory."""
    if limit is None:
        return
    memory = limit.memory_for(limit.n_bytes)
    for k in range(about.num_row_groups):
        group = about.row_group(k)
        columns = [group.column(j) for j in range(group.num_columns)]
        wide = [one.total_uncompressed_size for one in columns if one.path_in_schema.partition(".")[0] in wanted]
        pages = sum(min(size, PAGE) for size in wide)
        if pages > max(SPARED, memory / PAGES_SHARE):
            need = said("memory", f"{PAGES_SHARE * pages // 1_000_000 + 1}MB")
            raise InputError(
                f"{name}: the pages of the {len(wide):,} columns of row group {k} take {pages / 1e6:,.0f} MB at "
                f"once; give {need}, or write smaller row groups"
            )


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
    found = set()
    for path in sorted(set(sizes) - plain, key=sizes.__getitem__):
        n_bytes -= sizes[path]
        if n_bytes < 0:
            break
        found.add(path)
    return found


def ipc_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple[tuple, float]]:
    """The batches of a mapped file, cut where they are long."""
    pa = arrow()
    with pa.memory_map(name) as mapped, pa.ipc.open_file(mapped) as file:
        own = File(name, file.schema, options)
        for k in range(file.num_record_batches):
            batch = sound(file.get_batch(k).select(own.columns.wanted))
            step = rows_at_once(n_bytes, *batch_row_size(batch))
            for start in range(0, len(batch), step):
                yield (own, batch.slice(start, step)), (k + 1) / file.num_record_batches


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


def rows_of(payload: tuple, reading: Reading, room: RowRoom) -> SparseRows | ClosedRows:
    file, batch, begins = payload
    with damage_named(file.name):
        try:
            rows = file.columns_of(batch, reading.labelled).rows(batch, reading, room)
        except RowFault:
            raise
        except InputError as error:
            raise InputError(f"{file.name}: {error}") from error
    return replace(rows, notes=file.columns.notes) if begins else rows


PARQUET = ArrowFiles("parquet", "a Parquet table", parquet_batches)
ARROW = ArrowFiles("arrow", "an Arrow table (IPC file)", ipc_batches)
