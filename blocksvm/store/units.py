"""Units: chunks that follow each other, which are drawn into blocks together and, of an object, asked for at once.

A unit has as many chunks as begin within its bytes: few requests where the data is far away, and as many units as
mixing needs.
"""

from __future__ import annotations

import numpy as np

UNITS_WANTED = 800
UNIT_BYTES = 16_000_000
UNIT_SHARE = 1 / 6  # of the memory for what is under way


def most_bytes(share: int) -> int:
    """Of a unit, and of what is asked for at once; share: the memory for what is under way."""
    return max(1, min(UNIT_BYTES, int(UNIT_SHARE * share)))


def unit_bytes(sizes: np.ndarray, share: int | None) -> int:
    """Of a store's units; sizes (n_chunks,) int64: its chunks' bytes; share: None where memory does not matter."""
    return max(1, min(UNIT_BYTES if share is None else most_bytes(share), int(sizes.sum()) // UNITS_WANTED))


def units_of(sizes: np.ndarray, n_bytes: int) -> np.ndarray:
    """The first chunk of each unit, int64, rising."""
    return np.unique((np.cumsum(sizes) - sizes) // n_bytes, return_index=True)[1]
