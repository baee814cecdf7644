"""Keyed random orders and the moving of rows: all of it arithmetic on keys, so that a seed means one order.

A row's position in a store is hash(seed, its number); an order of visits is a permutation keyed by
(seed, outer iteration, visit, pass).  Nothing here depends on time, threads or memory.
"""

import numpy as np

from blocksvm.kernels import inlined, inlined_views, kernel
from blocksvm.kernels.hash_table import scramble
from blocksvm.kernels.rows import offsets_of, prefetch, prefetch_entries, value_at

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LOWER = np.uint64(0xFFFFFFFF)
SHORT = 24  # entries of a row up to which insertion sorts faster than counting


@kernel
def row_keys(numbers, seed, keys):
    """``keys`` uint64: a hash of (seed, number) for each row number (int64)."""
    base = scramble(np.uint64(seed) + GOLDEN)
    for i in range(numbers.shape[0]):
        keys[i] = scramble(base ^ scramble(np.uint64(numbers[i]) + GOLDEN))


@kernel
def line_keys(text, end, seed, keys):
    """``keys`` uint64: a hash of (seed, the line's bytes without the blanks around them) for each line of
    ``text[:end]`` (uint8), which ends with a newline; returns how many lines."""
    base = scramble(np.uint64(seed) + GOLDEN)
    n = start = 0
    for at in range(end):
        if text[at] != 10:
            continue
        stop = at
        while stop > start and text[stop - 1] <= 32:
            stop -= 1
        while start < stop and text[start] <= 32:
            start += 1
        key = base
        for k in range(start, stop):
            key = scramble(key ^ (np.uint64(text[k]) + GOLDEN))
        keys[n] = scramble(key ^ np.uint64(stop - start))
        n += 1
        start = at + 1
    return n


