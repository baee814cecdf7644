"""Vowpal Wabbit text: a piece of it to rows, and every fault as a sentence with its file and line.

    [label [importance [base]]] ['tag]|namespace[:scale] feature[:value] ... |namespace ...

As Vowpal Wabbit reads it: a row without a label is unlabelled; a last word that touches the first bar, or begins with a
quote, is a tag, and tags are left out; a namespace's scale multiplies its values; a feature without a value has 1; what
follows a bar and a blank has no namespace; empty lines are no rows; there are no comments.  A base other than 0 and a
value that is no number are refused.  Vowpal Wabbit adds up what a feature occurs with more than once; here that is an
error unless ``duplicates`` says 'sum'.

A feature's id is h(h(0, namespace), name) >> 1, where h(seed, name) takes eight bytes of the name at a time, as a
little-endian number x: seed = m(seed xor x), and at last m(seed xor y), with the up to seven bytes that are left in y
and their number in its highest byte; m is the finaliser of splitmix64 (Steele, Lea and Flood 2014).  Of 10^8 features
two have the same id with probability 5e-4.
"""

from __future__ import annotations

import re

import numpy as np

from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.formats.format import Reading, Room
from blocksvm.formats.text.row_labels import first_words, inexact
from blocksvm.formats.text.text_source import TextPiece, is_number, quoted, utf8_lines
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.hash_table import scramble
from blocksvm.kernels.name_hashes import name_hash
from blocksvm.kernels.numbers import BAD_VALUE, FINE, NOT_FINITE, UNDECIDED, number
from blocksvm.kernels.shuffle import LOWER, sorted_hashes
from blocksvm.kernels.svmlight_loops import BIG_NORM, BIG_VALUE, DUPLICATE, close_sums
from blocksvm.kernels.text_bytes import (
    COLON,
    MINUS,
    NEWLINE,
    RETURN,
    SPACE,
    SPARE,
    TAB,
    byte_at,
    eight_bytes,
    trailing_zeros,
)

QUOTE, BAR, CARET = 39, 124, 94
ONES = np.uint64(0x0101010101010101)
HIGH_BITS = np.uint64(0x8080808080808080)
COLONS = np.uint64(COLON * 0x0101010101010101)
BARS = np.uint64(BAR * 0x0101010101010101)
BLANKS = np.uint64((SPACE + 1) * 0x0101010101010101)
# What may be wrong with a line, besides a number's own faults.
NO_BAR = 20
BAD_HEAD = 21  # a word before the first bar that is no number
LONG_HEAD = 22
TAG_AMID = 23
BAD_WEIGHT = 24
BASE = 25
NO_NAMESPACE = 26
BAD_SCALE = 27
NO_NAME = 28
# the kind of a number that Python must parse
LABEL, WEIGHT, VALUE = 0, 1, 2

RECENT = 1 << 14  # names of that many features are found again without a copy
LINE = "'[label [weight]] [tag]|namespace feature:value ...'"
FAULTS = {
    NO_BAR: f"the line has no |; a line is {LINE}",
    BAD_HEAD: f"{{token}} is not a number; a line is {LINE}",
    LONG_HEAD: f"{{token}} is one word too many before the |; a line is {LINE}",
    TAG_AMID: "{token}: what follows a tag must begin with |",
    BAD_WEIGHT: "{token}: a row's weight must be 0 or more",
    BASE: "{token}: a row's base must be 0; learn without it",
    NO_NAMESPACE: "{token}: a scale needs the name of its namespace before it",
    BAD_SCALE: "{token}: the namespace's scale is not a finite number of up to 19 digits",
    NO_NAME: "{token}: the feature has no name",
    BAD_VALUE: "{token}: the value is not a number",
    NOT_FINITE: "{token}: not a finite number; remove the entry or give it a value",
    BIG_NORM: "the squares of the row's values add up to more than float64 holds; scale the features",
}
ROW = re.compile(rb"\s*([-+.\deE]+\s+){0,3}('?[^\s|]*)?\s*(\|[^|]*)+")
WORD = re.compile(rb"\|?[^\s|]*")


@inlined
def is_gap(c):
    return c == SPACE or c == TAB or c == RETURN


@inlined
def ends_name(c):
    return c == SPACE or c == COLON or c == NEWLINE or c == BAR or c == TAB or c == RETURN


