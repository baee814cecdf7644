"""Learners whose weights all shrink together: w = scale v, so that shrinking and projecting cost one multiplication.

OGD (Zinkevich, ICML 2003): w -= eta_t g_t, then the projection on ||w|| <= radius (inf: none).  With a constant step and
no radius it is linearised FoReL, and mirror descent with the Euclidean map.
Pegasos (Shalev-Shwartz, Singer, Srebro, Cotter, Math. Prog. 2011) with sub-batches of one row: eta_t = 1 / (lambda t),
w *= 1 - eta_t lambda first; radius 1 / sqrt(lambda).
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import strided_dot, value_at
from blocksvm.kernels.online.rows import (
    AVERAGE,
    OWN,
    T,
    derivative_at,
    eta_at,
    is_small,
    sum_of_squared_values,
)

SCALE, NORM, SUM = 1, 2, 3  # of S: the scale, ||w||^2, sum of the scales after each round
RADIUS, LAMBDA = OWN, OWN + 1

RENEW_NORM = 1 << 20  # ||w||^2 drifts by rounding: it is summed anew at every round that is a multiple of this


@inlined
def scaled_score(indices, values, start, stop, F, W, S, P):
    return S[SCALE] * strided_dot(indices, values, start, stop, F, W)


@inlined
def scaled_current(j, F, W, S, P):
    return S[SCALE] * F[j * W]


@inlined
def scaled_mean(j, F, W, S, P):
    return (S[SUM] * F[j * W] - F[j * W + W - 1]) / max(1.0, S[T])


@inlined
def rescale(F, W, S, P):
    """Multiply the scale into v.  What the average has so far is SUM v - lagged: from here on lagged alone holds it."""
    scale = S[SCALE]
    for place in range(0, F.shape[0], W):
        if P[AVERAGE] != 0.0:
            F[place + W - 1] -= S[SUM] * F[place]
        F[place] *= scale
    S[SUM] = 0.0
    S[SCALE] = 1.0


@inlined
def move(indices, values, start, stop, factor, F, W, S, P):
    """``w += factor x``."""
    if factor == 0.0:
        return
    if P[RADIUS] < np.inf:
        # not the score that was predicted: that may have a prior model's part
        product = S[SCALE] * strided_dot(indices, values, start, stop, F, W)
        S[NORM] += factor * (2.0 * product + factor * sum_of_squared_values(values, start, stop))
    factor /= S[SCALE]
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        change = factor * value_at(values, k)
        F[place] += change
        if P[AVERAGE] != 0.0:
            F[place + W - 1] += S[SUM] * change


@inlined
def end_round(F, W, S, P):
    """The projection; sums for the average."""
    if S[T] % RENEW_NORM == 0.0 and P[RADIUS] < np.inf:
        total = 0.0
        for place in range(0, F.shape[0], W):
            total += F[place] * F[place]
        S[NORM] = S[SCALE] * S[SCALE] * total
    radius = P[RADIUS]
    if S[NORM] > radius * radius:
        S[SCALE] = S[SCALE] * (radius / np.sqrt(S[NORM]))
        S[NORM] = radius * radius
    if is_small(S[SCALE], P):
        rescale(F, W, S, P)
    S[SUM] += S[SCALE]


@inlined
def ogd_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    move(indices, values, start, stop, -eta_at(S[T], P) * derivative_at(z, y, P), F, W, S, P)
    end_round(F, W, S, P)


@inlined
def pegasos_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    t = S[T]
    if t > 1.0:  # at t = 1 the factor is 0, and w is 0 already
        shrink = 1.0 - 1.0 / t
        S[SCALE] = S[SCALE] * shrink
        S[NORM] *= shrink * shrink
    if y * z < 1.0:
        eta = 1.0 / (P[LAMBDA] * t)
        move(indices, values, start, stop, eta * y, F, W, S, P)
    end_round(F, W, S, P)
