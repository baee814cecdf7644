"""Rows of two classes: how their decision values rank them."""

import numpy as np

from blocksvm.kernels import kernel


@kernel
def rank_rows(values, y, order, no_label, bits, counts):
    """Count the decision values (m,) of the rows ``order`` (m,) of y (n,), -1, +1 or ``no_label``, for a curve.

    counts (2, 2^bits) int64: by the upper ``bits`` of the float32 of the values, as a number that rises with them,
    those of rows of -1, and of +1.  Returns how many rows have a label, and the sum of log(1 + e^-m) over their margins
    m.
    """
    rows = 0
    total = 0.0
    singles = np.empty(values.shape[0], np.float32)
    for r in range(values.shape[0]):
        singles[r] = np.float32(values[r] + 0.0)  # -0 is 0
    patterns = singles.view(np.uint32)
    negative_bit = np.uint32(1 << 31)
    for r in range(values.shape[0]):
        label = y[order[r]]
        if label == no_label:
            continue
        pattern = patterns[r]
        rising = np.uint32(~pattern if pattern & negative_bit else pattern | negative_bit)
        counts[np.int64(label > 0), np.int64(rising >> np.uint32(32 - bits))] += 1
        margin = values[r] if label > 0 else -values[r]
        total += np.log1p(np.exp(-abs(margin))) + max(0.0, -margin)
        rows += 1
    return rows, total
