"""What a source of blocks is: a store on disk, a matrix in memory, and whatever comes later, behind one protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from blocksvm.sources.block import Arena, Block, block_bytes


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where the chunks lie among the rows: first_row, n_rows, nnz (n_chunks,) int64 each."""

    first_row: np.ndarray
    n_rows: np.ndarray
    nnz: np.ndarray

    def __len__(self) -> int:
        return len(self.nnz)


@dataclass
class ReadingCost:
    """What reading has cost so far: compressed bytes, seconds of reading and of decoding."""

    bytes_read: int = 0
    seconds_reading: float = 0.0
    seconds_decoding: float = 0.0
    blocks: int = 0
    nnz: int = 0


@dataclass(frozen=True)
class Labels:
    """The labels of a classification problem, rising: two, of which the larger is +1, or more, counted from 0."""

    values: tuple[float, ...]

    @property
    def binary(self) -> bool:
        return len(self.values) == 2

    @property
    def negative(self) -> float:
        return self.values[0]

    @property
    def positive(self) -> float:
        return self.values[-1]

    def table(self) -> np.ndarray:
        """(k,) float64, as the kernels take them."""
        return np.array(self.values) + 0.0

    def codes(self, labels: np.ndarray) -> np.ndarray:
        """int16: of two labels -1, +1, and 0 for any other; of more 0 .. k - 1, and -1 for any other."""
        table = self.table()
        if self.binary:
            return (labels == table[1]).astype(np.int16) - (labels == table[0]).astype(np.int16)
        found = np.searchsorted(table, labels)
        known = table[np.minimum(found, len(table) - 1)] == labels
        return np.where(known, found, -1).astype(np.int16)


def labels_of(counts: list[tuple[float, int]] | None) -> Labels | None:
    """The labels that were counted, where they make classes: two or more, but not a number of its own for each row."""
    if counts is None or len(counts) < 2:
        return None
    return Labels(tuple(label for label, _ in counts))


class Source(Protocol):
    """Rows in chunks, from which blocks are made.

    name: for messages; labels: those by which ``y`` is made, or None (then y is 0); label_counts: each
    label with its rows, or None where there are too many; class_weight_sums: each label with the sum of its rows'
    weights, or None where rows have none; fingerprint: equal only for equal rows in equal order.
    """

    name: str
    n_samples: int
    n_features: int
    n_nonzeros: int
    value_bytes: int
    max_norm: float
    chunks: ChunkTable
    labels: Labels | None
    label_counts: list[tuple[float, int]] | None
    class_weight_sums: dict[float, float] | None
    fingerprint: str
    shuffled: bool  # the rows are in random order already
    in_memory: bool  # a block of everything is no copy
    cost: ReadingCost

    def working_bytes(self) -> int:
        """Memory that reading takes beside the block."""
        ...

    def read_block(self, chunks: np.ndarray, arena: Arena | None) -> Block:
        """The rows of the chunks, one behind the other, in the arena's memory (valid until it is filled again)."""
        ...

    def help(self) -> None:
        """Take part in a ``read_block`` that another thread has under way, if there is work left to share."""
        ...

    def feature_ids(self, start: int, stop: int) -> np.ndarray:
        """The user's ids of features start..stop-1, int64."""
        ...

    def feature_id_pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first feature, ids) for all features, piece by piece."""
        ...


def bytes_of_blocks(source: Source, n_rows: int, nnz: int) -> int:
    """Memory that an arena needs for a block of this size from this source."""
    return block_bytes(n_rows, nnz, source.value_bytes)


@dataclass
class SourceBase:
    """The fields that all sources have."""

    name: str
    n_samples: int
    n_features: int
    n_nonzeros: int
    value_bytes: int
    max_norm: float
    chunks: ChunkTable
    labels: Labels | None
    label_counts: list[tuple[float, int]] | None
    fingerprint: str
    shuffled: bool = False
    in_memory: bool = False
    class_weight_sums: dict[float, float] | None = None
    cost: ReadingCost = field(default_factory=ReadingCost)