@inlined
def below(state, bound):
    """A number in [0, bound) from the generator's state: (new state, number); bound < 2^31."""
    state = state + GOLDEN
    return state, np.int64(((scramble(state) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@inlined
def shuffled(order, start, stop, state):
    """Put ``order[start:stop]`` in random order (Fisher-Yates): the generator's new state."""
    for i in range(stop - start - 1, 0, -1):
        state, r = below(state, i + 1)
        order[start + i], order[start + r] = order[start + r], order[start + i]
    return state


@kernel
def windowed_order(key, sizes, window, order, drawn):
    """A random order in which neighbours stay near: parts of these ``sizes`` (m,) int64, one after the other, in random
    order, and then random order inside of each ``window`` rows of that, so that other rows share a window each time;
    or, where ``window`` is 0, inside of each part.  One part gives a uniform permutation.  order (n,) int32 is filled;
    drawn (m,) int32 is working space."""
    state = scramble(np.uint64(key) + GOLDEN)
    m = sizes.shape[0]
    first = np.empty(m, np.int64)
    total = 0
    for c in range(m):
        drawn[c] = c
        first[c] = total
        total += sizes[c]
    state = shuffled(drawn, 0, m, state)
    filled = 0
    for k in range(m):
        c = drawn[k]
        start = filled
        for i in range(sizes[c]):
            order[filled] = first[c] + i
            filled += 1
        if window == 0:
            state = shuffled(order, start, filled, state)
    if window > 0:
        for start in range(0, total, window):
            state = shuffled(order, start, min(start + window, total), state)


@kernel
def gather_rows(indptr, words, order, out_sizes, out_words):
    """Copy the words of the rows in ``order`` one after the other."""
    filled = 0
    for t in range(order.shape[0]):
        start, stop = indptr[order[t]], indptr[order[t] + 1]
        out_sizes[t] = stop - start
        for k in range(start, stop):
            out_words[filled] = words[k]
            filled += 1


@kernel
def renumber_rows(entries, order, new_index, out_lengths, out_indices, out_values, out_sq_norms, keys):
    """Packed rows without hot features, in ``order``, to plain ones, features renumbered by ``new_index`` (-1: dropped)
    and ascending in each row.  keys (2, longest row) uint64: working space.  out_values None: all are 1.  out_sq_norms
    (m,) float64 is ||x||^2 of what is kept.  Returns the nonzeros written."""
    indptr, longs, values, all_codes = entries.indptr, entries.longs, entries.values, entries.codes
    filled = 0
    digits = 1
    while digits < 4 and new_index.shape[0] > (1 << (8 * digits)):
        digits += 1
    counts = np.empty(digits << 8, np.int64)
    gathered = keys[0]
    for t in range(order.shape[0]):
        n = np.int64(0)  # not a constant, for which sort_keys would be compiled once more
        ascending = True
        if t + 1 < order.shape[0]:
            _, n_next, _, first, _, _, _ = offsets_of(indptr, longs, None, order[t + 1])
            for k in range(n_next):
                prefetch(new_index, longs[first + k])
        if t + 4 < order.shape[0]:
            prefetch_entries(indptr, None, None, longs, order[t + 4])
        _, n_stored, count, first, _, codes, numbers = offsets_of(indptr, longs, values, order[t])
        for k in range(n_stored):
            j = new_index[longs[first + k]]
            if j >= 0:
                gathered[n] = (np.uint64(j) << np.uint64(32)) | k
                ascending = ascending and (n == 0 or gathered[n] > gathered[n - 1])
                n += 1
        at = np.uint64(0 if ascending else sort_keys(keys, n, counts, digits))
        total = 0.0
        for k in range(n):
            out_indices[filled + k] = np.int32(keys[at, k] >> np.uint64(32))
            entry = keys[at, k] & LOWER
            if count > 0:
                entry = np.uint64(all_codes[codes + entry]) if count > 1 else np.uint64(0)
            v = value_at(values, numbers + entry)
            if out_values is not None:
                out_values[filled + k] = v
            total += v * v
        out_lengths[t] = n
        out_sq_norms[t] = total
        filled += n
    return filled


@kernel
def sort_keys(keys, n, counts, digits):
    """Ascending sort of ``keys[0, :n]`` by their upper 32 bits, below 2^(8 digits); stable; ``keys[1]`` is room for it.
    Short rows by insertion, others by counting their digits of 8 bits, the lowest first: no branch depends on the keys
    (a quicksort of 64 keys spends two thirds of it on wrong guesses).  Returns which of the two has the result."""
    source, target = keys[0], keys[1]
    if n <= SHORT:
        for i in range(1, n):
            key = source[i]
            j = i - 1
            while j >= 0 and source[j] > key:
                source[j + 1] = source[j]
                j -= 1
            source[j + 1] = key
        return 0
    for b in range(digits << 8):
        counts[b] = 0
    for k in range(np.uint64(n)):
        key = source[k] >> np.uint64(32)
        for digit in range(digits):
            counts[np.uint64((digit << 8) + ((key >> np.uint64(8 * digit)) & np.uint64(255)))] += 1
    for digit in range(digits):
        first = digit << 8
        total = 0
        for b in range(first, first + 256):
            counts[b], total = total, total + counts[b]
        shift = np.uint64(32 + 8 * digit)
        for k in range(np.uint64(n)):
            b = np.uint64(first) + ((source[k] >> shift) & np.uint64(255))
            target[np.uint64(counts[b])] = source[k]
            counts[b] += 1
        source, target = target, source
    return digits & 1


@inlined_views
def sorted_ids(ids, n, keys, counts):
    """The order of ``ids[:n]`` >= 0: an array with their positions in its lower 32 bits, by rising ids, equal ones as
    they come.  keys (2, n or more) uint64 and counts (1024,) int64 are working space."""
    bits = np.int64(0)
    for k in range(n):
        bits |= ids[k]
    shift = np.int64(0)
    while bits >> shift > np.int64(LOWER):
        shift += 1
    for k in range(n):
        keys[0, k] = (np.uint64(ids[k] >> shift) << np.uint64(32)) | np.uint64(k)
    ordered = keys[sort_keys(keys, n, counts, 4)]
    for k in range(1, n):  # those few whose upper bits are equal, by all of them
        key = ordered[k]
        upper = key >> np.uint64(32)
        j = k - 1
        while j >= 0 and ordered[j] >> np.uint64(32) == upper and ids[ordered[j] & LOWER] > ids[key & LOWER]:
            ordered[j + 1] = ordered[j]
            j -= 1
        ordered[j + 1] = key
    return ordered
