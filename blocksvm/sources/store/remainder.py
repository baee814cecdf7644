"""Some rows of a store as a smaller store: written block by block to a file that loses its name once it is whole and
open, so that it vanishes with its last reader, whatever ends the process."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.kernels.shuffle import gather_rows
from blocksvm.labels import Coding
from blocksvm.outputs import named_errors, scratch_folder
from blocksvm.sources.block import Block
from blocksvm.sources.store.creation import create_hdf5
from blocksvm.sources.store.reader import Store
from blocksvm.sources.store.schema import ROW, WEIGHTED_ROW
from blocksvm.sources.store.writer import StoreWriter

OF_ROWS = ("label_kind", "n_labels", "n_unlabelled", "weighted", "total_weight", "label_weights", "named")


@dataclass(frozen=True)
class CodesAreStored(Coding):
    """In the place of each row's label the store has its ``y``."""

    by_kernel = False

    def y(self, kept: np.ndarray) -> np.ndarray:
        return kept.astype(self.y_dtype)


class Remainder(Store):
    """Rows of ``whole`` in their order there, and with their numbers there; a ``Source``."""

    numbered = True

    def __init__(self, path: Path, whole: Store):
        super().__init__(path)
        # what belongs to the columns, and to the labels, is the whole store's
        self.name, self.path, self.n_features, self.max_norm = whole.name, whole.path, whole.n_features, whole.max_norm
        self.coding = CodesAreStored(whole.coding.labels, None, whole.coding.real)


def smaller_store(whole: Store, n_rows: int, pieces: Iterable[tuple[Block, np.ndarray]], temp: Path) -> Remainder:
    """The rows of the ``pieces``, ``n_rows`` of ``whole`` in all: blocks, and which of their rows (m,) int32.

    temp: the folder for its bytes, on a disk with room for them.
    """
    with named_errors(temp), scratch_folder(temp, whole.path.name) as folder:
        path = folder / "undecided.h5"
        with create_hdf5(path, "store") as file, ThreadPoolExecutor(1) as pool:
            writer = StoreWriter(file, n_rows, whole.chunk_nnz, whole.value_dtype, pool, 1, whole.weighted)
            for block, chosen in pieces:
                for part in _in_parts(block, chosen, whole.chunk_nnz):
                    writer.append(*_records(block, part))
            meta = {name: value for name, value in whole.meta.items() if name not in OF_ROWS}
            writer.finish(0, lambda start, stop: np.empty(0, np.int64), meta)
        return Remainder(path, whole)


def _in_parts(block: Block, chosen: np.ndarray, nnz: int) -> list[np.ndarray]:
    """The chosen rows, in parts of about ``nnz`` entries: no block is copied as a whole."""
    lengths = np.maximum(np.diff(block.indptr)[chosen], 1)
    return np.split(chosen, np.flatnonzero(np.diff(np.cumsum(lengths) // nnz)) + 1)


def _records(block: Block, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """As ``StoreWriter.append`` takes rows."""
    lengths = np.diff(block.indptr)[chosen]
    nnz = int(lengths.sum())
    indices = np.empty(nnz, np.int32)
    values = None if block.values is None else np.empty(nnz, block.values.dtype)
    gather_rows(*block.matrix, chosen, lengths, indices, values)
    rows = np.empty(len(chosen), ROW if block.weights is None else WEIGHTED_ROW)
    rows["length"], rows["label"], rows["sq_norm"] = lengths, block.y[chosen], block.sq_norms[chosen]
    rows["source"] = block.rows[chosen]
    if block.weights is not None:
        rows["weight"] = block.weights[chosen]
    return rows, indices, values
