"""Word lattices: a line's words and spans of characters as nodes, a segmentation as a path through them.

score(y) = sum over the words of y of sum_f w[f] + sum over neighbouring words of w[their kinds];
rho(y, y') = words of y' that are not in y (FP) + words of y that are not in y' (FN).  Of words with tags two are the
same where their tags are, too.
"""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.lattice_paths import column_scores
from blocksvm.structured.path_structure import PathStructure


class WordPaths(PathStructure):
    """The loss of paths whose nodes are words."""

    def right(self, i: int) -> np.ndarray:
        """(n_nodes,) bool: those of the gold path."""
        raise NotImplementedError

    def gold(self, i):
        return np.flatnonzero(self.right(i)).astype(np.int32)

    def loss(self, i, output):
        right = self.right(i)
        return float(len(output) + np.count_nonzero(right) - 2 * np.count_nonzero(right[output]))

    def node_costs(self, i):
        return np.where(self.right(i), -1.0, 1.0)

    def output_of(self, i, nodes):
        return nodes


class Lattices(WordPaths):
    """Lattices as arrays, one line after the other.

    table (n_nodes, n_templates) int32: features of each node, -1: none; kinds (n_nodes,) int32, below n_kinds; lines
    (n_nodes,) rising, and within each line starts and stops (n_nodes,) int32, sorted by stop, then start; lengths
    (n_lines,): positions of each line; right (n_nodes,) bool: words of the gold segmentation.  Of every line some path
    must lead from 0 to its length.  An output is the numbers of its nodes within the line.
    """

    width = 1

    def __init__(self, table, kinds, lines, starts, stops, lengths, right, n_features: int, n_kinds: int):
        self.table = np.ascontiguousarray(table, dtype=np.int32)
        self.plain = self.table.shape[1]
        self.kinds = np.ascontiguousarray(kinds, dtype=np.int32)
        self.starts = np.ascontiguousarray(starts, dtype=np.int32)
        self.stops = np.ascontiguousarray(stops, dtype=np.int32)
        self.of_gold = np.ascontiguousarray(right, dtype=bool)
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

    def right(self, i):
        return self.of_gold[self._nodes(i)]

    def lattice(self, i):
        nodes = self._nodes(i)
        ending = self._ending[self._ending_bounds[i] : self._ending_bounds[i + 1]]
        return self.kinds[nodes], self.starts[nodes], ending

    def node_scores(self, w, i):
        scores = np.empty((self.choices(i), 1))
        column_scores(self.table, self.node_bounds[i], 0, self.plain, w, 0, scores)
        return scores[:, 0].copy()

    def along(self, i, output):
        rows = (self.node_bounds[i] + output).astype(np.int32)
        return rows, np.zeros(len(rows), np.int32), self.kinds[rows]
