"""``parquet`` and ``arrow`` (the IPC file format, Feather 2): columns of a table, read some rows at a time by pyarrow.

Numbers and booleans are values of a feature of the column's name; strings, dictionaries and the columns that
``categorical`` names are categories, features 'column=value' of value 1; a list of strings or whole numbers is several
of them; a list of floats is features 'column[0]', 'column[1]', ...; a map features 'column=key' with the map's values.
Nulls, nan, empty strings and zeros are no entries.  Ids are those of the same columns in a csv.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.formats.cells import CATEGORIES_GO_ON, named_by, told
from blocksvm.formats.choices import chosen
from blocksvm.formats.files import FileReader, SparseRows, finite
from blocksvm.formats.protocol import Reading
from blocksvm.kernels.names import hash_of
from blocksvm.kernels.table_columns import hash_spans, put_in_rows

ROW_COST = 6  # bytes under way for a byte of a row as pyarrow has it
SMALLEST_ROW = 16


def arrow():
    """pyarrow; InputError where it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            "reading Parquet and Arrow needs pyarrow; install it as pip install blocksvm[arrow]"
        ) from error
    return pyarrow


class Entries:
    """The entries of a batch's columns, one column behind the other."""

    def __init__(self):
        self.rows, self.ids, self.values = [], [], []
        self.names: list[bytes] = []
        self.named_ids: list[np.ndarray] = []

    def add(self, rows: np.ndarray, ids: np.ndarray, values: np.ndarray) -> None:
        known = values != 0.0
        self.rows.append(rows[known])
        self.ids.append(ids[known])
        self.values.append(values[known])

    def know(self, ids: np.ndarray, names: list[bytes]) -> None:
        self.named_ids.append(ids)
        self.names += names

    def sparse(self, n: int, labels) -> SparseRows:
        """The rows, their entries in the order of the columns."""
        lengths = np.zeros(n, np.int64)
        for rows in self.rows:
            lengths += np.bincount(rows, minlength=n)
        places = np.cumsum(lengths) - lengths
        ids, values = np.empty(int(lengths.sum()), np.int64), np.empty(int(lengths.sum()))
        for own in zip(self.rows, self.ids, self.values, strict=True):
            put_in_rows(*own, places, ids, values)
        ends = np.cumsum([len(name) for name in self.names], dtype=np.int64)
        known = np.concatenate([np.empty(0, np.int64), *self.named_ids])
        rising, at = np.unique(known, return_index=True)
        begins = np.append(0, ends)[at]
        names = np.frombuffer(b"".join(self.names), np.uint8), rising, begins, ends[at]
        return SparseRows(lengths, ids, values, labels, names)


def of_bits(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(1)).astype(np.int64)


