"""Lines of characters, with blanks between words where these are known; spans of characters, which templates make
features of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import shown_name
from blocksvm.structured.text.columns import decoded, text_lines
from blocksvm.structured.text.templates import Part, mixed

BLANKS = np.array([9, 11, 12, 13, 32, 0x3000], np.uint32)
NEWLINE = 10
BASE = 0x9E3779B97F4A7C15  # odd: it has an inverse modulo 2^64
LINE_BYTES = 32  # a byte of text takes so many: its characters four bytes each, their hashes sixteen


@dataclass(frozen=True)
class LineText:
    """characters (n,) uint32 without blanks; bounds (n_lines + 1,) int64: line s is characters bounds[s]:bounds[s + 1];
    begins (n,) bool: the character begins a word; numbers (n_lines,): the line of the file, counted from 0;
    n_file_lines. Lines without characters are left out."""

    name: str
    characters: np.ndarray
    bounds: np.ndarray
    begins: np.ndarray
    numbers: np.ndarray
    n_file_lines: int

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.bounds)

    @property
    def divided(self) -> bool:
        return int(self.begins.sum()) > len(self.lengths)

    @cached_property
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """(starts, stops) of the words; positions count over all characters."""
        starts = np.flatnonzero(self.begins)
        return starts, np.append(starts[1:], len(self.characters))

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Prefix sums (n + 1,) uint64 of the characters, scrambled, each times BASE^-position, and BASE^position."""
        inverse = np.full(len(self.characters), pow(BASE, -1, 2**64), np.uint64)
        power = np.full(len(self.characters) + 1, BASE, np.uint64)
        power[0] = 1
        inverse[:1] = 1
        terms = mixed(self.characters.astype(np.uint64) + np.uint64(1)) * np.cumprod(inverse)
        return np.append(np.uint64(0), np.cumsum(terms)), np.cumprod(power)

    @cached_property
    def types(self) -> LineText:
        """The text with each character as its type: capital, other letter, digit, other."""
        distinct, positions = np.unique(self.characters, return_inverse=True)
        signs = [chr(c) for c in distinct]
        types = [1 if c.isupper() else 2 if c.isalpha() else 3 if c.isdigit() else 4 for c in signs]
        return LineText(self.name, np.array(types, np.uint32)[positions], self.bounds, self.begins, self.numbers, 0)

    def hashes(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """A hash (uint64) of the characters starts[k]:stops[k], wherever they stand."""
        sums, power = self.sums
        lengths = ~(stops - starts).astype(np.uint64)  # no value that the sum of a short span has
        return mixed((sums[stops] - sums[starts]) * power[starts] ^ mixed(lengths))

    def word_ids(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """(n,) int64: by which a dictionary knows words."""
        return (self.hashes(starts, stops) >> np.uint64(1)).astype(np.int64)

    def text_of(self, start: int, stop: int) -> str:
        return self.characters[start:stop].tobytes().decode("utf-32-le")

    def spaced(self, begins: np.ndarray, tags: Iterator[str] | None = None) -> Iterator[str]:
        """The lines with blanks before the characters that begin a word, and perhaps with /TAG behind words."""
        line_number = 0
        for s in range(len(self.lengths)):
            yield "\n" * int(self.numbers[s] - line_number)
            line_number = self.numbers[s] + 1
            characters = slice(self.bounds[s], self.bounds[s + 1])
            after = np.flatnonzero(begins[characters])[1:]
            line = np.insert(self.characters[characters], after, 32).tobytes().decode("utf-32-le")
            if tags is not None:
                line = " ".join(f"{word}/{next(tags)}" for word in line.split(" "))
            yield line + "\n"
        yield "\n" * int(self.n_file_lines - line_number)


def read_lines(name: str, memory: int) -> LineText:
    """Read the lines of a file; InputError where it is not UTF-8 or has no characters."""
    lines = [decoded(line, name, number) for number, line in enumerate(text_lines(name, memory, LINE_BYTES), 1)]
    characters = np.frombuffer("".join(line + "\n" for line in lines).encode("utf-32-le"), np.uint32)
    ends = characters == NEWLINE
    apart = ends | np.isin(characters, BLANKS)
    begins = ~apart & np.append(True, apart[:-1])
    line = np.cumsum(ends) - ends
    inside = ~apart
    numbers, lengths = np.unique(line[inside], return_counts=True)
    if not len(numbers):
        raise InputError(f"{shown_name(name)}: holds no character; a line is a sentence, its words between blanks")
    bounds = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return LineText(name, characters[inside], bounds, begins[inside], numbers, int(ends.sum()))


class Spans:
    """Spans of a text: lines, starts and stops (n,) int64, counted over all characters; known (n,) bool: words of the
    dictionary.  Sorted by line, stop, start.

    Names in templates: w, the span, with .types (of each character whether it is a capital, another letter, a digit or
    something else), .length, .known, .prefixN, .suffixN; beforeN and afterN, the characters before and after it.
    """

    def __init__(self, text: LineText, lines: np.ndarray, starts: np.ndarray, stops: np.ndarray, known: np.ndarray):
        self.text, self.lines, self.starts, self.stops, self.known = text, lines, starts, stops, known
        self.n_rows = len(lines)

    def chosen(self, mask: np.ndarray) -> Spans:
        return Spans(self.text, self.lines[mask], self.starts[mask], self.stops[mask], self.known[mask])

    def values(self, part: Part) -> np.ndarray:
        text, a, b = self.text, self.starts, self.stops
        whole = f"{part.name}.{part.attribute}".rstrip(".")
        match = re.fullmatch(r"(w|w\.types|w\.length|w\.known|w\.prefix|w\.suffix|before|after)(\d?)", whole)
        if match is None or part.offset or bool(match[2]) != match[1].endswith(("x", "before", "after")):
            raise part.unknown("w, w.types, w.length, w.known, w.prefixN, w.suffixN, beforeN and afterN")
        name, n = match[1], int(match[2] or 0)
        if name in ("w.length", "w.known"):
            values = b - a if name == "w.length" else self.known
            return mixed(values.astype(np.uint64) + np.uint64(3))
        if name == "w.types":
            return text.types.hashes(a, b)
        if name == "w.prefix":
            b = np.minimum(a + n, b)
        elif name == "w.suffix":
            a = np.maximum(b - n, a)
        elif name == "before":
            a, b = np.maximum(a - n, text.bounds[self.lines]), a
        elif name == "after":
            a, b = b, np.minimum(b + n, text.bounds[self.lines + 1])
        return text.hashes(a, b)

    @cached_property
    def gold(self) -> np.ndarray:
        """(n,) bool: words of the text: a word begins at their start, the next one at their stop, and none between."""
        text = self.text
        begun = np.append(np.cumsum(text.begins), 0)
        at_end = np.append(text.begins, True)[self.stops] | (self.stops == text.bounds[self.lines + 1])
        return text.begins[self.starts] & at_end & (begun[self.starts] == begun[self.stops - 1])
