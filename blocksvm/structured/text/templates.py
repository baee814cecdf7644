"""Templates of features, and the features that they make as positions among the weights.

Templates stand with blanks between them.  A template is parts joined by '|', a part NAME, NAME.ATTRIBUTE,
NAME[OFFSET] or NAME.ATTRIBUTE[OFFSET].  The task says what names there are: those of tokens (below), of arcs
(``trees.py``), of spans (``lines.py``).  A template with y[-1] makes features of pairs of neighbouring answers, the
others features of answers.  A feature's id is 63 bits of a hash of the template and the values of its parts.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError, option
from blocksvm.conversion.feature_ids import IdIndex, IdTable
from blocksvm.structured.text.columns import Column, ColumnText, require

BEFORE = "y[-1]"  # the answer before
PART = re.compile(r"([a-z]+\d*)(?:\.([a-z]+\d?))?(?:\[(-?\d{1,3})\])?")
ROW_BYTES = 40  # of a row while the features of one template are made
NOTHING = np.uint64(0)  # the value of a part where its template makes no feature


class Part(NamedTuple):
    """A part of a template: a name, an attribute ('': none) and an offset."""

    text: str
    name: str
    attribute: str
    offset: int

    def unknown(self, known: str) -> InputError:
        """What is said where there is no such part; known: those that there are."""
        return InputError(f"{option('template', self.text)}: is no part of a template here; the parts are {known}")


class Templates:
    """Parsed templates, those of pairs of answers last.

    They make features of rows: tokens, arcs or spans, with n_rows and values(part): (n_rows,) uint64, a hash of the
    part at each row, ``NOTHING`` where it has none; InputError for a part that there is not.
    columns: the seed and the parts of each; a template with a part of ``several`` {name: n} makes n columns, in which
    the part's offset is 0..n - 1.  groups: how many columns there are of answers, and, if any, of pairs of answers.
    InputError where one is no template, or none is of answers alone.
    """

    def __init__(self, text: str, several: dict[str, int] | None = None):
        self.text = " ".join(text.split())
        names = sorted(self.text.split(), key=lambda name: BEFORE in name.split("|"))
        self.columns: list[tuple[np.uint64, list[Part]]] = []
        n_single = 0
        for name in names:
            if name == BEFORE:
                raise InputError(f"{option('template', text)}: {BEFORE} alone is always there; join it to others")
            parts = [self._part(one) for one in name.split("|") if one != BEFORE]
            seed = np.uint64(xxh3_64_intdigest(name.encode()))
            n = max((several or {}).get(part.text, 1) for part in parts)
            for k in range(n):
                at_k = [part._replace(offset=k) if part.text in (several or {}) else part for part in parts]
                self.columns.append((seed, at_k))
            n_single += n * (BEFORE not in name.split("|"))
        if not n_single:
            raise InputError(f"{option('template', text)}: holds no template without {BEFORE}; give some")
        n_pairs = len(self.columns) - n_single
        self.groups = (n_single, n_pairs) if n_pairs else (n_single,)

    def _part(self, text: str) -> Part:
        match = PART.fullmatch(text)
        if match is None:
            what = "a part is a name, maybe an attribute, maybe an offset in brackets, as w.suffix3[-1]"
            raise InputError(f"{option('template', text)}: is no part of a template; {what}")
        return Part(text, match[1], match[2] or "", int(match[3] or 0))

    def ids(self, rows, number: int) -> np.ndarray:
        """The feature ids (n_rows,) int64 that one column makes, -1 where there is none."""
        seed, parts = self.columns[number]
        hashes, there = np.full(rows.n_rows, seed), np.ones(rows.n_rows, bool)
        for part in parts:
            values = rows.values(part)
            there &= values != NOTHING
            hashes = mixed(hashes ^ values)
        return np.where(there, (hashes >> np.uint64(1)).astype(np.int64), -1)

    def require(self, name: str, what: str, n_rows: int, row_bytes: int, memory: int) -> None:
        """InputError where the features of so many rows, each of which takes ``row_bytes`` beside them, do not fit."""
        need = n_rows * (4 * len(self.columns) + ROW_BYTES + row_bytes)
        require(name, f"the features of its {n_rows:,} {what}", need, memory)

    def collected(self, rows, min_count: int, memory: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Features (n_rows, n_columns) int32, -1 where one is left out, and of each group the ids (d,) int64 of those
        that are not, by whose positions they are numbered: the most frequent ones first, so that the weights in use lie
        together.  Features that occur fewer than ``min_count`` times are left out.  Raises InputError where the ids do
        not fit in ``memory`` bytes, or none is left."""
        # putting the ids in order takes about twice their memory besides
        tables = [IdTable(memory // (3 * len(self.groups))) for _ in self.groups]
        features = np.full((rows.n_rows, len(self.columns)), -1, np.int32)
        for t, table in enumerate(self._by_column(tables)):
            ids = self.ids(rows, t)
            there = ids >= 0
            features[there, t] = table.add(ids[there])
        known, numbers = [], []
        for table in tables:
            order, positions = table.ranking(min_count)
            if not len(order):
                raise InputError(f"no feature occurs {min_count} times; lower the count")
            known.append(table.known[order])
            numbers.append(np.append(positions, np.int32(-1)))  # behind them that of features that are not there
        for t, own in enumerate(self._by_column(numbers)):
            features[:, t] = own[features[:, t]]
        return features, known

    def known(self, rows, known: Sequence[np.ndarray]) -> np.ndarray:
        """Features (n_rows, n_columns) int32 as positions among the ids ``known`` of each group, -1 for others."""
        indices = [IdIndex(len(ids)).fill([(0, ids)]) for ids in known]
        features = np.empty((rows.n_rows, len(self.columns)), np.int32)
        for t, index in enumerate(self._by_column(indices)):
            features[:, t] = index.find(self.ids(rows, t))
        return features

    def _by_column(self, of_groups: Sequence) -> list:
        return [one for one, n in zip(of_groups, self.groups, strict=True) for _ in range(n)]


WINDOW = " ".join(f"{c}[{d}]" for c in "wt" for d in range(-2, 3))
PAIRS = "w[-1]|w[0] w[0]|w[1] t[-2]|t[-1] t[-1]|t[0] t[0]|t[1] t[1]|t[2]"
TRIPLES = "t[-2]|t[-1]|t[0] t[-1]|t[0]|t[1] t[0]|t[1]|t[2]"
LETTERS = "w.shape[0] w.prefix1[0] w.prefix2[0] w.prefix3[0] w.suffix1[0] w.suffix2[0] w.suffix3[0] w.suffix4[0]"
WITH_TAGS = f"{WINDOW} {PAIRS} {TRIPLES} w.lower[0] w.shape[0] w.suffix2[0] w.suffix3[0]"
WITHOUT_TAGS = f"w[-2] w[-1] w[0] w[1] w[2] w[-1]|w[0] w[0]|w[1] w.lower[0] {LETTERS} w.shape[-1] w.shape[1]"


class Tokens:
    """The tokens of column text.  Names: w is the first column, t the second, c2, c3, ... others; attributes: lower,
    shape, prefixN, suffixN; an offset counts tokens.  A token beyond an end of the sentence has a value by its
    distance."""

    def __init__(self, text: ColumnText, n_columns: int):
        self.text, self.n_columns, self.n_rows = text, n_columns, len(text.lines)

    def values(self, part: Part) -> np.ndarray:
        column = {"w": 0, "t": 1}.get(part.name, int(part.name[1:]) if re.fullmatch(r"c\d+", part.name) else -1)
        if column < 0 or re.fullmatch(r"(lower|shape|(prefix|suffix)\d)?", part.attribute) is None:
            known = "w (words), t (tags), c2 ..., with .lower, .shape, .prefixN or .suffixN, as w.suffix3[0]"
            raise part.unknown(known)
        if column >= self.n_columns:
            what = f"the text has {self.n_columns} columns of features"
            raise InputError(f"{option('template', part.text)}: {what}; leave {part.name} out")
        words = self.text.columns[column]
        return shifted(attribute_hashes(words, part.attribute)[words.codes], self.text.bounds, part.offset)


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
    position = np.arange(len(values)) - np.repeat(bounds[:-1], lengths) + offset
    length = np.repeat(lengths, lengths)
    inside = (position >= 0) & (position < length)
    beyond = np.where(position < 0, position, length - position - 1).astype(np.int64)  # -1, -2, ... at both ends
    outside = mixed(beyond.view(np.uint64) ^ np.uint64(0x9E3779B97F4A7C15 if offset < 0 else 0xD1B54A32D192ED03))
    there = np.clip(np.arange(len(values)) + offset, 0, max(0, len(values) - 1))
    return np.where(inside, values[there], outside)


def mixed(x: np.ndarray) -> np.ndarray:
    """Well mixed uint64 numbers (the finaliser of splitmix64; Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
