"""What must hold of a block before any other kernel may see it."""

import numpy as np

from blocksvm.kernels import kernel

SOUND = 0
INDEX_OUT_OF_RANGE = 1
VALUE_NOT_FINITE = 2


@kernel
def check_entries(indices, values, n_features):
    """SOUND, or the first kind of fault among the entries of a run of rows."""
    largest = np.uint32(0)
    for k in range(indices.shape[0]):
        largest = max(largest, np.uint32(indices[k]))  # a negative index is a large one
    if indices.shape[0] > 0 and largest >= np.uint32(n_features):
        return INDEX_OUT_OF_RANGE
    if values is not None:
        fault = False
        for k in range(values.shape[0]):
            fault = fault | (not np.isfinite(values[k]))
        if fault:
            return VALUE_NOT_FINITE
    return SOUND


@kernel
def fill_indptr(lengths, first, indptr):
    """``indptr[i + 1] = first + lengths[0] + ... + lengths[i]``; returns the last entry."""
    total = first
    for i in range(lengths.shape[0]):
        total += np.int64(lengths[i])
        indptr[i + 1] = total
    return total
