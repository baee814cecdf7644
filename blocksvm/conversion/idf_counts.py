"""Inverse document frequencies of a store's features: counted on its own rows, or those of another store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from xxhash import xxh3_128

from blocksvm.base.errors import InputError, option
from blocksvm.conversion.feature_ids import IdIndex, IdTable
from blocksvm.formats.recipe import Recipe
from blocksvm.formats.weighing import Idf, idf_of
from blocksvm.store.arrays import PIECE
from blocksvm.store.reader import Store
from blocksvm.store.tables import read_idf

BYTES_COUNTED = 8  # a feature, while they are counted
BYTES_KNOWN = 8 + IdIndex.n_bytes(1_000_000) // 1_000_000  # a feature, where they are known


@dataclass(frozen=True)
class KnownIdf:
    """The idf of some features; fingerprint: equal only where these are; n_bytes in memory."""

    idf: Idf
    fingerprint: str
    n_bytes: int = 0


def known_idf(store: Store) -> KnownIdf:
    """The idf of a store's features; InputError where it has none."""
    fingerprint = store.meta.get("idf_fingerprint")
    if not Recipe.of_store(store.meta, store.name).weighs or fingerprint is None:
        raise InputError(f"{store.name}: its features have no idf; it is damaged, make it again")
    index = IdIndex(store.n_features).fill(store.feature_id_pieces())
    idf = Idf(index.find, read_idf(store.file, store.n_features))
    return KnownIdf(idf, fingerprint, BYTES_KNOWN * store.n_features)


def idf_like(path: str | Path) -> KnownIdf | None:
    """The idf of the store that another one shall be like; None where it has none."""
    with Store(path) as store:
        return known_idf(store) if Recipe.of_store(store.meta, store.name).weighs else None


def require_counted_idf(store: Store, inputs: list[str]) -> None:
    """InputError where rows would be added to a store whose idf is another's: that of features it has not met is not in
    it."""
    if inputs and "idf_from" in store.meta:
        raise InputError(
            f"{store.name}: has the idf of {store.meta['idf_from']}, for its own features only; split all rows anew "
            f"with {option('like', store.meta['idf_from'])}"
        )


@dataclass
class FeatureIdf:
    """The factors of the values of a store's features.

    kind: 'smooth' or 'plain'; known: None to count them on the store's own rows; weighed: the rows have been multiplied
    when they were read.
    """

    kind: str
    known: KnownIdf | None = None
    weighed: bool = False
    factors: np.ndarray = field(default_factory=lambda: np.empty(0))
    fingerprint: str = ""

    def n_bytes(self, n_ids: int) -> int:
        return BYTES_COUNTED * n_ids + (self.known.n_bytes if self.known is not None else 0)

    def ranked(self, table: IdTable, min_count: int, first: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """``table.ranking(min_count, first)`` of the features that have an idf, and keep it for those that are left, of
        ``n_rows`` rows."""
        n, counts, places = len(table), table.counts, None
        if self.known is not None:
            find, parts = self.known.idf.find, range(0, n, PIECE)
            places = np.concatenate([np.empty(0, int), *(find(table.known[k : min(k + PIECE, n)]) for k in parts)])
            counts[:n][places < 0] = 0
        order, new_index = table.ranking(min_count, first)
        if self.known is None:
            self.factors = idf_of(counts[order], n_rows, self.kind)
            self.fingerprint = self._digest(table.known, order)
        else:
            self.factors, self.fingerprint = self.known.idf.factors[places[order]], self.known.fingerprint
        return order, new_index

    def _digest(self, known: np.ndarray, order: np.ndarray) -> str:
        digest = xxh3_128(self.factors)
        for start in range(0, len(order), PIECE):
            digest.update(known[order[start : start + PIECE]])
        return digest.hexdigest()

    def of_features(self, ids) -> KnownIdf:
        """The idf that was counted; ids: (start, ids) pieces of the features in their order."""
        return KnownIdf(Idf(IdIndex(len(self.factors)).fill(ids).find, self.factors), self.fingerprint)
