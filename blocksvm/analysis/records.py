"""What a replay needs beside the scores: losses and slopes of scores, norms of rows, and sums over rounds of a learner's
own weights, found again from the scores without a weight vector a row.
"""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.memory import value_at
from blocksvm.learners.rows import loss_at, soft
from blocksvm.learners.sparse import height, raised


@kernel
def losses_of(kind, epsilon, z, y, losses, slopes):
    """``losses[t], slopes[t]`` = the loss of score z[t] at label y[t], and its derivative that the learners follow."""
    for t in range(z.shape[0]):
        losses[t], slopes[t] = loss_at(kind, z[t], float(y[t]), epsilon)


@kernel
def row_p_norms(indptr, indices, values, order, p, out):
    """``out[r]`` = ||x||_p of row order[r], p = inf for the largest entry; scaled by it, so that no power overflows."""
    for r in range(order.shape[0]):
        start, stop = indptr[order[r]], indptr[order[r] + 1]
        largest = 0.0
        for k in range(start, stop):
            largest = max(largest, abs(float(value_at(values, k))))
        if largest == 0.0 or p == np.inf:
            out[r] = largest
            continue
        total = 0.0
        for k in range(start, stop):
            total += (abs(float(value_at(values, k))) / largest) ** p
        out[r] = largest * total ** (1.0 / p)


@kernel
def subtract_gradients(indptr, indices, values, order, first, slopes, theta):
    """``theta -= sum z_t`` over the rounds first, first + 1, ... of these rows."""
    for r in range(order.shape[0]):
        slope = slopes[first + r]
        if slope != 0.0:
            for k in range(indptr[order[r]], indptr[order[r] + 1]):
                theta[indices[k]] -= slope * value_at(values, k)


@kernel
def pegasos_sq_norms(z, slopes, sq_norms, lam, radius, out):
    """``out[t]`` = ||w||^2 before round t of Pegasos with sub-batches of one row, projected on ||w|| <= radius."""
    norm = 0.0
    most = radius * radius
    for t in range(z.shape[0]):
        out[t] = norm
        number = t + 1.0
        shrink = 1.0 - 1.0 / number
        norm *= shrink * shrink
        if slopes[t] != 0.0:
            step = -slopes[t] / (lam * number)
            norm += step * (2.0 * shrink * z[t] + step * sq_norms[t])
        norm = min(max(norm, 0.0), most)


@kernel
def idle(v, h, since, t, S, CS):
    """sum of |w| before the rounds since + 1 .. t, in which only thresholds were applied to v, the weight after round
    ``since``: after round m it is |v| - h (S_m - S_since), as long as that is above 0."""
    limit = S[since] + (abs(v) / h if h > 0.0 else np.inf)
    low, high = since, t - 1
    while low < high:
        middle = (low + high + 1) // 2
        if S[middle] < limit:
            low = middle
        else:
            high = middle - 1
    if high < since:
        return 0.0
    before = CS[since - 1] if since > 0 else 0.0
    return (low - since + 1) * (abs(v) + h * S[since]) - h * (CS[low] - before)


@kernel
def truncated_sums(
    indptr, indices, values, order, first, moves, thresholds, S, CS, parameters, v, since, powers, sums, low, high
):
    """FOBOS and HF-FOBOS once more, feature by feature: ``sums[j]`` = sum of |w_j| before each round.

    first: rounds before this block; of all rounds t = 0, 1, ...: moves[t] = -eta_t slope_t, thresholds[t] = eta_t l1,
    S (T + 1,) their sums from 0 on, CS (T + 1,) the sums of S.  Of features: v, the round it is up to date with (int64),
    the sum of powers of its height, the range [low, high] of w_j over all rounds.
    """
    for r in range(order.shape[0]):
        t = first + r + 1
        move = moves[t - 1]
        if move == 0.0:
            continue
        for k in range(indptr[order[r]], indptr[order[r] + 1]):
            j = indices[k]
            h = height(powers[j], parameters)
            if v[j] != 0.0:
                sums[j] += idle(v[j], h, since[j], t, S, CS)
                v[j] = soft(v[j], (S[t - 1] - S[since[j]]) * h)
            change = move * value_at(values, k)
            powers[j] = raised(powers[j], abs(change), parameters)
            v[j] = soft(v[j] + change, thresholds[t - 1] * height(powers[j], parameters))
            since[j] = t
            low[j] = min(low[j], v[j])
            high[j] = max(high[j], v[j])


@kernel
def truncated_settle(t, S, CS, parameters, v, since, powers, sums):
    """Bring every feature up to date with the end of round t."""
    for j in range(v.shape[0]):
        if v[j] != 0.0:
            h = height(powers[j], parameters)
            sums[j] += idle(v[j], h, since[j], t, S, CS)
            v[j] = soft(v[j], (S[t] - S[since[j]]) * h)
        since[j] = t


@kernel
def heights_of(powers, parameters, out):
    """h_j of HF-FOBOS from the sums of powers."""
    for j in range(powers.shape[0]):
        out[j] = height(powers[j], parameters)
