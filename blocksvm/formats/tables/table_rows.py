"""A batch of a table's columns: the features that they have, and its rows.

Features have places in a table of those of the batch, by rising ids: so a row in the order of its places is one in the
order of its ids, and what is known of a feature is looked up once, for as long as the columns' features stay the same.
Columns with an entry a row at most lie side by side, and their rows are made at once: all the way where nothing else
is in them (formats/kernels/table_rows.py), else up to where rows are closed (formats/kernels/table_columns.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.formats.file_reader import ClosedRows, Features, RowBuffer, SparseRows, finite
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.kernels import table_rows as kernels
from blocksvm.formats.kernels.name_hashes import hash_of
from blocksvm.formats.kernels.table_columns import fill_rows, order_ids, put_in_rows
from blocksvm.kernels.hash_table import hash_ids

SIDE_BY_SIDE = 1 << 20  # bytes of columns that become rows at once: they stay in the second-level cache
FEWEST_ROWS = 16
TILE = 1 << 18  # the same where rows are closed, too
MOST_ROWS = 128  # of them side by side
MEETING = 16  # one in so many features may be hashed to the place of another, for rows to be hashed as they are made
KINDS = {
    np.dtype(np.float64): kernels.FLOAT64,
    np.dtype(np.float32): kernels.FLOAT32,
    np.dtype(np.int64): kernels.INT64,
    np.dtype(np.int32): kernels.INT32,
}


@dataclass(frozen=True, eq=False)
class CategoryVocabulary:
    """The features of a column, or of several: ids (k,) int64, 63 bits of a hash each; the bytes of their names one
    after the other, and their lengths (k,)."""

    ids: np.ndarray
    text: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True, eq=False)
class WordColumn(CategoryVocabulary):
    """Those of a column of categories: features (codes + 1,) int64, of each code the feature's number, or -1 for none,
    as of the last one; n_codes: codes are below it."""

    features: np.ndarray
    n_codes: int


@dataclass(frozen=True)
class Numbers:
    """A column (n,) of numbers, of any type, for each of a vocabulary: where they lie, (5, k) int64 as
    ``close_columns`` takes it, and a call that makes arrays of them, nan where there is none."""

    vocabulary: CategoryVocabulary
    where: np.ndarray
    columns: Callable[[], list[np.ndarray]]

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values = np.stack(self.columns(), axis=1, dtype=np.float64, casting="same_kind")
        return entries_in(values)

    def side_by_side(self) -> list[np.ndarray]:
        return self.columns()


@dataclass(frozen=True)
class NumberColumns:
    """Columns of numbers as values (n, k), C-contiguous, nan where there is none."""

    vocabulary: CategoryVocabulary
    values: np.ndarray

    @property
    def where(self) -> np.ndarray:
        n, k = self.values.shape
        where = np.zeros((5, k), np.int64)
        where[0] = self.values.ctypes.data + self.values.itemsize * np.arange(k)
        where[1] = KINDS[self.values.dtype]
        where[2] = k
        return where

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return entries_in(np.asarray(self.values, np.float64))

    def side_by_side(self) -> list[np.ndarray]:
        return list(self.values.T)


@dataclass(frozen=True)
class Categories:
    """A feature of each row at most, by its code: where codes lie, (5, 1), and a call that makes an array of them."""

    vocabulary: WordColumn
    where: np.ndarray
    codes: Callable[[], np.ndarray]

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        features = self.vocabulary.features[self.codes()]
        rows = np.flatnonzero(features >= 0)
        return rows, features[rows], np.ones(len(rows))


@dataclass(frozen=True)
class Several:
    """Any number of entries a row: rows (rising), features' numbers, -1 for none, and values of all."""

    vocabulary: CategoryVocabulary
    rows: np.ndarray
    features: np.ndarray
    values: np.ndarray

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        known = (self.features >= 0) & (self.values != 0.0) & ~np.isnan(self.values)
        return self.rows[known], self.features[known], self.values[known]


Part = Numbers | NumberColumns | Categories | Several


