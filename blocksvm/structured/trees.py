"""Dependency trees: every token has a head, another token or the root, and each arc has features.

score(y) = sum_m sum_{f of the arc (y_m, m)} w[f];   rho(y, y') = tokens whose heads differ.
"""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.arborescence import best_tree, best_trees
from blocksvm.kernels.lattice_paths import column_scores
from blocksvm.structured.output_structure import TokenAnswers, row_of


def arc_bounds_of(bounds: np.ndarray) -> np.ndarray:
    """(n_sentences + 1,) int64: where the arcs of each sentence begin; of n tokens there are (n + 1) n."""
    lengths = np.diff(bounds)
    return np.append(0, np.cumsum((lengths + 1) * lengths)).astype(np.int64)


class Trees(TokenAnswers):
    """Trees held as arrays.

    table (n_arcs, n_templates) int32: features of each arc, -1: none; the arcs of a sentence of n tokens are h n + m
    - 1, heads h from 0, the root, to n, modifiers m from 1 to n.  bounds (n_sentences + 1,) int64; heads (n_tokens,)
    int32, or None.  An output is the heads of a sentence's tokens.
    """

    def __init__(self, table: np.ndarray, bounds: np.ndarray, heads: np.ndarray | None, n_features: int):
        self.table = np.ascontiguousarray(table, dtype=np.int32)
        self.bounds = np.ascontiguousarray(bounds, dtype=np.int64)
        self.arc_bounds = arc_bounds_of(self.bounds)
        self.answers = heads
        self.n_examples = len(bounds) - 1
        self.n_weights = n_features

    def choices(self, i):
        return self.length(i) + 1

    def features(self, i, output):
        n = len(output)
        rows = self.arc_bounds[i] + output.astype(np.int64) * n + np.arange(n)
        indices = self.table[rows]
        indices = indices[indices >= 0].astype(np.int64)
        return row_of(indices, np.ones(len(indices)), len(indices))

    def arc_weights(self, w: np.ndarray, i: int) -> np.ndarray:
        """(n + 1, n + 1) float64: of the arc from h to m, as ``best_tree`` takes them."""
        n = self.length(i)
        scores = np.empty(((n + 1) * n, 1))
        column_scores(self.table, self.arc_bounds[i], 0, self.table.shape[1], w, 0, scores)
        weights = np.zeros((n + 1, n + 1))
        weights[:, 1:] = scores.reshape(n + 1, n)
        return weights

    def best(self, w, i):
        return self._best(self.arc_weights(w, i))

    def most_violating(self, w, i):
        weights = self.arc_weights(w, i)
        gold = self.gold(i)
        weights[:, 1:] += 1.0
        weights[gold, np.arange(1, len(gold) + 1)] -= 1.0
        return self._best(weights)

    def k_best(self, w, i, k):
        weights = self.arc_weights(w, i)
        trees = np.empty((k, len(weights)), np.int32)
        return [tree[1:] for tree in trees[: best_trees(weights, k, trees)]]

    def _best(self, weights: np.ndarray) -> np.ndarray:
        heads = np.empty(len(weights), np.int32)
        best_tree(weights, heads)
        return heads[1:]
