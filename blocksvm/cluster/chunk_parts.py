"""The parts that chunks are cut into, by counts alone."""

from __future__ import annotations

import numpy as np

PARTS = 64  # of all chunks, at least
LARGEST_PART = 1 << 22  # nonzeros and rows: 0.05 s of a worker's work, five times what it costs to hand them out
MOST_UNDER_WAY = 64  # parts


def part_size(sizes: np.ndarray, most: int = LARGEST_PART) -> int:
    """The size of a part of chunks of these sizes (nonzeros and rows)."""
    return min(max(1, int(sizes.sum()) // PARTS), most)


def cut(chunks: np.ndarray, sizes: np.ndarray, part: int) -> list[np.ndarray]:
    """Consecutive ones of some chunks, together of about the size ``part``, or one chunk; sizes: of all chunks."""
    ends = np.cumsum(sizes[chunks])
    numbers = (ends - sizes[chunks]) // part
    return np.split(chunks, np.flatnonzero(np.diff(numbers)) + 1)
