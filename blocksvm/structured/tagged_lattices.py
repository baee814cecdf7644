"""Lattices of words with tags: a node is a span of a line's characters with a tag, its kind.

score(y) = sum over the words of y of sum_f w[f, tag] + sum over neighbouring words of (w[their tags] + sum_{g of pairs
at the second} w[g, their tags]).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from blocksvm.kernels.lattice_paths import column_scores
from blocksvm.structured.lattices import WordPaths


class Nodes(NamedTuple):
    """The nodes of a line: the place of the span of each among the line's, kinds, starts (n_nodes,) int32; ending."""

    spans: np.ndarray
    kinds: np.ndarray
    starts: np.ndarray
    ending: np.ndarray


class TaggedLattices(WordPaths):
    """Lattices whose nodes are made of spans when they are needed, since they are many times as many.

    table (n_spans, n_templates) int32: features of each span, -1: none, those of pairs of tags from the column
    ``plain`` on; sizes: numbers of features, and of those of pairs; spans (n_spans, 3): line, start and stop of each,
    sorted by line, stop and start; sets (n_spans,) int32: which of ``tag_sets``, the rising tags that a span may have,
    is that of each; gold_tags (n_spans,) int32: the tag of a word of the gold path, -1 of others; lengths (n_lines,):
    positions of each line; some path must lead from 0 to each length.  An output is the numbers of its nodes within the
    line.
    """

    def __init__(
        self, table, spans: np.ndarray, lengths, sets, tag_sets: list[list[int]], gold_tags, sizes: Sequence[int],
        n_tags: int, plain: int,
    ):  # fmt: skip
        lines, starts, stops = spans.T
        self.table = np.ascontiguousarray(table, dtype=np.int32)
        self.starts = np.ascontiguousarray(starts, dtype=np.int32)
        self.stops = np.ascontiguousarray(stops, dtype=np.int32)
        self.sets = np.ascontiguousarray(sets, dtype=np.int32)
        self.gold_tags = np.ascontiguousarray(gold_tags, dtype=np.int32)
        self.set_bounds = np.append(0, np.cumsum([len(tags) for tags in tag_sets])).astype(np.int64)
        self.set_tags = np.concatenate(tag_sets).astype(np.int32)
        self.span_bounds = np.searchsorted(lines, np.arange(len(lengths) + 1)).astype(np.int64)
        self.lengths = np.asarray(lengths, np.int64)
        self.n_features, self.n_pairs = sizes
        self.plain = plain
        self.width = self.n_kinds = n_tags
        self.n_examples = len(lengths)
        self._last: tuple[int, Nodes] | None = None

    def _spans(self, i: int) -> slice:
        return slice(self.span_bounds[i], self.span_bounds[i + 1])

    def nodes(self, i: int) -> Nodes:
        last = self._last
        if last is not None and last[0] == i:
            return last[1]
        own = self._spans(i)
        first = self.set_bounds[self.sets[own]]
        counts = self.set_bounds[self.sets[own] + 1] - first
        before = np.append(0, np.cumsum(counts))
        spans = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        kinds = self.set_tags[np.arange(before[-1]) - np.repeat(before[:-1] - first, counts)]
        ending = before[np.searchsorted(self.stops[own], np.arange(self.lengths[i] + 2))]
        found = Nodes(spans, kinds, self.starts[own][spans], ending)
        self._last = i, found
        return found

    def choices(self, i):
        return len(self.nodes(i).kinds)

    def right(self, i):
        nodes = self.nodes(i)
        return self.gold_tags[self._spans(i)][nodes.spans] == nodes.kinds

    def lattice(self, i):
        return self.nodes(i)[1:]

    def rows(self, i):
        own = self._spans(i)
        return int(own.start), int(own.stop - own.start), self.nodes(i).spans

    def node_scores(self, w, i):
        first, n_rows, spans = self.rows(i)
        scores = np.empty((n_rows, self.width))
        column_scores(self.table, first, 0, self.plain, w, 0, scores)
        return scores[spans, self.nodes(i).kinds]

    def along(self, i, output):
        nodes = self.nodes(i)
        kinds = nodes.kinds[output]
        return (self.span_bounds[i] + nodes.spans[output]).astype(np.int32), kinds, kinds
