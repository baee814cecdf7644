"""Rows weighted feature by feature: tf-idf from counts."""

import numpy as np

from blocksvm.kernels import kernel


@kernel
def weigh_rows(indptr, ids, positions, values, factors, l2, single, sq_norms, retained):
    """Multiply each value by ``factors[positions[k]]`` and leave out the entries whose position is -1, in place; what
    lies after the rows then is of no use.

    indptr (n + 1,) int64 shrinks with the rows, ids (nnz,) and values (nnz,) with it; positions (nnz,) int32, which may
    be ids itself where none is -1; factors (d,) float64.  l2: divide a row by its Euclidean norm; single: round to
    float32; values that are 0 then are left out.  sq_norms (n,) float64: ||x||^2 of each row; kept (nnz,) or (0,) int64:
    which entry each of those left was.  Returns n, or the first row of which ||x||^2 is not finite.
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
