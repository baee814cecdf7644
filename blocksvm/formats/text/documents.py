"""Documents, 'label TAB text' a line: their n-grams of words or characters, counted.

As scikit-learn's CountVectorizer and HashingVectorizer cut them (lower case; a word is two or more word characters of
Unicode; of characters runs of blanks count as one, and ``char_wb`` stays within words, a space at each end), with three
differences: letters are lower-cased one by one, so that a sigma at the end of a word is one as elsewhere, and U+0130
becomes an i; text that is not UTF-8 is a fault; a carriage return before the end of the line is no character.

Labels are numbers, or words where one of the first lines' is one.  Of text to be predicted a line may be text alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import RowBatch, shown_name
from blocksvm.formats.choices import chosen, ngrams_of
from blocksvm.formats.format import ParseBuffer, ReaderOptions
from blocksvm.formats.kernels import ngrams as kernels
from blocksvm.formats.text.row_labels import ODD, WORDS, are_words, label_of, labels_at
from blocksvm.formats.text.text_source import TextPiece
from blocksvm.kernels.row_arrays import NewNames, NewRows
from blocksvm.kernels.text_bytes import NEWLINE, SPARE

LINE = "'label<TAB>text'"
LABEL_NAMES = {b"label", b"labels", b"class", b"category", b"target", b"sentiment", b"topic", b"y"}  # in a header
TEXT_NAMES = {b"text", b"document", b"content", b"message", b"review", b"sentence", b"comment", b"body", b"title"}
SEVERAL = (
    "documents whose label has a comma in it, which is one class as a whole (of several labels a text, make a line for "
    "each, or rows of the format multilabel)"
)
SAMPLED_LINES = 2_000  # lines, for the kind of labels
LAST_LETTER = 0x32400  # no character from here on is a word's or has a lower case
FAULTS = {
    kernels.NO_TAB: f"the line has no tab; a line is {LINE}",
    kernels.NO_UTF8: "the text is not UTF-8; convert it, as iconv -f latin1 -t utf-8 does",
}


@cache
def characters() -> tuple[np.ndarray, np.ndarray]:
    """(kinds uint8, lower-case code points int32) of all code points before ``LAST_LETTER``."""
    kinds, lower = np.zeros(LAST_LETTER, np.uint8), np.arange(LAST_LETTER, dtype=np.int32)
    for c, character in enumerate(map(chr, range(LAST_LETTER))):
        if character.isalnum():
            kinds[c] = kernels.LETTER
            lower[c] = ord(character.lower()[0])
        elif character.isspace():
            kinds[c] = kernels.BLANK
        elif (small := character.lower()) != character:  # circled letters
            lower[c] = ord(small[0])
    kinds[ord("_")] = kernels.LETTER
    # the class of a letter is that of its lower case
    kinds = kinds[lower]
    return kinds, lower


class DocumentReader:
    """``label TAB text`` a line."""

    def __init__(self, reading: ReaderOptions):
        self.reading = reading
        options = reading.recipe.options
        self.plan = np.array(DOCUMENTS.ngrams(options), np.int64)
        self.words = chosen_of(options)[WORDS]
        counts = self.plan[:, 2] - self.plan[:, 1] + 1
        # n-grams a byte of text: a word and what follows it take three; one character and what surrounds it are three
        # n-grams of one character to two bytes
        each = {kernels.WORDS: 1 / 3, kernels.CHARACTERS: 1.0, kernels.WITHIN_WORDS: 1.25}
        self.entries = sum(each[what] * n for what, n in zip(self.plan[:, 0].tolist(), counts.tolist(), strict=True))
        entry_bytes = 32 if reading.named else 16
        self.expansion = int(2 + 2 * len(self.plan) + entry_bytes * self.entries)

    def buffer(self, n_bytes: int) -> ParseBuffer:
        """A row takes two bytes or more."""
        return ParseBuffer(n_bytes // 2 + 1, int(self.entries * n_bytes) + 1)

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        text, end = piece.padded(), piece.end
        recipe, named = self.reading.recipe, self.reading.named
        if buffer is None:
            buffer = ParseBuffer(np.count_nonzero(text[:end] == NEWLINE), int(self.entries * end) + 1)
        indptr, ids, values, lines = buffer.indptr, buffer.ids, buffer.values, buffer.lines
        spans = np.empty((len(lines), 2), np.int64)
        out = np.empty(2 * len(self.plan) * end + SPARE, np.uint8)
        firsts, lasts = (np.empty(len(ids) if named else 0, np.int64) for _ in range(2))
        rows, line, code, _, largest = kernels.parse_documents(
            text, end, self.reading.labelled, self.plan, *characters(), recipe.l2, recipe.single, named,
            NewRows(spans, indptr, ids, values, lines), NewNames(out, firsts, lasts),
        )  # fmt: skip
        fault = (line, FAULTS[code]) if code else None
        labels, wrong = labels_at(text, spans[:rows], self.words)
        if wrong is not None:
            rows, sentence = wrong
            fault = int(lines[rows]), sentence
        names = (out, firsts, lasts) if named else None
        notes = {}
        several = {label for label in set(labels[:rows]) if label and "," in label} if self.words else ()
        if several and self.reading.offers:
            of_rows = [row for row, label in enumerate(labels[:rows]) if label in several]
            notes[SEVERAL] = len(of_rows), int(lines[of_rows[0]]), repr(labels[of_rows[0]])[:40]
        return buffer.batch(piece, line, rows, labels, fault, largest, names=names, notes=notes)


def chosen_of(options: Mapping) -> dict:
    """The settings of the format, and whether labels are words."""
    requested = {name: value for name, value in options.items() if name != WORDS}
    return chosen("documents", requested) | {WORDS: options.get(WORDS, False)}


class Documents:
    """The format."""

    lines = LINE
    reader = DocumentReader

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        """The settings, and the kind of labels that the first lines have, unless it is known."""
        options = {key: value for key, value in requested.items() if value is not None}
        parts = [line.partition(b"\t") for line in head.split(b"\n")]
        tokens = {token.strip() for token, tab, _ in parts[1:] if tab}
        first = parts[0][0].strip()
        numbers = len(tokens) > 1 and not any(label_of(token, False) is None for token in tokens - {b""})
        if first not in tokens and (
            (first.lower() in LABEL_NAMES and parts[0][2].strip().lower() in TEXT_NAMES)
            or (
                WORDS not in options
                and numbers
                and first
                and label_of(first, False) is None
                and first.lower() not in ODD
            )
        ):
            raise InputError(
                f"{shown_name(name)}:1: the line looks like a header, and documents have none; take it out, as "
                "tail -n +2 FILE | ... - does"
            )
        if WORDS not in options:
            options[WORDS] = are_words(
                (k, token.strip()) for k, (token, tab, _) in enumerate(parts) if tab and token.strip()
            )
        return chosen_of(options)

    def ngrams(self, options: Mapping) -> list[tuple[int, int, int]]:
        """The n-grams that features are, as ``choices.ngrams_of`` has them."""
        return ngrams_of(chosen_of(options)["ngrams"])

    def head_lines(self, requested: Mapping) -> int:
        """The number of first lines that ``settled`` reads."""
        return 1 if WORDS in requested else SAMPLED_LINES


DOCUMENTS = Documents()
