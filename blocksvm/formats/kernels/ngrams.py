"""Documents to counted n-grams: UTF-8 decoded, lower-cased, cut into words or characters, hashed, counted by row.

A word is a run of two or more word characters.  The n-gram of words t_1 ... t_n has the hash H_n, where H_1 = h(t_1)
and H_n = m(K H_{n-1} xor h(t_n)), with h of ``name_hash`` and m the finaliser of splitmix64; one of characters has the
``name_hash`` of its bytes.  A feature's id is its hash >> 1.  In a row ids stand in the order of their first occurrence.
"""

from typing import NamedTuple

import numpy as np

from blocksvm.formats.kernels.name_hashes import name_hash
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.hash_table import close_joined, scramble
from blocksvm.kernels.text_bytes import NEWLINE, RETURN, SPACE, TAB, byte_at

WORDS, CHARACTERS, WITHIN_WORDS = 0, 1, 2  # what n-grams are made of
LETTER, BLANK, NOTHING = 1, 2, 4  # bits of a character's kind; what is nothing is left out
# what may be wrong with a line
NO_TAB = 30

ORDER = np.uint64(0x9E3779B97F4A7C15)  # K: the order of words matters
SEEDS = np.array([0, 0x243F6A8885A308D3, 0x13198A2E03707344], np.uint64)  # an n-gram of each kind is another feature


class NewNames(NamedTuple):
    """The names of entries, where they are wanted: text[first[k]:last[k]] is that of entry k."""

    text: np.ndarray
    first: np.ndarray
    last: np.ndarray


@inlined
def decoded(text, p):
    """The character at ``p`` of UTF-8 text: (next position, code point, -1 where there is none)."""
    c = byte_at(text, p)
    if c < 0x80:
        return p + 1, c
    least, n = 0, 0
    if 0xC2 <= c < 0xE0:
        c, n, least = c & 0x1F, 1, 0x80
    elif 0xE0 <= c < 0xF0:
        c, n, least = c & 0x0F, 2, 0x800
    elif 0xF0 <= c < 0xF5:
        c, n, least = c & 0x07, 3, 0x10000
    if n == 0:
        return p, -1
    for j in range(1, n + 1):
        more = byte_at(text, p + j)
        if more & 0xC0 != 0x80:
            return p, -1
        c = (c << 6) | (more & 0x3F)
    if c < least or c > 0x10FFFF or 0xD800 <= c < 0xE000:
        return p, -1
    return p + n + 1, c


@inlined
def encoded(out, o, c):
    """Write a code point as UTF-8: the position after it."""
    if c < 0x80:
        out[o] = c
        return o + 1
    if c < 0x800:
        out[o] = 0xC0 | (c >> 6)
        out[o + 1] = 0x80 | (c & 0x3F)
        return o + 2
    if c < 0x10000:
        out[o] = 0xE0 | (c >> 12)
        out[o + 1] = 0x80 | ((c >> 6) & 0x3F)
        out[o + 2] = 0x80 | (c & 0x3F)
        return o + 3
    out[o] = 0xF0 | (c >> 18)
    out[o + 1] = 0x80 | ((c >> 12) & 0x3F)
    out[o + 2] = 0x80 | ((c >> 6) & 0x3F)
    out[o + 3] = 0x80 | (c & 0x3F)
    return o + 4


@inlined
def kind_of(kinds, c):
    return kinds[c] if c < kinds.shape[0] else 0


@inlined
def lowered(lower, c):
    return lower[c] if c < lower.shape[0] else c


@kernel
def cut_words(text, start, stop, kinds, lower, out, o, bounds):
    """The words of ``text[start:stop]``, small where they are to be, a space between them: (words, position after them in ``out``, -1
    where the text is not UTF-8).  bounds (m, 2) int64: where each begins and ends."""
    n = 0
    begin = o
    length = 0
    p = start
    while p <= stop:
        c = SPACE
        kind = BLANK
        if p < stop:
            p, c = decoded(text, p)
            if c < 0:
                return n, -1
            kind = kind_of(kinds, c)
        else:
            p += 1
        if kind & NOTHING:
            continue
        if kind & LETTER:
            o = encoded(out, o, lowered(lower, c))
            length += 1
        elif length:
            if length > 1:
                bounds[n, 0] = begin
                bounds[n, 1] = o
                n += 1
                out[o] = SPACE
                begin = o + 1
            o = begin
            length = 0
    return n, o


