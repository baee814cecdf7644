"""Vowpal Wabbit text to rows: one sweep over the bytes, features named by the hashes of their names."""

import numpy as np

from blocksvm.formats.kernels.closing import BIG_VALUE
from blocksvm.formats.kernels.numbers import BAD_VALUE, FINE, NOT_FINITE, number
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.hash_table import RECENT, name_hash, named_before, scramble
from blocksvm.kernels.text_bytes import COLON, MINUS, NEWLINE, SPACE, byte_at, eight_bytes, is_gap, trailing_zeros

QUOTE, BAR, CARET = 39, 124, 94
ONES = np.uint64(0x0101010101010101)
HIGH_BITS = np.uint64(0x8080808080808080)
COLONS = np.uint64(COLON * 0x0101010101010101)
BARS = np.uint64(BAR * 0x0101010101010101)
BLANKS = np.uint64((SPACE + 1) * 0x0101010101010101)
# What may be wrong with a line, besides a number's own faults; BAD_HEAD: a word before the first bar that is no number.
NO_BAR, BAD_HEAD, LONG_HEAD, TAG_AMID, BAD_WEIGHT, BASE, NO_NAMESPACE, BAD_SCALE, NO_NAME = range(20, 29)


@inlined
def ends_name(c):
    return is_gap(c) or c == COLON or c == NEWLINE or c == BAR


@inlined
def read_name(text, p, seed):
    """The name at ``p``: (where it ends, its hash).  Eight bytes at a time: a branch for each is often mispredicted."""
    h = seed
    start = p
    while True:
        word = eight_bytes(text, p)
        # the high bit of each byte that is a space or less, a colon or a bar; the lowest one is exact (Warren,
        # "Hacker's Delight", section 6-1)
        colons = word ^ COLONS
        bars = word ^ BARS
        separators = (word - BLANKS) & ~word | (colons - ONES) & ~colons | (bars - ONES) & ~bars
        n = trailing_zeros(separators & HIGH_BITS) >> 3
        if n == 8:
            h = scramble(h ^ word)
            p += 8
            continue
        p += n
        if not ends_name(byte_at(text, p)):  # a control character, which is a letter like others
            p = start
            while not ends_name(byte_at(text, p)):
                p += 1
            return p, name_hash(text, start, p, seed)
        left = word & ((np.uint64(1) << np.uint64(8 * n)) - np.uint64(1))
        return p, scramble(h ^ left ^ (np.uint64(n) << np.uint64(56)))


@kernel
def parse_rows(text, end, labels, weights, indptr, ids, values, lines, named, names, firsts, lasts):
    """Parse ``text[:end]`` (uint8, whole lines, the last byte a newline, ``SPARE`` more bytes after it).  Outputs:
    labels (rows,), nan where there is none, weights (rows,) and values float64; indptr (rows + 1,) and ids int64; lines
    (rows,) int64, the line of each row (0-based); named: names[firsts[k]:lasts[k]] is the name of entry k, as long as
    ``names`` (uint8) has room.  Returns (rows, lines read, code, position of the fault, bytes of all names)."""
    recent = np.zeros(RECENT if named else 1, np.int64)  # 1 + the entry that had a name last
    filled = p = rows = k = line = 0
    indptr[0] = 0
    while p < end:
        while is_gap(byte_at(text, p)):
            p += 1
        if byte_at(text, p) == NEWLINE:
            p += 1
            line += 1
            continue
        # what comes before the first bar
        lines[rows] = line
        labels[rows] = np.nan
        weights[rows] = 1.0
        words = 0
        tagged = False
        while True:
            while is_gap(byte_at(text, p)):
                p += 1
            c = byte_at(text, p)
            token = p
            if c == BAR:
                break
            if c == NEWLINE:
                return rows, line, NO_BAR, token, filled
            if tagged:
                return rows, line, TAG_AMID, token, filled
            stop = p
            while True:
                c = byte_at(text, stop)
                if is_gap(c) or c == BAR or c == NEWLINE:
                    break
                stop += 1
            if c == NEWLINE:
                return rows, line, NO_BAR, token, filled
            if c == BAR or byte_at(text, p) == QUOTE:
                tagged = True
                p = stop
                continue
            if words == 3:
                return rows, line, LONG_HEAD, token, filled
            p, code, value = number(text, token)
            if code == NOT_FINITE or np.isinf(value):
                return rows, line, NOT_FINITE, token, filled
            if code == BAD_VALUE or p != stop:
                return rows, line, BAD_HEAD, token, filled
            if words == 0:
                labels[rows] = value + 0.0  # -0 is 0
            elif words == 1:
                if byte_at(text, token) == MINUS and value != 0.0:
                    return rows, line, BAD_WEIGHT, token, filled
                weights[rows] = value + 0.0
            elif value != 0.0:
                return rows, line, BASE, token, filled
            words += 1
        # the namespaces
        while byte_at(text, p) == BAR:
            p += 1
            space = p
            p, seed = read_name(text, p, np.uint64(0))
            space_stop = p
            scale = 1.0
            if byte_at(text, p) == COLON:
                if space_stop == space:
                    return rows, line, NO_NAMESPACE, space, filled
                p, code, scale = number(text, p + 1)
                c = byte_at(text, p)
                if code == NOT_FINITE:
                    return rows, line, NOT_FINITE, space, filled
                if code != FINE or not np.isfinite(scale) or c == COLON or not ends_name(c):
                    return rows, line, BAD_SCALE, space, filled
            # the features
            while True:
                while is_gap(byte_at(text, p)):
                    p += 1
                c = byte_at(text, p)
                if c == BAR or c == NEWLINE:
                    break
                token = p
                p, hashed = read_name(text, p, seed)
                stop = p
                if stop == token:
                    return rows, line, NO_NAME, token, filled
                value = 1.0
                code = FINE
                if byte_at(text, p) == COLON:
                    p, code, value = number(text, stop + 1)
                    c = byte_at(text, p)
                    if code == NOT_FINITE:
                        return rows, line, NOT_FINITE, token, filled
                    if code == BAD_VALUE or c == COLON or not ends_name(c):
                        return rows, line, BAD_VALUE, token, filled
                values[k] = value * scale
                if not np.isfinite(values[k]):
                    return rows, line, BIG_VALUE, token, filled
                i = np.int64(hashed >> np.uint64(1))
                ids[k] = i
                if named:
                    before = named_before(recent, ids, i)
                    if before >= 0:
                        firsts[k] = firsts[before]
                        lasts[k] = lasts[before]
                    else:
                        firsts[k] = filled
                        length = stop - token + (space_stop - space + 1 if space_stop > space else 0)
                        if filled + length <= names.shape[0]:
                            n = filled
                            for at in range(space, space_stop):
                                names[n] = text[at]
                                n += 1
                            if space_stop > space:
                                names[n] = CARET
                                n += 1
                            for at in range(token, stop):
                                names[n] = text[at]
                                n += 1
                        filled += length
                        lasts[k] = filled
                    recent[i & (RECENT - 1)] = k + 1
                k += 1
        p += 1
        line += 1
        rows += 1
        indptr[rows] = k
    return rows, line, FINE, -1, filled
