"""Lines of cells between delimiters (RFC 4180) to rows: numbers as values, categories as ones, the label's place.

A cell in quotes may hold delimiters, and quotes twice.  Blanks around what a cell has are no part of it, in quotes or
not.  A cell that is empty, or na, n/a, nan or null in any case, is missing; true and false in any case are 1 and 0.

The id of a numeric column is the hash of its name, that of a category the hash of its value, going on from another one
of the column's name (``name_hash``), each >> 1.  Entries stand in the order of the columns.
"""

import numpy as np

from blocksvm.formats.kernels.name_hashes import RECENT, name_hash, named_before
from blocksvm.formats.kernels.numbers import BAD_VALUE, FINE, NOT_FINITE, UNDECIDED, number
from blocksvm.formats.kernels.svmlight import BIG_VALUE, close_sums, leave_open
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.text_bytes import DOT, NEWLINE, RETURN, SPACE, SPARE, TAB, byte_at, eight_bytes

# what a column is; EITHER: as each cell looks; UNSEEN: likewise, while columns are only looked at, so that a number may
# be too large
LEFT_OUT, LABEL, NUMERIC, LOGARITHM, CATEGORY, EITHER, UNSEEN = range(7)
# what may be wrong with a line
FEW_CELLS, MANY_CELLS, OPEN_QUOTE, AFTER_QUOTE = 40, 41, 42, 43
NO_QUOTE, COMMA = -1, 44
LOWER_CASE, FOUR_BYTES, FIVE_BYTES = np.uint64(0x2020202020202020), np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFF)
TRUE, FALSE = np.uint64(int.from_bytes(b"true", "little")), np.uint64(int.from_bytes(b"false", "little"))


@kernel
def without_quotes(text, start, stop, quote, scratch):
    """Copy a cell with each double quote once: its length."""
    n = 0
    p = start
    while p < stop:
        scratch[n] = text[p]
        n += 1
        p += 2 if text[p] == quote else 1
    return n


@kernel
def with_comma(text, start, stop, scratch):
    """The number in a cell whose decimals stand after a comma: (position after it in the cell, code, value)."""
    for p in range(start, stop):
        c = text[p]
        scratch[p - start] = DOT if c == COMMA else COMMA if c == DOT else c
    scratch[stop - start : stop - start + SPARE] = NEWLINE
    after, code, value = number(scratch, 0)
    return start + after, code, value


@kernel
def unquoted_hash(scratch, n, seed):
    return name_hash(scratch, 0, n, seed)


@inlined
def is_missing(text, start, stop):
    """Whether a cell says that there is no value."""
    n = stop - start
    if n < 2 or n > 4:
        return n == 0
    first, second = byte_at(text, start) | 32, byte_at(text, start + 1) | 32
    if first != 110:  # n
        return False
    if n == 2:
        return second == 97
    third = byte_at(text, start + 2) | 32
    if n == 3:
        return (second == 97 and third == 110) or (second == 47 and third == 97)
    return second == 117 and third == 108 and byte_at(text, start + 3) | 32 == 108


@inlined
def truth_in(text, start, stop):
    """1 of a cell that is true, 0 of one that is false, -1 of others."""
    word = eight_bytes(text, start) | LOWER_CASE
    if stop - start == 4 and word & FOUR_BYTES == TRUE:
        return 1.0
    if stop - start == 5 and word & FIVE_BYTES == FALSE:
        return 0.0
    return -1.0


@inlined
def logarithm(x):
    """sign(x) log(1 + |x|)"""
    return np.log1p(x) if x >= 0.0 else -np.log1p(-x)


