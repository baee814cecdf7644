"""Word lattices: a line's words and spans of characters, perhaps with tags, as nodes, a segmentation as a path.

score(y) = sum over the words of y of sum_f w[f, tag] + sum over neighbouring words of w[their kinds] + sum_g w[g, their
kinds]; rho(y, y') = words of y' that are not in y (FP) + words of y that are not in y' (FN).
"""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.lattice_paths import column_scores
from blocksvm.structured.path_structure import PathStructure


class Lattices(PathStructure):
    """Lattices as arrays, one line after the other.

    table (n_rows, n_templates) int32: features of each span, -1: none, those of pairs of kinds from the column
    ``plain`` on; kinds (n_nodes,) int32, below n_kinds; lines (n_nodes,) rising, and within each line starts and stops
    (n_nodes,) int32, sorted by stop, then start; lengths (n_lines,): positions of each line; right (n_nodes,) bool:
    words of the gold segmentation.  Of every line some path must lead from 0 to its length.  An output is the numbers
    of its nodes within the line.

    spans: the row of each node in the table (n_nodes,), rising; its tag is its kind then, and features have a weight
    for each.  None: each node has a row of its own, and features have one weight.
    """

    def __init__(
        self, table, kinds, lines, starts, stops, lengths, right, n_features: int, n_kinds: int, spans=None,
        plain: int | None = None, n_pairs: int = 0,
    ):  # fmt: skip
        self.table = np.ascontiguousarray(table, dtype=np.int32)
        self.plain = self.table.shape[1] if plain is None else plain
        self.n_pairs = n_pairs
        self.tagged = spans is not None
        self.width = n_kinds if self.tagged else 1
        self.spans = np.arange(len(self.table), dtype=np.int32) if spans is None else np.asarray(spans, np.int32)
        self.kinds = np.ascontiguousarray(kinds, dtype=np.int32)
        self.starts = np.ascontiguousarray(starts, dtype=np.int32)
        self.stops = np.ascontiguousarray(stops, dtype=np.int32)
        self.right = np.ascontiguousarray(right, dtype=bool)
        self.n_features, self.n_kinds = n_features, n_kinds
        self.n_examples = len(lengths)
        self.node_bounds = np.searchsorted(lines, np.arange(len(lengths) + 1)).astype(np.int64)
        # ``ending`` of each line, see kernels/lattice_paths.py: how many nodes end before each position
        self._ending_bounds = np.append(0, np.cumsum(np.asarray(lengths, np.int64) + 2))
        counts = np.bincount(self._ending_bounds[lines] + self.stops + 1, minlength=self._ending_bounds[-1])
        before = np.cumsum(counts)
        self._ending = before - np.repeat(self.node_bounds[:-1], np.asarray(lengths) + 2)

    def _nodes(self, i: int) -> slice:
        return slice(self.node_bounds[i], self.node_bounds[i + 1])

    def choices(self, i):
        return int(self.node_bounds[i + 1] - self.node_bounds[i])

    def gold(self, i):
        return np.flatnonzero(self.right[self._nodes(i)]).astype(np.int32)

    def loss(self, i, output):
        right = self.right[self._nodes(i)]
        return float(len(output) + np.count_nonzero(right) - 2 * np.count_nonzero(right[output]))

    def lattice(self, i):
        nodes = self._nodes(i)
        ending = self._ending[self._ending_bounds[i] : self._ending_bounds[i + 1]]
        return self.kinds[nodes], self.starts[nodes], ending

    def rows(self, i):
        spans = self.spans[self._nodes(i)]
        first = int(spans[0]) if len(spans) else 0
        return first, int(spans[-1]) + 1 - first if len(spans) else 0, spans - np.int32(first)

    def node_scores(self, w, i):
        first, n_rows, rows = self.rows(i)
        scores = np.empty((n_rows, self.width))
        column_scores(self.table, first, 0, self.plain, w, 0, scores)
        return scores[rows, self.kinds[self._nodes(i)]] if self.tagged else scores[:, 0].copy()

    def node_costs(self, i):
        return np.where(self.right[self._nodes(i)], -1.0, 1.0)

    def along(self, i, output):
        nodes = self.node_bounds[i] + output
        kinds = self.kinds[nodes]
        return self.spans[nodes], kinds if self.tagged else np.zeros_like(kinds), kinds

    def output_of(self, i, nodes):
        return nodes
