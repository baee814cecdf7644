"""Hashes of names."""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.hash_table import scramble
from blocksvm.kernels.text_bytes import eight_bytes

RECENT = 1 << 14  # names of that many features are found again without a copy


@inlined
def named_before(recent, ids, i):
    """The entry that had the name of feature i last, or -1; recent (RECENT,) int64: 1 + the last entry of each slot."""
    before = recent[i & (RECENT - 1)] - 1
    return before if before >= 0 and ids[before] == i else -1


@inlined
def name_hash(text, start, stop, seed):
    """A hash of ``text[start:stop]`` that goes on from another one: eight bytes at a time, at last those that are left
    over, with their number in the highest byte."""
    h = seed
    p = start
    while p + 8 <= stop:
        h = scramble(h ^ eight_bytes(text, p))
        p += 8
    n = np.uint64(stop - p)
    left = eight_bytes(text, p) & ((np.uint64(1) << (np.uint64(8) * n)) - np.uint64(1))
    return scramble(h ^ left ^ (n << np.uint64(56)))


@inlined
def entry_of(slots, stamp, ids, filled, i):
    """The entry of feature i in the row whose first one is ``stamp & 0xFFFFFFFF`` entries back: where it is new, ``filled``.
    slots (a power of 2, which half of are free) hold stamp + entry."""
    last = slots.shape[0] - 1
    s = i & last
    while slots[s] >= stamp:
        if ids[slots[s] - stamp] == i:
            return slots[s] - stamp
        s = (s + 1) & last
    slots[s] = stamp + filled
    ids[filled] = i
    return filled


@kernel
def _hash_of(text, n, seed):
    return name_hash(text, 0, n, seed)


def hash_of(name: bytes, seed: np.uint64) -> np.uint64:
    """``name_hash`` of bytes."""
    return np.uint64(_hash_of(np.frombuffer(name + bytes(8), np.uint8), len(name), seed))