@kernel
def parse_cells(text, end, skip, dialect, roles, seeds, prefixes, named, row_arrays, undecided, name_arrays, looks):
    """Rows of the lines ``text[skip:end]``, one of which is a row unless it is empty.

    dialect: (delimiter, quote, comma), bytes of the delimiter and of the quote in which cells may stand, or ``NO_QUOTE``,
    and whether decimals stand after a comma; roles (m,) int64 of the columns; seeds (m, 2) uint64: the hash of a
    column's name as that of a number, and the one from which the hashes of its categories go on; prefixes (m, 2) int64:
    where 'column=' lies among the text of names, which begins with those.
    Outputs: row_arrays (``NewRows``), with (0, 0) for the label of a row that has none; named: name_arrays
    (``NewNames``), as long as there is room.  undecided (m, 3) int64: (entry, start, stop) of numbers for Python to parse; their value is 1
    where their logarithm is wanted.
    looks (m, 7) int64, of columns that are EITHER or UNSEEN: how many cells are numbers, and how many are not; the line
    and the position of the first of these; of all: how many cells that are not empty say that they are missing, and
    the line and the position of the first.
    Returns (rows, lines read, code, column and position of the fault, numbers undecided, bytes of names needed).
    """
    delimiter, quote, comma = dialect
    labels, indptr, ids, values, lines = row_arrays
    names, firsts, lasts = name_arrays
    n_columns = roles.shape[0]
    cell = np.empty(64, np.uint8)
    recent = np.zeros(RECENT if named else 1, np.int64)  # 1 + the entry that had a name last
    filled = prefixes[n_columns - 1, 1]
    n_open = 0
    p = skip
    line = 1 if skip else 0
    rows = k = length = 0
    indptr[0] = 0
    looks[:] = 0
    while p < end:
        begin = p
        while byte_at(text, p) == RETURN:
            p += 1
        if byte_at(text, p) == NEWLINE:
            p += 1
            line += 1
            continue
        p = begin
        labels[rows, 0] = 0
        labels[rows, 1] = 0
        lines[rows] = line
        c = delimiter
        column = 0
        while c == delimiter:
            if column == n_columns:
                return rows, line, MANY_CELLS, column, p, n_open, filled
            c = byte_at(text, p)
            while (c == SPACE or c == TAB) and c != delimiter:
                p += 1
                c = byte_at(text, p)
            start = p
            doubled = False
            in_quotes = c == quote
            if in_quotes:
                start += 1
                p += 1
                while True:
                    c = byte_at(text, p)
                    if c == NEWLINE:
                        return rows, line, OPEN_QUOTE, column, start - 1, n_open, filled
                    if c == quote:
                        if byte_at(text, p + 1) != quote:
                            break
                        doubled = True
                        p += 1
                    p += 1
                stop = p
                p += 1
                c = byte_at(text, p)
                while (c == SPACE or c == TAB or c == RETURN) and c != delimiter:
                    p += 1
                    c = byte_at(text, p)
                if c != delimiter and c != NEWLINE:
                    return rows, line, AFTER_QUOTE, column, start - 1, n_open, filled
                while start < stop and (byte_at(text, start) == SPACE or byte_at(text, start) == TAB):
                    start += 1
            else:
                while c != delimiter and c != NEWLINE:
                    p += 1
                    c = byte_at(text, p)
                stop = p
            while stop > start and (byte_at(text, stop - 1) == SPACE or byte_at(text, stop - 1) == TAB or byte_at(text, stop - 1) == RETURN):
                stop -= 1
            p += 1
            role = roles[column]
            if role == LABEL:
                labels[rows, 0] = start
                labels[rows, 1] = stop
            elif role == LEFT_OUT or start == stop:
                pass
            elif is_missing(text, start, stop):
                if looks[column, 4] == 0:
                    looks[column, 5] = line
                    looks[column, 6] = start
                looks[column, 4] += 1
            else:
                hashed = seeds[column, 0]
                category = role == CATEGORY
                value = 1.0
                if not category:
                    either = role == EITHER or role == UNSEEN
                    first = byte_at(text, start)
                    code, after = BAD_VALUE, start
                    if first <= 57:  # a digit, a sign or a point
                        if comma:
                            if stop - start > cell.shape[0] - SPARE:
                                cell = np.empty(2 * (stop - start) + SPARE, np.uint8)
                            after, code, value = with_comma(text, start, stop, cell)
                        else:
                            after, code, value = number(text, start)
                        if after != stop:
                            code = BAD_VALUE
                    elif role != LOGARITHM:
                        truth = truth_in(text, start, stop)
                        if truth >= 0.0:
                            code, value = FINE, truth
                    if code == BAD_VALUE or code == NOT_FINITE:
                        if not either:
                            return rows, line, BAD_VALUE, column, start, n_open, filled
                        if looks[column, 1] == 0:
                            looks[column, 2] = line
                            looks[column, 3] = start
                        looks[column, 1] += 1
                        category = True
                        value = 1.0
                    elif either:
                        looks[column, 0] += 1
                    if category or role == UNSEEN:
                        pass
                    elif code == UNDECIDED:
                        n_open = leave_open(undecided, n_open, k, start, stop)
                        value = 1.0 if role == LOGARITHM else 2.0
                    elif np.isinf(value):
                        return rows, line, BIG_VALUE, column, start, n_open, filled
                    elif role == LOGARITHM:
                        value = logarithm(value)
                if category:
                    if doubled:
                        if stop - start > cell.shape[0] - 8:
                            cell = np.empty(2 * (stop - start) + 8, np.uint8)
                        length = without_quotes(text, start, stop, quote, cell)
                        hashed = unquoted_hash(cell, length, seeds[column, 1])
                    else:
                        length = stop - start
                        hashed = name_hash(text, start, stop, seeds[column, 1])
                if value != 0.0:
                    i = np.int64(hashed >> np.uint64(1))
                    ids[k] = i
                    values[k] = value
                    if named:
                        firsts[k] = prefixes[column, 0]
                        lasts[k] = prefixes[column, 1] - 1
                        if category:
                            before = named_before(recent, ids, i)
                            if before >= 0:
                                firsts[k] = firsts[before]
                                lasts[k] = lasts[before]
                            else:
                                size = prefixes[column, 1] - prefixes[column, 0]
                                firsts[k] = filled
                                lasts[k] = filled + size + length
                                if lasts[k] <= names.shape[0]:
                                    for j in range(size):
                                        names[filled + j] = names[prefixes[column, 0] + j]
                                    for j in range(length):
                                        names[filled + size + j] = cell[j] if doubled else text[start + j]
                                filled = lasts[k]
                            recent[i & (RECENT - 1)] = k + 1
                    k += 1
            column += 1
        if column < n_columns:
            return rows, line, FEW_CELLS, column, begin, n_open, filled
        line += 1
        rows += 1
        indptr[rows] = k
    return rows, line, FINE, 0, 0, n_open, filled


