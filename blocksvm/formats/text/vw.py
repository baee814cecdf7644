"""Vowpal Wabbit text: a piece of it to rows, and every fault as a sentence with its file and line.

    [label [importance [base]]] ['tag]|namespace[:scale] feature[:value] ... |namespace ...

As Vowpal Wabbit reads it: a row without a label is unlabelled; a last word that touches the first bar, or begins with a
quote, is a tag, and tags are left out; a namespace's scale multiplies its values; a feature without a value has 1; what
follows a bar and a blank has no namespace; what a feature occurs with more than once is added up, whatever
``duplicates`` says; empty lines are no rows; there are no comments.  A base other than 0 and a value that is no number
are refused.

A feature's id is h(h(0, namespace), name) >> 1, where h(seed, name) takes eight bytes of the name at a time, as a
little-endian number x: seed = m(seed xor x), and at last m(seed xor y), with the up to seven bytes that are left in y
and their number in its highest byte; m is the finaliser of splitmix64 (Steele, Lea and Flood 2014).  Of 10^8 features
two have the same id with probability 5e-4.
"""

import re
from dataclasses import replace

import numpy as np

from blocksvm.base.row_batch import RowBatch
from blocksvm.formats.format import ParseBuffer, ReaderOptions
from blocksvm.formats.kernels import vw as kernels
from blocksvm.formats.kernels.closing import BIG_NORM, BIG_VALUE, close_rows
from blocksvm.formats.kernels.numbers import BAD_VALUE, FINE, NOT_FINITE
from blocksvm.formats.text.row_labels import exact_until
from blocksvm.formats.text.text_source import TextPiece, is_number, quoted, utf8_lines

LINE = "'[label [weight]] [tag]|namespace feature:value ...'"
FAULTS = {
    kernels.NO_BAR: f"the line has no |; a line is {LINE}",
    kernels.BAD_HEAD: f"{{token}} is not a number; a line is {LINE}",
    kernels.LONG_HEAD: f"{{token}} is one word too many before the |; a line is {LINE}",
    kernels.TAG_AMID: "{token}: what follows a tag must begin with |",
    kernels.BAD_WEIGHT: "{token}: a row's weight must be 0 or more",
    kernels.BASE: "{token}: a row's base must be 0; learn without it",
    kernels.NO_NAMESPACE: "{token}: a scale needs the name of its namespace before it",
    kernels.BAD_SCALE: "{token}: the namespace's scale is not a finite number of up to 19 digits",
    kernels.NO_NAME: "{token}: the feature has no name",
    BAD_VALUE: "{token}: the value is not a number",
    NOT_FINITE: "{token}: not a finite number; remove the entry or give it a value",
}
# a line with a bar, before it no more than numbers and a tag, and a feature after it; every word ends where the next
# one can't begin, so that no blank is looked at twice
ROW = re.compile(rb"\s*+([-+.\deE]++\s++){0,3}+('?[^\s|,;]*+)\s*+(\|[^\s|]*+\s*+)++[^\s|]")
WORD = re.compile(rb"\|?[^\s|]*")


class VwReader:
    """``[label [importance]] [tag]|namespace feature:value ...`` a line."""

    def __init__(self, reading: ReaderOptions):
        self.reading = reading
        # the shortest entry, " a", has an id and a value, and positions of its name
        self.expansion = 20 if reading.named else 10

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        text, end = piece.padded(), piece.end
        recipe, named = self.reading.recipe, self.reading.named
        end, fault = utf8_lines(text, end)
        buffer = (buffer or ParseBuffer()).room(end, 1 / 2)  # an entry takes two bytes or more
        labels, indptr, ids, values = buffer.labels, buffer.indptr, buffer.ids, buffer.values
        weights = buffer.take("weights", len(labels), np.float64)
        firsts, lasts = (np.empty(len(ids) if named else 0, np.int64) for _ in range(2))
        names = np.empty(end if named else 0, np.uint8)
        while True:
            rows, line, code, position, name_bytes = kernels.parse_rows(
                text, end, labels, weights, indptr, ids, values, buffer.lines, named, names, firsts, lasts
            )
            if name_bytes <= len(names):
                break
            names = np.empty(name_bytes, np.uint8)
        if code != FINE:
            fault = line, self._sentence(code, text, position)
        rows, fault = exact_until(labels[:rows], text[:end], buffer.lines, fault)
        origins = np.arange(indptr[rows] if named else 0)
        done, code, entry, largest = close_rows(indptr, 0, rows, ids, values, True, recipe.l2, recipe.single, origins)
        firsts, lasts = firsts[origins], lasts[origins]
        if code != FINE:
            if code != BIG_NORM and not named:
                again = VwReader(replace(self.reading, named=True)).parse(piece)  # the fault has a name in it
                return replace(again, names=None)
            rows, name = done, b"" if code == BIG_NORM else names[firsts[entry] : lasts[entry]].tobytes()
            fault = int(buffer.lines[done]), self.reading.fault_of(code, f"the feature {quoted(name[:60])}")
        weights = weights[:rows]
        return buffer.batch(
            piece, line, rows, labels, fault, largest, weights=None if (weights == 1.0).all() else weights,
            names=(names, firsts, lasts) if named else None,
        )  # fmt: skip

    def _sentence(self, code: int, text: np.ndarray, position: int) -> str:
        word = WORD.match(text[position : position + 40].tobytes())[0]
        if code == BIG_VALUE:
            return self.reading.fault_of(code, f"the feature {quoted(word.partition(b':')[0])}")
        if code == NOT_FINITE and b":" not in word and not is_number(quoted(word)):
            code = kernels.BAD_HEAD  # a word that begins as nan or inf do
        return FAULTS[code].format(token=quoted(word))


class Vw:
    lines = LINE
    reader = VwReader
    row = ROW


VW = Vw()
