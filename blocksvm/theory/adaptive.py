"""AdaGrad replayed feature by feature from its scores: sums of |w_j| and of the roots of the squares, and the range of
each weight, without storing the weights of each round.

With s_t,j = sqrt(g_1,j^2 + ... + g_t,j^2), H_t = delta + s_t, f_t + r the losses, w_1 = 0 (r(w_1) = 0):

FOBOS form  w_{t+1} = argmin <g_t, w> + r(w) + (w - w_t)' H_t (w - w_t) / (2 eta).  One round of it gives
    f_t(w_t) + r(w_{t+1}) - f_t(u) - r(u) <= [||u - w_t||^2 - ||u - w_{t+1}||^2] / (2 eta) + eta/2 ||g_t||^2, norms by
    H_t, and by its inverse for g.  H grows, so that with D_j = max_t |u_j - w_t,j| the brackets add up to at most
    sum_j (delta u_j^2 + D_j^2 s_T,j), and sum_t g_t,j^2 / H_t,j <= 2 s_T,j (Duchi, Hazan, Singer 2011, Lemma 4).
RDA form    w_{t+1} = argmin <g_1 + ... + g_t, w> + t r(w) + w' H_t w / (2 eta): their Proposition 2 gives
    u' H_T u / (2 eta) + eta/2 sum_t ||g_t||^2 by the inverse of H_{t-1}, which is delta + s_{t-1} >= s_t where
    delta >= |g_t,j|.
Squares     the RDA form with sum_s g_s,j^2 in the place of H_t / eta: no bound of it is known here.
"""

from __future__ import annotations

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.prefetch import value_at
from blocksvm.online.rule_parts import soft
from blocksvm.online.rules.adagrad import pace


@inlined
def falling(length, fall, first, last):
    """sum of max(0, length - m fall) over m = first .. last"""
    if fall > 0.0:
        last = min(last, np.floor(length / fall))
    if last < first:
        return 0.0
    n = last - first + 1.0
    return n * (length - fall * (first + last) / 2.0)


@inlined
def idle_sum(dual, place, square, since, t, l1, parameters):
    """sum of |w_j| before the rounds since + 1 .. t, in which the feature had no gradient; ``place``: its sum of
    gradients (dual averaging), or its weight after round ``since``."""
    step = pace(square, parameters)
    if dual:
        return step * falling(abs(place), l1, float(since), t - 1.0)
    return falling(abs(place), step * l1, 0.0, t - 1.0 - since)


@kernel
def adaptive_sums(
    indptr, indices, values, order, first, slopes, dual, l1, parameters, place, squares, since, sums, low, high, largest
):
    """``sums[j]`` = sum of |w_j| before each round; slopes: of the rounds; largest (1,): max |g_t,j|; of features:
    place as above, squares: sum of g_j^2, since: the round that ``place`` is up to date with, [low, high]: the range of
    w_j."""
    for r in range(order.shape[0]):
        t = first + r + 1
        slope = slopes[t - 1]
        if slope == 0.0:
            continue
        for k in range(indptr[order[r]], indptr[order[r] + 1]):
            j = indices[k]
            g = slope * value_at(values, k)
            largest[0] = max(largest[0], abs(g))
            sums[j] += idle_sum(dual, place[j], squares[j], since[j], t, l1, parameters)
            before = pace(squares[j], parameters)
            squares[j] += g * g
            step = pace(squares[j], parameters)
            if dual:
                place[j] += g
                w = -step * soft(place[j], t * l1)
            else:
                idle = t - 1.0 - since[j]
                w = soft(soft(place[j], idle * before * l1) - step * g, step * l1)
                place[j] = w
            since[j] = t
            low[j] = min(low[j], w)
            high[j] = max(high[j], w)


@kernel
def adaptive_settle(t, dual, l1, parameters, place, squares, since, sums):
    """Bring every feature up to date with the end of round t; returns (sum of ``sums``, sum of roots of squares)."""
    total, roots = 0.0, 0.0
    for j in range(place.shape[0]):
        if place[j] != 0.0:
            sums[j] += idle_sum(dual, place[j], squares[j], since[j], t, l1, parameters)
            if not dual:
                place[j] = soft(place[j], (t - since[j]) * pace(squares[j], parameters) * l1)
        since[j] = t
        total += sums[j]
        roots += np.sqrt(squares[j])
    return total, roots
