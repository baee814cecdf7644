"""Columns of an Arrow table as rows: numbers are read in place, other types become features.

Batches come here validated in full (arrow_files.py): offsets rise, codes have words, buffers are as long as they should
be.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Mapping
from itertools import groupby

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import EXACT, exact
from blocksvm.formats.choices import added
from blocksvm.formats.file_reader import ClosedRows, RowBuffer, SparseRows
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.kernels.foreign_memory import where_columns_lie
from blocksvm.formats.kernels.name_hashes import hash_of
from blocksvm.formats.kernels.table_columns import named_values
from blocksvm.formats.tables.table_layout import CATEGORIES_GO_ON, KINDS, all_columns, chosen_categories, named_by
from blocksvm.formats.tables.table_rows import (
    KINDS as NUMBER_KINDS,
)
from blocksvm.formats.tables.table_rows import (
    Batch,
    Categories,
    CategoryVocabulary,
    FeatureTable,
    NumberColumns,
    Numbers,
    Several,
    WordColumn,
    of_bits,
    vocabulary_of,
)
from blocksvm.formats.text.row_labels import WORDS

KIND_WORDS = {"numeric": "numbers", "categorical": "categories", "lists": "lists or maps"}
INDEX = re.compile(r"__index_level_\d+__")  # of pandas, whose csv gives it no name
DENSE = 2  # lists of numbers are columns where these have at most so many times as many cells as there are numbers
POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def arrow():
    """pyarrow; InputError where it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError("reading Parquet and Arrow needs pyarrow; install it with pip install pyarrow") from error
    return pyarrow


def trimmed(array):
    """Words without the blanks around them."""
    import pyarrow.compute as compute

    return compute.utf8_trim(array.cast(arrow().large_string()), " \t\r")