@inlined
def read_name(text, p, seed):
    """The name at ``p``: (where it ends, its hash).  Eight bytes at a time: a branch for each would be mispredicted at
    the end of most names."""
    h = seed
    start = p
    while True:
        word = eight_bytes(text, p)
        # the high bit of each byte that is a space or less, a colon or a bar; the lowest one is exact (Warren, "Hacker's
        # Delight", section 6-1)
        colons = word ^ COLONS
        bars = word ^ BARS
        found = (word - BLANKS) & ~word | (colons - ONES) & ~colons | (bars - ONES) & ~bars
        n = trailing_zeros(found & HIGH_BITS) >> 3
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


@inlined
def leave_open(undecided, n, kind, at, start, stop):
    """Note a number that Python must parse, if there is room for it; how many there are now."""
    if n < undecided.shape[0]:
        undecided[n, 0] = kind
        undecided[n, 1] = at
        undecided[n, 2] = start
        undecided[n, 3] = stop
    return n + 1


@inlined
def append_name(text, space, space_stop, start, stop, names, n):
    """Write ``namespace^name`` (of a namespace without a name: ``name``) behind ``names[:n]``; where it ends."""
    if space_stop > space:
        for p in range(space, space_stop):
            names[n] = text[p]
            n += 1
        names[n] = CARET
        n += 1
    for p in range(start, stop):
        names[n] = text[p]
        n += 1
    return n


@kernel
def parse_rows(text, end, labels, weights, indptr, ids, values, lines, undecided, named, names, firsts, lasts):
    """Parse ``text[:end]`` (uint8, whole lines, the last byte a newline, ``SPARE`` more bytes behind it).

    Outputs: labels (rows,) float64, nan where there is none; weights (rows,) float64; indptr (rows + 1,) int64; ids
    int64; values float64; lines (rows,) int64 the line of each row (0-based).  named: names[firsts[k]:lasts[k]] is the
    name of entry k, as long as ``names`` (uint8) has room.
    undecided (m, 4) int64: (LABEL, WEIGHT or VALUE; row or k; start; stop) of numbers for Python to parse; of a value
    that is one of them ``values`` has its namespace's scale.
    Returns (rows, lines read, code, position of the fault, numbers undecided, bytes of names that are needed).
    """
    recent = np.zeros(RECENT if named else 1, np.int64)  # 1 + the entry that had a name last
    filled = 0
    p = 0
    rows = 0
    k = 0
    line = 0
    n_open = 0
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
                return rows, line, NO_BAR, token, n_open, filled
            if tagged:
                return rows, line, TAG_AMID, token, n_open, filled
            stop = p
            while True:
                c = byte_at(text, stop)
                if is_gap(c) or c == BAR or c == NEWLINE:
                    break
                stop += 1
            if c == NEWLINE:
                return rows, line, NO_BAR, token, n_open, filled
            if c == BAR or byte_at(text, p) == QUOTE:
                tagged = True
                p = stop
                continue
            if words == 3:
                return rows, line, LONG_HEAD, token, n_open, filled
            p, code, value = number(text, token)
            if code == NOT_FINITE or (code == FINE and np.isinf(value)):
                return rows, line, NOT_FINITE, token, n_open, filled
            if code == BAD_VALUE or p != stop:
                return rows, line, BAD_HEAD, token, n_open, filled
            if words == 0:
                labels[rows] = value + 0.0  # -0 is 0
                if code == UNDECIDED:
                    n_open = leave_open(undecided, n_open, LABEL, rows, token, stop)
            elif words == 1:
                if byte_at(text, token) == MINUS and value != 0.0:
                    return rows, line, BAD_WEIGHT, token, n_open, filled
                weights[rows] = value + 0.0
                if code == UNDECIDED:
                    n_open = leave_open(undecided, n_open, WEIGHT, rows, token, stop)
            elif code == UNDECIDED or value != 0.0:
                return rows, line, BASE, token, n_open, filled
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
                    return rows, line, NO_NAMESPACE, space, n_open, filled
                p, code, scale = number(text, p + 1)
                c = byte_at(text, p)
                if code == NOT_FINITE:
                    return rows, line, NOT_FINITE, space, n_open, filled
                if code != FINE or not np.isfinite(scale) or c == COLON or not ends_name(c):
                    return rows, line, BAD_SCALE, space, n_open, filled
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
                    return rows, line, NO_NAME, token, n_open, filled
                value = 1.0
                code = FINE
                if byte_at(text, p) == COLON:
                    p, code, value = number(text, stop + 1)
                    c = byte_at(text, p)
                    if code == NOT_FINITE:
                        return rows, line, NOT_FINITE, token, n_open, filled
                    if code == BAD_VALUE or c == COLON or not ends_name(c):
                        return rows, line, BAD_VALUE, token, n_open, filled
                if code == UNDECIDED:
                    n_open = leave_open(undecided, n_open, VALUE, k, stop + 1, p)
                    values[k] = scale
                else:
                    values[k] = value * scale
                    if not np.isfinite(values[k]):
                        return rows, line, BIG_VALUE, token, n_open, filled
                i = np.int64(hashed >> np.uint64(1))
                ids[k] = i
                if named:
                    slot = i & (RECENT - 1)
                    before = recent[slot] - 1
                    if before >= 0 and ids[before] == i:
                        firsts[k] = firsts[before]
                        lasts[k] = lasts[before]
                    else:
                        firsts[k] = filled
                        length = stop - token + (space_stop - space + 1 if space_stop > space else 0)
                        if filled + length <= names.shape[0]:
                            append_name(text, space, space_stop, token, stop, names, filled)
                        filled += length
                        lasts[k] = filled
                    recent[slot] = k + 1
                k += 1
        p += 1
        line += 1
        rows += 1
        indptr[rows] = k
    return rows, line, FINE, -1, n_open, filled


