"""Lines of characters, with blanks between words where these are known; spans of characters and their hashes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.structured.column_text import read_text
from blocksvm.structured.templates import BEFORE, groups_of, mixed, sorted_templates

BLANKS = np.array([9, 11, 12, 13, 32, 0x3000], np.uint32)
NEWLINE = 10
BASE = 0x9E3779B97F4A7C15  # odd: it has an inverse modulo 2^64
PART = re.compile(r"(word|types|known|length)|(first|last|before|after)([1-9])")
DEFAULT = (
    "word|known length|known types|known first1 first2 first3 last1 last2 last3 before1|first1 before2|first1 "
    "before1|first2 before2|first2 last1|after1 last2|after1 last1|after2 last2|after2 before1|word|known "
    "word|after1|known"
)


@dataclass(frozen=True)
class LineText:
    """characters (n,) uint32 without blanks; bounds (n_lines + 1,) int64: line s is characters bounds[s]:bounds[s + 1];
    begins (n,) bool: the character begins a word; places (n_lines,): the line of the file, counted from 0;
    n_file_lines. Lines without characters are left out."""

    name: str
    characters: np.ndarray
    bounds: np.ndarray
    begins: np.ndarray
    places: np.ndarray
    n_file_lines: int

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.bounds)

    @property
    def divided(self) -> bool:
        """Some line has blanks between its words."""
        return int(self.begins.sum()) > len(self.lengths)

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Prefix sums (n + 1,) uint64 of the characters, scrambled, each times BASE^-place, and BASE^place."""
        inverse = np.full(len(self.characters), pow(BASE, -1, 2**64), np.uint64)
        power = np.full(len(self.characters) + 1, BASE, np.uint64)
        power[0] = 1
        inverse[:1] = 1
        terms = mixed(self.characters.astype(np.uint64) + np.uint64(1)) * np.cumprod(inverse)
        return np.append(np.uint64(0), np.cumsum(terms)), np.cumprod(power)

    def span_hashes(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """A hash (uint64) of the characters starts[k]:stops[k], wherever they stand."""
        sums, power = self.sums
        lengths = (stops - starts).astype(np.uint64)
        return mixed((sums[stops] - sums[starts]) * power[starts] ^ mixed(lengths))


def read_lines(name: str, memory: int) -> LineText:
    """Read the lines of a file; InputError where it is not UTF-8 or has no characters."""
    text, end = read_text(name, memory // 32)  # its characters take four bytes each, their hashes sixteen
    try:
        characters = np.frombuffer(text[:end].tobytes().decode().encode("utf-32-le"), np.uint32)
    except UnicodeDecodeError as error:
        line = int((text[: error.start] == NEWLINE).sum()) + 1
        raise InputError(f"{shown_name(name)}, line {line}: is not UTF-8 text; convert it") from None
    ends = characters == NEWLINE
    apart = ends | np.isin(characters, BLANKS)
    begins = ~apart & np.append(True, apart[:-1])
    line = np.cumsum(ends) - ends
    inside = ~apart
    places, lengths = np.unique(line[inside], return_counts=True)
    if not len(places):
        raise InputError(f"{shown_name(name)}: holds no character; a line is a sentence, its words between blanks")
    bounds = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return LineText(name, characters[inside], bounds, begins[inside], places, int(ends.sum()))


@dataclass(frozen=True)
class Spans:
    """Spans of a text: lines, starts and stops (n,) int64, counted over all characters; known (n,) bool: words of the
    dictionary.  Sorted by line, stop, start."""

    text: LineText
    lines: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    known: np.ndarray


class SpanTemplates:
    """Templates of the features of spans: parts joined by '|', which are

    word, types    all characters, or of each whether it is a capital, another letter, a digit or something else
    length, known  the number of characters; whether the span is a word of the dictionary
    first2, last3  the span's first two, its last three characters; before1, after2: those before it, after it
    y[-1]          the tag before: such templates make features of two neighbouring tags

    Those of pairs of tags come last.  InputError where one is none.
    """

    def __init__(self, text: str):
        self.text = " ".join(text.split())
        names, self.n_pair_templates = sorted_templates(self.text)
        self.templates = [[part for part in name.split("|") if part != BEFORE] for name in names]
        if len(names) == self.n_pair_templates:
            raise InputError(f"{option('template', text)}: holds no template; give some such as 'word|known length'")
        for part in (part for parts in self.templates for part in parts):
            if PART.fullmatch(part) is None:
                raise InputError(
                    f"{option('template', part)}: is no template of a span; a part is word, types, known, length, "
                    "firstN, lastN, beforeN or afterN"
                )

    def __len__(self) -> int:
        return len(self.templates)

    @property
    def groups(self) -> tuple[int, ...]:
        """As in ``Templates``."""
        return groups_of(len(self), self.n_pair_templates)

    def ids(self, spans: Spans, number: int) -> np.ndarray:
        """The feature ids (n_spans,) int64 that one template makes."""
        hashes = np.full(len(spans.starts), np.uint64(xxh3_64_intdigest("|".join(self.templates[number]).encode())))
        for part in self.templates[number]:
            hashes = mixed(hashes ^ self._values(part, spans))
        return (hashes >> np.uint64(1)).astype(np.int64)

    def _values(self, part: str, spans: Spans) -> np.ndarray:
        text, a, b = spans.text, spans.starts, spans.stops
        whole, side, n = PART.fullmatch(part).groups()
        if whole == "word":
            return text.span_hashes(a, b)
        if whole == "types":
            return types_of(text).span_hashes(a, b)
        if whole is not None:
            values = b - a if whole == "length" else spans.known
            return mixed(values.astype(np.uint64) + np.uint64(3))
        low, high, n = text.bounds[spans.lines], text.bounds[spans.lines + 1], int(n)
        if side == "first":
            return text.span_hashes(a, np.minimum(a + n, b))
        if side == "last":
            return text.span_hashes(np.maximum(b - n, a), b)
        if side == "before":
            return text.span_hashes(np.maximum(a - n, low), a)
        return text.span_hashes(b, np.minimum(b + n, high))


def types_of(text: LineText) -> LineText:
    """The text with each character as its type."""
    distinct, places = np.unique(text.characters, return_inverse=True)
    signs = [chr(c) for c in distinct]
    kinds = [1 if c.isupper() else 2 if c.isalpha() else 3 if c.isdigit() else 4 for c in signs]
    return LineText(text.name, np.array(kinds, np.uint32)[places], text.bounds, text.begins, text.places, 0)
