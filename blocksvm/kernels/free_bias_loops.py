"""The rows on either side of sum a_i direction_i = 0, which certificates with an unregularised bias need.
"""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.loss_functions import conjugate, direction, row_cost


@kernel
def sums_by_side(scores, y, weights, alpha, cost, loss, sq_norms):
    """(2, 3) float64: of the rows with a direction < 0 and of those above 0 the sums of conjugate + a direction z, of
    |a direction|, and of |a direction| ||x||.

    Arguments as for ``margins.certificate_sums``; sq_norms (n,) float64 ||x_i||^2 without a constant feature.
    """
    sums = np.zeros((2, 3))
    for i in range(scores.shape[0]):
        c = row_cost(cost, weights, y, i)
        if c == 0.0:
            continue
        target = float(y[i])
        a = alpha[i]
        signed = a * direction(loss, target)
        if signed != 0.0:
            side = 1 if signed > 0.0 else 0
            sums[side, 0] += conjugate(loss, a, target, c) + signed * scores[i]
            sums[side, 1] += abs(signed)
            sums[side, 2] += abs(signed) * np.sqrt(sq_norms[i])
    return sums