def entries_in(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, values) of what is there in a matrix of float64."""
    rows, columns = np.nonzero((values != 0.0) & ~np.isnan(values))
    return rows, columns, values[rows, columns]


class FeatureTable:
    """The features of a batch's parts, and what rows need to know of them.

    places: of each part, (k + 1,) int32, the places among all features of those of its vocabulary, and, after them,
    that of none; distinct: no feature is of two of them.
    """

    def __init__(self, parts: list[Part]):
        self.parts = [(type(part), part.vocabulary) for part in parts]
        vocabularies = [part.vocabulary for part in parts]
        ids = np.concatenate([np.empty(0, np.int64), *(one.ids for one in vocabularies)])
        ends = np.cumsum(np.concatenate([np.empty(0, np.int64), *(one.lengths for one in vocabularies)]))
        order = order_of(ids)
        rising = ids[order]
        new = np.append(True, rising[1:] != rising[:-1])[: len(ids)]
        unique = order[new]
        begins = np.append(0, ends)[unique]
        names = np.concatenate([np.empty(0, np.uint8), *(one.text for one in vocabularies)])
        self.features = Features(names, rising[new], begins, ends[unique])
        d = self.n_features = len(unique)
        self.distinct = d == len(ids)
        numbers = np.empty(len(ids), np.int32)
        numbers[order] = np.cumsum(new) - 1
        stops = np.cumsum([len(one.ids) for one in vocabularies], dtype=np.int64).tolist()
        self.places = [
            np.append(numbers[stop - len(one.ids) : stop], np.int32(d))
            for one, stop in zip(vocabularies, stops, strict=True)
        ]
        self.finals: dict = {}
        self.layout: tuple | None = None

    def is_of(self, parts: list[Part]) -> bool:
        return len(parts) == len(self.parts) and all(
            type(part) is kind and part.vocabulary is known
            for part, (kind, known) in zip(parts, self.parts, strict=True)
        )

    def final(self, bits: int | None) -> tuple[np.ndarray, np.ndarray]:
        """(what stands in rows for each feature: its place among 2^bits (int32), or its id where there are no bits, or
        where many meet; whether it meets another, none if none does)"""
        if bits not in self.finals:
            self.finals[bits] = self._final(bits)
        return self.finals[bits]

    def _final(self, bits: int | None) -> tuple[np.ndarray, np.ndarray]:
        nothing = np.empty(0, bool)
        if bits is None:
            return self.features.ids, nothing
        places = np.empty(self.n_features, np.int32)
        hash_ids(self.features.ids, bits, places)
        rising = np.sort(places)
        again = rising[1:][rising[1:] == rising[:-1]]
        if not len(again):
            return places, nothing
        meets = np.isin(places, again)
        if MEETING * np.count_nonzero(meets) > len(meets):
            return self.features.ids, nothing
        return places, meets

    def closing(self, parts: list[Part]) -> tuple:
        """(order of the columns of numbers, ``ColumnArrays``) of the features of parts that lie side by side."""
        if self.layout is None:
            numbers = [self.places[k][:-1] for k, part in enumerate(parts) if not isinstance(part, Categories)]
            features = np.concatenate([np.empty(0, np.int32), *numbers])
            order = np.argsort(features)
            words = [
                (codes, part.vocabulary)
                for codes, part in zip(self.places, parts, strict=True)
                if isinstance(part, Categories)
            ]
            of_codes = [codes[vocabulary.features] for codes, vocabulary in words]
            sizes = np.array([vocabulary.n_codes for _, vocabulary in words], np.int64)
            m, c = len(features), len(of_codes)
            owners = np.full(self.n_features + 1, m, np.int32)
            owners[features[order]] = np.arange(m)
            owners[self.n_features] = m + 1
            self.layout = (
                order,
                kernels.ColumnArrays(
                    features[order],
                    np.append(0, np.cumsum([len(codes) for codes in of_codes], dtype=np.int64))[:c],
                    sizes,
                    np.concatenate([np.empty(0, np.int32), *of_codes]),
                    sorting_network(m + c if c else 0),
                    owners,
                ),
            )
        return self.layout


@lru_cache(maxsize=16)
def sorting_network(n: int) -> np.ndarray:
    """Comparisons (., 2) int32 of positions that sort any n keys, the lesser one to the first (merge exchange: Knuth,
    The Art of Computer Programming 3, algorithm 5.2.2M)."""
    pairs = [np.empty((0, 2), np.int32)]
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top if n > 1 else 0
    while p > 0:
        q, r, d = top, 0, p
        while True:
            low = np.arange(max(0, n - d), dtype=np.int32)
            low = low[low & p == r]
            pairs.append(np.stack([low, low + d], axis=1))
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
    return np.concatenate(pairs).astype(np.int32)


class Batch:
    """Some rows of a table: their parts, in the order of the columns, and who owns the memory in which they lie."""

    def __init__(self, n: int, reading: ReaderOptions, buffer: RowBuffer):
        self.n = n
        self.reading = reading
        self.buffer = buffer
        self.parts: list[Part] = []
        self.owners: list = []

    def rows(self, labels, known: FeatureTable) -> SparseRows | ClosedRows:
        """The rows, of the features that ``known`` has; RowFault for the first value that is not finite."""
        features = known.features
        if known.distinct:
            if not any(isinstance(part, Several) for part in self.parts):
                closed = self._closed(labels, known)
                if closed is not None:
                    return closed
            else:
                arrays = self._side_by_side(known.places)
                if arrays is not None:
                    return SparseRows(*arrays, labels, features)
        rows = SparseRows(*in_rows(self._entries(self.parts, known.places), self.n), labels, features)
        return finite(rows, rows.name_at)

    def _closed(self, labels, known: FeatureTable) -> ClosedRows | None:
        """The rows of columns that lie side by side; None where a value, or the sum of its squares, is not finite."""
        recipe = self.reading.recipe
        order, columns = known.closing(self.parts)
        final, meets = known.final(recipe.bits)
        nothing = np.empty((5, 0), np.int64)
        numbers = [part.where for part in self.parts if not isinstance(part, Categories)]
        categories = [part.where for part in self.parts if isinstance(part, Categories)]
        where = np.concatenate([np.concatenate([nothing, *numbers], axis=1)[:, order], *categories], axis=1)
        where = np.ascontiguousarray(where)  # each line of it in one piece, as kernels are compiled for
        k = where.shape[1]
        width = min(MOST_ROWS, max(FEWEST_ROWS, TILE // (8 * max(1, k)) // FEWEST_ROWS * FEWEST_ROWS))
        buffer, most = self.buffer, self.n * k + 1  # memory that is not touched is not taken
        indptr = np.empty(self.n + 1, np.int64)
        ids = buffer.take("places of ids" if final.dtype == np.int32 else "ids", most, final.dtype.type)
        values = buffer.take("values", most, np.float64)
        named = most if self.reading.named else 0
        firsts, lasts = buffer.take("first of names", named, np.int64), buffer.take("last of names", named, np.int64)
        text = known.features
        status, largest = kernels.close_columns(
            where, columns, width, final, meets, text.first, text.last, recipe.l2, recipe.single, indptr,
            ids, values, firsts, lasts,
        )  # fmt: skip
        if status == kernels.BAD_CODE:
            raise InputError("cannot be read (a code lies beyond its dictionary); get it again")
        if status != kernels.SOUND:
            return None
        nnz = int(indptr[-1])
        names = (text.text, firsts[:nnz], lasts[:nnz]) if self.reading.named else None
        return ClosedRows(labels, indptr, ids[:nnz], values[:nnz], names, largest)

    @staticmethod
    def _entries(parts: list[Part], places: list[np.ndarray]) -> list[tuple]:
        """(rows, places of the features, values) of the entries of each."""
        entries = []
        for part, features_of in zip(parts, places, strict=True):
            rows, features, values = part.entries()
            entries.append((rows, features_of[features].astype(np.int64), values))
        return entries

    def _side_by_side(self, places: list[np.ndarray]) -> tuple | None:
        """(lengths, places of the features, values) of the rows where no feature is of two columns; None where a value
        is not finite."""
        both = list(zip(self.parts, places, strict=True))
        of_numbers = [(part, at) for part, at in both if isinstance(part, (Numbers, NumberColumns))]
        of_categories = [(part, at) for part, at in both if isinstance(part, Categories)]
        others = [(part, at) for part, at in both if isinstance(part, Several)]
        more = self._entries([part for part, _ in others], [at for _, at in others])
        more_lengths, more_ids, more_values = more[0] if len(more) == 1 else in_rows(more, self.n)
        if len(more) == 1:
            more_lengths = np.bincount(more_lengths, minlength=self.n)  # they are rows
        begins = np.append(0, np.cumsum(more_lengths))
        if not np.isfinite(more_values).all():
            return None
        features = np.concatenate([np.empty(0, np.int64), *(at[:-1] for _, at in of_numbers)])
        order = np.argsort(features)
        columns = [column for part, _ in of_numbers for column in part.side_by_side()]
        columns = [columns[k] for k in order.tolist()]
        chosen = [(np.append(at[:-1], -1)[part.vocabulary.features], part.codes()) for part, at in of_categories]
        m, c = len(features), len(of_categories)
        step = min(self.n, max(FEWEST_ROWS, SIDE_BY_SIDE // (8 * max(1, m + c))))
        # neighbours lie a multiple of 64 bytes apart, but not of 4096: their cache lines would be in each other's way
        width = -(-step // 512) * 512 + 8
        take = self.buffer.take
        numbers = take("numbers", m * width, np.float64).reshape(m, width)
        categories = take("categories", c * width, np.int64).reshape(c, width)
        most = self.n * (m + c) + len(more_ids) + 1  # memory that is not touched is not taken
        lengths = np.empty(self.n, np.int64)
        ids, values = take("places", most, np.int64), take("values", most, np.float64)
        filled = 0
        for first in range(0, self.n, step):
            last = min(self.n, first + step)
            n = last - first
            for j, column in enumerate(columns):
                numbers[j, :n] = column[first:last]
            for j, (at, codes) in enumerate(chosen):
                categories[j, :n] = at[codes[first:last]]
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
    for entry in entries:
        put_in_rows(*entry, places, ids, values)
    return lengths, ids, values


def of_bits(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(1)).astype(np.int64)


def vocabulary_of(names: list[bytes]) -> CategoryVocabulary:
    """The vocabulary of columns of numbers, by their names."""
    ids = of_bits(np.array([hash_of(one, np.uint64(0)) for one in names], np.uint64))
    text = np.frombuffer(b"".join(names), np.uint8)
    return CategoryVocabulary(ids, text, np.array([len(one) for one in names], np.int64))
