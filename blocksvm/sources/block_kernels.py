"""The check of a block before any other kernel may see it."""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.text_bytes import eight_bytes, float_of_bits

SOUND = 0
INDEX_OUT_OF_RANGE = 1
VALUE_NOT_FINITE = 2
NORM_NOT_FINITE = 3
LENGTHS_DISAGREE = 4
INDICES_DO_NOT_RISE = 5

INFINITY_BITS = np.uint64(0x7FF0000000000000)  # of a float64; a number with more, or with a sign, is not a norm


@kernel
def check_rows(indices, values, n_features, indptr):
    """SOUND, or the first kind of fault among the entries of a run of rows.

    indptr: those of row i lie from indptr[i] - indptr[0] on, and their indices must rise, so that none is there twice,
    which is seen in the same sweep; None: they may be in any order.
    """
    n = indices.shape[0]
    largest = np.uint32(indices[0]) if n > 0 else np.uint32(0)
    falls = np.int64(0)  # they may fall only where a row begins
    for k in range(1, n):
        largest = max(largest, np.uint32(indices[k]))  # a negative index is a large one
        if indptr is not None:
            falls += np.int64(indices[k] <= indices[k - 1])
    if n > 0 and largest >= np.uint32(n_features):
        return INDEX_OUT_OF_RANGE
    if indptr is not None:
        for i in range(1, indptr.shape[0] - 1):
            k = indptr[i] - indptr[0]
            if k > 0 and k < indptr[i + 1] - indptr[0]:
                falls -= np.int64(indices[k] <= indices[k - 1])
    if falls != 0:
        return INDICES_DO_NOT_RISE
    fault = False
    if values is not None:
        for k in range(values.shape[0]):
            fault |= not np.isfinite(values[k])
    return VALUE_NOT_FINITE if fault else SOUND


@kernel
def fill_rows(raw, record_bytes, first_entry, last_entry, first_row, labels, indptr, norm_bits, rows, y):
    """The records of a run of rows to their place in a block, in one sweep: SOUND or the kind of the fault.

    raw uint8: records of ``record_bytes`` with the length (uint32) at 0, the label at 4 and ||x||^2 at 12, float64 both.
    labels (k,) float64, rising: y is -1 and +1 for two, the label's place for more, 0 for none; a label that is not
    among them is 0 of two, -1 of more.  Writes indptr (n + 1,) from ``first_entry``, which must lead to ``last_entry``;
    norm_bits (n,) uint64, the bits of sq_norms; rows (n,) int64 from ``first_row``; y (n,) int16.
    """
    k = labels.shape[0]
    total = first_entry
    largest = np.uint64(0)
    indptr[0] = total
    for i in range(rows.shape[0]):
        at = i * record_bytes
        total += np.int64(eight_bytes(raw, at) & np.uint64(0xFFFFFFFF))
        indptr[i + 1] = total
        bits = eight_bytes(raw, at + 12)
        largest = max(largest, bits)
        norm_bits[i] = bits
        rows[i] = first_row + i
        label = float_of_bits(eight_bytes(raw, at + 4))
        code = 0
        if k == 2:
            code = np.int64(label == labels[1]) - np.int64(label == labels[0])
        elif k > 2:
            low, high = 0, k - 1
            while low < high:
                middle = (low + high) // 2
                if labels[middle] < label:
                    low = middle + 1
                else:
                    high = middle
            code = low if labels[low] == label else -1
        y[i] = code
    if total != last_entry:
        return LENGTHS_DISAGREE
    return NORM_NOT_FINITE if largest >= INFINITY_BITS else SOUND
