"""Some of a source's chunks as a source of their own: a sample of its rows."""

from __future__ import annotations

from typing import Self

import numpy as np

from blocksvm.base.labels import Labels
from blocksvm.sources.block import Arena, Block
from blocksvm.sources.source import ChunkTable, ReadingCost, Source


class ChosenChunks(Source):
    """The rows of the ``chosen`` chunks (k,) int64, rising, of a store, numbered from 0, with its labels, features and
    description; closed with the store."""

    def __init__(self, whole: Source, chosen: np.ndarray):
        self.whole, self.chosen = whole.reader(), chosen
        n_rows, nnz = whole.chunks.n_rows[chosen], whole.chunks.nnz[chosen]
        super().__init__(
            whole.name, int(n_rows.sum()), whole.n_features, int(nnz.sum()), whole.value_bytes, whole.max_norm,
            ChunkTable(np.cumsum(n_rows) - n_rows, n_rows, nnz), whole.coding, whole.label_kind, whole.label_counts,
            f"{whole.fingerprint} {chosen.tolist()}", whole.total_weight * n_rows.sum() / whole.n_samples,
            whole.label_weights, whole.n_unlabelled, whole.weighted, whole.shuffled,
        )  # fmt: skip

    @property
    def cost(self) -> ReadingCost:
        return self.whole.cost

    @cost.setter
    def cost(self, value: ReadingCost) -> None:
        """It is the store's."""

    def reader(self, labels: Labels | None = None, real: bool = False) -> Self:
        other = super().reader(labels, real)
        other.whole = self.whole.reader(labels, real)
        return other

    def close(self) -> None:
        self.whole.close()

    def working_bytes(self, memory: int = 0) -> int:
        return self.whole.working_bytes(memory)

    def decode_by(self, threads: int | None, memory: int) -> None:
        self.whole.decode_by(threads, memory)

    def price(self, requests: int, n_bytes: int) -> float | None:
        return self.whole.price(requests, n_bytes)

    def foresee(self, blocks: list[np.ndarray]) -> None:
        self.whole.foresee([self.chosen[chunks] for chunks in blocks])

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        block = self.whole.read_block(self.chosen[chunks], arena)
        block.rows[:] = self.chunks.rows(chunks)
        return block

    def help(self) -> bool:
        return self.whole.help()

    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        return self.whole.feature_ids(start, stop)

    def feature_id_pieces(self):
        return self.whole.feature_id_pieces()