def strings_in(array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(bytes and eight more, where each begins, where it ends) of an array of strings, or of what casts to strings; a
    null has none."""
    types = arrow().types
    short = types.is_string(array.type) and not array.null_count
    text = array if short else array.cast(arrow().large_string())
    if text.null_count:
        text = text.fill_null("")
    if not len(text):
        return np.zeros(8, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    data = text.buffers()[2]
    ends = values_of(text, np.int32 if short else np.int64, 1).astype(np.int64, copy=False)
    words = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    ends = ends - ends[0]
    return np.append(words, np.zeros(8, np.uint8)), ends[:-1], ends[1:]


class ArrowColumns:
    """The columns of a table that become features, by type, and by their kinds where rows before decided these.
    Threads share it."""

    def __init__(self, schema, options: Mapping, labelled: bool):
        pa = arrow()
        self.types = pa.types
        self.options = options
        names = list(schema.names)
        again = next((name for name, n in Counter(names).items() if n > 1 and name), None)
        if again is not None:
            raise InputError(f"the column {again} is there twice; rename one")
        self.label = options["label"] if options["label"] in names else None
        self.words = options.get(WORDS)  # whether labels are, where rows before had some
        unnamed = {name for name in names if not name or INDEX.fullmatch(name)}
        if self.label is None and labelled:
            wanted = options["label"]
            raise InputError(
                f"no column is called {wanted}; name that of the labels by {option('label')}; {all_columns(names)}"
            )
        others = [name for name in names if name != self.label]
        patterns, _ = chosen_categories(options, names)
        if options["label"] in patterns.split(","):  # whatever a label is, it is a word
            self.words = True
        self.categories = named_by(patterns, names if self.words else others, "categorical", missing=not labelled)
        left_out = named_by(options["ignore"], others, "ignore", missing=not labelled) | unnamed
        types = {name: schema.field(k).type for k, name in enumerate(names) if name not in left_out | {self.label}}
        self._check_kinds(types)
        self.refused = {name: str(type_) for name, type_ in types.items() if not self.makes_features(type_, name)}
        self.used = [name for name in types if name not in self.refused]
        if self.refused and (labelled or not self.used):
            raise InputError(self.refusal())
        used = set(self.used)
        if not used:
            raise InputError(f"no column is left to make features of; {all_columns(names)}")
        self.notes = {}
        if unnamed:
            self.notes["columns without a name, which were left out"] = len(unnamed), 0, min(unnamed)
        if self.refused:
            first = next(f"{name} of the type {type_}" for name, type_ in self.refused.items())
            what = "columns of types that make no features, which were left out"
            self.notes[what] = len(self.refused), 0, first
        self.wanted = [name for name in names if name in used or name == self.label]
        t = self.types
        columns = []
        for k, name in enumerate(names):
            if name in used:
                type_ = schema.field(k).type
                columns.append((self.part_of(type_, name), (k, name, is_plain(type_, t))))
        # (maker, [(number of the column, name)]) of neighbours with the same
        self.makers = [(make, [one[:2] for _, one in same]) for make, same in groupby(columns, lambda one: one[0])]
        self.texts = {name for _, (k, name, _) in columns if is_text(schema.field(k).type, t)}
        # of columns of numbers: which they are, and of those that numpy has as they lie, which of them they are
        numbers = [column for make, column in columns if make is None]
        self.numbers = [k for k, _, _ in numbers]
        self.plain = np.array([plain for _, _, plain in numbers], bool)
        self.lying = np.array(self.numbers, np.int64)[self.plain]
        kinds = [schema.field(k).type.to_pandas_dtype() if plain else np.float64 for k, _, plain in numbers]
        self.kinds = np.array([NUMBER_KINDS[np.dtype(kind)] for kind in kinds], np.int64)
        # of a cell that is decoded, in the mean: codes of words take four
        widths = [np.dtype(kind).itemsize for kind in kinds] + [4] * (len(columns) - len(kinds))
        self.cell_bytes = sum(widths) / max(1, len(widths)) or 1.0
        # what is known of features, as long as it does not change: of neighbours that are numbers, of lists by their
        # columns, of categories by them and their words, and of all of a batch
        self.of_numbers = [
            vocabulary_of([name.encode() for _, name in named]) if make is None else None for make, named in self.makers
        ]
        self.vectors: dict[str, CategoryVocabulary] = {}
        self.dictionaries: dict[str, tuple] = {}
        self.known: FeatureTable | None = None

    def refusal(self) -> str:
        """The sentence for columns of types that make no features."""
        listed = ", ".join(f"{name} of the type {type_}" for name, type_ in self.refused.items())
        one = len(self.refused) == 1
        return (
            f"the column{'' if one else 's'} {listed} make{'s' if one else ''} no features; leave "
            f"{'it' if one else 'them'} out by {added('ignore', self.options, *self.refused)}"
        )

    def _check_kinds(self, types: Mapping) -> None:
        """InputError for a column whose type is of another kind than it was in the rows before, and for categories of
        values that text writes in several ways; adds the categories of the rows before."""
        before = {name: kind for kind in KIND_WORDS for name in self.options.get(KINDS, {}).get(kind, ())}
        for name, type_ in types.items():
            kind, now = before.get(name), self.kind_of(type_)
            if (
                kind is not None
                and now not in (kind, "nothing")
                and not (kind == "categorical" and self.is_word(type_))
            ):
                raise InputError(
                    f"the column {name} is of the type {type_}, and had {KIND_WORDS[kind]} in the rows before; write "
                    "it as those have it"
                )
            if name in self.categories and now == "numeric" and not self.types.is_integer(type_):
                raise InputError(
                    f"the column {name} of the type {type_} makes no categories, as its values may be written in "
                    f"several ways; write words, or do not name it by {option('categorical')}"
                )
        self.categories |= {name for name, kind in before.items() if kind == "categorical"} & set(types)

    def kinds_by_type(self, types: Mapping) -> dict:
        """What the columns that become features have, by their types, as the recipe keeps it."""
        kinds: dict = {kind: [] for kind in KIND_WORDS} | {"mixed": {}}
        for name in self.used:
            kind = self.kind_of(types[name])
            kind = "categorical" if kind == "numeric" and name in self.categories else kind
            kinds.get(kind, []).append(name)
        return kinds

    def kind_of(self, type_) -> str:
        t = self.types
        if t.is_null(type_):
            return "nothing"
        if t.is_nested(type_):
            return "lists"
        if self.is_number(type_):
            return "numeric"
        return "categorical" if self.is_word(type_) else "other"

    def makes_features(self, type_, name: str) -> bool:
        """Whether there are features of a column of this type."""
        return self.part_of(type_, name) is not NotImplemented

    def part_of(self, type_, name: str):
        """The function that makes entries of a column of this type, None of numbers, NotImplemented where there are
        none of it."""
        t = self.types
        if t.is_null(type_):
            return self._nothing
        if t.is_map(type_):
            if is_text(type_.key_type, t) and self.is_number(type_.item_type):
                return self._map
        elif t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
            item = type_.value_type
            if self.is_number(item) and name not in self.categories:
                return self._vector
            if is_text(item, t) or t.is_integer(item):
                return self._bag
        elif self.is_number(type_) and name not in self.categories:
            return None
        elif self.is_word(type_):
            return self._category
        return NotImplemented

    def is_word(self, type_) -> bool:
        """Whether values are words, or whole numbers, which are written in one way."""
        t = self.types
        if t.is_dictionary(type_):
            type_ = type_.value_type
        return is_text(type_, t) or t.is_integer(type_)

    def is_number(self, type_) -> bool:
        t = self.types
        return t.is_integer(type_) or t.is_floating(type_) or t.is_boolean(type_) or t.is_decimal(type_)

    def rows(self, batch, reading: ReaderOptions, buffer: RowBuffer) -> SparseRows | ClosedRows:
        """The rows of a batch; RowFault for the first value that is not finite."""
        rows = Batch(len(batch), reading, buffer)
        where, done = self._where(batch, rows), 0
        for (make, makers), vocabulary in zip(self.makers, self.of_numbers, strict=True):
            if make is None:  # side by side
                first, done = done, done + len(makers)
                rows.parts.append(Numbers(vocabulary, where[:, first:done], self._arrays(batch, first, done)))
                continue
            for k, name in makers:
                if (part := make(batch.column(k), name, rows)) is not None:
                    rows.parts.append(part)
        known = self.known
        if known is None or not known.is_of(rows.parts):
            known = self.known = FeatureTable(rows.parts)
        return rows.rows(self.labels(batch), known)

    def _where(self, batch, rows: Batch) -> np.ndarray:
        """Where the columns of numbers lie, (5, m) as ``close_columns`` takes it."""
        where = np.zeros((5, len(self.numbers)), np.int64)
        where[1], where[2] = self.kinds, 1
        if len(self.lying):
            _, table = exported = batch.__arrow_c_array__()
            rows.owners.append(exported)
            layout = np.empty((3, len(self.lying)), np.int64)
            where_columns_lie(POINTER(table, b"arrow_array"), self.lying, *layout)
            where[0, self.plain], where[3:, self.plain] = layout[0], layout[1:]
        for j in np.flatnonzero(~self.plain).tolist():
            values = floats(batch.column(self.numbers[j]))
            rows.owners.append(values)
            where[0, j] = values.ctypes.data
        return where

    def _arrays(self, batch, first: int, last: int):
        """A call that makes arrays of the columns of numbers first .. last - 1."""
        plain = self.plain[first:last].tolist()
        return lambda: [
            numbers_in(batch.column(k), in_place) for k, in_place in zip(self.numbers[first:last], plain, strict=True)
        ]

    # -- the entries of a column -------------------------------------------------------------------------------------

    def _nothing(self, column, name: str, batch: Batch) -> None:
        return None

    def _category(self, column, name: str, batch: Batch) -> Categories:
        return self._encoded(column, name, batch)

    def _bag(self, column, name: str, batch: Batch) -> Several:
        rows, items = listed(column)
        encoded = self._encoded(items, name, batch)
        return Several(encoded.vocabulary, rows, encoded.vocabulary.features[encoded.codes()], np.ones(len(rows)))

    def _map(self, column, name: str, batch: Batch) -> Several:
        ends = column.offsets.to_numpy()
        first, last = int(ends[0]), int(ends[-1])
        rows = np.repeat(np.arange(len(column)), np.diff(ends))
        values = floats(column.items.slice(first, last - first))
        known = ~np.isnan(values) & valid(column)[rows]  # what is null may have items
        encoded = self._encoded(column.keys.slice(first, last - first).filter(arrow().array(known)), name, batch)
        return Several(encoded.vocabulary, rows[known], encoded.vocabulary.features[encoded.codes()], values[known])

    def _vector(self, column, name: str, batch: Batch) -> NumberColumns | Several:
        rows, items = listed(column)
        values = numbers_in(items, is_plain(items.type, self.types))
        lengths = np.bincount(rows, minlength=len(column))
        longest = int(lengths.max(initial=0))
        vocabulary = self.vectors.get(name)
        if vocabulary is None or len(vocabulary.ids) != longest:
            vocabulary = self.vectors[name] = vocabulary_of([f"{name}[{k}]".encode() for k in range(longest)])
        if len(values) == len(column) * longest:
            return NumberColumns(vocabulary, values.reshape(len(column), longest))
        values = np.asarray(values, np.float64)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        if len(column) * longest > DENSE * len(values):
            return Several(vocabulary, rows, places, values)
        matrix = np.full((len(column), longest), np.nan)
        matrix[rows, places] = values
        return NumberColumns(vocabulary, matrix)

    def _encoded(self, items, name: str, batch: Batch) -> Categories:
        """The items of a column by the features of its words."""
        encoded = items if self.types.is_dictionary(items.type) else items.dictionary_encode()
        dictionary, indices = encoded.dictionary, encoded.indices
        if not is_plain(indices.type, self.types):
            indices = indices.cast(arrow().int64(), safe=False)
        batch.owners.append(indices)
        before = self.dictionaries.get(name)
        if before is not None and len(before[0]) == len(dictionary) and before[0].equals(dictionary):
            return Categories(before[1], where_codes_lie(indices), lambda: codes_of(indices, len(dictionary)))
        data, begins, ends = strings_in(trimmed(dictionary))
        if len(begins) <= len(indices):
            words = words_of(name, data, begins, ends)
            self.dictionaries[name] = dictionary, words
            return Categories(words, where_codes_lie(indices), lambda: codes_of(indices, len(dictionary)))
        codes = codes_of(indices, len(dictionary)).astype(np.int64, copy=False)
        occurs = np.zeros(len(begins) + 1, bool)
        occurs[codes] = True
        used = np.flatnonzero(occurs[:-1])
        new = np.full(len(occurs), len(used))
        new[used] = np.arange(len(used))
        codes = new[codes]
        batch.owners.append(codes)
        where = np.array([[codes.ctypes.data], [NUMBER_KINDS[codes.dtype]], [1], [0], [0]])
        return Categories(words_of(name, data, begins[used], ends[used], 1), where, lambda: codes)

    def labels(self, batch) -> np.ndarray | list:
        """The rows' labels; InputError for a column of another kind."""
        if self.label is None or self.types.is_null(batch.column(self.label).type):
            return np.full(len(batch), np.nan)
        column = batch.column(self.label)
        if self.is_number(column.type) and not self.words:
            plain = is_plain(column.type, self.types)
            numbers = numbers_in(column, plain).astype(np.float64, copy=False) + 0.0  # -0 is 0
            if (np.abs(numbers) >= EXACT).any() and not self.types.is_floating(column.type):
                exact_values = np.array(column.to_pylist(), dtype=object)
                exact(numbers, exact_values, f"{added('categorical', self.options, self.label)} takes labels as words")
            return numbers
        if not self.is_word(column.type) or self.words is False:
            wanted = "words and whole numbers make such" if self.words else "they were numbers in the rows before"
            wanted = "labels are numbers or strings" if self.words is None else wanted
            raise InputError(f"the column {self.label} is of the type {column.type}; {wanted}")
        if self.types.is_dictionary(column.type):  # each word once
            words = [word and word.strip() for word in column.dictionary.cast(arrow().string()).to_pylist()]
            return [None if code is None else words[code] for code in column.indices.to_pylist()]
        return [word and word.strip() for word in column.cast(arrow().string()).to_pylist()]


def floats(column) -> np.ndarray:
    """A column of numbers as float64 (n,), nan where there is none."""
    if arrow().types.is_decimal(column.type):  # whose own cast is not the nearest float64
        column = column.cast(arrow().string())
    column = column.cast(arrow().float64(), safe=False)
    return np.array(column.to_numpy(zero_copy_only=False), np.float64)


def is_text(type_, types) -> bool:
    return types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)


