"""Kernels of a replay: losses and slopes of scores, norms of rows, and sums over rounds of a learner's weights, computed
from the scores without storing the weights of each round.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss_placeholders import conjugate, derivative, direction, step, value
from blocksvm.kernels.prefetch import value_at
from blocksvm.online.rule_parts import soft
from blocksvm.online.rules.sparse import height, raised


def losses_of(z, y, width, p, losses, slopes):
    """``losses[t], slopes[t]`` = the loss of score z[t] at label y[t], and its derivative that the learners follow.

    With a width above 0 those of max over a of -conjugate(a) - a direction z - width a^2 / 2, which has no kinks, lies
    below the loss and nears it as width falls; the coordinate step is the maximiser."""
    for t in range(z.shape[0]):
        if width > 0.0:
            a, along = step(0.0, z[t], width, y[t], 1.0, p), direction(y[t], p)
            losses[t] = -conjugate(a, y[t], 1.0, p) - a * along * z[t] - 0.5 * width * a * a
            slopes[t] = -a * along
        else:
            losses[t], slopes[t] = value(z[t], y[t], 1.0, p), derivative(z[t], y[t], 1.0, p)


def sum_of_conjugates(s, y, p):
    """At slopes s that the loss has."""
    total = 0.0
    for t in range(s.shape[0]):
        total += conjugate(-s[t] * direction(y[t], p), y[t], 1.0, p)
    return total


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
def group_norms(z, slopes, sq_norms, steps, weight, out):
    """``out[t]`` = ||w|| before round t of forward-backward splitting with weight ||w||."""
    length = 0.0
    for t in range(z.shape[0]):
        out[t] = length
        move = -steps[t] * slopes[t]
        half = np.sqrt(max(length * length + move * (2.0 * z[t] + move * sq_norms[t]), 0.0))
        length = max(half - steps[t] * weight, 0.0)


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


@inlined
def last_above_zero(v, h, since, t, S):
    """The last round m < t after which |v| - h (S_m - S_since) is above 0, v the weight after round ``since``."""
    limit = S[since] + (abs(v) / h if h > 0.0 else np.inf)
    low, high = since, t - 1
    while low < high:
        middle = (low + high + 1) // 2
        if S[middle] < limit:
            low = middle
        else:
            high = middle - 1
    return low


@inlined
def idle(v, h, since, last, S, weights, products):
    """sum of |w| after each round m = since .. last, times the weights whose running sums are ``weights``, and those of
    weight times S_m ``products``: |w| = |v| - h (S_m - S_since), since >= 1."""
    total = weights[last] - weights[since - 1]
    return total * (abs(v) + h * S[since]) - h * (products[last] - products[since - 1])


@inlined
def add_idle(j, t, S, CS, Q, N, parameters, v, since, powers, sums, stepped, varying, height_sums):
    """The rounds since + 1 .. t of a feature without a gradient in rounds since + 1 .. t - 1, with its height before round
    t, to its sums; its weight after round t - 1 to ``v``."""
    h = height(powers[j], parameters)
    if v[j] != 0.0:
        last = last_above_zero(v[j], h, since[j], t, S)
        total = idle(v[j], h, since[j], last, S, N, CS)
        sums[j] += total
        varying[j] += h * total
        stepped[j] += idle(v[j], h, since[j], last, S, S, Q)
        v[j] = soft(v[j], (S[t - 1] - S[since[j]]) * h)
    height_sums[j] += h * (t - since[j])


@kernel
def truncated_sums(
    indptr, indices, values, order, first, moves, thresholds, S, CS, Q, N, parameters, v, since, powers, sums, stepped,
    varying, height_sums, low, high,
):  # fmt: skip
    """FOBOS and HF-FOBOS replayed feature by feature: ``sums[j]`` = sum of |w_j| before each round.

    first: rounds before this block; of all rounds t = 0, 1, ...: moves[t] = -eta_t slope_t, thresholds[t] = eta_t+1/2 l1;
    running sums (T + 1,) with an entry for no round: S of the thresholds, CS of S, Q of threshold times S, N of 1.  Of
    features: v, the round it is up to date with (int64), the sum of powers of its height h; stepped: sum of threshold
    times |w_j| after each round but the last; varying, height_sums: sums of h_t,j |w_t,j| and of h_t,j; the range
    [low, high] of w_j over all rounds.
    """
    for r in range(order.shape[0]):
        t = first + r + 1
        move = moves[t - 1]
        if move == 0.0:
            continue
        for k in range(indptr[order[r]], indptr[order[r] + 1]):
            j = indices[k]
            before = height(powers[j], parameters)
            add_idle(j, t, S, CS, Q, N, parameters, v, since, powers, sums, stepped, varying, height_sums)
            change = move * value_at(values, k)
            powers[j] = raised(powers[j], abs(change), parameters)
            after = height(powers[j], parameters)
            # round t's own height has its gradient in it
            varying[j] += (after - before) * abs(v[j])
            height_sums[j] += after - before
            v[j] = soft(v[j] + change, thresholds[t - 1] * after)
            since[j] = t
            low[j] = min(low[j], v[j])
            high[j] = max(high[j], v[j])


@kernel
def truncated_settle(t, S, CS, Q, N, parameters, v, since, powers, sums, stepped, varying, height_sums):
    """Bring every feature up to date with the end of round t."""
    for j in range(v.shape[0]):
        if since[j] < t:
            h = height(powers[j], parameters)
            add_idle(j, t, S, CS, Q, N, parameters, v, since, powers, sums, stepped, varying, height_sums)
            v[j] = soft(v[j], (S[t] - S[t - 1]) * h)
            since[j] = t


@kernel
def heights_of(powers, parameters, out):
    """h_j of HF-FOBOS from the sums of powers."""
    for j in range(powers.shape[0]):
        out[j] = height(powers[j], parameters)
