"""Some rows of a source, kept decoded in memory as a source of one block."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from blocksvm.kernels.shuffle import gather_rows
from blocksvm.sources.block import Arena, Block
from blocksvm.sources.source import ChunkTable, Source, SourceBase, new_block


class KeptRows(SourceBase):
    """The rows of the ``pieces``, ``n_rows`` of ``whole`` with ``nnz`` entries in all: blocks, and which of their rows
    (m,) int32.  They keep their numbers."""

    def __init__(self, whole: Source, n_rows: int, nnz: int, pieces: Iterable[tuple[Block, np.ndarray]]):
        self.block = new_block(whole, n_rows, nnz)
        filled = 0
        for block, chosen in pieces:
            self._take(block, chosen, filled)
            filled += len(chosen)
        super().__init__(
            name=whole.name,
            n_samples=n_rows,
            n_features=whole.n_features,
            n_nonzeros=nnz,
            value_bytes=whole.value_bytes,
            max_norm=whole.max_norm,
            chunks=ChunkTable(np.zeros(1, np.int64), np.array([n_rows]), np.array([nnz])),
            coding=whole.coding,
            label_kind=whole.label_kind,
            label_counts=whole.label_counts,
            fingerprint=whole.fingerprint,
            total_weight=whole.total_weight,
            weighted=whole.weighted,
            shuffled=whole.shuffled,
            in_memory=True,
        )

    def _take(self, block: Block, chosen: np.ndarray, first: int) -> None:
        """The chosen rows of a block to places ``first`` and behind."""
        held, stop = self.block, first + len(chosen)
        start = int(held.indptr[first])
        ends = held.indptr[first + 1 : stop + 1]
        values = None if held.values is None else held.values[start:]
        gather_rows(*block.matrix, chosen, ends, held.indices[start:], values)
        np.cumsum(ends, out=ends)
        ends += start
        for name in ("y", "sq_norms", "rows", "weights"):
            if getattr(held, name) is not None:
                getattr(held, name)[first:stop] = getattr(block, name)[chosen]

    def working_bytes(self) -> int:
        return 0

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        self.cost.blocks += 1
        self.cost.nnz += self.n_nonzeros
        return self.block

    def help(self) -> bool:
        return True
