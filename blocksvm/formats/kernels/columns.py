"""Columns of a table to rows: cells of text to numbers and to hashed words, and these to rows.

Blanks around what a cell has are no part of it.  A cell of text that is empty, or na, n/a, nan or null in any case, is
missing; true and false in any case are 1 and 0.  The id of a column of numbers is the hash of its name, that of a word
the hash of the word, going on from another one of the column's name (``name_hash``), each >> 1.
"""

from typing import NamedTuple

import numpy as np

from blocksvm.formats.kernels.closing import DUPLICATE, close_sums
from blocksvm.formats.kernels.numbers import ALL_BITS, BAD_VALUE, FINE, NOT_FINITE, number, plain_number
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.hash_table import RECENT, entry_of, name_hash, named_before
from blocksvm.kernels.text_bytes import DOT, NEWLINE, SPACE, SPARE, TAB, byte_at, eight_bytes, is_gap

COMMA = 44
LOWER_CASE = np.uint64(0x2020202020202020)
TRUE, FALSE, NA, N_A, NAN, NULL = (
    np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"false", b"na", b"n/a", b"nan", b"null")
)


class Words(NamedTuple):
    """Features by their numbers: ids (m,) int64 of those, and where their names lie, names[firsts[i]:lasts[i]]; names
    begin with 'column=' of each column."""

    ids: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    names: np.ndarray


@inlined
def bounds_of(text, start, stop, quote):
    """Where what a cell has begins and ends: without blanks around it, and without the quotes around that which come
    after a blank, as a reader of lines leaves them."""
    begin = start
    while start < stop and (byte_at(text, start) == SPACE or byte_at(text, start) == TAB):
        start += 1
    while stop > start and is_gap(byte_at(text, stop - 1)):
        stop -= 1
    if begin < start < stop - 1 and byte_at(text, start) == quote and byte_at(text, stop - 1) == quote:
        start += 1
        stop -= 1
    return start, stop


@inlined
def short_word(text, start, stop):
    """A cell of 1 to 5 letters, small, as ``eight_bytes`` have it; 0 of others."""
    n = stop - start
    if n < 1 or n > 5:
        return np.uint64(0)
    return (eight_bytes(text, start) | LOWER_CASE) & (ALL_BITS >> np.uint64(64 - 8 * n))


@inlined
def is_missing(text, start, stop):
    """Whether a cell says that there is no value."""
    if start == stop:
        return True
    if byte_at(text, start) | 32 != 110:  # n
        return False
    word = short_word(text, start, stop)
    return word == NA or word == N_A or word == NAN or word == NULL


@inlined
def cell_number(text, start, stop, comma, scratch):
    """The number in a cell: (code, value)."""
    plain, value = plain_number(text, start, stop)
    if plain and not comma:
        return FINE, value
    n = stop - start  # it is copied, since the next cell follows at once
    if n < 32:
        for k in range(32):
            scratch[k] = text[np.uint64(start + k)]
    else:
        for k in range(n):
            scratch[k] = text[start + k]
    if comma:
        for k in range(n):
            c = scratch[k]
            scratch[k] = DOT if c == COMMA else COMMA if c == DOT else c
    scratch[n] = NEWLINE
    after, code, value = number(scratch, 0)
    return code if after == n else BAD_VALUE, value


@kernel
def cell_numbers(text, ends, comma, quote, logarithms, values, looks):
    """``values[j, r]`` of the cells ``text[ends[j n + r]:ends[j n + r + 1]]``, nan where there is none; where
    ``logarithms[j]``, sign(x) log(1 + |x|) of x.  ``SPARE`` bytes before and after the text are readable.  looks (k, 3)
    int64, of each column: how many cells are numbers, and how many are not; the row of the first of these."""
    n_rows = values.shape[1]
    scratch = np.empty(256, np.uint8)
    looks[:] = 0
    for j in range(values.shape[0]):
        n_numbers = 0
        stop_before = ends[j * n_rows]
        for r in range(n_rows):
            start, stop = stop_before, ends[j * n_rows + r + 1]
            stop_before = stop
            start, stop = bounds_of(text, start, stop, quote)
            values[j, r] = np.nan
            if start == stop:
                continue
            first = byte_at(text, start)
            code, value = BAD_VALUE, 0.0
            if first <= 57:  # a digit, a sign or a point
                if stop - start > scratch.shape[0] - SPARE:
                    scratch = np.empty(2 * (stop - start) + SPARE, np.uint8)
                code, value = cell_number(text, start, stop, comma, scratch)
            elif is_missing(text, start, stop):
                continue
            elif not logarithms[j]:
                word = short_word(text, start, stop)
                if word == TRUE or word == FALSE:
                    code, value = FINE, 1.0 if word == TRUE else 0.0
            if code == BAD_VALUE or code == NOT_FINITE:
                if looks[j, 1] == 0:
                    looks[j, 2] = r
                looks[j, 1] += 1
                continue
            n_numbers += 1
            if logarithms[j]:
                value = np.log1p(value) if value >= 0.0 else -np.log1p(-value)
            values[j, r] = value
        looks[j, 0] = n_numbers