@kernel
def close_rows(indptr, rows, ids, values, sum_duplicates, l2, single, named, firsts, lasts):
    """Put the rows in order, in place; ``indptr`` shrinks with them.

    sum_duplicates: what a feature occurs with more than once is added up; l2: divide a row by its Euclidean norm;
    single: round to float32.  named: firsts and lasts go with their entries.  Returns (row, code, entry) of the first
    fault, and the largest ||x||^2.
    """
    longest = 0
    for r in range(rows):
        longest = max(longest, indptr[r + 1] - indptr[r])
    keys = np.empty((2, longest), np.uint64)
    counts = np.empty(4 << 8, np.int64)
    old_ids = np.empty(longest, np.int64)
    old_values = np.empty(longest)
    old_firsts = np.empty(longest if named else 0, np.int64)
    old_lasts = np.empty(longest if named else 0, np.int64)
    filled = start = indptr[0]
    largest = 0.0
    for r in range(rows):
        stop = indptr[r + 1]
        n = stop - start
        for k in range(n):
            old_ids[k] = ids[start + k]
            old_values[k] = values[start + k]
            if named:
                old_firsts[k] = firsts[start + k]
                old_lasts[k] = lasts[start + k]
        ordered = sorted_hashes(old_ids, n, keys, counts)
        last = filled - 1
        for k in range(n):
            at = ordered[k] & LOWER
            i = old_ids[at]
            if last >= filled and ids[last] == i:
                if not sum_duplicates:
                    return r, DUPLICATE, last, largest
                values[last] += old_values[at]
            else:
                last += 1
                ids[last] = i
                values[last] = old_values[at]
                if named:
                    firsts[last] = old_firsts[at]
                    lasts[last] = old_lasts[at]
        code, after, square = close_sums(ids, values, filled, last + 1, l2, single, named, firsts, lasts)
        if code != FINE:
            return r, code, after, largest
        largest = max(largest, square)
        start = stop
        filled = after
        indptr[r + 1] = filled
    return rows, FINE, -1, largest


