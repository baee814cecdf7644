"""Labels of the tokens of a sequence, first order: features of a token under its label, and of neighbouring labels.

score(y) = sum_t sum_{f of token t} w[f, y_t] + sum_t (w[y_{t-1}, y_t] + sum_{g of pairs at t} w[g, y_{t-1}, y_t]);
rho(y, y') = tokens whose labels differ.
"""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.lattice_paths import column_scores, label_entries
from blocksvm.structured.output_structure import TokenAnswers, row_of
from blocksvm.structured.path_structure import PathStructure

ONCE = np.ones(1)


class Sequences(TokenAnswers, PathStructure):
    """Sequences held as arrays.

    features (n_tokens, n_templates) int32, -1: none, those of pairs of labels from the column ``plain`` on (None: there
    are none); bounds (n_sequences + 1,) int64; labels (n_tokens,) int32, -1 where one is not among the n_labels, or
    None; n_features, n_pairs: features of tokens, and of pairs of labels.
    """

    def __init__(
        self, features: np.ndarray, bounds: np.ndarray, labels: np.ndarray | None, n_features: int, n_labels: int,
        plain: int | None = None, n_pairs: int = 0,
    ):  # fmt: skip
        self.table = np.ascontiguousarray(features, dtype=np.int32)
        self.plain = self.table.shape[1] if plain is None else plain
        self.n_pairs = n_pairs
        self.bounds = np.ascontiguousarray(bounds, dtype=np.int64)
        self.answers = labels
        self.n_features = n_features
        self.width = self.n_kinds = n_labels
        self.n_examples = len(bounds) - 1
        # the lattice of the longest sequence, of which others take the beginning
        longest = int(np.diff(self.bounds).max(initial=0))
        nodes = np.arange(longest * n_labels, dtype=np.int32)
        self._kinds, self._starts = nodes % np.int32(n_labels), nodes // np.int32(n_labels)
        self._ending = np.append(0, np.arange(longest + 1, dtype=np.int64) * n_labels)

    def choices(self, i):
        return self.n_kinds

    def lattice(self, i):
        n = self.length(i)
        nodes = n * self.n_kinds
        return self._kinds[:nodes], self._starts[:nodes], self._ending[: n + 2]

    def rows(self, i):
        n = self.length(i)
        return int(self.bounds[i]), n, self._starts[: n * self.n_kinds]

    def node_scores(self, w, i):
        scores = np.empty((self.length(i), self.width))
        column_scores(self.table, self.bounds[i], 0, self.plain, w, 0, scores)
        return scores.reshape(-1)

    def node_costs(self, i):
        gold = self.gold(i)
        costs = np.ones((len(gold), self.n_kinds))
        there = np.flatnonzero(gold >= 0)
        costs[there, gold[there]] = 0.0
        return costs.reshape(-1)

    def along(self, i, output):
        return np.arange(self.bounds[i], self.bounds[i + 1], dtype=np.int32), output, output

    def output_of(self, i, nodes):
        return self._kinds[nodes]

    def difference(self, i, output):
        gold = self.gold(i)
        capacity = 2 * int(np.count_nonzero(gold != output)) * (self.plain + 2 * self._kinds_of_pairs)
        return self._difference(i, gold, output[None], ONCE, capacity)

    def mixture(self, i, outputs, factors):
        gold, worse = self.gold(i), np.stack(outputs)
        changed = np.count_nonzero(worse != gold, axis=0)
        labels = np.minimum(changed + 1, self.n_kinds)[changed > 0].sum()
        capacity = int(labels) * self.plain + 4 * int(changed.sum()) * self._kinds_of_pairs
        return self._difference(i, gold, worse, factors, capacity)

    @property
    def _kinds_of_pairs(self) -> int:
        """Features that a pair of labels has, at most."""
        return 1 + self.table.shape[1] - self.plain

    def _difference(self, i, gold, worse, factors, capacity):
        indices, values = np.empty(capacity, np.int64), np.empty(capacity)
        n = label_entries(
            self.table, self.plain, self.bounds[i], gold, worse, factors, self.n_kinds, self.offsets, indices, values
        )  # fmt: skip
        return row_of(indices, values, n)
