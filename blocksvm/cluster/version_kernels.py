"""Versions of w that are sent to workers: near the w that moves, and few numbers apart from each other."""

import numpy as np

from blocksvm.kernels import kernel

LARGEST = np.float64(np.finfo(np.float32).max)


@kernel
def bring_near(near, w):
    """Let ``near`` (size,) follow ``w`` (size,), both float64: where they differ by the root mean square of all
    differences that are not 0, or by more, it becomes w, rounded to float32.  The others add up until their turn comes
    (Stich, Cordonnier, Jaggi, Sparsified SGD with memory, NeurIPS 2018)."""
    n, squares = 0, 0.0
    for j in range(w.shape[0]):
        difference = w[j] - near[j]
        if difference != 0.0:
            n += 1
            squares += difference * difference
    for j in range(w.shape[0]):
        difference = w[j] - near[j]
        if difference != 0.0 and n * difference * difference >= squares:
            near[j] = np.float64(np.float32(w[j])) if abs(w[j]) <= LARGEST else w[j]
