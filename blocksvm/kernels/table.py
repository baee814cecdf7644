"""A table of distinct feature ids: open addressing, memory of 8 bytes an id and 4 to 8 bytes of slots.

``slots`` (2^b,) int32 holds positions in ``known`` (-1: free), so that the table grows by rebuilding the slots alone.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.memory import prefetch

AHEAD = 12  # how many ids ahead a slot is asked for; the id behind it half as many


@inlined
def scramble(x):
    """A well mixed uint64 of a uint64 (the finaliser of splitmix64; Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def slot_of(i, mask):
    return np.int64(scramble(np.uint64(i)) & np.uint64(mask))


@kernel
def rebuild_slots(slots, known, n_known):
    """Fill free ``slots`` with the positions of the first ``n_known`` ids."""
    mask = slots.shape[0] - 1
    for j in range(n_known):
        if j + AHEAD < n_known:
            prefetch(slots, slot_of(known[j + AHEAD], mask))
        s = slot_of(known[j], mask)
        while slots[s] >= 0:
            s = (s + 1) & mask
        slots[s] = j


@kernel
def find_or_add(ids, start, slots, known, counts, n_known, positions):
    """Look up ``ids[start:]``, adding what is new, and count each occurrence.

    Stops when the table is too full to take another id (more than 3/4 of the slots, or ``known`` at its end).
    Writes ``positions`` int32; returns (number of ids done from the beginning, n_known).
    """
    mask = slots.shape[0] - 1
    limit = min(known.shape[0], slots.shape[0] - slots.shape[0] // 4)
    n = ids.shape[0]
    for k in range(start, n):
        if k + AHEAD < n:
            prefetch(slots, slot_of(ids[k + AHEAD], mask))
            near = slots[slot_of(ids[k + AHEAD // 2], mask)]
            if near >= 0:
                prefetch(known, near)
        i = ids[k]
        s = slot_of(i, mask)
        j = slots[s]
        while j >= 0 and known[j] != i:
            s = (s + 1) & mask
            j = slots[s]
        if j < 0:
            if n_known >= limit:
                return k, n_known
            j = n_known
            known[j] = i
            slots[s] = j
            n_known += 1
        counts[j] += 1
        positions[k] = j
    return n, n_known


@kernel
def find(ids, slots, known, positions):
    """Positions (int32) of ``ids`` in the table, -1 where an id is not in it."""
    mask = slots.shape[0] - 1
    n = ids.shape[0]
    for k in range(n):
        if k + AHEAD < n:
            prefetch(slots, slot_of(ids[k + AHEAD], mask))
            near = slots[slot_of(ids[k + AHEAD // 2], mask)]
            if near >= 0:
                prefetch(known, near)
        s = slot_of(ids[k], mask)
        j = slots[s]
        while j >= 0 and known[j] != ids[k]:
            s = (s + 1) & mask
            j = slots[s]
        positions[k] = j
