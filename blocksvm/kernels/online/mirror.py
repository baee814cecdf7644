"""Online mirror descent: theta -= g_t, w = the mirror map of theta, with one number kept up to date for all features.

Entropic, EG+- of radius U (Kivinen, Warmuth, Inf. and Comp. 1997):
    w_j = U (e^(eta theta_j) - e^(-eta theta_j)) / Z,  Z = sum_k (e^(eta theta_k) + e^(-eta theta_k))
p-norm, p >= 2 (Gentile, Machine Learning 2003):
    w_j = eta sign(theta_j) |theta_j|^(p-1) / ||theta||_p^(p-2)

Both are w_j = factor f(theta_j) with a factor that all features share.  F holds theta, and where an average is wanted
two numbers more: sum_t w_{t+1} = total + SUM f - lagged, as in ``scaled.py``.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import value_at
from blocksvm.kernels.online.rows import AVERAGE, OWN, STEP, T, derivative_at

# of S: Z or ||theta||_p^p in units of the shift, its largest since it was last summed anew, the shift, the average's sum
TOTAL, PEAK, SHIFT, SUM = 1, 2, 3, 4
RADIUS, POWER, FEATURES = OWN, OWN + 1, OWN + 2

RENEW = 1 << 16  # rounds after which the total, which drifts by rounding, is summed anew
# Exponents may exceed the shift by this; by less where averages, differences of numbers in its units, are wanted.
HEADROOM, HEADROOM_AVERAGED = 30.0, 5.0
POWER_HEADROOM = 1024.0  # times the shift, for the p-norm
FADED = 0.25  # below this share of its largest, the total is summed anew: it is a difference of large numbers

ENTROPIC, P_NORM = 0, 1  # the kind of map, known when a learner is compiled


@inlined
def entropic_value(theta, S, P):
    """e^(a) - e^(-a) at a = eta theta, in units of e^shift; by expm1, since small differences would cancel."""
    a = abs(P[STEP] * theta)
    value = np.exp(a - S[SHIFT]) * -np.expm1(-2.0 * a)
    return value if theta > 0.0 else -value


@inlined
def entropic_part(theta, S, P):
    """What a feature adds to Z, in units of e^shift."""
    a = abs(P[STEP] * theta)
    return np.exp(a - S[SHIFT]) * (1.0 + np.exp(-2.0 * a))


@inlined
def entropic_factor(S, P):
    return P[RADIUS] / S[TOTAL] if S[TOTAL] > 0.0 else P[RADIUS] / (2.0 * P[FEATURES])


@inlined
def entropic_settle(F, W, S, P):
    """Sum Z anew, its shift the largest exponent; features that were never met add 2 e^-shift each."""
    close_average(ENTROPIC, F, W, S, P)
    largest = 0.0
    for place in range(0, F.shape[0], W):
        largest = max(largest, abs(P[STEP] * F[place]))
    S[SHIFT] = largest
    total = 0.0
    seen = 0.0
    for place in range(0, F.shape[0], W):
        if F[place] != 0.0:
            total += entropic_part(F[place], S, P)
            seen += 1.0
    S[TOTAL] = total + 2.0 * (P[FEATURES] - seen) * np.exp(-largest)
    S[PEAK] = S[TOTAL]


@inlined
def power_value(theta, S, P):
    """sign |theta|^(p-1), theta in units of the shift."""
    if theta == 0.0:
        return 0.0
    value = (abs(theta) / S[SHIFT]) ** (P[POWER] - 1.0)
    return value if theta > 0.0 else -value


@inlined
def power_part(theta, S, P):
    return (abs(theta) / S[SHIFT]) ** P[POWER] if theta != 0.0 else 0.0


@inlined
def power_factor(S, P):
    return P[STEP] * S[SHIFT] / S[TOTAL] ** (1.0 - 2.0 / P[POWER]) if S[TOTAL] > 0.0 else 0.0


@inlined
def power_settle(F, W, S, P):
    """Sum ||theta||_p^p anew, in units of the largest |theta|."""
    close_average(P_NORM, F, W, S, P)
    largest = 0.0
    for place in range(0, F.shape[0], W):
        largest = max(largest, abs(F[place]))
    S[SHIFT] = largest
    total = 0.0
    if largest > 0.0:
        for place in range(0, F.shape[0], W):
            total += power_part(F[place], S, P)
    S[TOTAL] = total
    S[PEAK] = total


@inlined
def entropic_fits(theta, S, P):
    """Whether a feature can be told in units of the shift as it is."""
    return abs(P[STEP] * theta) - S[SHIFT] <= (HEADROOM_AVERAGED if P[AVERAGE] != 0.0 else HEADROOM)


@inlined
def power_fits(theta, S, P):
    return 0.0 < S[SHIFT] and abs(theta) < POWER_HEADROOM * S[SHIFT]


@inlined
def value_of(kind, theta, S, P):
    return entropic_value(theta, S, P) if kind == ENTROPIC else power_value(theta, S, P)


@inlined
def part_of(kind, theta, S, P):
    return entropic_part(theta, S, P) if kind == ENTROPIC else power_part(theta, S, P)


@inlined
def factor_of(kind, S, P):
    return entropic_factor(S, P) if kind == ENTROPIC else power_factor(S, P)


@inlined
def fits_in(kind, theta, S, P):
    return entropic_fits(theta, S, P) if kind == ENTROPIC else power_fits(theta, S, P)


@inlined
def settle(kind, F, W, S, P):
    if kind == ENTROPIC:
        entropic_settle(F, W, S, P)
    else:
        power_settle(F, W, S, P)


@inlined
def close_average(kind, F, W, S, P):
    """Move what the average has so far into each feature's total: the shift is about to change."""
    if P[AVERAGE] != 0.0 and S[SUM] != 0.0:
        for place in range(0, F.shape[0], W):
            if F[place] != 0.0 or F[place + 1] != 0.0:
                F[place + 2] += S[SUM] * value_of(kind, F[place], S, P) - F[place + 1]
                F[place + 1] = 0.0
        S[SUM] = 0.0


