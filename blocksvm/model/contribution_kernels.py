"""The largest terms of a row's decision value."""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.rows import length_of, unpack


@kernel
def largest_terms(entries, w, classes, features, contributions):
    """Of each row the terms w_j x_j of its decision value that are largest in magnitude, the largest first, of equals
    the first one in the row; those of 0 are left out.

    w (k, d + 1): the vectors; classes (m,) int64: which of them is a row's.  Outputs (m, n): features j int64, -1 where
    a row has fewer terms, contributions float64.
    """
    n = features.shape[1]
    longest = 0
    for i in range(features.shape[0]):
        longest = max(longest, length_of(entries, i))
    indices, values = np.empty(longest, np.int64), np.empty(longest)
    for i in range(features.shape[0]):
        found = 0
        for k in range(unpack(entries, i, 0, indices, values)):
            term = w[classes[i], indices[k]] * values[k]
            size = abs(term)
            if size == 0.0 or (found == n and size <= abs(contributions[i, n - 1])):
                continue
            position = min(found, n - 1)
            while position > 0 and abs(contributions[i, position - 1]) < size:
                features[i, position] = features[i, position - 1]
                contributions[i, position] = contributions[i, position - 1]
                position -= 1
            features[i, position] = indices[k]
            contributions[i, position] = term
            found = min(found + 1, n)
        features[i, found:] = -1
        contributions[i, found:] = 0.0
