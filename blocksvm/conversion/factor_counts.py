"""The factors of a store's features: counted on its own rows, or those of another store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from xxhash import xxh3_128

from blocksvm.base.errors import InputError, option
from blocksvm.conversion.feature_ids import BYTES_AN_ID, IdIndex, IdTable
from blocksvm.formats.kernels.factors import add_values
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
    """InputError where rows would be added to a store whose factors are another's: those of features it has not met are
    not in it."""
    if inputs and store.meta.idf_from:
        raise InputError(
            f"{store.name}: has the {store.meta.recipe.factor} of {store.meta.idf_from}, for "
            f"its own features only; split all rows anew with {option('like', store.meta.idf_from)}"
        )


def factor_notes(meta: StoreMeta, store: str | Path) -> list[str]:
    """The sentence on features of the rows read last that have no factor, as it was counted before, or on rows of a new
    store that want a scale; or none."""
    recipe = meta.recipe
    if not (n := meta.features_left_out):
        wants_one = meta.max_norm > LONG_ROW and not (recipe.l2 or recipe.factor or meta.history)
        return [LONG_ROWS.format(meta.max_norm, option("scale", LARGEST))] if wants_one else []
    more, factor = " or more" * meta.more_left_out, recipe.factor
    cure = "" if meta.idf_from else "; split all rows anew to learn them"
    return [f"new features left out: {n:,}{more} ({meta.idf_from or store} has no {factor} for them{cure})"]


@dataclass
class StoreFactors:
    """The factors of the values of a store's features.

    kind: 'smooth', 'plain', 'max-abs' or 'deviation', '' where they will be another store's; known: None to count them
    on the store's own rows, else the rows have been multiplied when they were read.
    """

    kind: str
    known: FeatureFactors | None = None
    by_feature: np.ndarray = field(default_factory=lambda: np.empty(0))
    fingerprint: str = ""

    def __post_init__(self):
        self.weighed = self.known is not None
        width = 0 if self.weighed or self.kind not in SCALE else 1 if self.kind == LARGEST else 3
        self.sums = np.empty((0, width))

    def count(self, table: IdTable, positions: np.ndarray, values: np.ndarray | None) -> None:
        """Count the values (None: all 1) of rows whose features have these positions in the table; InputError where
        that has no memory for it."""
        width = self.sums.shape[1]
        known = 0 if self.known is None else BYTES_KNOWN * len(self.known.by_feature)
        table.hold("the features' factors", (BYTES_COUNTED + 8 * width) * len(table) + known)
        if width and not len(self.sums):  # for as many as it lets them hold; what is not touched is not taken
            self.sums = np.zeros((table.budget // (BYTES_AN_ID + BYTES_COUNTED + 8 * width), width))
        if width:
            add_values(positions, np.ones(len(positions)) if values is None else values, self.sums)

    def ranked(self, table: IdTable, min_count: int, first: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """``table.ranking(min_count, first)`` of the features that have a factor, and keep it for those that are left,
        of ``n_rows`` rows."""
        n, counts, found = len(table), table.counted(), None
        if self.known is not None:
            find, parts = self.known.find, range(0, n, PIECE)
            found = np.concatenate([np.empty(0, int), *(find(table.known[k : min(k + PIECE, n)]) for k in parts)])
            counts[found < 0] = 0
        order, new_index = table.ranking(min_count, first)
        if self.known is None:
            self.by_feature = self._counted(table, counts, order, n_rows)
            self.fingerprint = self._digest(table.known, order)
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
            raise InputError(
                f"feature {table.known[order[np.argmin(scale)]]}: the squares of its values exceed float64; use "
                f"{option('scale', LARGEST)}"
            )
        return scale

    def _digest(self, known: np.ndarray, order: np.ndarray) -> str:
        digest = xxh3_128(self.by_feature)
        for start in range(0, len(order), PIECE):
            digest.update(known[order[start : start + PIECE]])
        return digest.hexdigest()

    def of_features(self, ids) -> FeatureFactors:
        """The factors that were counted; ids: (start, ids) pieces of the features in their order."""
        return FeatureFactors(IdIndex(len(self.by_feature)).fill(ids).find, self.by_feature, self.fingerprint)
