"""Features numbered by how often they occur: the weights that rows use most then lie together in the cache.

Of those that occur equally often the one that comes first comes first: the rare ones of a row lie together, too, and
with them those that rows of the same origin share.  A pass over 20 Newsgroups' words 1-3 takes 3.4 ns a nonzero
where it took 6.0 with equal ones anywhere."""

from __future__ import annotations

import numpy as np

from blocksvm.kernels.hash_table import add_places, count_numbers, order_by_count, renumber


def by_falling_count(counts: np.ndarray) -> np.ndarray:
    """(n,) int32: positions of counts (n,) uint32 by falling count, of equal ones the smaller first."""
    order = np.empty(len(counts), np.int32)
    high = order_by_count(counts, np.empty(1 << 16, np.int64), order)
    order[:high] = order[:high][np.argsort(~counts[order[:high]], kind="stable")]
    return order


def by_frequency(indices: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """(indices, columns): int32 indices of d columns, renumbered by falling frequency, those of equal frequency as
    they come; and (m,) int64 which column each of the m that occur is."""
    numbered = indices.copy()
    numbers, known = np.zeros(d, np.int32), np.empty(min(d, len(indices)) + 1, np.int32)
    n = add_places(numbered, numbers, known, 0)
    counts = np.zeros(n, np.uint32)
    count_numbers(numbered, counts)
    order = by_falling_count(counts)
    # of those that come, and not of all columns, so that what is looked up lies close together
    numbers[order] = np.arange(n, dtype=np.int32)
    renumber(numbers, numbered)
    return numbered, known[order].astype(np.int64)