@kernel
def cut_characters(text, start, stop, kinds, lower, within, out, o, bounds):
    """The characters of ``text[start:stop]``, lower-cased, a space for each run of two or more blanks: (characters,
    position after them in ``out``, -1 where the text is not UTF-8).

    within: a space for each run of blanks, before the first word and after the last, none where there is no word.
    bounds (m, 2) int64: where each begins and ends.
    """
    n = blanks = 0
    p = start
    while p <= stop:
        c = SPACE
        kind = 0
        if p < stop:
            p, c = decoded(text, p)
            if c < 0:
                return n, -1
            kind = kind_of(kinds, c)
        else:
            p += 1
            if not within:
                break
            kind = BLANK
        if kind & NOTHING:
            continue
        if kind & BLANK:
            blanks += 1
            if within and (n == 0 or blanks > 1):
                continue
            if blanks == 2:  # the blank that stands there is the run's
                bounds[n - 1, 1] = encoded(out, bounds[n - 1, 0], SPACE)
                o = bounds[n - 1, 1]
            if blanks > 1:
                continue
            c = SPACE if within else c
        elif within and n == 0:
            bounds[n, 0] = o
            o = encoded(out, o, SPACE)
            bounds[n, 1] = o
            n += 1
            blanks = 0
        else:
            blanks = 0
        bounds[n, 0] = o
        o = encoded(out, o, lowered(lower, c))
        bounds[n, 1] = o
        n += 1
    return n, o


@inlined
def counted(slots, stamp, ids, values, filled, hashed):
    """Count an n-gram of the row whose first entry is ``stamp & 0xFFFFFFFF`` entries back: (its entry, entries now)."""
    i = np.int64(hashed >> np.uint64(1))
    last = slots.shape[0] - 1
    s = i & last
    while True:
        position = slots[s]
        if position < stamp:
            slots[s] = stamp + filled
            ids[filled] = i
            values[filled] = 1.0
            return filled, filled + 1
        if ids[position - stamp] == i:
            values[position - stamp] += 1.0
            return position - stamp, filled
        s = (s + 1) & last


@kernel
def count_words(bounds, n, low, high, out, slots, stamp, ids, values, filled, named, firsts, lasts, hashes):
    """The n-grams of ``low`` to ``high`` words, counted: entries now."""
    for i in range(n):
        hashes[i] = name_hash(out, bounds[i, 0], bounds[i, 1], SEEDS[WORDS])
    for i in range(n):
        h = hashes[i]
        for length in range(1, min(high, n - i) + 1):
            if length > 1:
                h = scramble((h * ORDER) ^ hashes[i + length - 1])
            if length < low:
                continue
            k, after = counted(slots, stamp, ids, values, filled, h)
            if named and after > filled:
                firsts[k] = bounds[i, 0]
                lasts[k] = bounds[i + length - 1, 1]
            filled = after
    return filled


@kernel
def count_characters(bounds, first, n, low, high, seed, short, out, slots, stamp, ids, values, filled, named, firsts, lasts):
    """The n-grams of ``low`` to ``high`` of the characters first .. n - 1, counted: entries now.  short: where there are
    fewer than an n-gram has, all of them are one, once."""
    for length in range(low, high + 1):
        few = first + length > n
        if few and not (short and n > first):
            break
        for i in range(first, n - (n - first if few else length) + 1):
            stop = bounds[min(i + length, n) - 1, 1]
            k, after = counted(slots, stamp, ids, values, filled, name_hash(out, bounds[i, 0], stop, seed))
            if named and after > filled:
                firsts[k] = bounds[i, 0]
                lasts[k] = stop
            filled = after
        if few or (short and first + length == n):
            break
    return filled


