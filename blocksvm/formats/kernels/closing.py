"""Rows of every format once they are parsed: put in order, scaled, rounded, multiplied by factors of their features, as
for tf-idf from counts; and the sums from which such factors follow."""

import numpy as np

from blocksvm.formats.kernels.numbers import FINE
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.rows import products
from blocksvm.kernels.shuffle import LOWER, sorted_ids

# what may be wrong with a row, besides a number's own faults
BIG_VALUE, DUPLICATE, BIG_NORM = 9, 10, 11
NO_ORIGINS = np.empty(0, np.int64)  # where nobody asks which entry each of those left was


@inlined
def close_sums(ids, values, start, stop, l2, single, origins):
    """Scale and round one row of distinct ids and drop its zeros, and their ``origins`` (nnz,), or (0,): (code, new
    stop, or where the fault is, ||x||^2).  What is squared was divided by the largest, so that none is too large."""
    largest = norm = 1.0
    if l2:
        largest = 0.0
        for k in range(start, stop):
            largest = max(largest, abs(values[k]))
        norm = 0.0
        if largest > 0.0:
            for k in range(start, stop):
                norm += (values[k] / largest) ** 2
            norm = np.sqrt(norm)
    filled = start
    total = 0.0
    for k in range(start, stop):
        v = values[k]
        if l2 and v != 0.0:
            v = v / largest / norm  # their product may overflow
        if single:
            v = float(np.float32(v))
        if not np.isfinite(v):
            return BIG_VALUE, k, 0.0
        if v != 0.0:
            ids[filled] = ids[k]
            values[filled] = v
            if origins.shape[0]:
                origins[filled] = origins[k]
            filled += 1
            total += v * v
    if np.isinf(total):
        return BIG_NORM, stop, 0.0
    return FINE, filled, total


@inlined
def close_plain_row(ids, values, start, stop, single):
    """The same for a row whose ids ascend and whose values are not 0, neither scaled nor added up: (whether it is one,
    ||x||^2).  If it is none, its values may be rounded already, which does no harm to what remains to be done."""
    # sweeps that each do several entries at once
    first, n, one = np.uint64(start), np.uint64(stop - start), np.uint64(1)
    if single:
        for j in range(n):
            values[first + j] = float(np.float32(values[first + j]))
    faults = np.int64(0)
    for j in range(one, n):
        faults |= np.int64(ids[first + j] <= ids[first + j - one])
    for j in range(n):
        faults |= np.int64(values[first + j] == 0.0)
    total = products(values, first, np.uint64(0), n)
    return faults == 0 and total < np.inf, total


@kernel
def close_rows(indptr, first, rows, ids, values, sums, l2, single, origins):
    """Put the parsed rows from ``first`` on in order, in place; ``indptr`` shrinks with them.  Returns (row, code,
    entry) of the first fault, and their largest ||x||^2.  Entries are sorted by ids, those of one feature added up
    (sums) or refused.  l2: divide a row by its Euclidean norm; single: round to float32 (values stay in a float64
    array); origins (nnz,) or (0,) int64: becomes the entry that each was."""
    longest = 0
    for r in range(first, rows):
        longest = max(longest, indptr[r + 1] - indptr[r])
    # memory that only rows out of order touch
    keys, counts = np.empty((2, longest), np.uint64), np.empty(4 << 8, np.int64)
    old_ids, old_values = np.empty(longest, np.int64), np.empty(longest)
    traced = origins.shape[0] > 0
    filled = start = indptr[first]
    largest = 0.0
    for r in range(first, rows):
        stop = indptr[r + 1]
        n = stop - start
        rising = True
        for k in range(start + 1, stop):
            rising &= ids[k - 1] < ids[k]
        last = filled + n
        if rising:
            if filled < start or traced:
                for k in range(n):
                    ids[filled + k] = ids[start + k]
                    values[filled + k] = values[start + k]
                    if traced:
                        origins[filled + k] = start + k
        else:
            for k in range(n):
                old_ids[k] = ids[start + k]
                old_values[k] = values[start + k]
            ordered = sorted_ids(old_ids, n, keys, counts)
            last = filled
            for k in range(n):
                at = ordered[k] & LOWER
                if last > filled and ids[last - 1] == old_ids[at]:
                    if not sums:
                        return r, DUPLICATE, last - 1, largest
                    values[last - 1] += old_values[at]
                    continue
                ids[last] = old_ids[at]
                values[last] = old_values[at]
                if traced:
                    origins[last] = start + np.int64(at)
                last += 1
        code, filled, square = close_sums(ids, values, filled, last, l2, single, origins)
        if code != FINE:
            return r, code, filled, largest
        largest = max(largest, square)
        start = stop
        indptr[r + 1] = filled
    return rows, FINE, -1, largest


@kernel
def weigh_rows(indptr, ids, positions, values, factors, l2, single, sq_norms, retained):
    """Multiply each value by ``factors[positions[k]]`` and leave out the entries whose position is -1, in place.
    indptr (n + 1,) int64 shrinks with the rows, ids (nnz,) and values (nnz,) with it; positions (nnz,) int32, which may
    be ids itself where none is -1; factors (d,) float64.  l2: divide a row by its Euclidean norm; single: round to
    float32; values that are 0 then are left out.  sq_norms (n,) float64: ||x||^2; retained (nnz,) or (0,) int64: which
    entry each of those left was.  Returns n, or the first row whose ||x||^2 is not finite."""
    filled = start = indptr[0]
    for r in range(sq_norms.shape[0]):
        stop = indptr[r + 1]
        norm = 1.0
        if l2:
            norm = 0.0
            for k in range(start, stop):
                if positions[k] >= 0:
                    v = values[k] * factors[positions[k]]
                    norm += v * v
            norm = np.sqrt(norm) if norm > 0.0 else 1.0
        total = 0.0
        for k in range(start, stop):
            if positions[k] >= 0:
                v = values[k] * factors[positions[k]] / norm
                if single:
                    v = np.float64(np.float32(v))
                if v != 0.0:
                    total += v * v
                    ids[filled] = ids[k]
                    values[filled] = v
                    if retained.shape[0]:
                        retained[filled] = k
                    filled += 1
        if not total < np.inf:
            return r
        sq_norms[r] = total
        start = stop
        indptr[r + 1] = filled
    return sq_norms.shape[0]


@kernel
def add_values(positions, values, sums):
    """Add ``values`` (nnz,), of features at ``positions`` (nnz,) int32, to the sums of these, float64: (d, 1), the
    largest size so far, or (d, 3), their number, their mean and the sum of squared differences from it (Welford, Note
    on a method for calculating corrected sums of squares and products, 1962)."""
    for k in range(positions.shape[0]):
        j, v = positions[k], np.float64(values[k])
        if sums.shape[1] == 1:
            sums[j, 0] = max(sums[j, 0], abs(v))
        else:
            sums[j, 0] += 1.0
            difference = v - sums[j, 1]
            sums[j, 1] += difference / sums[j, 0]
            sums[j, 2] += difference * (v - sums[j, 1])
