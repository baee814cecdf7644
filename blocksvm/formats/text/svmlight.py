"""svmlight / LIBSVM text: a piece of it to rows, and every fault as a sentence with its file and line.

Labels are numbers, or words (``svmlight-named``), or sets (``multilabel``, ``1,3 5:0.2``, LIBSVM's format).  A word is
the first of its line, up to a blank; ? says that the row has no label.  A line that begins with a blank or with a pair
has none either: of ``multilabel`` the empty set.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import option
from blocksvm.base.labels import MENDED
from blocksvm.base.row_batch import RowBatch
from blocksvm.formats.format import EXPANSION, ParseBuffer, ReaderOptions
from blocksvm.formats.kernels import svmlight as kernels
from blocksvm.formats.kernels.closing import NO_ORIGINS, close_rows
from blocksvm.formats.text.row_labels import exact_until, labels_until, set_label, word_label
from blocksvm.formats.text.text_source import TextPiece, is_number, word_at
from blocksvm.kernels.text_bytes import NEWLINE

FAULTS = {
    kernels.BAD_LABEL: "{token} is not a number; a line is 'label id:value id:value ...'",
    kernels.NO_LABEL: "the line has no label (it begins with {token}); a line is 'label id:value id:value ...', with ? "
    "for none",
    kernels.BAD_PAIR: "{token} is not id:value",
    kernels.BAD_ID: "{token} does not begin with a feature id, a whole number of 0 or more",
    kernels.NEGATIVE_ID: "{token}: feature ids must be 0 or more",
    kernels.BIG_ID: "{token}: feature ids go up to 9223372036854775807; hash or renumber them",
    kernels.BAD_VALUE: "{token}: the value is not a number",
    kernels.NOT_FINITE: "{token}: not a finite number; remove the entry or give it a value",
}
# how lines of other formats begin: what they are, and the format that reads them
FOREIGN = {"{": ("of JSON; objects, one a line, are", "jsonl"), "__label__": ("of fastText, which is", "fasttext")}
GROUP = re.compile(rb"^[^#\n:]*[ \t]qid:", re.MULTILINE)
ROW = re.compile(rb"\s*+([-+.\d][-+.\deE]*+|\?)([ \t]++(qid|\+?\d++):[ \t]*+[-+.\deE]++)*+\s*+(#.*)?\Z")


class SvmlightReader:
    """``label id:value id:value ...`` a line; label_of(word): what its first word is, None where that is a number."""

    def __init__(self, reading: ReaderOptions, label_of: Callable | None = None):
        self.reading, self.label_of = reading, label_of
        self.expansion = EXPANSION if label_of is None else 2 * EXPANSION  # objects for the labels

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        text, end = piece.padded(), piece.end
        recipe = self.reading.recipe
        buffer = (buffer or ParseBuffer()).room(end, 1 / 4)  # an entry (" 1:1") takes four bytes or more
        labels, indptr, lines, ids, values = buffer.labels, buffer.indptr, buffer.lines, buffer.ids, buffer.values
        # else a row's values are rounded after they have been added up, or scaled
        closing = not recipe.l2 and not recipe.sums
        words = np.empty((len(labels) if self.label_of else 0, 2), np.int64)
        rows, line, code, position, closed, largest = kernels.parse_rows(
            text, end, self.reading.labelled, closing, recipe.single, labels, words, indptr, ids, values, lines
        )
        fault = None if code == kernels.FINE else (line, self._parse_fault(code, word_at(text, position)))
        cure = f"{option('format', 'svmlight-named')} takes labels as words" if self.reading.offers else ""
        if self.label_of is not None:
            labels, fault = labels_until(text, words[:rows], lines, self.label_of, fault)
            rows = len(labels)
        else:
            rows, fault = exact_until(labels[:rows], text[:end], lines, fault, cure)
        if closed < rows:  # of most files every row is closed, and this kernel need not be compiled
            done, code, entry, others = close_rows(
                indptr, closed, rows, ids, values, recipe.sums, recipe.l2, recipe.single, NO_ORIGINS
            )
            largest = max(largest, others)
            if code != kernels.FINE:
                rows = done
                fault = int(lines[done]), self.reading.fault_of(code, f"feature id {ids[entry]}")
        notes = groups_in(text[:end], lines[:rows])
        return buffer.batch(piece, line, rows, labels, fault, largest, notes=notes)

    def _parse_fault(self, code: int, token: str) -> str:
        if code == kernels.BIG_VALUE:
            return self.reading.fault_of(code, f"feature id {token.strip(chr(39)).partition(':')[0]}")
        more = ""
        if code == kernels.NOT_FINITE and ":" not in token:
            if is_number(token):
                return f"the label {token} is not a finite number; {MENDED}"
            code = kernels.BAD_LABEL  # a word that begins as nan or inf do
        if code == kernels.BAD_LABEL:
            for begins, (what, name) in FOREIGN.items():
                if token[1:].lstrip("[").startswith(begins):
                    return f"{token} begins a line {what} read by {option('format', name)}"
            more = f" (words and sets of labels are read by {option('format', 'svmlight-named')} and multilabel)"
        return FAULTS[code].format(token=token) + more


def groups_in(text: np.ndarray, lines: np.ndarray) -> dict:
    """The note on groups of rows (``qid:``), which are not used; see ``RowBatch.notes``."""
    if not len(lines) or re.search(b"q", text) is None:
        return {}
    ends = np.flatnonzero(text == NEWLINE)
    stop = int(ends[lines[-1]])
    first = GROUP.search(text, 0, stop)
    if first is None:
        return {}
    what = "rows with a group (qid), which is not used: each row counts by itself"
    return {what: (len(GROUP.findall(text, 0, stop)), int(np.searchsorted(ends, first.start())), "")}


class Svmlight:
    """The format; label_of: as of its reader; required: whether a row must have a label."""

    row = ROW

    def __init__(self, lines: str, label_of: Callable | None = None, required: bool = True):
        self.lines, self.label_of, self.required = lines, label_of, required

    def reader(self, reading: ReaderOptions) -> SvmlightReader:
        return SvmlightReader(replace(reading, labelled=reading.labelled and self.required), self.label_of)


SVMLIGHT = Svmlight("'label id:value ...'")
# named, never guessed: nearly any text might be read as these
MULTILABEL = Svmlight("'label,label,... id:value ...'", set_label, required=False)
NAMED_LABELS = Svmlight("'word id:value ...'", word_label)