class Columns:
    """A table's columns by what becomes of them."""

    def __init__(self, schema, options: Mapping, labelled: bool):
        pa = arrow()
        self.types = pa.types
        names = list(schema.names)
        again = [name for k, name in enumerate(names) if name in names[:k]]
        if again:
            raise InputError(f"the column {again[0]} is there twice; rename one")
        self.label = options["label"] if options["label"] in names else None
        if self.label is None and labelled:
            wanted = options["label"]
            raise InputError(
                f"no column is called {wanted}; name that of the labels by {called('label')}; {told(names)}"
            )
        others = [name for name in names if name != self.label]
        patterns = ",".join(one for one in options["categorical"].split(",") if one != "auto" or "auto" in names)
        self.categories = named_by(patterns, others, "categorical")
        left_out = named_by(options["ignore"], others, "ignore", missing=not labelled)
        self.kept = [name for name in others if name not in left_out]
        self.wanted = [name for name in names if name in self.kept or name == self.label]
        for name in self.kept:
            self.entry_of(schema.field(name).type, name)

    def entry_of(self, type_, name: str):
        """The function that makes entries of a column of this type; InputError where there is none."""
        t = self.types
        if t.is_null(type_):
            return self._nothing
        if t.is_map(type_):
            if self._is_text(type_.key_type) and self._is_number(type_.item_type):
                return self._map
        elif t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
            item = type_.value_type
            if t.is_floating(item) and name not in self.categories:
                return self._vector
            if self._is_text(item) or t.is_integer(item):
                return self._bag
        elif self._is_number(type_):
            return self._category if name in self.categories else self._number
        elif self._is_text(type_) or t.is_dictionary(type_):
            return self._category
        raise InputError(
            f"the column {name} is of the type {type_}, which makes no features; leave it out by {called('ignore')}"
        )

    def _is_number(self, type_) -> bool:
        t = self.types
        return t.is_integer(type_) or t.is_floating(type_) or t.is_boolean(type_) or t.is_decimal(type_)

    def _is_text(self, type_) -> bool:
        t = self.types
        return t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_)

    # -- what a column's entries are: (column, its name, entries) ---------------------------------------------------

    def _nothing(self, column, name: str, entries: Entries) -> None:
        pass

    def _number(self, column, name: str, entries: Entries) -> None:
        values = floats(column)
        rows = np.flatnonzero(~np.isnan(values))
        (own,) = of_bits(np.array([hash_of(name.encode(), np.uint64(0))]))
        entries.know(np.array([own]), [name.encode()])
        entries.add(rows, np.full(len(rows), own), values[rows])

    def _category(self, column, name: str, entries: Entries) -> None:
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        self._categories(column.drop_null(), rows, name, np.ones(len(rows)), entries)

    def _bag(self, column, name: str, entries: Entries) -> None:
        rows, items = listed(column)
        self._categories(items.drop_null(), rows[valid(items)], name, np.ones(len(items) - items.null_count), entries)

    def _map(self, column, name: str, entries: Entries) -> None:
        ends = column.offsets.to_numpy()
        first, last = int(ends[0]), int(ends[-1])
        rows = np.repeat(np.arange(len(column)), np.diff(ends))
        values = floats(column.items.slice(first, last - first))
        known = ~np.isnan(values) & valid(column)[rows]  # what is null may have items
        keys = column.keys.slice(first, last - first).filter(arrow().array(known))
        self._categories(keys, rows[known], name, values[known], entries)

    def _vector(self, column, name: str, entries: Entries) -> None:
        rows, items = listed(column)
        values = floats(items)
        lengths = np.bincount(rows, minlength=len(column))
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        names = [f"{name}[{k}]".encode() for k in range(int(lengths.max(initial=0)))]
        ids = of_bits(np.array([hash_of(one, np.uint64(0)) for one in names], np.uint64))
        entries.know(ids, names)
        known = ~np.isnan(values)
        entries.add(rows[known], ids[places[known]], values[known])

    def _categories(self, items, rows: np.ndarray, name: str, values: np.ndarray, entries: Entries) -> None:
        """Entries of items (m,) without nulls, one for each of ``rows``."""
        pa = arrow()
        encoded = items if self.types.is_dictionary(items.type) else items.dictionary_encode()
        text = encoded.dictionary.cast(pa.large_string())
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if text.null_count:  # a dictionary may have a null in it
            text = text.fill_null("")
        strings = [one.encode() for one in text.to_pylist()]
        data = np.frombuffer(b"".join(strings) + bytes(8), np.uint8)
        ends = np.append(0, np.cumsum([len(one) for one in strings], dtype=np.int64)).astype(np.int64)
        hashes = np.empty(len(strings), np.uint64)
        hash_spans(data, ends, hash_of(name.encode(), CATEGORIES_GO_ON), hashes)
        entries.know(of_bits(hashes), [name.encode() + b"=" + one for one in strings])
        known = np.diff(ends)[codes] > 0 if len(strings) else np.empty(0, bool)
        entries.add(rows[known], of_bits(hashes)[codes[known]], values[known])

    def labels(self, batch) -> np.ndarray | list:
        """The rows' labels; InputError for a column of another kind."""
        if self.label is None:
            return np.full(len(batch), np.nan)
        column = batch.column(self.label)
        if self._is_number(column.type):
            return floats(column) + 0.0  # -0 is 0
        if self._is_text(column.type) or self.types.is_dictionary(column.type):
            return column.cast(arrow().string()).to_pylist()
        raise InputError(f"the column {self.label} is of the type {column.type}; labels are numbers or strings")


