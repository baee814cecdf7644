"""Features numbered by how often they occur: the weights that rows use most then lie together in the cache."""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.table import count_places, order_by_count, renumber


def by_falling_count(counts: np.ndarray) -> np.ndarray:
    """(n,) int32: positions of counts (n,) uint32 by falling count, of equal ones the smaller first."""
    order = np.empty(len(counts), np.int32)
    high = order_by_count(counts, np.empty(1 << 16, np.int64), order)
    order[:high] = order[:high][np.argsort(~counts[order[:high]], kind="stable")]
    return order


def by_frequency(indices: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """(indices, columns): int32 indices of d columns, numbered anew by falling frequency; and (m,) int64 which column
    each of the m that occur is."""
    counts = np.zeros(d, np.uint32)
    count_places(indices, counts)
    order = by_falling_count(counts)
    order = order[: np.count_nonzero(counts)]
    numbers = np.empty(d, np.int32)  # of columns that occur
    numbers[order] = np.arange(len(order), dtype=np.int32)
    renumbered = np.empty(len(indices), np.int32)
    renumber(indices, numbers, renumbered)
    return renumbered, order.astype(np.int64)
