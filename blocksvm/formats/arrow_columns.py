"""What becomes of a table's columns: the entries of each, and a batch's rows of all of them.

Features have places in a table of those of the batch, by rising ids, until rows are closed: so a row in the order of
its places is one in the order of its ids, and what is known of a feature is looked up once.  Columns with an entry a
row at most lie side by side, some rows at a time, and rows are made of them at once (kernels/table_columns.py); numbers
stand in the order of their ids there, so that rows of numbers alone need no sorting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.formats.cells import CATEGORIES_GO_ON, named_by, told
from blocksvm.formats.files import Features, RowRoom, SparseRows, finite
from blocksvm.kernels.names import hash_of
from blocksvm.kernels.table_columns import fill_rows, named_values, order_ids, put_in_rows

SIDE_BY_SIDE = 1 << 20  # bytes of columns that become rows at once: they stay in the second-level cache
FEWEST_ROWS = 16
DENSE = 2  # lists of numbers are columns where these have at most so many times as many cells as there are numbers


def arrow():
    """pyarrow; InputError where it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            "reading Parquet and Arrow needs pyarrow; install it as pip install blocksvm[arrow]"
        ) from error
    return pyarrow


@dataclass(frozen=True)
class Numbers:
    """A column (n,) of numbers, of any type, nan where there is none, for each of ``features`` (k,)."""

    features: np.ndarray
    columns: list[np.ndarray]

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return Matrix(self.features, np.stack(self.columns, axis=1, dtype=np.float64, casting="same_kind")).entries()

    def put(self, numbers: np.ndarray, at: list[int], first: int, last: int) -> None:
        """The rows first .. last - 1 of the columns to the places ``at`` in numbers (., width)."""
        for column, j in zip(self.columns, at, strict=True):
            numbers[j, : last - first] = column[first:last]


@dataclass(frozen=True)
class Matrix:
    """The same as values (n, k)."""

    features: np.ndarray
    values: np.ndarray

    def put(self, numbers: np.ndarray, at: list[int], first: int, last: int) -> None:
        numbers[at, : last - first] = self.values[first:last].T

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values = np.asarray(self.values, np.float64)
        rows, columns = np.nonzero((values != 0.0) & ~np.isnan(values))
        return rows, self.features[columns], values[rows, columns]


@dataclass(frozen=True)
class Categories:
    """The feature of each row, ``features[codes]``; the last one, -1, is none, and so may others be."""

    features: np.ndarray
    codes: np.ndarray

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        features = self.features[self.codes]
        rows = np.flatnonzero(features >= 0)
        return rows, features[rows], np.ones(len(rows))


@dataclass(frozen=True)
class Several:
    """Any number of entries a row: rows (rising), features and values of all."""

    rows: np.ndarray
    features: np.ndarray
    values: np.ndarray

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        known = (self.features >= 0) & (self.values != 0.0) & ~np.isnan(self.values)
        return self.rows[known], self.features[known], self.values[known]


