"""Templates of the features of arcs between tokens, in the manner of ``templates.py``.

A part is an end of the arc, h (head) or m (modifier), and an attribute there, as hw[0], mt[-1], hw.suffix3[0]; or
d, the direction and distance; or b, a tag that occurs between the two ends, which makes a feature of each such tag.
The defaults are near those of McDonald, Crammer, Pereira (ACL 2005).
"""

from __future__ import annotations

import re

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError, option
from blocksvm.kernels.arborescence import tags_between
from blocksvm.structured.column_text import ColumnText
from blocksvm.structured.templates import TemplatePart, attribute_hashes, mixed, part_of, shifted
from blocksvm.structured.trees import arc_bounds_of

ENDS = re.compile(r"([hm])(.+)")
DISTANCE, BETWEEN = "d", "b"
MOST_BETWEEN = 8  # distinct tags between two tokens that make features
LIMITS = np.array([2, 3, 4, 5, 6, 11])  # distances from which on they count as longer
ROOT = np.uint64(0x2545F4914F6CDD1D)  # the root's word and tag
DEFAULT = (
    "hw[0]|ht[0]|d hw[0]|d ht[0]|d mw[0]|mt[0]|d mw[0]|d mt[0]|d hw[0]|ht[0]|mw[0]|mt[0] hw[0]|ht[0]|mw[0]|mt[0]|d "
    "ht[0]|mw[0]|mt[0]|d hw[0]|mw[0]|mt[0]|d hw[0]|ht[0]|mt[0]|d hw[0]|ht[0]|mw[0]|d hw[0]|mw[0]|d ht[0]|mt[0]|d "
    "ht[0]|mt[0] ht[0]|ht[1]|mt[-1]|mt[0]|d ht[-1]|ht[0]|mt[-1]|mt[0]|d ht[0]|ht[1]|mt[0]|mt[1]|d "
    "ht[-1]|ht[0]|mt[0]|mt[1]|d ht[0]|mt[-1]|mt[0]|d ht[0]|mt[0]|mt[1]|d ht[0]|ht[1]|mt[0]|d ht[-1]|ht[0]|mt[0]|d "
    "ht[0]|mw[0]|d ht[0]|b|mt[0]|d"
)


class ArcTemplates:
    """Parsed templates; InputError where one is none, or names a column that the text has not.

    A template with b stands for ``MOST_BETWEEN`` columns of features, so ``len`` may be more than its words.
    """

    def __init__(self, text: str, n_columns: int):
        self.text = " ".join(text.split())
        self.columns: list[tuple[np.uint64, list, int]] = []  # seed, parts, which of the tags between
        for name in self.text.split():
            parts = [self._part(one, n_columns) for one in name.split("|")]
            seed = np.uint64(xxh3_64_intdigest(name.encode()))
            self.columns += [(seed, parts, slot) for slot in range(MOST_BETWEEN if BETWEEN in parts else 1)]
        if not self.columns:
            raise InputError(f"{option('template', text)}: holds no template; give some such as 'ht[0]|mt[0]|d'")

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def groups(self) -> tuple[int, ...]:
        return (len(self),)

    def _part(self, text: str, n_columns: int) -> str | tuple[str, TemplatePart]:
        if text in (DISTANCE, BETWEEN):
            if text == BETWEEN and n_columns < 2:
                raise InputError(f"{option('template', text)}: the text has no column of tags; leave it out")
            return text
        match = ENDS.fullmatch(text)
        if match is None:
            raise InputError(
                f"{option('template', text)}: is no template of an arc; a part is as hw[0], mt[-1], d or b"
            )
        return match[1], part_of(match[2], n_columns)


class ArcFeatures:
    """The feature ids of all arcs of a text, a template at a time."""

    def __init__(self, templates: ArcTemplates, text: ColumnText):
        self.templates = templates
        self.text = text
        lengths = np.diff(text.bounds)
        arc_bounds = arc_bounds_of(text.bounds)
        self.n_arcs = int(arc_bounds[-1])
        n = np.repeat(lengths, (lengths + 1) * lengths)
        within = np.arange(self.n_arcs) - np.repeat(arc_bounds[:-1], (lengths + 1) * lengths)
        first = np.repeat(text.bounds[:-1], (lengths + 1) * lengths)
        head, modifier = within // n, within % n
        self.root = head == 0
        self.ends = {"h": (first + np.maximum(head - 1, 0)).astype(np.int32), "m": (first + modifier).astype(np.int32)}
        away = head - 1 - modifier
        self.no_arc = away == 0
        buckets = np.searchsorted(LIMITS, np.abs(away), side="right") + (away > 0) * (len(LIMITS) + 1)
        self.distance = buckets.astype(np.uint8)
        self.between = None
        if any(BETWEEN in parts for _, parts, _ in templates.columns):
            self.between = np.empty((self.n_arcs, MOST_BETWEEN), np.int32)
            tags_between(text.columns[1].codes, text.bounds, arc_bounds, self.between)

    @property
    def n_bytes(self) -> int:
        between = 0 if self.between is None else self.between.nbytes
        return self.text.n_bytes + between + 11 * self.n_arcs

    def ids(self, number: int) -> np.ndarray:
        """(n_arcs,) int64 of one template's column, -1 where there is no such feature."""
        seed, parts, slot = self.templates.columns[number]
        hashes = np.full(self.n_arcs, seed)
        for part in parts:
            hashes = mixed(hashes ^ self._values(part, slot))
        ids = (hashes >> np.uint64(1)).astype(np.int64)
        ids[self.no_arc] = -1
        if BETWEEN in parts:
            ids[self.between[:, slot] < 0] = -1
        return ids

    def _values(self, part, slot: int) -> np.ndarray:
        if part == DISTANCE:
            return mixed(self.distance.astype(np.uint64))
        if part == BETWEEN:
            return attribute_hashes(self.text.columns[1], "")[np.maximum(self.between[:, slot], 0)]
        end, where = part
        column = self.text.columns[where.column]
        values = shifted(attribute_hashes(column, where.attribute)[column.codes], self.text.bounds, where.offset)
        values = values[self.ends[end]]
        if end == "h":
            values[self.root] = ROOT + np.uint64(where.offset + 1000)
        return values
