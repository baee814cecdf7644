"""What is counted of features as rows are read: their factors, or those of another store; and which ones tell classes
apart best, by the chi-squared statistic of their presence:

    chi2_j = sum_c (O_cj - E_cj)^2 / E_cj,    E_cj = N_c N_j / N

O_cj: rows of class c that have feature j; N_c, N_j, N: rows of the class, with the feature, in all (Manning, Raghavan,
Schuetze, Introduction to Information Retrieval, 2008, 13.5.2).  Of sets of labels each label is a class.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import sparse
from xxhash import xxh3_128

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import MANY, MOST_LABELS
from blocksvm.conversion.feature_ids import BYTES_AN_ID, IdIndex, IdTable
from blocksvm.formats.kernels.closing import add_values
from blocksvm.formats.weighing import FeatureFactors, divisors_of, idf_of
from blocksvm.store.arrays import PIECE, read_factors
from blocksvm.store.descriptions import StoreMeta
from blocksvm.store.reader import Store
from blocksvm.store.recipe import LARGEST, SCALE

LONG_ROW = 1e3  # a norm that counts of words in documents seldom have
LONG_ROWS = (
    "rows are long (norms up to {:.3g}), as where features are of very different size; {} evens them out, so that "
    "training reaches its tolerance"
)
BYTES_COUNTED = 8  # a feature, while they are counted, beside its sums
BYTES_KNOWN = 8 + IdIndex.n_bytes(1_000_000) // 1_000_000  # a feature, where they are known
ROOM = 1.25  # times as much as is needed, so that counts seldom move
BYTES_RANKED = 32  # a feature, while they are ranked


def known_factors(store: Store) -> FeatureFactors:
    """The factors of a store's features; InputError where it has none."""
    fingerprint, factor = store.meta.idf_fingerprint, store.meta.recipe.factor
    if not factor or not fingerprint:
        raise InputError(f"{store.name}: its features have no {factor or 'factors'}; it is damaged, make it again")
    index = IdIndex(store.n_features).fill(store.feature_id_pieces())
    return FeatureFactors(index.find, read_factors(store.file, store.n_features), fingerprint)


def factors_like(path: str | Path) -> FeatureFactors | None:
    """The factors of the store that another one shall be like; None where it has none."""
    with Store(path) as store:
        return known_factors(store) if store.meta.recipe.factor else None


def require_counted_factors(store: Store, inputs: list[str]) -> None:
    """InputError where rows would be added to a store whose factors, another's, lack those of new features."""
    if inputs and store.meta.idf_from:
        wrong = f"{store.name}: has the {store.meta.recipe.factor} of {store.meta.idf_from}, for its own features only"
        raise InputError(f"{wrong}; split all rows anew with {option('like', store.meta.idf_from)}")


def factor_notes(meta: StoreMeta, store: str | Path) -> list[str]:
    """The sentence on features of the last rows that have no factor, or on a new store that wants a scale."""
    recipe = meta.recipe
    if not (n := meta.features_left_out):
        wants_one = meta.max_norm > LONG_ROW and not (recipe.l2 or recipe.factor or meta.history)
        return [LONG_ROWS.format(meta.max_norm, option("scale", LARGEST))] if wants_one else []
    more, factor = " or more" * meta.more_left_out, recipe.factor
    cure = "" if meta.idf_from else "; split all rows anew to learn them"
    return [f"new features left out: {n:,}{more} ({meta.idf_from or store} has no {factor} for them{cure})"]


@dataclass
class StoreFactors:
    """The factors of a store's features.  kind: 'smooth', 'plain', 'max-abs' or 'deviation', '' where they will be
    another store's; known: None to count them on its own rows, else rows were multiplied as they were read."""

    kind: str
    known: FeatureFactors | None = None
    by_feature: np.ndarray = field(default_factory=lambda: np.empty(0))
    fingerprint: str = ""

    def __post_init__(self):
        self.weighed = self.known is not None
        width = 0 if self.weighed or self.kind not in SCALE else 1 if self.kind == LARGEST else 3
        self.sums = np.empty((0, width))

    def count(self, table: IdTable, positions: np.ndarray, values: np.ndarray | None) -> None:
        """Count the values (None: all 1) of features at these positions; InputError where there is no memory."""
        width = self.sums.shape[1]
        known = 0 if self.known is None else BYTES_KNOWN * len(self.known.by_feature)
        table.hold("the features' factors", (BYTES_COUNTED + 8 * width) * len(table) + known)
        if width and not len(self.sums):  # for as many as it lets them hold; what is not touched is not taken
            self.sums = np.zeros((table.budget // (BYTES_AN_ID + BYTES_COUNTED + 8 * width), width))
        if width:
            add_values(positions, np.ones(len(positions)) if values is None else values, self.sums)

    def ranked(self, table: IdTable, min_count: int, first: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """``table.ranking`` of the features that have a factor, which those that are left, of n_rows rows, keep."""
        n, counts, found = len(table), table.counted(), None
        if self.known is not None:
            find, parts = self.known.find, range(0, n, PIECE)
            found = np.concatenate([np.empty(0, int), *(find(table.known[k : min(k + PIECE, n)]) for k in parts)])
            counts[found < 0] = 0
        order, new_index = table.ranking(min_count, first)
        if self.known is None:
            self.by_feature = self._counted(table, counts, order, n_rows)
            digest = xxh3_128(self.by_feature)
            for start in range(0, len(order), PIECE):
                digest.update(table.known[order[start : start + PIECE]])
            self.fingerprint = digest.hexdigest()
        else:
            self.by_feature, self.fingerprint = self.known.by_feature[found[order]], self.known.fingerprint
        return order, new_index

    def _counted(self, table: IdTable, counts: np.ndarray, order: np.ndarray, n_rows: int) -> np.ndarray:
        """The factors of the features at ``order``; counts: the rows that each feature occurs in."""
        if self.kind not in SCALE:
            return idf_of(counts[order], n_rows, self.kind)
        scale = np.empty(len(order))
        for k in range(0, len(order), PIECE):
            scale[k : k + PIECE] = 1.0 / divisors_of(self.sums[order[k : k + PIECE]], n_rows)
        self.sums = np.empty(0)
        if not scale.all():
            feature, cure = table.known[order[np.argmin(scale)]], f"use {option('scale', LARGEST)}"
            raise InputError(f"feature {feature}: the squares of its values exceed float64; {cure}")
        return scale


class Selection:
    """The ``most`` features of the largest statistic, of equal ones those of the smaller ids; or known ones.  rows (1 +
    classes,): how many have a label, in all and by class; counts (features, 1 + classes): those with each feature."""

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
            wrong = f"is for classes, and there are more than {MANY if real else MOST_LABELS:,} distinct labels"
            raise InputError(f"{option('top_features', self.most)}: {wrong}; leave it out")
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