@kernel
def find_texts(text, end, prefix, tabbed, labels, texts, lines):
    """Where labels and texts lie in the lines ``text[:end]``: (rows, lines read, code, position of the fault).

    A line is 'label TAB text', or (not ``tabbed``) also text alone; or, where there is a ``prefix`` (uint8), words that
    begin with it, its labels, and then text.  Outputs: labels, texts (rows, 2) int64, begin and end of each; lines (rows,)
    int64, the line of each (0-based).
    """
    rows = line = p = 0
    while p < end:
        begin = p
        tab = -1
        empty = True
        while True:
            c = byte_at(text, p)
            if c == NEWLINE:
                break
            if c == TAB and tab < 0:
                tab = p
            empty = empty and (c == SPACE or c == RETURN)
            p += 1
        stop = p - 1 if p > begin and byte_at(text, p - 1) == RETURN else p
        p += 1
        line += 1
        if empty:
            continue
        labels[rows, 0] = begin
        if len(prefix):
            at = labels[rows, 1] = begin
            while True:
                while at < stop and (byte_at(text, at) == SPACE or byte_at(text, at) == TAB):
                    at += 1
                j = 0
                while j < len(prefix) and at + j < stop and text[at + j] == prefix[j]:
                    j += 1
                if j < len(prefix):
                    break
                while at < stop and byte_at(text, at) != SPACE and byte_at(text, at) != TAB:
                    at += 1
                labels[rows, 1] = at
        elif tab < 0:
            if tabbed:
                return rows, line - 1, NO_TAB, begin
            labels[rows, 1] = at = begin
        else:
            labels[rows, 1], at = tab, tab + 1
        texts[rows, 0] = at
        texts[rows, 1] = stop
        lines[rows] = line - 1
        rows += 1
    return rows, line, 0, -1


@kernel
def count_ngrams(text, texts, n_rows, plan, kinds, lower, l2, single, named, indptr, ids, values, name_arrays):
    """Rows of the n-grams of ``text[texts[i, 0]:texts[i, 1]]``, i < n_rows.

    plan (m, 3) int64: of what, and of how many up to how many, n-grams are made.  kinds (uint8), lower (int32): of code
    points; those beyond are no letters.  Outputs: indptr, ids, values; named: name_arrays (``NewNames``), whose text has
    room for the longest row alone where names are not wanted.
    Returns (rows before the first that is not UTF-8, the largest ||x||^2).
    """
    out, firsts, lasts = name_arrays
    filled = o = 0
    largest = 0.0
    longest = 0
    bounds = np.empty((0, 2), np.int64)
    hashes = np.empty(0, np.uint64)
    slots = np.zeros(1024, np.int64)
    indptr[0] = 0
    for row in range(n_rows):
        start, stop = texts[row, 0], texts[row, 1]
        if stop - start + 3 > longest:
            longest = 2 * (stop - start + 3)
            bounds = np.empty((longest, 2), np.int64)
            hashes = np.empty(longest, np.uint64)
        if not named:
            o = 0
        first = filled
        stamp = np.int64(row + 1) << 32
        for a in range(plan.shape[0]):
            what, low, high = plan[a, 0], plan[a, 1], plan[a, 2]
            if what == WORDS:
                n, after = cut_words(text, start, stop, kinds, lower, out, o, bounds)
            else:
                n, after = cut_characters(text, start, stop, kinds, lower, what == WITHIN_WORDS, out, o, bounds)
            if after < 0:
                return row, largest
            o = after
            # at least half of the slots stay free
            most = filled - first + n * (high - low + 2)
            if 2 * most > slots.shape[0]:
                n_slots = slots.shape[0]
                while 2 * most > n_slots:
                    n_slots *= 2
                slots = np.zeros(n_slots, np.int64)
                for k in range(first, filled):
                    s = ids[k] & (n_slots - 1)
                    while slots[s] >= stamp:
                        s = (s + 1) & (n_slots - 1)
                    slots[s] = stamp + k
            if what == WORDS:
                filled = count_words(
                    bounds, n, low, high, out, slots, stamp, ids, values, filled, named, firsts, lasts, hashes
                )
            elif what == CHARACTERS:
                filled = count_characters(
                    bounds, 0, n, low, high, SEEDS[what], False, out, slots, stamp, ids, values, filled, named, firsts, lasts
                )
            else:
                at = 0
                for j in range(1, n):  # a word lies between two spaces
                    if bounds[j, 1] == bounds[j, 0] + 1 and out[bounds[j, 0]] == SPACE:
                        filled = count_characters(
                            bounds, at, j + 1, low, high, SEEDS[what], True, out, slots, stamp, ids, values, filled, named,
                            firsts, lasts,
                        )
                        at = j
        filled, square = close_joined(ids, values, first, filled, l2, single)
        largest = max(largest, square)
        indptr[row + 1] = filled
    return n_rows, largest
