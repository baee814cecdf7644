"""Texts, one a line, whose features are n-grams (ngram_features.py): ``documents``, 'label TAB text', and ``fasttext``,
'__label__a __label__b text'.

Labels of documents are numbers, or words where one of the first lines' is one; those of fastText's lines are words, or
sets of words where one of the first lines has several.  Of text to be predicted a line may be text alone.  Text that is
not UTF-8 is a fault; a carriage return before the end of the line is no character.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import CodedLabels
from blocksvm.base.row_batch import RowBatch, shown_name
from blocksvm.formats.choices import LABEL_TYPE, WORDS, chosen
from blocksvm.formats.format import ParseBuffer, ReaderOptions
from blocksvm.formats.kernels import ngrams as kernels
from blocksvm.formats.ngram_features import NgramFeatures
from blocksvm.formats.text.row_labels import ODD, are_words, label_of, labels_until, sentence_of
from blocksvm.formats.text.text_source import TextPiece, not_utf8

LABEL_NAMES = {b"label", b"labels", b"class", b"category", b"target", b"sentiment", b"topic", b"y"}  # in a header
TEXT_NAMES = {b"text", b"document", b"content", b"message", b"review", b"sentence", b"comment", b"body", b"title"}
SEVERAL = (
    "documents whose label has a comma in it, which is one class as a whole (of several labels a text, make a line for "
    "each, or lines of the format fasttext)"
)
SAMPLED_LINES = 2_000  # lines, for the kind of labels
NO_UTF8 = "the text is not UTF-8; convert it, as iconv -f latin1 -t utf-8 does"
PREFIX = b"__label__"


class DocumentReader:
    def __init__(self, reading: ReaderOptions, format_: Documents):
        self.reading = reading
        self.format = format_
        self.options = format_.chosen_of(reading.recipe.options)
        self.ngrams = NgramFeatures(reading.recipe, reading.named)
        self.expansion = self.ngrams.expansion

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        text, end = piece.padded(), piece.end
        buffer = (buffer or ParseBuffer()).room(end, self.ngrams.entries)
        label_spans, spans = (np.empty((len(buffer.lines), 2), np.int64) for _ in range(2))
        prefix = np.frombuffer(self.format.prefix, np.uint8)
        tabbed = self.reading.labelled
        n, line, no_tab = kernels.find_texts(text, end, prefix, tabbed, label_spans, spans, buffer.lines)
        fault = (line, f"the line has no tab; a line is {self.format.lines}") if no_tab else None
        wrong = not_utf8(text[:end])
        sound = n if wrong is None else int(np.searchsorted(spans[:n, 1], wrong, side="right"))
        rows = self.ngrams.rows(text, spans[:sound], buffer.indptr, buffer.ids, buffer.values)
        if sound < n:  # where it lies in a label, that says so itself
            n, fault = sound + int(spans[sound, 0] > wrong), (int(buffer.lines[sound]), NO_UTF8)
        label_of = self.format.label_of(self.options)
        labels, fault = labels_until(text, label_spans[:n], buffer.lines, label_of, fault)
        n, line = min(len(labels), sound), fault[0] if fault else line
        notes = several_in(labels, buffer.lines) if self.reading.offers and not self.format.prefix else {}
        return buffer.batch(piece, line, n, labels, fault, rows.largest, names=rows.names, notes=notes)


def several_in(labels: np.ndarray | CodedLabels, lines: np.ndarray) -> dict:
    """The note on labels that may be several, as ``RowBatch.notes``."""
    if isinstance(labels, np.ndarray):
        return {}
    several = [code for code, label in enumerate(labels.distinct) if "," in label]
    rows = np.flatnonzero(np.isin(labels.codes, several))
    return {SEVERAL: (len(rows), int(lines[rows[0]]), repr(labels[rows[0]])[:40])} if len(rows) else {}


class Documents:
    """The format; looks_at: as of ``Format``; decides: the setting that the first lines decide, and what it is else."""

    name, lines, prefix, looks_at = "documents", "'label<TAB>text'", b"", (WORDS, SAMPLED_LINES)
    decides: Mapping = {WORDS: False}

    def reader(self, reading: ReaderOptions) -> DocumentReader:
        return DocumentReader(reading, self)

    def chosen_of(self, options: Mapping) -> dict:
        return chosen(self.name, options, self.decides)

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        """The settings, and the kind of labels that the first lines have, unless it is known."""
        parts = [line.partition(b"\t") for line in head.split(b"\n")]
        tokens = {token.strip() for token, tab, _ in parts[1:] if tab}
        first = parts[0][0].strip()
        numbers = len(tokens) > 1 and not any(label_of(token, False) is None for token in tokens - {b""})
        named = first.lower() in LABEL_NAMES and parts[0][2].strip().lower() in TEXT_NAMES
        apart = numbers and first and label_of(first, False) is None and first.lower() not in ODD
        if first not in tokens and (named or (apart and WORDS not in requested)):
            wrong = f"{shown_name(name)}:1: the line looks like a header, and documents have none"
            raise InputError(f"{wrong}; take it out, as tail -n +2 FILE | ... - does")
        if WORDS in requested:
            return self.chosen_of(requested)
        labels = ((k, token.strip()) for k, (token, tab, _) in enumerate(parts) if tab and token.strip())
        return self.chosen_of(requested) | {WORDS: are_words(labels)}

    def label_of(self, options: Mapping) -> Callable | None:
        """What ``labels_until`` makes a label of."""

        def word(token: bytes) -> str | None:
            label = label_of(token.strip(), True)
            if label is None:
                raise InputError(sentence_of(token.strip(), True))
            return label or None

        return word if options[WORDS] else None


class FastText(Documents):
    """fastText's lines; a row's labels are a list, or it has one at most (``LABEL_TYPE``)."""

    name, lines, prefix = "fasttext", "'__label__word text', with one label or several", PREFIX
    looks_at, decides = (LABEL_TYPE, SAMPLED_LINES), {LABEL_TYPE: "string"}

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        options = self.chosen_of(requested)
        if LABEL_TYPE not in requested:
            several = {"yes": True, "no": False}.get(options["label_sets"])
            if several is None:
                several = any(len(self._words(line)) > 1 for line in head.split(b"\n"))
            options[LABEL_TYPE] = "list<string>" if several else "string"
        return options

    @staticmethod
    def _words(line: bytes) -> list[bytes]:
        words = []
        for word in line.split():
            if not word.startswith(PREFIX):
                break
            words.append(word[len(PREFIX) :])
        return words

    def label_of(self, options: Mapping) -> Callable:
        sets = options[LABEL_TYPE] != "string"

        def label(token: bytes) -> str | tuple | None:
            words = self._words(token)
            if not sets and len(words) > 1:
                some = "a set of labels a row is learned by " + option("label_sets", "yes")
                raise InputError(f"the line has {len(words)} labels, the first lines have one; {some}")
            try:
                names = tuple(word.decode() for word in words)
            except UnicodeDecodeError:
                raise InputError(NO_UTF8) from None
            return (names if sets else names[0]) if names else None

        return label


DOCUMENTS = Documents()
FASTTEXT = FastText()