@inlined
def mirror_score(kind, indices, values, start, stop, F, W, S, P):
    z = 0.0
    for k in range(start, stop):
        theta = F[np.int64(indices[k]) * W]
        if theta != 0.0:
            z += value_at(values, k) * value_of(kind, theta, S, P)
    return factor_of(kind, S, P) * z


@inlined
def mirror_update(kind, indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    g = derivative_at(z, y, P)
    if g != 0.0:
        fits = True
        for k in range(start, stop):
            after = F[np.int64(indices[k]) * W] - g * value_at(values, k)
            fits = fits and fits_in(kind, after, S, P)
        if not fits:
            close_average(kind, F, W, S, P)
        for k in range(start, stop):
            place = np.int64(indices[k]) * W
            before = F[place]
            after = before - g * value_at(values, k)
            F[place] = after
            if fits:
                S[TOTAL] += part_of(kind, after, S, P) - part_of(kind, before, S, P)
                if P[AVERAGE] != 0.0:
                    F[place + 1] += S[SUM] * (value_of(kind, after, S, P) - value_of(kind, before, S, P))
        S[PEAK] = max(S[PEAK], S[TOTAL])
        if not fits or S[TOTAL] < FADED * S[PEAK]:
            settle(kind, F, W, S, P)
    if S[T] % RENEW == 0.0:
        settle(kind, F, W, S, P)
    S[SUM] += factor_of(kind, S, P)


@inlined
def mirror_current(kind, j, F, W, S, P):
    return factor_of(kind, S, P) * value_of(kind, F[j * W], S, P) if F[j * W] != 0.0 else 0.0


@inlined
def mirror_mean(kind, j, F, W, S, P):
    value = value_of(kind, F[j * W], S, P) if F[j * W] != 0.0 else 0.0
    return (F[j * W + 2] + S[SUM] * value - F[j * W + 1]) / max(1.0, S[T])


# -- the functions of the two learners


@inlined
def entropic_score(indices, values, start, stop, F, W, S, P):
    return mirror_score(ENTROPIC, indices, values, start, stop, F, W, S, P)


@inlined
def entropic_update(indices, values, start, stop, y, z, F, W, S, P):
    if S[TOTAL] == 0.0:  # no row so far: every feature has theta = 0
        S[TOTAL] = 2.0 * P[FEATURES]
        S[PEAK] = S[TOTAL]
    mirror_update(ENTROPIC, indices, values, start, stop, y, z, F, W, S, P)


@inlined
def entropic_current(j, F, W, S, P):
    return mirror_current(ENTROPIC, j, F, W, S, P)


@inlined
def entropic_mean(j, F, W, S, P):
    return mirror_mean(ENTROPIC, j, F, W, S, P)


@inlined
def power_score(indices, values, start, stop, F, W, S, P):
    return mirror_score(P_NORM, indices, values, start, stop, F, W, S, P)


@inlined
def power_update(indices, values, start, stop, y, z, F, W, S, P):
    mirror_update(P_NORM, indices, values, start, stop, y, z, F, W, S, P)


@inlined
def power_current(j, F, W, S, P):
    return mirror_current(P_NORM, j, F, W, S, P)


@inlined
def power_mean(j, F, W, S, P):
    return mirror_mean(P_NORM, j, F, W, S, P)