@kernel
def cell_words(text, ends, marks, quote, seeds, prefixes, named, words, n_words, filled, recent, codes, looks):
    """``codes[j, r]``: the number of the feature of the word ``text[ends[j n + r]:ends[j n + r + 1]]``, -1: empty.

    marks: words that say that a cell is missing do; quote: as of ``bounds_of``.  seeds (c,) uint64: the hash of a
    column's name, from which those of its words go on; prefixes (c, 2): where 'column=' lies among the names.  words:
    ``Words``, of which there are ``n_words``, whose names take ``filled`` bytes, with room for those to come; recent: 1
    + the word that each slot had last.  looks (c, 2): how many say that they are missing, and the row of the first.
    Returns the new (n_words, filled).
    """
    ids, firsts, lasts, names = words
    looks[:] = 0
    for j in range(codes.shape[0]):
        for r in range(codes.shape[1]):
            at = j * codes.shape[1] + r
            start, stop = bounds_of(text, ends[at], ends[at + 1], quote)
            codes[j, r] = -1
            if start == stop:
                continue
            if marks and is_missing(text, start, stop):
                if looks[j, 0] == 0:
                    looks[j, 1] = r
                looks[j, 0] += 1
                continue
            i = np.int64(name_hash(text, start, stop, seeds[j]) >> np.uint64(1))
            word = named_before(recent, ids, i)
            if word < 0:
                word = n_words
                n_words += 1
                recent[i & (RECENT - 1)] = n_words
                ids[word] = i
                if named:
                    firsts[word] = filled
                    for p in range(prefixes[j, 0], prefixes[j, 1]):
                        names[filled] = names[p]
                        filled += 1
                    for p in range(start, stop):
                        names[filled] = text[p]
                        filled += 1
                    lasts[word] = filled
            codes[j, r] = word
    return n_words, filled


@kernel
def columns_to_rows(
    order, numbers, codes, more_ends, more_codes, more_values, word_ids, sums, l2, single, indptr, ids, values, entries
):
    """Rows of columns: entries in the order of the columns, zeros dropped, those of one feature added up (sums),
    divided by the Euclidean norm of the row (l2) and rounded to float32 (single).

    order (k,): a column of ``numbers[j]`` (nan: none) as j, whose feature is the word j, or one of ``codes[j]`` (-1:
    none) as -1 - j, of value 1; to row r come the words ``more_codes[more_ends[r]:more_ends[r + 1]]`` with their
    values.  Outputs, with room for each: indptr (n + 1,), ids, values, and entries (nnz,) int64, the words that they
    are, or (0,).  Returns (rows, code, entry) of the first fault, whose row's ids and words are there, and the largest
    ||x||^2.
    """
    named = entries.shape[0] > 0
    n_rows = indptr.shape[0] - 1
    longest = 0
    for r in range(more_ends.shape[0] - 1):
        longest = max(longest, more_ends[r + 1] - more_ends[r])
    n_slots = 64
    while n_slots < 2 * (longest + order.shape[0]):
        n_slots *= 2
    slots = np.zeros(n_slots if longest else 1, np.int64)  # (row + 1, entry)
    filled = 0
    largest = 0.0
    indptr[0] = 0
    for r in range(n_rows):
        begin = filled
        finite = True
        for k in range(order.shape[0]):
            j = order[k]
            word, value, there = j, 1.0, True
            if j >= 0:
                value = numbers[np.uint64(j), np.uint64(r)]
                there = (value == value) & (value != 0.0)
                finite &= abs(value) != np.inf
            else:
                word = np.int64(codes[np.uint64(-1 - j), np.uint64(r)])
                there = word >= 0
                word = max(word, 0)
            at = np.uint64(filled)  # what is not there is written over by the next one, without a branch
            ids[at] = word_ids[np.uint64(word)]
            values[at] = value
            if named:
                entries[at] = word
            filled += there
        if not finite:
            for k in range(begin, filled):
                if abs(values[k]) == np.inf:
                    return r, NOT_FINITE, k, largest
        if longest:
            for k in range(more_ends[r], more_ends[r + 1]):
                word, value = more_codes[k], more_values[k]
                if word < 0 or value != value or value == 0.0:
                    continue
                ids[filled] = word_ids[word]
                values[filled] = value
                if named:
                    entries[filled] = word
                filled += 1
                if abs(value) == np.inf:
                    return r, NOT_FINITE, filled - 1, largest
            stamp = np.int64(r + 1) << 32
            last = filled
            filled = begin
            for k in range(begin, last):
                entry = entry_of(slots, stamp, ids, filled, ids[k])
                if entry < filled:
                    if not sums:
                        return r, DUPLICATE, k, largest
                    values[entry] += values[k]
                    continue
                values[entry] = values[k]
                if named:
                    entries[entry] = entries[k]
                filled += 1
        code, filled, square = close_sums(ids, values, begin, filled, l2, single, entries)
        if code != FINE:
            return r, code, filled, largest
        largest = max(largest, square)
        indptr[r + 1] = filled
    return n_rows, FINE, -1, largest