@kernel
def close_cells(indptr, rows, ids, values, l2, single, named, firsts, lasts):
    """Put the rows in order, in place: entries of one id are added up, zeros dropped; ``indptr`` shrinks with them.

    l2: divide a row by its Euclidean norm; single: round to float32.  Returns (row, code, entry) of the first fault, and
    the largest ||x||^2.
    """
    longest = 0
    for r in range(rows):
        longest = max(longest, indptr[r + 1] - indptr[r])
    n_slots = 64
    while n_slots < 2 * longest:
        n_slots *= 2
    slots = np.zeros(n_slots, np.int64)  # (row + 1, entry)
    filled = start = indptr[0]
    largest = 0.0
    for r in range(rows):
        stop = indptr[r + 1]
        first = filled
        stamp = np.int64(r + 1) << 32
        for k in range(start, stop):
            i = ids[k]
            s = i & (n_slots - 1)
            while slots[s] >= stamp and ids[slots[s] - stamp] != i:
                s = (s + 1) & (n_slots - 1)
            if slots[s] >= stamp:
                values[slots[s] - stamp] += values[k]
                continue
            slots[s] = stamp + filled
            ids[filled] = i
            values[filled] = values[k]
            if named:
                firsts[filled] = firsts[k]
                lasts[filled] = lasts[k]
            filled += 1
        start = stop
        code, filled, square = close_sums(ids, values, first, filled, l2, single, named, firsts, lasts)
        if code != FINE:
            return r, code, filled, largest
        largest = max(largest, square)
        indptr[r + 1] = filled
    return rows, FINE, -1, largest
