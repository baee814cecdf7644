"""AdaGrad (Duchi, Hazan, Singer, JMLR 2011): step sizes of each feature's own, thresholds paid when a row names it.

RDA          u = sum g, H_j = delta + sqrt(sum g_j^2); w_j = -sign(u_j) (eta t / H_j) max(0, |u_j| / t - l1)
RDA, squares the same with h_j = sum g_j^2 in place of H_j / eta (proximal term sum_j h_j w_j^2 / (2t))
FOBOS        w_j -= eta g_j / H_j with the new H_j, then soft-threshold by eta l1 / H_j

F: u (RDA) or w (FOBOS), sum of g_j^2, the round it is up to date with, and where an average is wanted the sum of w so
far: the thresholds of idle rounds grow evenly, so that their sums are arithmetic series.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import strided_dot, value_at
from blocksvm.kernels.online.rows import AVERAGE, OWN, STEP, T, derivative_at
from blocksvm.kernels.online.sparse import soft

L1, DELTA, SQUARES = OWN, OWN + 1, OWN + 2
SECOND, ROUND, SUM = 1, 2, 3  # columns of F


@inlined
def pace(total, P):
    """eta / H_j, or 1 / h_j; 0 for a feature without a gradient so far, whose weight is 0."""
    h = total if P[SQUARES] != 0.0 else P[DELTA] + np.sqrt(total)
    eta = 1.0 if P[SQUARES] != 0.0 else P[STEP]
    return eta / h if h > 0.0 else 0.0


@inlined
def rda_weight(place, t, F, P):
    """w_j after round t."""
    u = F[place]
    excess = abs(u) - t * P[L1]
    if excess <= 0.0 or u == 0.0:
        return 0.0
    w = pace(F[place + SECOND], P) * excess
    return -w if u > 0.0 else w


@inlined
def rda_idle_sum(place, F, S, P):
    """sum of w_j after the rounds since it was up to date: -sign(u) pace (|u| - s l1) for s = r + 1, ... as long as
    that is above 0."""
    u = abs(F[place])
    if u == 0.0:
        return 0.0
    since, last = F[place + ROUND], S[T]
    if P[L1] > 0.0:
        last = min(last, np.floor(u / P[L1]))
    if last <= since:
        return 0.0
    series = (last * (last + 1.0) - since * (since + 1.0)) / 2.0
    total = pace(F[place + SECOND], P) * ((last - since) * u - P[L1] * series)
    return -total if F[place] > 0.0 else total


@inlined
def rda_score(indices, values, start, stop, F, W, S, P):
    z = 0.0
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        z += value_at(values, k) * rda_weight(place, S[T], F, P)
    return z


@inlined
def rda_current(j, F, W, S, P):
    return rda_weight(j * W, S[T], F, P)


@inlined
def rda_mean(j, F, W, S, P):
    return (F[j * W + SUM] + rda_idle_sum(j * W, F, S, P)) / max(1.0, S[T])


@inlined
def rda_update(indices, values, start, stop, y, z, F, W, S, P):
    derivative = derivative_at(z, y, P)
    if derivative == 0.0:
        S[T] += 1.0
        return
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        g = derivative * value_at(values, k)
        if P[AVERAGE] != 0.0:
            F[place + SUM] += rda_idle_sum(place, F, S, P)
            F[place + ROUND] = S[T]
        F[place] += g
        F[place + SECOND] += g * g
    S[T] += 1.0


@inlined
def fobos_idle(place, F, S, P):
    """(w_j, sum of it over the rounds): soft-thresholds by eta l1 / H_j in the rounds since it was up to date."""
    w = F[place]
    rounds = S[T] - F[place + ROUND]
    threshold = pace(F[place + SECOND], P) * P[L1] if w != 0.0 and P[L1] != 0.0 else 0.0
    if rounds == 0.0 or threshold == 0.0:
        return w, rounds * w
    n = min(rounds, np.floor(abs(w) / threshold))
    total = n * abs(w) - threshold * n * (n + 1.0) / 2.0
    return soft(w, rounds * threshold), (total if w > 0.0 else -total)


@inlined
def adagrad_fobos_score(indices, values, start, stop, F, W, S, P):
    if P[L1] == 0.0 and P[AVERAGE] == 0.0:  # idle rounds change nothing
        return strided_dot(indices, values, start, stop, F, W)
    z = 0.0
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        w, total = fobos_idle(place, F, S, P)
        F[place] = w
        F[place + ROUND] = S[T]
        if P[AVERAGE] != 0.0:
            F[place + SUM] += total
        z += value_at(values, k) * w
    return z


@inlined
def adagrad_fobos_current(j, F, W, S, P):
    w, _ = fobos_idle(j * W, F, S, P)
    return w


@inlined
def adagrad_fobos_mean(j, F, W, S, P):
    _, total = fobos_idle(j * W, F, S, P)
    return (F[j * W + SUM] + total) / max(1.0, S[T])


@inlined
def adagrad_fobos_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    derivative = derivative_at(z, y, P)
    if derivative == 0.0:
        return
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        g = derivative * value_at(values, k)
        F[place + SECOND] += g * g
        own = pace(F[place + SECOND], P)
        w = soft(F[place] - own * g, own * P[L1])
        F[place] = w
        F[place + ROUND] = S[T]
        if P[AVERAGE] != 0.0:
            F[place + SUM] += w
