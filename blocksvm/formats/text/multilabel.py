"""svmlight text whose labels are no numbers: ``multilabel``, a set of labels a line (``1,3 5:0.2``, LIBSVM's format),
and ``svmlight-named``, a label that is a word (``sports 5:0.2``).

The first word of each line is the label, up to the first blank; what follows is svmlight's.  ? says that the row has no
label.  A line that begins with a blank or with a pair has none either: of ``multilabel`` the empty set.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import EXACT, as_exact
from blocksvm.base.row_batch import RowBatch
from blocksvm.formats.format import EXPANSION, ParseBuffer, ReaderOptions
from blocksvm.formats.text.svmlight import SvmlightReader
from blocksvm.formats.text.text_source import TextPiece, quoted
from blocksvm.kernels.text_bytes import COLON, HASH, NEWLINE, SPACE, SPARE, ZERO

NONE = b"?"  # in the place of a label that is not known
BLANKS = np.array([ord(blank) for blank in " \t\r\n"], np.uint8)


def word_label(word: bytes) -> str | None:
    """The label of a line whose first word this is; None: it has none."""
    return None if word == NONE else word.decode("utf-8", "backslashreplace") or None


def set_label(word: bytes) -> tuple | None:
    """The set of labels that a word lists: numbers where all are, else words; InputError for a number that float64 does
    not hold."""
    if word == NONE:
        return None
    members = [member for member in word.decode("utf-8", "backslashreplace").split(",") if member]
    try:
        numbers = tuple(float(member) + 0.0 for member in members)
    except ValueError:
        return tuple(members)
    for member, number in zip(members, numbers, strict=True):
        if not np.isfinite(number):
            raise InputError(f"the label {quoted(member.encode()[:40])} is not a finite number; mend it")
        if abs(number) >= EXACT and member.lstrip("+-").isdigit() and int(member) != int(number):
            raise InputError(as_exact(member, "put a letter before each label"))
    return numbers


class LabelledReader(SvmlightReader):
    """``label_of(word)`` makes a line's label of its first word; required: whether a row must have one."""

    expansion = 2 * EXPANSION  # a copy of the text, and objects for the labels

    def __init__(self, reading: ReaderOptions, label_of, required: bool):
        super().__init__(replace(reading, labelled=False))
        self.label_of = label_of
        self.required = required and reading.labelled

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        end = piece.end
        text = np.append(piece.text[:end], np.zeros(SPARE, np.uint8))
        newlines = np.flatnonzero(text[:end] == NEWLINE)
        starts = np.append(0, newlines[:-1] + 1)[: len(newlines)]
        blanks = np.flatnonzero(np.isin(text[:end], BLANKS))
        stops = blanks[np.searchsorted(blanks, starts)]
        colons = np.flatnonzero(text[:end] == COLON)
        a_pair = np.searchsorted(colons, stops) > np.searchsorted(colons, starts)
        labelled = ~a_pair & (stops > starts) & (text[starts] != HASH)
        stops = np.where(labelled, stops, starts)
        # the parser sees a label of 0 in the place of each
        words = np.zeros(end + 1, np.int8)
        np.add.at(words, starts[labelled], 1)
        np.add.at(words, stops[labelled], -1)
        raw = text.tobytes()
        text[:end][np.cumsum(words[:end], dtype=np.int8) > 0] = SPACE
        text[starts[labelled]] = ZERO
        batch = super().parse(TextPiece(piece.source, text, end, piece.fraction), buffer)
        lines = batch.origin.records
        known: dict[bytes, object] = {}
        labels, missing = [], None
        for start, stop in zip(starts[lines].tolist(), stops[lines].tolist(), strict=True):
            word = raw[start:stop]
            if not word and missing is None:
                missing = len(labels)
            if word not in known:
                try:
                    known[word] = self.label_of(word)
                except InputError as error:
                    return replace(batch, labels=labels).until(len(labels), str(error))
            labels.append(known[word])
        batch = replace(batch, labels=labels)
        if self.required and missing is not None:
            wrong = "the line has no label; a line is 'label id:value id:value ...', with ? for none"
            return batch.until(missing, wrong)
        return batch


class LabelledText:
    """A format that is named, never guessed: nearly any text might be read as this."""

    def __init__(self, lines: str, label_of, required: bool):
        self.lines, self.label_of, self.required = lines, label_of, required

    def reader(self, reading: ReaderOptions) -> LabelledReader:
        return LabelledReader(reading, self.label_of, self.required)


MULTILABEL = LabelledText("'label,label,... id:value ...'", set_label, required=False)
NAMED_LABELS = LabelledText("'word id:value ...'", word_label, required=True)
