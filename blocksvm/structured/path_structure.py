"""Structures whose outputs are paths through a lattice: the common part of label sequences and segmentations.

Weights: ``width`` for each feature of a node (one for each label, or 1), then for each feature of a pair one for each
two neighbouring kinds, (n_kinds + 1, n_kinds), the last row for what comes first, then as many for all pairs
(``kernels/lattice_paths.py``).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from blocksvm.kernels.lattice_paths import best_paths, column_scores, path_entries
from blocksvm.structured.output_structure import Structure, row_of


class PathStructure(Structure):
    """A subclass gives the lattice of each example, the costs of its nodes as wrong answers, and their features.

    table (n_rows, n_columns) int32: the features of the rows that nodes stand on, -1: none, those of pairs of kinds
    from the column ``plain`` on; n_features, n_pairs: how many there are of the two.
    """

    table: np.ndarray
    n_features: int
    n_pairs = 0
    plain: int
    width: int
    n_kinds: int

    @cached_property
    def offsets(self) -> tuple[int, int]:
        """Where the weights of the pairs' features begin, and those of all pairs."""
        first = self.n_features * self.width
        return first, first + self.n_pairs * (self.n_kinds + 1) * self.n_kinds

    @property
    def n_weights(self) -> int:
        return self.offsets[1] + (self.n_kinds + 1) * self.n_kinds

    def lattice(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(kinds, starts, ending) of the nodes, as ``best_paths`` takes them."""
        raise NotImplementedError

    def node_scores(self, w: np.ndarray, i: int) -> np.ndarray:
        """(n_nodes,) float64"""
        raise NotImplementedError

    def rows(self, i: int) -> tuple[int, int, np.ndarray]:
        """(the first row of the table of the example, how many it has, which of them each node stands on (n_nodes,)):
        of a structure with features of pairs."""
        raise NotImplementedError

    def node_costs(self, i: int) -> np.ndarray:
        """(n_nodes,) float64 whose sum along a path is its loss, less what all paths have in common."""
        raise NotImplementedError

    def along(self, i: int, output: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows, columns, kinds), int32, of the nodes of an output: whose features they have, and under which label."""
        raise NotImplementedError

    def output_of(self, i: int, nodes: np.ndarray) -> np.ndarray:
        """The output of a path of nodes."""
        raise NotImplementedError

    def best(self, w, i):
        return self._paths(w, i, self.node_scores(w, i), 1)[0]

    def most_violating(self, w, i):
        return self._paths(w, i, self.node_scores(w, i) + self.node_costs(i), 1)[0]

    def k_best(self, w, i, k):
        return self._paths(w, i, self.node_scores(w, i), k)

    def _paths(self, w, i: int, scores: np.ndarray, k: int) -> list[np.ndarray]:
        kinds, starts, ending = self.lattice(i)
        own, of_all = self.offsets
        between = w[of_all:].reshape(1, self.n_kinds + 1, self.n_kinds)
        rows = np.zeros_like(kinds)
        if self.n_pairs:
            first, n_rows, rows = self.rows(i)
            of_rows = np.empty((n_rows, between.size))
            column_scores(self.table, first, self.plain, self.table.shape[1], w, own, of_rows)
            between = of_rows.reshape(n_rows, *between.shape[1:]) + between
        paths, lengths = np.empty((k, len(ending) - 2), np.int32), np.empty(k, np.int64)
        n = best_paths(scores, kinds, starts, ending, between, rows, k, paths, lengths)
        return [self.output_of(i, paths[j, : lengths[j]]) for j in range(n)]

    def features(self, i, output):
        rows, columns, kinds = self.along(i, output)
        capacity = len(rows) * (self.table.shape[1] + 1)
        indices, values = np.empty(capacity, np.int64), np.empty(capacity)
        n = path_entries(
            self.table, self.plain, rows, columns, self.width, kinds, self.n_kinds, self.offsets, indices, values
        )  # fmt: skip
        return row_of(indices, values, n)
