"""The features that tell classes apart best, by the chi-squared statistic of their presence, counted as rows are read.

    chi2_j = sum_c (O_cj - E_cj)^2 / E_cj,    E_cj = N_c N_j / N

O_cj: rows of class c that have feature j; N_c, N_j, N: rows of the class, with the feature, in all (Manning, Raghavan,
Schuetze, Introduction to Information Retrieval, 2008, 13.5.2).  Of sets of labels each label is a class.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import MANY, MOST_LABELS
from blocksvm.conversion.feature_ids import IdIndex, IdTable
from blocksvm.store.arrays import PIECE

ROOM = 1.25  # times as much as is needed, so that counts seldom move
BYTES_RANKED = 32  # a feature, while they are ranked


class Selection:
    """The ``most`` features of the largest statistic, of equal ones those of the smaller ids; or those that are known.

    counts (features, 1 + classes): of the rows that have a label with each feature, in all and by class; rows: their
    numbers.
    """

    def __init__(self, most: int, counting: bool = True):
        self.most, self.counting = most, counting
        self.known: IdIndex | None = None
        self.columns: dict = {}  # of the classes
        self.counts, self.rows = np.zeros((1024, 4), np.uint32), np.zeros(1, np.int64)

    def count(self, table: IdTable, labels, codes: np.ndarray, indptr: np.ndarray, positions: np.ndarray) -> None:
        """Count rows whose features have these positions in the table; codes (n,): of their labels, nan for none.
        InputError where the labels are no classes, or the table has no memory for the counts."""
        if not self.counting:
            return
        there = np.flatnonzero(~np.isnan(codes))
        _, first, kinds = np.unique(codes[there], return_index=True, return_inverse=True)
        of_kinds = [self._columns(labels[there[k]]) for k in first.tolist()]
        sizes = np.array([0, *map(len, of_kinds)])
        columns = np.array([c for own in of_kinds for c in own], np.int64)
        kind = sparse.csr_matrix((np.ones(len(columns), np.uint32), columns, np.cumsum(sizes)))
        kind.resize(len(of_kinds), 1 + len(self.columns))
        self.rows = np.append(self.rows, np.zeros(1 + len(self.columns) - len(self.rows), np.int64))
        self.rows += np.bincount(kinds, minlength=len(of_kinds)) @ kind
        rows = sparse.csr_matrix((np.ones(len(positions), np.uint32), positions, indptr), (len(codes), len(table)))
        self._make_room(table)
        found = ((rows if len(there) == len(codes) else rows[there]).T @ kind[kinds]).tocoo()
        self.counts[found.row, found.col] += found.data

    def _columns(self, label) -> list[int]:
        """That of all rows, and those of the classes of a row with this label."""
        members = set(label) if isinstance(label, tuple) else {label}
        columns = [self.columns.setdefault(member, 1 + len(self.columns)) for member in sorted(members)]
        real = isinstance(label, float) and len(self.columns) > MANY and not label.is_integer()
        if real or len(self.columns) > MOST_LABELS:
            raise InputError(
                f"{option('top_features', self.most)}: is for classes, and there are more than "
                f"{MANY if real else MOST_LABELS:,} distinct labels; leave it out"
            )
        return [0, *columns]

    def _make_room(self, table: IdTable) -> None:
        wanted, shape = (len(table), 1 + len(self.columns)), self.counts.shape
        if wanted[0] > shape[0] or wanted[1] > shape[1]:
            larger = [int(ROOM * want) if want > has else has for want, has in zip(wanted, shape, strict=True)]
            n_bytes = 4 * larger[0] * larger[1]
            table.hold("the counts of features by class", n_bytes + self.counts.nbytes)
            before, self.counts = self.counts, np.zeros(larger, np.uint32)
            self.counts[: shape[0], : shape[1]] = before
            table.hold("the counts of features by class", n_bytes)

    def keep(self, table: IdTable, min_count: int) -> None:
        """Take the features that are not selected out of the table's counts."""
        n = len(table)
        if self.counting and len(self.columns) < 2:
            raise InputError(f"{option('top_features', self.most)}: the rows have no two classes; leave it out")
        counts = table.counted()
        kept = np.zeros(n, bool)
        if self.known is not None:
            table.hold("the features that are kept", IdIndex.n_bytes(min(n, self.most)))
            for k in range(0, n, PIECE):
                kept[k : k + PIECE] = self.known.find(table.known[k : min(k + PIECE, n)]) >= 0
        else:
            table.hold("the ranks of the features", BYTES_RANKED * n)
            known, statistic = table.known[:n], self._statistics(n)
            eligible = np.flatnonzero(counts >= min_count)
            kept[eligible[np.lexsort((known[eligible], -statistic[eligible]))[: self.most]]] = True
            self.counts = np.zeros((0, 0), np.uint32)
        counts[~kept] = 0

    def _statistics(self, n: int) -> np.ndarray:
        share, statistic = self.rows[1:] / max(1, self.rows[0]), np.empty(n)
        step = max(1, PIECE // len(self.rows))
        for k in range(0, n, step):
            counts = self.counts[k : min(k + step, n), : len(self.rows)].astype(np.float64)
            expected = counts[:, :1] * share
            apart = np.square(counts[:, 1:] - expected)
            statistic[k : k + step] = np.divide(apart, expected, out=apart, where=expected > 0.0).sum(axis=1)
        return statistic
