"""Examples in blocks: of one structure in memory, or of a text in a file, chunk by chunk.

A chunk is a run of examples that is read as a whole; a block is some chunks in memory at once.  Where all chunks fit
they are one block, in stored order; otherwise blocks are drawn again for each epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.store.chunks import Chunks
from blocksvm.structured.output_structure import Structure
from blocksvm.structured.structured_learner import order_of

RUN = 64  # examples of a chunk of those in memory


@dataclass(frozen=True)
class ExampleBlock:
    """Examples in memory: their places (n,) int64 in ``structure``; those of chunk chunks[j] are
    examples[bounds[j]:bounds[j + 1]].  n_bytes: what is in memory for it alone."""

    structure: Structure
    chunks: np.ndarray
    examples: np.ndarray
    bounds: np.ndarray
    n_bytes: int = 0


class ExampleBlocks:
    """counts, sizes (n_chunks,) int64: examples of each chunk, and the bytes that they take in a block; lists,
    oracle_sets: as in ``Structure``; resident_bytes: bytes in memory all the time; folder: for files, or None."""

    n_weights: int
    lists: bool
    oracle_sets = False
    counts: np.ndarray
    sizes: np.ndarray
    resident_bytes: int
    folder: Path | None

    @property
    def n_examples(self) -> int:
        return int(self.counts.sum())

    def close(self) -> None:
        """Delete the file of the examples."""

    def block(self, chunks: np.ndarray) -> ExampleBlock:
        """The block of these chunks (rising numbers)."""
        raise NotImplementedError

    def partition(self, costs: np.ndarray, capacity: int, seed: int, epoch: int) -> list[np.ndarray]:
        """Blocks, as the rising numbers of their chunks, that cost at most ``capacity`` each (or are one chunk); costs
        (n_chunks,).  A function of its arguments."""
        n = len(costs)
        if costs.sum() <= capacity:
            return [np.arange(n)]
        blocks, start, cost = [], 0, 0
        order = order_of(n, seed, epoch)
        for place, chunk in enumerate(order):
            if place > start and cost + costs[chunk] > capacity:
                blocks.append(np.sort(order[start:place]))
                start, cost = place, 0
            cost += int(costs[chunk])
        return [*blocks, np.sort(order[start:])]


class Whole(ExampleBlocks):
    """Examples that are all in memory."""

    def __init__(self, structure: Structure, folder: Path | None = None, run: int = RUN):
        self.structure = structure
        self.n_weights, self.lists, self.oracle_sets = structure.n_weights, structure.lists, structure.oracle_sets
        n = structure.n_examples
        self.starts = np.append(np.arange(0, n, run), n)
        self.counts = np.diff(self.starts)
        self.sizes = np.zeros_like(self.counts)
        self.resident_bytes = structure.n_bytes
        self.folder = folder

    def block(self, chunks):
        examples = np.concatenate([np.arange(self.starts[k], self.starts[k + 1]) for k in chunks])
        return ExampleBlock(self.structure, chunks, examples, np.append(0, np.cumsum(self.counts[chunks])))


class Spooled(ExampleBlocks):
    """Examples in a file: ``read(chunk)`` gives the arrays of a chunk, int32, by name, and ``build(arrays)`` makes a
    structure of the concatenated arrays of several.

    lengths: of each array its lengths (n_chunks,) int64.  A block's arrays are filled chunk by chunk, so that no more
    than one chunk is in memory twice.
    """

    def __init__(
        self,
        chunks: Chunks,
        read: Callable[[int], dict[str, np.ndarray]],
        build: Callable[[dict[str, np.ndarray]], Structure],
        counts: np.ndarray,
        lengths: dict[str, np.ndarray],
        n_weights: int,
        folder: Path | None,
    ):
        self.chunks, self.read, self.build, self.counts, self.lengths = chunks, read, build, counts, lengths
        self.n_weights, self.lists = n_weights, True
        # int32 arrays; a structure has the bounds of its examples besides
        self.sizes = 4 * sum(lengths.values()) + 24 * counts
        self.resident_bytes = 0
        self.folder = folder
        self.last: ExampleBlock | None = None

    def close(self):
        self.last = None
        self.chunks.close()

    def block(self, chunks):
        if self.last is not None and np.array_equal(self.last.chunks, chunks):
            return self.last
        self.last = None
        arrays = {
            name: np.empty(int(chunk_lengths[chunks].sum()), np.int32) for name, chunk_lengths in self.lengths.items()
        }
        filled = dict.fromkeys(arrays, 0)
        for chunk in chunks:
            for name, array in self.read(int(chunk)).items():
                if len(array) != self.lengths[name][chunk]:
                    raise InputError(f"{self.folder}: a file in {option('temp')} was changed; train again")
                arrays[name][filled[name] : filled[name] + len(array)] = array
                filled[name] += len(array)
        bounds = np.append(0, np.cumsum(self.counts[chunks]))
        self.last = ExampleBlock(
            self.build(arrays), chunks, np.arange(bounds[-1]), bounds, int(self.sizes[chunks].sum())
        )
        return self.last