class VwReader:
    """``[label [importance]] [tag]|namespace feature:value ...`` a line."""

    def __init__(self, reading: Reading):
        self.reading = reading
        # the shortest entry, " a", has an id and a value, and positions of its name
        self.expansion = 20 if reading.named else 10

    def room(self, n_bytes: int) -> Room:
        """A row takes two bytes or more, and so does an entry."""
        return Room(n_bytes // 2 + 1, n_bytes // 2 + 1, weighted=True)

    def parse(self, piece: TextPiece, room: Room | None = None) -> RowBatch:
        text, end = piece.text, piece.end
        recipe, named = self.reading.recipe, self.reading.named
        if len(text) < end + SPARE:  # the parser looks ahead
            text = np.append(text[:end], np.zeros(SPARE, np.uint8))
        end, fault = utf8_lines(text, end)
        if room is None:
            # every row ends with a newline, every feature follows a blank
            blanks = np.count_nonzero(text[:end] <= SPACE)
            room = Room(np.count_nonzero(text[:end] == NEWLINE), blanks, weighted=True)
        labels, weights, indptr, ids, values = room.labels, room.weights, room.indptr, room.ids, room.values
        firsts, lasts = (np.empty(len(ids) if named else 0, np.int64) for _ in range(2))
        names = np.empty(end if named else 0, np.uint8)
        undecided = np.empty((1024, 4), np.int64)
        while True:
            rows, line, code, position, n_undecided, name_bytes = parse_rows(
                text, end, labels, weights, indptr, ids, values, room.lines, undecided, named, names, firsts, lasts
            )
            if n_undecided <= len(undecided) and name_bytes <= len(names):
                break
            undecided = np.empty((max(n_undecided, len(undecided)), 4), np.int64)
            names = np.empty(max(name_bytes, len(names)), np.uint8)
        if code != FINE:
            fault = line, self._sentence(code, text, position)
        for kind, at, start, stop in undecided[:n_undecided].tolist():
            number = float(text[start:stop].tobytes())
            row = at if kind != VALUE else int(np.searchsorted(indptr[: rows + 1], at, side="right")) - 1
            if row >= rows:
                continue  # in the bad line itself
            if kind == VALUE:
                number *= values[at]
            if not np.isfinite(number):
                rows = row
                what = (
                    self.reading.too_large(self._feature(text, end, room.lines[row], ids[at]))
                    if kind == VALUE
                    else self._sentence(NOT_FINITE, text, start)
                )
                fault = (int(room.lines[row]), what)
                break
            (labels, weights, values)[kind][at] = number + 0.0  # -0 is 0
        wrong = inexact(labels[:rows], first_words(text, end, room.lines), "")
        if wrong is not None:
            rows, sentence = wrong
            fault = int(room.lines[rows]), sentence
        done, code, entry, largest = close_rows(
            indptr, rows, ids, values, recipe.sums, recipe.l2, recipe.single, named, firsts, lasts
        )
        if code != FINE:
            rows = done
            bad = int(room.lines[done])
            if code == BIG_NORM:
                fault = bad, FAULTS[code]
            else:
                tell = self.reading.twice if code == DUPLICATE else self.reading.too_large
                fault = bad, tell(self._feature(text, end, bad, ids[entry]))
        nnz = indptr[rows]
        weights = weights[:rows]
        return RowBatch(
            labels[:rows], indptr[: rows + 1], ids[:nnz], values[:nnz],
            Origin(piece.source, piece.fraction, line, room.lines[:rows]), fault=fault, largest=largest,
            weights=None if (weights == 1.0).all() else weights,
            names=(names, firsts[:nnz], lasts[:nnz]) if named else None,
        )  # fmt: skip

    def _sentence(self, code: int, text: np.ndarray, position: int) -> str:
        word = WORD.match(text[position : position + 40].tobytes())[0]
        if code == BIG_VALUE:
            return self.reading.too_large(f"the feature {quoted(word.partition(b':')[0])}")
        if code == NOT_FINITE and b":" not in word and not is_number(quoted(word)):
            code = BAD_HEAD  # a word that begins as nan or inf do
        return FAULTS[code].format(token=quoted(word))

    def _feature(self, text: np.ndarray, end: int, line: int, feature_id: int) -> str:
        """A feature as a sentence names it: the line is read again, with names."""
        ends = np.append(-1, np.flatnonzero(text[:end] == NEWLINE))
        own = np.append(text[ends[line] + 1 : ends[line + 1] + 1], np.zeros(SPARE, np.uint8))
        stop = len(own) - SPARE
        room = self.room(stop)
        firsts, lasts = (np.empty(len(room.ids), np.int64) for _ in range(2))
        names = np.empty(0, np.uint8)
        undecided = np.empty((0, 4), np.int64)
        arrays = own, stop, room.labels, room.weights, room.indptr, room.ids, room.values, room.lines, undecided, True
        needed = parse_rows(*arrays, names, firsts, lasts)[-1]
        names = np.empty(needed, np.uint8)
        parse_rows(*arrays, names, firsts, lasts)
        entry = int(np.flatnonzero(room.ids[: room.indptr[1]] == feature_id)[0])
        return f"the feature {quoted(names[firsts[entry] : lasts[entry]][:60].tobytes())}"


class Vw:
    """The format."""

    lines = LINE

    def score(self, head: bytes, name: str) -> float:
        """The share of the first lines that have a bar, and no more than numbers and a tag before it."""
        lines = [line for line in head.split(b"\n")[:50] if line.strip()]
        return sum(ROW.fullmatch(line) is not None for line in lines) / max(1, len(lines))

    def reader(self, reading: Reading) -> VwReader:
        return VwReader(reading)


VW = Vw()