class Batch:
    """The columns of some rows, in their order, and the features that they have: each has a number, as they come."""

    def __init__(self, n: int, room: RowRoom):
        self.n = n
        self.room = room
        self.parts: list[Numbers | Matrix | Categories | Several] = []
        self.ids: list[np.ndarray] = []
        self.names: list[np.ndarray] = []  # bytes of them
        self.lengths: list[np.ndarray] = []
        self.n_features = 0

    def know(self, ids: np.ndarray, names: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The numbers of more features."""
        self.ids.append(ids)
        self.names.append(names)
        self.lengths.append(lengths)
        self.n_features += len(ids)
        return np.arange(self.n_features - len(ids), self.n_features)

    def _table(self) -> tuple[Features, np.ndarray]:
        """(the features, the place among them of each number, and -1 behind the last)"""
        ids = np.concatenate([np.empty(0, np.int64), *self.ids])
        ends = np.cumsum(np.concatenate([np.empty(0, np.int64), *self.lengths]), dtype=np.int64)
        order = order_of(ids)
        rising = ids[order]
        new = np.append(True, rising[1:] != rising[:-1])[: len(ids)]
        places = np.full(len(ids) + 1, -1)
        places[order] = np.cumsum(new) - 1
        own = order[new]
        begins = np.append(0, ends)[own]
        names = np.concatenate([np.empty(0, np.uint8), *self.names])
        return Features(names, rising[new], begins, ends[own]), places

    def rows(self, labels) -> SparseRows:
        """The rows; RowFault for the first value that is not finite."""
        features, places = self._table()
        if len(features.ids) == self.n_features:
            found = self._side_by_side(places)
            if found is not None:
                return SparseRows(*found, labels, features)
        rows = SparseRows(*in_rows(self._entries(self.parts, places), self.n), labels, features)
        return finite(rows, rows.name_at)

    @staticmethod
    def _entries(parts, places: np.ndarray) -> list[tuple]:
        """(rows, places of the features, values) of the entries of each."""
        found = []
        for part in parts:
            rows, features, values = part.entries()
            found.append((rows, places[features], values))
        return found

    def _side_by_side(self, places: np.ndarray) -> tuple | None:
        """(lengths, places of the features, values) of the rows where no feature is of two columns; None where a value
        is not finite."""
        of_numbers = [part for part in self.parts if isinstance(part, (Numbers, Matrix))]
        of_categories = [part for part in self.parts if isinstance(part, Categories)]
        more = self._entries([part for part in self.parts if isinstance(part, Several)], places)
        more_lengths, more_ids, more_values = more[0] if len(more) == 1 else in_rows(more, self.n)
        if len(more) == 1:
            more_lengths = np.bincount(more_lengths, minlength=self.n)  # they are rows
        begins = np.append(0, np.cumsum(more_lengths))
        if not np.isfinite(more_values).all():
            return None
        own = [places[part.features] for part in of_numbers]
        features = np.concatenate([np.empty(0, np.int64), *own])
        order = np.argsort(features)
        column = np.empty(len(order), np.int64)
        column[order] = np.arange(len(order))
        ends = np.cumsum([len(one) for one in own], dtype=np.int64)
        columns = [column[end - len(one) : end].tolist() for one, end in zip(own, ends, strict=True)]
        chosen = [places[part.features] for part in of_categories]
        m, c = len(features), len(of_categories)
        step = min(self.n, max(FEWEST_ROWS, SIDE_BY_SIDE // (8 * max(1, m + c))))
        # neighbours lie a multiple of 64 bytes apart, but not of 4096: their cache lines would be in each other's way
        width = -(-step // 512) * 512 + 8
        take = self.room.take
        numbers = take("numbers", m * width, np.float64).reshape(m, width)
        categories = take("categories", c * width, np.int64).reshape(c, width)
        most = self.n * (m + c) + len(more_ids) + 1  # memory that is not touched is not taken
        lengths, ids, values = (
            np.empty(self.n, np.int64),
            take("places", most, np.int64),
            take("values", most, np.float64),
        )
        filled = 0
        for first in range(0, self.n, step):
            last = min(self.n, first + step)
            n = last - first
            for one, at in zip(of_numbers, columns, strict=True):
                one.put(numbers, at, first, last)
            for j, part in enumerate(of_categories):
                categories[j, :n] = chosen[j][part.codes[first:last]]
            filled, sound = fill_rows(
                numbers, features[order], categories, begins[first : last + 1], more_ids, more_values,
                lengths[first:last], ids, values, filled,
            )  # fmt: skip
            if not sound:
                return None
        return lengths, ids[:filled], values[:filled]


def order_of(ids: np.ndarray) -> np.ndarray:
    """The order in which ids (n,), 63 bits of a hash each, rise; equal ones as they come."""
    bits = max(1, len(ids).bit_length() - 1)
    order = np.empty(len(ids), np.int64)
    if order_ids(ids, bits, np.empty((1 << bits) + 1, np.int64), order):
        return order
    return np.argsort(ids, kind="stable")


def in_rows(entries: list[tuple], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(lengths, ids, values) of rows, whose entries are in the order of the columns."""
    lengths = np.zeros(n, np.int64)
    for rows, _, _ in entries:
        lengths += np.bincount(rows, minlength=n)
    places = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    ids, values = np.empty(total, np.int64), np.empty(total)
    for own in entries:
        put_in_rows(*own, places, ids, values)
    return lengths, ids, values


def of_bits(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(1)).astype(np.int64)


def named(names: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ids, bytes of the names one behind the other, their lengths) of features of numbers"""
    ids = of_bits(np.array([hash_of(one, np.uint64(0)) for one in names], np.uint64))
    return ids, np.frombuffer(b"".join(names), np.uint8), np.array([len(one) for one in names], np.int64)


def rising(ends: np.ndarray) -> np.ndarray:
    """Where strings or lists end, as a file has it; InputError where one ends before it begins."""
    if (ends[1:] < ends[:-1]).any():
        raise InputError("cannot be read (an item ends before it begins); get it again")
    return ends


def strings_in(array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(bytes and eight more, where each begins, where it ends) of an array of strings, or of what is told as strings; a
    null has none."""
    types = arrow().types
    short = types.is_string(array.type) and not array.null_count
    text = array if short else array.cast(arrow().large_string())
    if text.null_count:
        text = text.fill_null("")
    if not len(text):
        return np.zeros(8, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    data = text.buffers()[2]
    ends = rising(own_values(text, np.int32 if short else np.int64, 1).astype(np.int64, copy=False))
    own = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    if ends[0] < 0 or len(own) != ends[-1] - ends[0]:
        raise InputError("cannot be read (strings end behind their bytes); get it again")
    ends = ends - ends[0]
    return np.append(own, np.zeros(8, np.uint8)), ends[:-1], ends[1:]


class Columns:
    """A table's columns by what becomes of them.  Threads share it."""

    def __init__(self, schema, options: Mapping, labelled: bool):
        pa = arrow()
        self.types = pa.types
        names = list(schema.names)
        again = [name for k, name in enumerate(names) if name in names[:k]] if len(set(names)) < len(names) else []
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
        kept = set(self.kept)
        self.wanted = [name for name in names if name in kept or name == self.label]
        t = self.types
        found = []
        for k, name in enumerate(names):
            if name in kept:
                type_ = schema.field(k).type
                found.append((self.part_of(type_, name), (k, name, is_plain(type_, t))))
        # (maker, [(number of the column, name, whether numpy has its numbers as they lie)]) of neighbours with the same
        self.makers = [(make, [own for _, own in same]) for make, same in groupby(found, lambda one: one[0])]
        self.words = {name for _, (k, name, _) in found if self._is_text(schema.field(k).type)}
        # what is known of columns of numbers, once for all batches
        self.of_numbers = named([name.encode() for make, (_, name, _) in found if make is None])

    def part_of(self, type_, name: str):
        """The function that makes entries of a column of this type, None of numbers; InputError where there are none
        of it."""
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
            return self._category if name in self.categories else None
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

    def rows(self, batch, room: RowRoom) -> SparseRows:
        """The rows of a batch; RowFault for the first value that is not finite."""
        own = Batch(len(batch), room)
        features = own.know(*self.of_numbers)
        columns, done = batch.columns, 0
        for make, makers in self.makers:
            if make is None:  # side by side
                values = [numbers_in(columns[k], plain) for k, _, plain in makers]
                own.parts.append(Numbers(features[done : done + len(values)], values))
                done += len(values)
                continue
            for k, name, _ in makers:
                if (part := make(columns[k], name, own)) is not None:
                    own.parts.append(part)
        return own.rows(self.labels(batch))

    # -- the entries of a column -------------------------------------------------------------------------------------

    def _nothing(self, column, name: str, batch: Batch) -> None:
        return None

    def _category(self, column, name: str, batch: Batch) -> Categories:
        return Categories(*self._encoded(column, name, batch))

    def _bag(self, column, name: str, batch: Batch) -> Several:
        rows, items = listed(column)
        features, codes = self._encoded(items, name, batch)
        return Several(rows, features[codes], np.ones(len(rows)))

    def _map(self, column, name: str, batch: Batch) -> Several:
        ends = rising(column.offsets.to_numpy())
        first, last = int(ends[0]), int(ends[-1])
        rows = np.repeat(np.arange(len(column)), np.diff(ends))
        values = floats(column.items.slice(first, last - first))
        known = ~np.isnan(values) & valid(column)[rows]  # what is null may have items
        keys = column.keys.slice(first, last - first).filter(arrow().array(known))
        features, codes = self._encoded(keys, name, batch)
        return Several(rows[known], features[codes], values[known])

    def _vector(self, column, name: str, batch: Batch) -> Matrix | Several:
        rows, items = listed(column)
        values = numbers_in(items, is_plain(items.type, self.types))
        lengths = np.bincount(rows, minlength=len(column))
        longest = int(lengths.max(initial=0))
        features = batch.know(*named([f"{name}[{k}]".encode() for k in range(longest)]))
        if len(values) == len(column) * longest:
            return Matrix(features, values.reshape(len(column), longest))
        values = np.asarray(values, np.float64)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        if len(column) * longest > DENSE * len(values):
            return Several(rows, features[places], values)
        matrix = np.full((len(column), longest), np.nan)
        matrix[rows, places] = values
        return Matrix(features, matrix)

    def _encoded(self, items, name: str, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """(features by codes, and -1 for the last code; the codes of the items, the last one of nulls)"""
        encoded = items if self.types.is_dictionary(items.type) else items.dictionary_encode()
        dictionary, indices = encoded.dictionary, encoded.indices
        codes = own_values(indices, indices.type.to_pandas_dtype())
        null, most = None, len(dictionary)
        if indices.null_count:
            null = ~valid(indices)
            codes = codes.astype(np.int64)
            codes[null] = 0
            most = max(1, most)
        if len(codes) and not (codes.min() >= 0 and codes.max() < most):
            raise InputError("cannot be read (a code lies beyond its dictionary); get it again")
        if null is not None:
            codes[null] = len(dictionary)
        data, begins, ends = strings_in(dictionary)
        if len(begins) > len(codes):  # only what occurs
            codes = codes.astype(np.int64, copy=False)
            occurs = np.zeros(len(begins) + 1, bool)
            occurs[codes] = True
            used = np.flatnonzero(occurs[:-1])
            new = np.full(len(occurs), len(used))
            new[used] = np.arange(len(used))
            codes, begins, ends = new[codes], begins[used], ends[used]
        lengths = ends - begins
        prefix = np.frombuffer(name.encode() + b"=", np.uint8)
        names = np.empty(int(lengths.sum()) + len(begins) * len(prefix), np.uint8)
        hashes = np.empty(len(begins), np.uint64)
        named_values(data, begins, ends, prefix, hash_of(name.encode(), CATEGORIES_GO_ON), names, hashes)
        features = batch.know(of_bits(hashes), names, lengths + len(prefix))
        return np.append(np.where(lengths > 0, features, -1), -1), codes

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


def is_plain(type_, types) -> bool:
    """Whether numpy has the type's numbers as they lie."""
    return types.is_float64(type_) or types.is_float32(type_) or types.is_integer(type_)


def numbers_in(column, plain: bool) -> np.ndarray:
    """The same, of their own type where that is a plain one and none is missing."""
    return column.to_numpy() if plain and column.null_count == 0 else floats(column)


def valid(column) -> np.ndarray:
    """Whether each item of a column is none of its nulls."""
    bits = column.buffers()[0]
    if bits is None:
        return np.ones(len(column), bool)
    own = np.frombuffer(bits, np.uint8)[column.offset // 8 :]
    first = column.offset % 8
    return np.unpackbits(own, count=first + len(column), bitorder="little")[first:].view(bool)


def own_values(column, dtype, more: int = 0) -> np.ndarray:
    """The numbers of a column as they lie in memory, those of nulls too, and so many more; of strings, the offsets."""
    n = len(column) + more
    if n == 0:
        return np.empty(0, dtype)
    try:
        return np.frombuffer(column.buffers()[1], dtype, n, column.offset * np.dtype(dtype).itemsize)
    except (TypeError, ValueError) as error:
        raise InputError("cannot be read (a column ends early); get it again") from error


def listed(column) -> tuple[np.ndarray, object]:
    """(row of each item, items) of a column of lists."""
    import pyarrow.compute as compute

    lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = column.flatten()
    if (lengths < 0).any() or lengths.sum() != len(items):
        raise InputError("cannot be read (lists do not end where others begin); get it again")
    return np.repeat(np.arange(len(column)), lengths), items
