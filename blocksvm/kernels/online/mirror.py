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
FADED = 0.25  # below this share of its largest, the total is summed anew: it is a difference of large numbers


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
    close_average(F, W, S, P, 0)
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
    close_average(F, W, S, P, 1)
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
def value_of(kind, theta, S, P):
    if kind == 0:
        return entropic_value(theta, S, P)
    return power_value(theta, S, P)


@inlined
def close_average(F, W, S, P, kind):
    """Move what the average has so far into each feature's total: the shift is about to change."""
    if P[AVERAGE] != 0.0 and S[SUM] != 0.0:
        for place in range(0, F.shape[0], W):
            if F[place] != 0.0 or F[place + 1] != 0.0:
                F[place + 2] += S[SUM] * value_of(kind, F[place], S, P) - F[place + 1]
                F[place + 1] = 0.0
        S[SUM] = 0.0


@inlined
def mirror_current(j, F, W, S, P, kind, factor):
    return factor * value_of(kind, F[j * W], S, P) if F[j * W] != 0.0 else 0.0


@inlined
def mirror_mean(j, F, W, S, P, kind):
    value = value_of(kind, F[j * W], S, P) if F[j * W] != 0.0 else 0.0
    return (F[j * W + 2] + S[SUM] * value - F[j * W + 1]) / max(1.0, S[T])


@inlined
def entropic_score(indices, values, start, stop, F, W, S, P):
    z = 0.0
    for k in range(start, stop):
        theta = F[np.int64(indices[k]) * W]
        if theta != 0.0:
            z += value_at(values, k) * entropic_value(theta, S, P)
    return entropic_factor(S, P) * z


@inlined
def entropic_current(j, F, W, S, P):
    return mirror_current(j, F, W, S, P, 0, entropic_factor(S, P))


@inlined
def entropic_mean(j, F, W, S, P):
    return mirror_mean(j, F, W, S, P, 0)


@inlined
def entropic_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    if S[TOTAL] == 0.0:
        S[TOTAL] = 2.0 * P[FEATURES]
        S[PEAK] = S[TOTAL]
    g = derivative_at(z, y, P)
    if g != 0.0:
        largest = 0.0
        for k in range(start, stop):
            after = F[np.int64(indices[k]) * W] - g * value_at(values, k)
            largest = max(largest, abs(P[STEP] * after))
        fits = largest - S[SHIFT] <= (HEADROOM_AVERAGED if P[AVERAGE] != 0.0 else HEADROOM)
        if not fits:
            close_average(F, W, S, P, 0)
        for k in range(start, stop):
            place = np.int64(indices[k]) * W
            before = F[place]
            after = before - g * value_at(values, k)
            F[place] = after
            if fits:
                S[TOTAL] += entropic_part(after, S, P) - entropic_part(before, S, P)
                if P[AVERAGE] != 0.0:
                    F[place + 1] += S[SUM] * (entropic_value(after, S, P) - entropic_value(before, S, P))
        S[PEAK] = max(S[PEAK], S[TOTAL])
        if not fits or S[TOTAL] < FADED * S[PEAK]:
            entropic_settle(F, W, S, P)
    if S[T] % RENEW == 0.0:
        entropic_settle(F, W, S, P)
    S[SUM] += entropic_factor(S, P)


@inlined
def power_score(indices, values, start, stop, F, W, S, P):
    z = 0.0
    for k in range(start, stop):
        theta = F[np.int64(indices[k]) * W]
        if theta != 0.0:
            z += value_at(values, k) * power_value(theta, S, P)
    return power_factor(S, P) * z


@inlined
def power_current(j, F, W, S, P):
    return mirror_current(j, F, W, S, P, 1, power_factor(S, P))


@inlined
def power_mean(j, F, W, S, P):
    return mirror_mean(j, F, W, S, P, 1)


@inlined
def power_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    g = derivative_at(z, y, P)
    largest = 0.0
    if g != 0.0:
        for k in range(start, stop):
            largest = max(largest, abs(F[np.int64(indices[k]) * W] - g * value_at(values, k)))
        fits = 0.0 < S[SHIFT] and largest < 1024.0 * S[SHIFT]
        if not fits:
            close_average(F, W, S, P, 1)
        for k in range(start, stop):
            place = np.int64(indices[k]) * W
            before = F[place]
            after = before - g * value_at(values, k)
            F[place] = after
            if fits:
                S[TOTAL] += power_part(after, S, P) - power_part(before, S, P)
                if P[AVERAGE] != 0.0:
                    F[place + 1] += S[SUM] * (power_value(after, S, P) - power_value(before, S, P))
        S[PEAK] = max(S[PEAK], S[TOTAL])
        if not fits or S[TOTAL] < FADED * S[PEAK]:
            power_settle(F, W, S, P)
    if S[T] % RENEW == 0.0:
        power_settle(F, W, S, P)
    S[SUM] += power_factor(S, P)