def floats(column) -> np.ndarray:
    """A column of numbers as float64 (n,), nan where there is none."""
    column = column.cast(arrow().float64(), safe=False)
    return np.array(column.to_numpy(zero_copy_only=False), np.float64)


def valid(column) -> np.ndarray:
    return column.is_valid().to_numpy(zero_copy_only=False)


def listed(column) -> tuple[np.ndarray, object]:
    """(row of each item, items) of a column of lists."""
    import pyarrow.compute as compute

    lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.repeat(np.arange(len(column)), lengths), column.flatten()


class ArrowFiles:
    """The two formats; batches(name, options, n_bytes): the pieces of a file."""

    sample = None  # nothing of its own is compiled

    def __init__(self, name: str, lines: str, batches):
        self.name = name
        self.lines = lines
        self.batches = batches

    def score(self, head: bytes, name: str) -> float:
        """Its first bytes are told before text is read."""
        return 0.0

    def settled(self, given: Mapping, head: bytes, name: str) -> dict:
        return chosen(self.name, given)

    def pieces(self, name: str, options: Mapping, n_bytes: int) -> Iterator[tuple[tuple, float]]:
        pa = arrow()
        try:
            yield from self.batches(name, options, n_bytes)
        except (pa.ArrowException, OSError) as error:
            first = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
            raise InputError(f"{name}: cannot be read ({first}); get it again") from error

    def reader(self, reading: Reading) -> FileReader:
        return FileReader(reading, rows_of)


def columns_of(name: str, schema, options: Mapping) -> Columns:
    """InputError with the file's name where its columns are not as they should be."""
    try:
        return Columns(schema, options, labelled=False)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def rows_at_once(n_bytes: int, row_bytes: float) -> int:
    return max(1, int(n_bytes / (ROW_COST * max(SMALLEST_ROW, row_bytes))))


def parquet_batches(name: str, options: Mapping, n_bytes: int) -> Iterator[tuple[tuple, float]]:
    """Batches of the rows of all row groups, whose columns are decoded as far as these rows need them."""
    arrow()
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(name, pre_buffer=False) as file:
        about = file.metadata
        columns = columns_of(name, file.schema_arrow, options)
        sizes = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
        step = rows_at_once(n_bytes, sizes / max(1, about.num_rows))
        done = 0
        for batch in file.iter_batches(step, columns=columns.wanted, use_threads=False):
            done += len(batch)
            yield (name, batch, options), done / about.num_rows


def ipc_batches(name: str, options: Mapping, n_bytes: int) -> Iterator[tuple[tuple, float]]:
    """The batches of a mapped file, cut where they are long."""
    pa = arrow()
    with pa.memory_map(name) as mapped, pa.ipc.open_file(mapped) as file:
        columns = columns_of(name, file.schema, options)
        for k in range(file.num_record_batches):
            batch = file.get_batch(k).select(columns.wanted)
            step = rows_at_once(n_bytes, batch.nbytes / max(1, len(batch)))
            for start in range(0, len(batch), step):
                yield (name, batch.slice(start, step), options), (k + 1) / file.num_record_batches


def rows_of(payload: tuple, reading: Reading) -> SparseRows:
    name, batch, options = payload
    entries = Entries()
    try:
        columns = Columns(batch.schema, options | {"ignore": None}, reading.labelled)
        for own in columns.kept:
            column = batch.column(own)
            columns.entry_of(column.type, own)(column, own, entries)
        labels = columns.labels(batch)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    rows = entries.sparse(len(batch), labels)
    return finite(rows, rows.name_at)


PARQUET = ArrowFiles("parquet", "a Parquet table", parquet_batches)
ARROW = ArrowFiles("arrow", "an Arrow table (IPC file)", ipc_batches)
