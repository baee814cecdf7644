"""Arrow's types, and arrays from and to those of numpy, which share their memory; Arrow's own ways import pandas."""

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from blocksvm.kernels.text_bytes import SPARE

WHOLE = 1 << 30  # bytes of a block of text that Arrow parses, above those of a piece
POOL = pa.system_memory_pool()  # the others keep some 30 MB of what was given back


def is_text(type_) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def is_list(type_) -> bool:
    return pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)


def is_number(type_) -> bool:
    t = pa.types
    return t.is_integer(type_) or t.is_floating(type_) or t.is_boolean(type_) or t.is_decimal(type_)


def value_type(type_) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def is_word(type_) -> bool:
    """Whether values are words, or whole numbers, which are written in one way."""
    return is_text(value_type(type_)) or pa.types.is_integer(value_type(type_))


def strings(values: list[bytes | None]) -> pa.Array:
    """An array of strings of their bytes."""
    ends = np.cumsum([0, *(len(value or b"") for value in values)], dtype=np.int64)
    known = np.packbits([value is not None for value in values], bitorder="little")
    buffers = [pa.py_buffer(array) for array in (known, ends, b"".join(value or b"" for value in values))]
    return pa.Array.from_buffers(pa.large_string(), len(values), buffers)


def array_of(numbers: np.ndarray) -> pa.Array:
    """An array of these numbers, none of them missing."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)])


def tokens_at(text: np.ndarray, spans: np.ndarray) -> pa.Array:
    """The column (n,) of bytes ``text[spans[r, 0]:spans[r, 1]]``, each of which begins after the one before."""
    if not len(spans):
        return pa.nulls(0, pa.large_binary())
    buffers = [None, pa.py_buffer(np.ascontiguousarray(spans)), pa.py_buffer(text)]
    tokens_and_gaps = pa.Array.from_buffers(pa.large_binary(), 2 * len(spans) - 1, buffers)
    return tokens_and_gaps.take(array_of(np.arange(0, len(tokens_and_gaps), 2)))


def numbers_of(column: pa.Array) -> np.ndarray:
    """A column of numbers or booleans (n,) without nulls."""
    return np.from_dlpack(column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column)


def floats(column) -> np.ndarray:
    """A column of numbers as an array (n,), nan where there is none."""
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type):  # whose own cast is not the nearest float64
            column = column.cast(pa.string())
        column = column.cast(pa.float64())
    if column.null_count:
        column = without_nulls(column.cast(pa.float64(), safe=False), math.nan)
    return numbers_of(column)


def without_nulls(column: pa.Array, value: float | bytes) -> pa.Array:
    """A column with a value in the place of nulls."""
    if not column.null_count:
        return column
    values = strings([value]) if isinstance(value, bytes) else array_of(np.full(1, value))
    return column.fill_null(values.cast(column.type)[0])


def as_words(column) -> pa.Array:
    """A column of words or whole numbers as strings without nulls."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    column = column if pa.types.is_string(column.type) else column.cast(pa.large_string())
    return without_nulls(column, b"")


def indices_of(column: pa.DictionaryArray) -> np.ndarray:
    """Positions (n,) in a column's dictionary, its length where there is none."""
    return numbers_of(without_nulls(column.indices.cast(pa.int64(), safe=False), len(column.dictionary)))


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
    lengths = numbers_of(without_nulls(compute.list_value_length(column), 0)).astype(np.int64)
    return np.repeat(np.arange(n), lengths), column.flatten()


class Cells(NamedTuple):
    """Cells of k columns of n rows: that of row r in column j is ``text[ends[j n + r]:ends[j n + r + 1]]``."""

    text: np.ndarray
    ends: np.ndarray
    k: int
    n: int


def cells_of(arrays: list, n: int) -> Cells:
    """The cells of columns of text (n,), all of one type, without nulls."""
    type_ = arrays[0].type if arrays else pa.binary()
    ends = pa.py_buffer(np.array([0, SPARE], np.int32))
    around = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(bytes(SPARE))]).cast(type_)
    joined = pa.concat_arrays([around, *arrays, around])
    _, ends, text = joined.buffers()
    large = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
    ends = np.frombuffer(ends, np.int64 if large else np.int32, len(joined) + 1)
    return Cells(np.frombuffer(text, np.uint8), ends[1:-1].astype(np.int64), len(arrays), n)
