"""Structures whose outputs are paths through a lattice: the common part of label sequences and segmentations.

Weights: ``width`` for each feature of a node (one for each label, or 1), then one for each two neighbouring kinds,
(n_kinds + 1, n_kinds), the last row for what comes first (``kernels/lattice_paths.py``).
"""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.lattice_paths import best_paths, path_entries
from blocksvm.structured.output_structure import Structure, row_of


class PathStructure(Structure):
    """A subclass gives the lattice of each example, the costs of its nodes as wrong answers, and their features.

    table (n_rows, n_templates) int32: the features of the rows that nodes stand on, -1: none; n_features: how many
    there are.
    """

    table: np.ndarray
    n_features: int
    width: int
    n_kinds: int

    @property
    def offset(self) -> int:
        """Where the weights of neighbours begin."""
        return self.n_features * self.width

    @property
    def n_weights(self) -> int:
        return self.offset + (self.n_kinds + 1) * self.n_kinds

    def lattice(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(kinds, starts, ending) of the nodes, as ``best_paths`` takes them."""
        raise NotImplementedError

    def node_scores(self, w: np.ndarray, i: int) -> np.ndarray:
        """(n_nodes,) float64"""
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
        paths, lengths = np.empty((k, len(ending) - 2), np.int32), np.empty(k, np.int64)
        n = best_paths(scores, kinds, starts, ending, w, self.offset, self.n_kinds, k, paths, lengths)
        return [self.output_of(i, paths[j, : lengths[j]]) for j in range(n)]

    def features(self, i, output):
        rows, columns, kinds = self.along(i, output)
        capacity = len(rows) * (self.table.shape[1] + 1)
        indices, values = np.empty(capacity, np.int64), np.empty(capacity)
        n = path_entries(
            self.table, rows, columns, self.width, kinds, self.n_kinds, self.offset, indices, values
        )  # fmt: skip
        return row_of(indices, values, n)
