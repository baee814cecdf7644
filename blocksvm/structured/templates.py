"""Templates of features: which words near a token, and what of them, make one feature each.

A template is written as parts joined by '|', a part as COLUMN.ATTRIBUTE[OFFSET]:

    w[-1]|w[0]        the words before and at the token
    w.suffix3[0]      the last three letters of its word
    w.lower[0], w.shape[0], w.prefix2[0], t[1]
    y[-1]|w[0]          the label before the token, and its word

where w is the first column, t the second, and c2, c3, ... are others.  Templates with y[-1] make features of pairs of
labels, the others of labels.  Templates are separated by blanks.  A
feature's id is 63 bits of a hash of the template and what its parts are; a part beyond an end of the sentence is a
value of its own, by its distance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError, option
from blocksvm.structured.column_text import Column, ColumnText

BEFORE = "y[-1]"  # the label before
PART = re.compile(r"(w|t|c\d{1,3})(?:\.(lower|shape|prefix\d|suffix\d))?\[(-?\d{1,3})\]")
WINDOW = " ".join(f"{c}[{d}]" for c in "wt" for d in range(-2, 3))
PAIRS = "w[-1]|w[0] w[0]|w[1] t[-2]|t[-1] t[-1]|t[0] t[0]|t[1] t[1]|t[2]"
TRIPLES = "t[-2]|t[-1]|t[0] t[-1]|t[0]|t[1] t[0]|t[1]|t[2]"
LETTERS = "w.shape[0] w.prefix1[0] w.prefix2[0] w.prefix3[0] w.suffix1[0] w.suffix2[0] w.suffix3[0] w.suffix4[0]"
WITH_TAGS = f"{WINDOW} {PAIRS} {TRIPLES} w.lower[0] w.shape[0] w.suffix2[0] w.suffix3[0]"
WITHOUT_TAGS = f"w[-2] w[-1] w[0] w[1] w[2] w[-1]|w[0] w[0]|w[1] w.lower[0] {LETTERS} w.shape[-1] w.shape[1]"


@dataclass(frozen=True)
class TemplatePart:
    """A part of a template: a column, an attribute of its words ('': the word itself), an offset."""

    column: int
    attribute: str
    offset: int


class Templates:
    """Parsed templates, those of pairs of labels last; InputError where one is none, or names a column that the text
    has not."""

    def __init__(self, text: str, n_columns: int):
        self.text = " ".join(text.split())
        self.names, self.n_pair_templates = sorted_templates(self.text)
        self.parts = [
            [part_of(one, n_columns) for one in name.split("|") if one != BEFORE] for name in self.names
        ]  # fmt: skip
        if len(self.names) == self.n_pair_templates:
            raise InputError(
                f"{option('template', text)}: holds no template of a label; give some such as 'w[-1] w[0] w[1]'"
            )

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def groups(self) -> tuple[int, ...]:
        """How many templates there are of labels, and of pairs of labels, if there are any."""
        return groups_of(len(self), self.n_pair_templates)

    @cached_property
    def seeds(self) -> list[np.uint64]:
        return [np.uint64(xxh3_64_intdigest(name.encode())) for name in self.names]

    def ids(self, text: ColumnText, number: int) -> np.ndarray:
        """The feature ids (n_tokens,) int64 that one template makes."""
        hashes = np.full(text.n_tokens, self.seeds[number])
        for part in self.parts[number]:
            values = attribute_hashes(text.columns[part.column], part.attribute)[text.columns[part.column].codes]
            hashes = mixed(hashes ^ shifted(values, text.bounds, part.offset))
        return (hashes >> np.uint64(1)).astype(np.int64)


def sorted_templates(text: str) -> tuple[list[str], int]:
    """(the names of the templates, those of pairs of labels last; how many of these there are).  InputError where one
    has nothing beside the label."""
    names = sorted(text.split(), key=lambda name: BEFORE in name.split("|"))
    pairs = [name for name in names if BEFORE in name.split("|")]
    if BEFORE in pairs:
        raise InputError(f"{option('template', text)}: {BEFORE} alone is always there; join it to others with '|'")
    return names, len(pairs)


def groups_of(n: int, n_pair_templates: int) -> tuple[int, ...]:
    return (n - n_pair_templates, n_pair_templates) if n_pair_templates else (n,)


def part_of(text: str, n_columns: int) -> TemplatePart:
    """A part as it is written; InputError where it is none."""
    match = PART.fullmatch(text)
    if match is None:
        raise InputError(
            f"{option('template', text)}: is no template; a part is a column (w, t, c2, ...), maybe .lower, .shape, "
            ".prefixN or .suffixN, and an offset in brackets, as in w.suffix3[0]"
        )
    name, attribute, offset = match.groups()
    column = {"w": 0, "t": 1}.get(name, int(name[1:]) if name[1:] else 0)
    if column >= n_columns:
        raise InputError(f"{option('template', text)}: the text has {n_columns} columns of features; leave {name} out")
    return TemplatePart(column, attribute or "", int(offset))


def attribute_of(word: str, attribute: str) -> str:
    """'prefix2' of 'Nov.' is 'No', 'suffix3' 'ov.', 'lower' 'nov.', 'shape' 'Aa.': runs of capitals, small letters and
    digits as one sign each."""
    if attribute == "lower":
        return word.lower()
    if attribute == "shape":
        signs = ["A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word]
        return "".join(sign for k, sign in enumerate(signs) if k == 0 or sign != signs[k - 1])
    length = int(attribute[-1])
    return word[:length] if attribute.startswith("prefix") else word[max(0, len(word) - length) :]


def attribute_hashes(column: Column, attribute: str) -> np.ndarray:
    """A hash (uint64) of an attribute of each distinct word."""
    words = column.words if not attribute else [attribute_of(word, attribute) for word in column.words]
    return np.array([xxh3_64_intdigest(word.encode()) for word in words], np.uint64)


def shifted(values: np.ndarray, bounds: np.ndarray, offset: int) -> np.ndarray:
    """At each token the value of the one ``offset`` further on; beyond its sentence a value of that distance."""
    if offset == 0:
        return values
    lengths = np.diff(bounds)
    place = np.arange(len(values)) - np.repeat(bounds[:-1], lengths) + offset
    length = np.repeat(lengths, lengths)
    inside = (place >= 0) & (place < length)
    beyond = np.where(place < 0, place, length - place - 1).astype(np.int64)  # -1, -2, ... at both ends
    outside = mixed(beyond.view(np.uint64) ^ np.uint64(0x9E3779B97F4A7C15 if offset < 0 else 0xD1B54A32D192ED03))
    there = np.clip(np.arange(len(values)) + offset, 0, max(0, len(values) - 1))
    return np.where(inside, values[there], outside)


def mixed(x: np.ndarray) -> np.ndarray:
    """Well mixed uint64 numbers (the finaliser of splitmix64; Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
