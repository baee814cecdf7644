"""Dual coordinate descent over the rows of one block (Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008, Alg. 3).

    max_a  sum_i a_i - 1/2 ||sum_i a_i y_i x_i||^2 - 1/2 sum_i diagonal_i a_i^2,     0 <= a_i <= upper_i

with w = sum_i a_i y_i x_i maintained.  The losses differ in two numbers a class: hinge has upper = C and
diagonal = 0, squared hinge has upper = inf and diagonal = 1/(2C).  Solution goes to ``alpha`` and ``w``.
"""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.memory import ROW_AHEAD, WEIGHTS_AHEAD, add_row, dot, prefetch, prefetch_row, prefetch_weights

# A projected gradient below this changes nothing that float64 could show (LIBLINEAR's constant).
NEGLIGIBLE = 1.0e-12


@kernel
def dual_cd_pass(indptr, indices, values, y, sq_norms, order, bias, upper, diagonal, cost, power, shrink_above,
                 shrink_below, rest_beyond, rest_visits, w, alpha, active, rest):  # fmt: skip
    """One inner pass over the rows in ``order``.

    y (n,) int16 of +-1; sq_norms (n,) float64 ||x_i||^2 without the bias; order (m,) int32, the rows to visit, all
    active; bias: value of the constant feature whose weight is w[-1]; upper, diagonal (2,) float64 by class
    (negative, positive); cost (2,) and power: the loss cost * max(0, 1 - m)^power; shrink_above, shrink_below: the
    extremes of the last pass's projected gradient (+-inf: drop nothing); rest_beyond: a row at a bound whose gradient
    lies farther than this beyond it is left out of its next ``rest_visits`` visits (+inf: none); w (d + 1,), alpha (n,)
    float64, active (n,) uint8 and rest (n,) uint8 are updated.

    Returns (pg_max, pg_min, rows dropped, nonzeros, loss sum of the margins seen before each row's own step, the part
    of it that belongs to rows put to rest).
    """
    d = w.shape[0] - 1
    n = order.shape[0]
    pg_max = -np.inf
    pg_min = np.inf
    dropped = 0
    nonzeros = 0
    bias_sq = bias * bias
    loss = 0.0
    resting_loss = 0.0
    for t in range(n):
        if t + ROW_AHEAD < n:
            ahead = order[t + ROW_AHEAD]
            prefetch_row(indptr, indices, values, ahead)
            prefetch(sq_norms, ahead)
            prefetch(alpha, ahead)
        if t + WEIGHTS_AHEAD < n:
            prefetch_weights(indptr, indices, w, order[t + WEIGHTS_AHEAD])
        i = order[t]
        start = indptr[i]
        stop = indptr[i + 1]
        nonzeros += stop - start
        sign = float(y[i])
        side = 1 if y[i] > 0 else 0
        a = alpha[i]
        margin = sign * (dot(indices, values, start, stop, w) + bias * w[d])
        excess = max(0.0, 1.0 - margin)
        suffered = cost[side] * (excess if power == 1 else excess * excess)
        loss += suffered
        # G = y <w, x> - 1 + D_ii a, the gradient of the negative dual
        gradient = margin - 1.0 + diagonal[side] * a
        projected = gradient
        if rest[i] == 0 and ((a == 0.0 and gradient > rest_beyond) or (a == upper[side] and gradient < -rest_beyond)):
            rest[i] = rest_visits
            resting_loss += suffered
        if a == 0.0:
            if gradient > shrink_above:
                active[i] = 0
                dropped += 1
                continue
            projected = min(gradient, 0.0)
        elif a == upper[side]:
            if gradient < shrink_below:
                active[i] = 0
                dropped += 1
                continue
            projected = max(gradient, 0.0)
        pg_max = max(pg_max, projected)
        pg_min = min(pg_min, projected)
        if abs(projected) > NEGLIGIBLE:
            # a <- clip(a - G / Q_ii, 0, U), then w += (change of a) y x
            # a row without entries (Q = 0, gradient -1) goes to its bound, as the limit says
            q = sq_norms[i] + bias_sq + diagonal[side]
            new = min(max(a - gradient / q, 0.0), upper[side]) if q > 0.0 else upper[side]
            step = (new - a) * sign
            alpha[i] = new
            add_row(indices, values, start, stop, step, w)
            w[d] += step * bias
    return pg_max, pg_min, dropped, nonzeros, loss, resting_loss


@kernel
def leave_resting(order, rest, active):
    """Compact ``order`` to the rows that are not at rest; the others come one visit nearer to their return, and are
    inactive for this one.  Returns how many stay."""
    kept = 0
    for t in range(order.shape[0]):
        i = order[t]
        if rest[i] > 0:
            rest[i] -= 1
            active[i] = 0
        else:
            order[kept] = i
            kept += 1
    return kept
