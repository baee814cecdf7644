"""Values multiplied feature by feature, as for tf-idf from counts, and the sums from which such factors follow."""

import numpy as np

from blocksvm.kernels import kernel


@kernel
def weigh_rows(indptr, ids, positions, values, factors, l2, single, sq_norms, retained):
    """Multiply each value by ``factors[positions[k]]`` and leave out the entries whose position is -1, in place.

    indptr (n + 1,) int64 shrinks with the rows, ids (nnz,) and values (nnz,) with it; positions (nnz,) int32, which may
    be ids itself where none is -1; factors (d,) float64.  l2: divide a row by its Euclidean norm; single: round to
    float32; values that are 0 then are left out.  sq_norms (n,) float64: ||x||^2; retained (nnz,) or (0,) int64: which
    entry each of those left was.  Returns n, or the first row whose ||x||^2 is not finite.
    """
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
