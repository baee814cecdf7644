"""Hashes of ids and names, and a table of distinct feature ids: open addressing, 12 bytes an id and 4 bytes a slot.

``slots`` (any length) int32 holds positions in ``known`` (-1: free), so the table grows by rebuilding the slots alone.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.rows import prefetch
from blocksvm.kernels.text_bytes import eight_bytes

LARGEST_COUNT = np.uint32(0xFFFFFFFF)
BATCH = 128  # ids looked up together
# Of a row's slots, when its ids are hashed: so many that two hashes seldom share one, which the processor could not
# foretell, as long as they stay in the second-level cache.
FEWEST_SLOTS, SLOTS_AN_ENTRY, MOST_CACHED = 1 << 15, 16, 1 << 16
MOST_COUNTED = 1 << 30  # a row adds at most as many hashes, so that int32 holds the number of each
AHEAD = 24  # how many ids ahead a slot is asked for when the slots are rebuilt
RECENT = 1 << 14  # names of that many features are found again without a copy
ENTRIES_AHEAD = 64  # how many hashes ahead what is known of one is asked for when they are numbered


@inlined
def scramble(x):
    """A well mixed uint64 of a uint64 (the finaliser of splitmix64; Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


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


@kernel
def _hash_of(text, n, seed):
    return name_hash(text, 0, n, seed)


def hash_of(name: bytes, seed: np.uint64) -> np.uint64:
    """``name_hash`` of bytes."""
    return np.uint64(_hash_of(np.frombuffer(name + bytes(8), np.uint8), len(name), seed))


@inlined
def named_before(recent, ids, i):
    """The entry that had the name of feature i last, or -1; recent (RECENT,) int64: 1 + the last entry of each slot."""
    before = recent[i & (RECENT - 1)] - 1
    return before if before >= 0 and ids[before] == i else -1


@inlined
def entry_of(slots, stamp, ids, filled, i):
    """The entry of feature i in the row whose first one is ``stamp & 0xFFFFFFFF`` entries back: where it is new,
    ``filled``.  slots (a power of 2, which half of are free) hold stamp + entry."""
    last = slots.shape[0] - 1
    s = i & last
    while slots[s] >= stamp:
        if ids[slots[s] - stamp] == i:
            return slots[s] - stamp
        s = (s + 1) & last
    slots[s] = stamp + filled
    ids[filled] = i
    return filled


@inlined
def slot_of(i, n_slots):
    """The first slot to look in, uniform over ``n_slots`` < 2^32."""
    return np.int64(((scramble(np.uint64(i)) >> np.uint64(32)) * np.uint64(n_slots)) >> np.uint64(32))


@inlined
def next_slot(s, n_slots):
    s += 1
    return 0 if s == n_slots else s


@kernel
def rebuild_slots(slots, known, n_known):
    """Fill free ``slots`` with the positions of the first ``n_known`` ids."""
    n_slots = slots.shape[0]
    for j in range(n_known):
        if j + AHEAD < n_known:
            prefetch(slots, slot_of(known[j + AHEAD], n_slots))
        s = slot_of(known[j], n_slots)
        while slots[s] >= 0:
            s = next_slot(s, n_slots)
        slots[s] = j


@inlined
def approach(ids, start, stop, slots, known, counts, spots):
    """The first slots of ``ids[start:stop]`` in ``spots``, with all the memory that looking them up will touch asked
    for.  In sweeps over a batch, so that the hashes are computed several at a time and the cache misses overlap."""
    n_slots = slots.shape[0]
    for k in range(start, stop):
        spots[k - start] = slot_of(ids[k], n_slots)
    for k in range(stop - start):
        prefetch(slots, spots[k])
    for k in range(stop - start):
        near = slots[spots[k]]
        if near >= 0:
            prefetch(known, near)
            if counts.shape[0] > 0:
                prefetch(counts, near)


@kernel
def find_or_add(ids, start, slots, known, counts, n_known, limit, positions):
    """Look up ``ids[start:]``, adding what is new, and count each occurrence; counts (0,): adding nothing.  Stops where
    another id would make more than ``limit``.  Writes ``positions`` int32, -1 where an id is not in the table; counts
    (uint32) stay at their largest value rather than wrap.  Returns (number of ids done from the beginning, n_known)."""
    n_slots = slots.shape[0]
    n = ids.shape[0]
    spots = np.empty(BATCH, np.int64)
    for begin in range(start, n, BATCH):
        end = min(begin + BATCH, n)
        approach(ids, begin, end, slots, known, counts, spots)
        for k in range(begin, end):
            i = ids[k]
            s = spots[k - begin]
            j = slots[s]
            while j >= 0 and known[j] != i:
                s = next_slot(s, n_slots)
                j = slots[s]
            if counts.shape[0] > 0:
                if j < 0:
                    if n_known >= limit:
                        return k, n_known
                    j = n_known
                    known[j] = i
                    counts[j] = 0
                    slots[s] = j
                    n_known += 1
                if counts[j] < LARGEST_COUNT:
                    counts[j] += np.uint32(1)
            positions[k] = j
    return n, n_known


@kernel
def count_small(ids, start, small, known, n_known, positions):
    """Look up and count ``ids[start:]`` below n as ``find_or_add`` does; small (n, 2): of each id its position + 1, or
    0, and its count; or (n, 1), which counts nothing.  known: longer than there are ids; positions: may be ``ids``.
    Stops at an id that is not below n.  Returns as ``find_or_add``."""
    last, counting = ids.shape[0] - 1, small.shape[1] > 1
    for k in range(start, ids.shape[0]):
        prefetch(small, ids[min(k + ENTRIES_AHEAD, last)])
        i = np.uint64(ids[k])
        if i >= np.uint64(small.shape[0]):
            return k, n_known
        # whether an id is new cannot be foretold: so what is written for a new one is written for all of them
        number = np.int64(small[i, 0])
        new = number == 0
        known[np.uint64(n_known)] = ids[k]
        n_known += new
        number = n_known if new else number
        small[i, 0] = number
        if counting:
            small[i, 1] += np.uint32(small[i, 1] < LARGEST_COUNT)
        positions[k] = number - 1
    return ids.shape[0], n_known


@kernel
def find_small(ids, table, positions):
    """``table[ids[k]]``, both int32, and -1 for an id beyond them."""
    last = ids.shape[0] - 1
    for k in range(ids.shape[0]):
        prefetch(table, ids[min(k + ENTRIES_AHEAD, last)])
        i = np.uint64(ids[k])
        positions[k] = table[i] if i < np.uint64(table.shape[0]) else np.int32(-1)


def hash_ids(ids: np.ndarray, bits: int) -> np.ndarray:
    """Each id's hash (int64) below 2^bits, as ``hash_rows`` has it."""
    return (scramble(ids.astype(np.uint64)) >> np.uint64(64 - bits)).astype(np.int64)


@kernel
def hash_rows(indptr, ids, values, bits, l2, single, hashes, most_counted=MOST_COUNTED):
    """Hash each row's ids below 2^bits (int32), and join the entries that meet there, in place: where the first stands,
    with the sum of their values.  indptr (rows + 1,) shrinks with the rows, values (nnz,) float64 and hashes lie as
    they are then.  Of a row in which entries met, l2 divides the values by their norm again and single rounds them to
    float32; zeros are dropped from it.  Returns (rows before the first whose sums are not finite, largest ||x||^2)."""
    shift = np.uint64(64 - bits)
    rows = indptr.shape[0] - 1
    longest = 0
    for r in range(rows):
        longest = max(longest, indptr[r + 1] - indptr[r])
    n_slots = FEWEST_SLOTS
    while n_slots < 2 * longest or n_slots < min(SLOTS_AN_ENTRY * longest, MOST_CACHED):
        n_slots *= 2
    last_slot = np.uint64(n_slots - 1)
    # A slot holds the number of a hash's entry, counted from ``base``.  Numbers only rise, so what older rows left is
    # less than that of the row's first entry.
    slots = np.full(n_slots, -1, np.int32)
    base = 0
    largest = 0.0
    filled = start = indptr[0]
    for r in range(rows):
        stop = indptr[r + 1]
        if filled - base >= most_counted:
            base = filled
            slots[:] = -1
        first = filled - base
        offset, begin, n = np.uint64(filled), np.uint64(start), np.uint64(stop - start)
        for j in range(n):  # several at once
            hashes[offset + j] = np.int32(scramble(np.uint64(ids[begin + j])) >> shift)
        if filled < start:
            for j in range(n):
                values[offset + j] = values[begin + j]
        met = False
        for j in range(n):
            hashed = hashes[offset + j]
            s = np.uint64(hashed) & last_slot
            entry = np.int64(slots[s])
            while entry >= first and hashes[base + entry] != hashed:
                s = (s + np.uint64(1)) & last_slot
                entry = np.int64(slots[s])
            if entry >= first:
                values[base + entry] += values[offset + j]
                met = True
            else:
                slots[s] = filled - base
                if met:
                    hashes[filled] = hashed
                    values[filled] = values[offset + j]
                filled += 1
        if met:
            joined = filled
            filled, square = close_joined(hashes, values, base + first, joined, l2, single)
            base -= joined - filled  # sums of 0 are gone, their numbers stay behind
            if not square < np.inf:
                return r, largest
            largest = max(largest, square)
        start = stop
        indptr[r + 1] = filled
    return rows, largest


@inlined
def close_joined(hashes, values, start, stop, l2, single):
    """Scale, round and clean one row of sums: (new stop, ||x||^2, not finite where a value is not)."""
    norm = 1.0
    if l2:
        norm = 0.0
        for k in range(start, stop):
            norm += values[k] * values[k]
        norm = np.sqrt(norm) if norm > 0.0 else 1.0
    filled = start
    total = 0.0
    for k in range(start, stop):
        v = values[k] / norm
        if single:
            v = float(np.float32(v))
        if v != 0.0:
            hashes[filled] = hashes[k]
            values[filled] = v
            filled += 1
            total += v * v
    return filled, total


@kernel
def order_by_count(counts, bins, order):
    """Positions by falling count, equal counts in their order: ``order`` (n,) int32.  bins (b,) int64 is working space:
    counts of b - 1 and more share a bin.  Returns how many lie in it: they come first, for the caller to sort."""
    last = bins.shape[0] - 1
    bins[:] = 0
    n = counts.shape[0]
    for j in range(n):
        bins[min(np.int64(counts[j]), last)] += 1
    high = bins[last]
    total = 0
    for b in range(last, -1, -1):
        total, bins[b] = total + bins[b], total
    for j in range(n):
        b = min(np.int64(counts[j]), last)
        order[bins[b]] = j
        bins[b] += 1
    return high
