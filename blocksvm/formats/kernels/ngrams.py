"""Documents to counted n-grams: UTF-8 decoded, lower-cased, cut into words or characters, hashed, counted by row.

A word is a run of two or more word characters.  The n-gram of words t_1 ... t_n has the hash H_n, where H_1 = h(t_1)
and H_n = m(K H_{n-1} xor h(t_n)), with h of ``name_hash`` and m the finaliser of splitmix64; one of characters has the
``name_hash`` of its bytes.  A feature's id is its hash >> 1.  In a row ids stand in the order of their first
occurrence.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.hash_table import close_joined, entry_of, name_hash, scramble
from blocksvm.kernels.text_bytes import NEWLINE, RETURN, SPACE, TAB, byte_at

WORDS, CHARACTERS, WITHIN_WORDS = 0, 1, 2  # what n-grams are made of
LETTER, BLANK, NOTHING = 1, 2, 4  # bits of a character's kind; what is nothing is left out

ORDER = np.uint64(0x9E3779B97F4A7C15)  # K: the order of words matters
SEEDS = np.array([0, 0x243F6A8885A308D3, 0x13198A2E03707344], np.uint64)  # an n-gram of each kind is another feature


@kernel
def decode(text, start, stop, kinds, becomes, characters, character_kinds):
    """The characters of ``text[start:stop]``, which is UTF-8, as what they become, without those that are nothing,
    between two spaces: how many there are beside these."""
    characters[0], character_kinds[0] = SPACE, BLANK
    n = 1
    p = start
    while p < stop:
        c = byte_at(text, p)
        p += 1
        if c >= 0x80:
            more = 1 + (c >= 0xE0) + (c >= 0xF0)
            c &= 0x3F >> more
            for _ in range(more):
                c = (c << 6) | (byte_at(text, p) & 0x3F)
                p += 1
        known = c < kinds.shape[0]
        kind = kinds[c] if known else 0
        if not kind & NOTHING:
            characters[n] = becomes[c] if known else c
            character_kinds[n] = kind
            n += 1
    characters[n], character_kinds[n] = SPACE, BLANK
    return n - 1


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


@kernel
def cut_words(characters, kinds, n, out, o, bounds):
    """The words of n characters (``decode``), a space between them: (words, position after them in ``out``).  bounds
    (m, 2) int64: where each begins and ends."""
    words = length = 0
    begin = o
    for k in range(1, n + 2):
        if kinds[k] & LETTER:
            o = encoded(out, o, characters[k])
            length += 1
        elif length:
            if length > 1:
                bounds[words, 0] = begin
                bounds[words, 1] = o
                words += 1
                out[o] = SPACE
                begin = o + 1
            o = begin
            length = 0
    return words, o


@kernel
def cut_characters(characters, kinds, n, within, out, o, bounds):
    """n characters (``decode``), a space for each run of two or more blanks: (characters, end of ``out``); within: for
    each run of blanks, before the first word and after the last; bounds: as of ``cut_words``."""
    first, cut = 1 - within, 0
    for k in range(first, n + 1 + within):
        c = characters[k]
        if kinds[k] & BLANK:
            if k > first and kinds[k - 1] & BLANK:
                continue
            if within or (k < n and kinds[k + 1] & BLANK):
                c = SPACE
        bounds[cut, 0] = o
        o = encoded(out, o, c)
        bounds[cut, 1] = o
        cut += 1
    return cut, o


@inlined
def count(h, first, last, slots, stamp, ids, values, filled, named, firsts, lasts):
    """The n-gram of this hash, which lies from ``first`` to ``last`` in ``out``, counted: entries now."""
    k = entry_of(slots, stamp, ids, filled, np.int64(h >> np.uint64(1)))
    if k < filled:
        values[k] += 1.0
        return filled
    values[k] = 1.0
    if named:
        firsts[k] = first
        lasts[k] = last
    return filled + 1


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
            last = bounds[i + length - 1, 1]
            filled = count(h, bounds[i, 0], last, slots, stamp, ids, values, filled, named, firsts, lasts)
    return filled


@kernel
def count_characters(
    bounds, first, n, low, high, seed, short, out, slots, stamp, ids, values, filled, named, firsts, lasts
):
    """The n-grams of ``low`` to ``high`` of the characters first .. n - 1, counted: entries now.  short: where there
    are fewer than an n-gram has, all of them are one, once."""
    for length in range(low, high + 1):
        few = first + length > n
        if few and not (short and n > first):
            break
        for i in range(first, n - (n - first if few else length) + 1):
            stop = bounds[min(i + length, n) - 1, 1]
            h = name_hash(out, bounds[i, 0], stop, seed)
            filled = count(h, bounds[i, 0], stop, slots, stamp, ids, values, filled, named, firsts, lasts)
        if few or (short and first + length == n):
            break
    return filled


@kernel
def find_texts(text, end, prefix, tabbed, labels, texts, lines):
    """Where labels and texts lie in the lines ``text[:end]``: (rows, lines read, whether the next one lacks its tab).
    A line is 'label TAB text', or (not ``tabbed``) also text alone; or, where there is a ``prefix`` (uint8), words that
    begin with it, its labels, and then text.  Outputs: labels, texts (rows, 2) int64, begin and end of each; lines
    (rows,) int64, the line of each (0-based)."""
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
                return rows, line - 1, True
            labels[rows, 1] = at = begin
        else:
            labels[rows, 1], at = tab, tab + 1
        texts[rows, 0] = at
        texts[rows, 1] = stop
        lines[rows] = line - 1
        rows += 1
    return rows, line, False


@kernel
def count_ngrams(text, texts, plan, kinds, becomes, l2, single, named, indptr, ids, values, out, firsts, lasts):
    """Rows of the n-grams of ``text[texts[i, 0]:texts[i, 1]]``, which is UTF-8: the largest ||x||^2.  plan (m, 3)
    int64: of what, and of how many up to how many, n-grams are made.  kinds (uint8), becomes (int32): of code points;
    those beyond are no letters.  Outputs: indptr, ids, values; named: the name of entry k is
    ``out[firsts[k]:lasts[k]]`` (where names are not wanted ``out`` has room for the longest row alone)."""
    filled = o = 0
    largest = 0.0
    longest = 0
    bounds = np.empty((0, 2), np.int64)
    hashes = np.empty(0, np.uint64)
    characters, character_kinds = np.empty(0, np.int32), np.empty(0, np.uint8)
    slots = np.zeros(1024, np.int64)
    indptr[0] = 0
    for row in range(texts.shape[0]):
        start, stop = texts[row, 0], texts[row, 1]
        if stop - start + 3 > longest:
            longest = 2 * (stop - start + 3)
            bounds = np.empty((longest, 2), np.int64)
            hashes = np.empty(longest, np.uint64)
            characters, character_kinds = np.empty(longest, np.int32), np.empty(longest, np.uint8)
        n_characters = decode(text, start, stop, kinds, becomes, characters, character_kinds)
        if not named:
            o = 0
        first = filled
        stamp = np.int64(row + 1) << 32
        for a in range(plan.shape[0]):
            what, low, high = plan[a, 0], plan[a, 1], plan[a, 2]
            if what == WORDS:
                n, o = cut_words(characters, character_kinds, n_characters, out, o, bounds)
            else:
                within = int(what == WITHIN_WORDS)
                n, o = cut_characters(characters, character_kinds, n_characters, within, out, o, bounds)
            # at least half of the slots stay free
            most = filled - first + n * (high - low + 2)
            if 2 * most > slots.shape[0]:
                n_slots = slots.shape[0]
                while 2 * most > n_slots:
                    n_slots *= 2
                slots = np.zeros(n_slots, np.int64)
                for k in range(first, filled):
                    entry_of(slots, stamp, ids, k, ids[k])
            if what == WORDS:
                filled = count_words(
                    bounds, n, low, high, out, slots, stamp, ids, values, filled, named, firsts, lasts, hashes
                )
            elif what == CHARACTERS:
                filled = count_characters(
                    bounds, 0, n, low, high, SEEDS[what], False, out, slots, stamp, ids, values, filled, named, firsts,
                    lasts,
                )
            else:
                at = 0
                for j in range(1, n):  # a word lies between two spaces
                    if bounds[j, 1] == bounds[j, 0] + 1 and out[bounds[j, 0]] == SPACE:
                        filled = count_characters(
                            bounds, at, j + 1, low, high, SEEDS[what], True, out, slots, stamp, ids, values, filled,
                            named, firsts, lasts,
                        )
                        at = j
        filled, square = close_joined(ids, values, first, filled, l2, single)
        largest = max(largest, square)
        indptr[row + 1] = filled
    return largest