def is_plain(type_, types) -> bool:
    """Whether kernels have the type's numbers as they lie."""
    return types.is_float64(type_) or types.is_float32(type_) or types.is_int64(type_) or types.is_int32(type_)


def numbers_in(column, plain: bool) -> np.ndarray:
    """The same, of their own type where that is a plain one and none is missing."""
    return column.to_numpy() if plain and column.null_count == 0 else floats(column)


def valid(column) -> np.ndarray:
    """Whether each item of a column is none of its nulls."""
    bits = column.buffers()[0]
    if bits is None:
        return np.ones(len(column), bool)
    packed = np.frombuffer(bits, np.uint8)[column.offset // 8 :]
    first = column.offset % 8
    return np.unpackbits(packed, count=first + len(column), bitorder="little")[first:].view(bool)


def values_of(column, dtype, more: int = 0) -> np.ndarray:
    """The numbers of a column as they lie in memory, those of nulls too, and so many more; of strings, the offsets."""
    n = len(column) + more
    if n == 0:
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, n, column.offset * np.dtype(dtype).itemsize)


def listed(column) -> tuple[np.ndarray, object]:
    """(row of each item, items) of a column of lists."""
    import pyarrow.compute as compute

    lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = column.flatten()
    return np.repeat(np.arange(len(column)), lengths), items


