"""Pegasos over the sub-batches of one block (Shalev-Shwartz, Singer, Srebro, Cotter, Math. Prog. 2011, Fig. 2).

    min_w  lambda/2 ||w||^2 + (1/l) sum_i value(<w, x_i>, y_i, r_i),     r_i = l C_i / sum C

for any loss of losses/loss.py, by its derivative.  w is kept as scale * v, so that shrinking it is one multiplication,
and ||v||^2 is maintained.  Without projection w = sum_i a_i direction_i x_i for the mean a_i of what the row's own
steps have added, which lies where the loss's dual variables may: a = scale * b.
"""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.columns import sum_of_squares
from blocksvm.kernels.loss_functions import (
    cost_of,
    derivative,
    direction,
    importance_of,
    side_of,
    target_of,
    value,
)
from blocksvm.kernels.rows import (
    ROW_AHEAD,
    WEIGHTS_AHEAD,
    dot,
    hot_run,
    length_of,
    prefetch_row,
    prefetch_weights,
    unpack,
)

# ||v||^2 drifts by rounding: it is recomputed at every t that is a multiple of this.
RENEW_NORM = 1 << 20

# Projections shrink the scale by many orders in the first sqrt(sum C) steps.  The suffix's sum is a difference of two
# numbers that are 1 / scale times as large, so below this the scale is multiplied into v.
SMALLEST_SCALE = 1.0e-9


@kernel
def pegasos_pass(rows, reals, order, batch, objective, curvature, lam, radius, v, lagged, b, b_lagged, scalars):
    """One inner pass over ``order`` in sub-batches of ``batch`` rows (the last may be smaller).

    rows, reals, objective: as ``one_problem_pass`` has them, with l C / sum C for the costs, times weights (n,) float64
    (None: 1) it is r_i; curvature: times r_i the loss's second derivative where its first has no bound, else 0: a row's
    step is then no longer than 1 / (curvature r_i ||x_i||^2), beyond which it would overshoot; v (d + 1,): w / scale;
    lagged (d + 1,): sum over the steps of the suffix of (sum of the scales before the step) * (change of v), less the
    iterates before v was last rescaled; b, b_lagged (n,): the same of a / scale, or (0,) where no dual variables are
    kept.  scalars (5,) float64: scale, ||v||^2, t (the next step, from 1), sum of the scales in the suffix since then,
    steps in the suffix.

    Returns (weighted loss sum of the decision values seen before each step, nonzeros).
    """
    entries, y, weights, sq_norms = rows.entries, rows.y, rows.weights, rows.sq_norms
    bias, costs, sides, loss = objective
    d = v.shape[0] - 1
    n = order.shape[0]
    dual = b.shape[0] > 0
    scale, norm, t, scale_sum, steps = scalars[0], scalars[1], scalars[2], scalars[3], scalars[4]
    loss_sum = 0.0
    nonzeros = 0
    run = hot_run(entries)
    features, values = np.empty(0, np.uint32), np.empty(0)
    chosen, steps_of = np.empty(min(batch, n), np.int32), np.empty(min(batch, n))
    for begin in range(0, n, batch):
        finish = min(begin + batch, n)
        # A+ = rows of the sub-batch whose loss has a derivative other than 0
        n_chosen = 0
        for r in range(begin, finish):
            if r + ROW_AHEAD < n:
                prefetch_row(entries, order[r + ROW_AHEAD])
            if r + WEIGHTS_AHEAD < n:
                prefetch_weights(entries, v, order[r + WEIGHTS_AHEAD], run)
            i = order[r]
            n_entries = length_of(entries, i)
            nonzeros += n_entries
            if n_entries > features.shape[0]:
                features, values = np.empty(2 * n_entries, np.uint32), np.empty(2 * n_entries)
            side = side_of(sides, y, reals, i, 0)
            cost = cost_of(costs, side, 0) * importance_of(weights, i)
            if cost == 0.0:
                continue
            target = target_of(side, reals, i)
            z = scale * (dot(entries, i, v) + bias * v[d])
            loss_sum += value(loss, z, target, cost)
            slope = derivative(loss, z, target, cost)
            if slope != 0.0:
                chosen[n_chosen] = i
                steps_of[n_chosen] = -slope
                n_chosen += 1
        # w <- (1 - eta lambda) w - (eta / |A|) sum_{A+} derivative x,  eta = 1 / (lambda t)
        eta = 1.0 / (lam * t)
        if t == 1.0:
            v[:] = 0.0  # 1 - eta lambda is 0 here, and scale must not become 0
            lagged[:] = 0.0
            scale = 1.0
            norm = 0.0
        else:
            scale *= 1.0 - 1.0 / t
        if scale < SMALLEST_SCALE and not dual:
            # scale_sum * v - lagged is the suffix's sum: from here on lagged alone holds what it is so far
            for j in range(d + 1):
                lagged[j] -= scale_sum * v[j]
                v[j] *= scale
            scale_sum = 0.0
            norm *= scale * scale
            scale = 1.0
        for q in range(n_chosen):
            i = chosen[q]
            length = eta
            side = side_of(sides, y, reals, i, 0)
            cost = cost_of(costs, side, 0) * importance_of(weights, i)
            stiffness = curvature * cost * (sq_norms[i] + bias * bias)
            if stiffness * length > 1.0:
                length = 1.0 / stiffness
            c = length / (finish - begin) * steps_of[q] / scale
            for k in range(unpack(entries, i, 0, features, values)):
                j = features[k]
                step = c * values[k]
                norm += step * (2.0 * v[j] + step)
                v[j] += step
                lagged[j] += scale_sum * step
            step = c * bias
            norm += step * (2.0 * v[d] + step)
            v[d] += step
            lagged[d] += scale_sum * step
            if dual:
                step = c * direction(loss, target_of(side, reals, i))  # 1 or -1, so its own inverse
                b[i] += step
                b_lagged[i] += scale_sum * step
        if t % RENEW_NORM == 0.0:
            norm = sum_of_squares(v)
        # w <- min(1, radius / ||w||) w
        length = scale * np.sqrt(max(norm, 0.0))
        if length > radius:
            scale *= radius / length
        t += 1.0
        scale_sum += scale
        steps += 1.0
    scalars[0], scalars[1], scalars[2], scalars[3], scalars[4] = scale, norm, t, scale_sum, steps
    return loss_sum, nonzeros


@kernel
def suffix_sum(v, lagged, scale_sum, out):
    """``out += sum over the suffix of scale_t * v_t = scale_sum * v - lagged``."""
    for j in range(v.shape[0]):
        out[j] += scale_sum * v[j] - lagged[j]