def where_codes_lie(indices) -> np.ndarray:
    """Where the codes of a dictionary's items lie, (5, 1) as ``close_columns`` takes it."""
    bits, items = indices.buffers()
    address = 0 if items is None else items.address
    bitmap = bits.address if indices.null_count else 0
    return np.array(
        [[address], [NUMBER_KINDS[np.dtype(indices.type.to_pandas_dtype())]], [1], [bitmap], [indices.offset]]
    )


def codes_of(indices, n_words: int) -> np.ndarray:
    """The codes of a dictionary's items, ``n_words`` of nulls."""
    codes = values_of(indices, indices.type.to_pandas_dtype())
    if indices.null_count:
        codes = codes.astype(np.int64)
        codes[~valid(indices)] = n_words
    return codes


def words_of(name: str, data, begins, ends, more: int = 0) -> WordColumn:
    """The features of a column's words, ``data[begins[k]:ends[k]]``; an empty one has none.  more: codes that have
    none, too, after those of words."""
    lengths = ends - begins
    prefix = np.frombuffer(name.encode() + b"=", np.uint8)
    names = np.empty(int(lengths.sum()) + len(begins) * len(prefix), np.uint8)
    hashes = np.empty(len(begins), np.uint64)
    named_values(data, begins, ends, prefix, hash_of(name.encode(), CATEGORIES_GO_ON), names, hashes)
    features = np.append(np.where(lengths > 0, np.arange(len(begins)), -1), -1)
    return WordColumn(of_bits(hashes), names, lengths + len(prefix), features, len(begins) + more)
