"""Learners that push weights to zero, lazily: a feature owes its thresholds until a row names it.

FOBOS (Duchi, Singer, JMLR 2009): w -= eta_t g_t, then soft-threshold by eta_t l1, then divide by 1 + eta_t l2.
HF-FOBOS (Oiwa, Matsushima, Nakagawa, ECML PKDD 2011, eq. 12-13): the threshold of feature j is eta_t l1 h_j,
h_j = (sum_s |eta_s g_s,j|^p)^(1/p), the largest for p = inf, round t's included; capped where p <= 2.
Subgradient on loss + l1 ||w||_1 (the same paper, eq. 6): w -= eta_t (g_t + l1 sign(w)).

Thresholds add up: with w = scale v (the scale holds the divisions) and S_t = sum_s eta_s l1 / scale_{s-1}, a feature
brought up to date at the end of round r owes soft(v, (S_t - S_r) h_j).  F: v, S_r, sum of |eta g|^p; where an average is
wanted also r and the sum of w so far, in closed form, or with l2 from a table of the rounds since S began anew.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import value_at
from blocksvm.kernels.online.idle import falling_sum, idle_rounds
from blocksvm.kernels.online.rows import AVERAGE, DECAY, OWN, STEP, T, derivative_at, eta_at, is_small

SCALE, OWED, BASE = 1, 2, 3  # of S: the scale, S_t, the round in which S began anew
TABLE = 4  # of S, from here on: for each round since then S, sum of scale, sum of scale * S
PERIOD = 1 << 14  # rounds of the table; after them every feature is brought up to date
L1, L2, POWER, CAP = OWN, OWN + 1, OWN + 2, OWN + 3  # POWER: p, 0 for FOBOS, inf

# columns of F
DEBT, HEIGHT, ROUND, SUM = 1, 2, 3, 4


@inlined
def soft(v, threshold):
    """sign(v) max(0, |v| - threshold)"""
    if v > threshold:
        return v - threshold
    if v < -threshold:
        return v + threshold
    return 0.0


@inlined
def height(total, P):
    """h_j of the sum of powers."""
    p = P[POWER]
    if p == 0.0:
        return 1.0
    if p == 1.0:
        return min(total, P[CAP])
    if p == 2.0:
        return min(np.sqrt(total), P[CAP])
    if p == 3.0:
        return np.cbrt(total)
    return total


@inlined
def raised(total, a, P):
    """The sum of powers with ``a`` = |eta g| in it."""
    p = P[POWER]
    if p == 1.0:
        return total + a
    if p == 2.0:
        return total + a * a
    if p == 3.0:
        return total + a * a * a
    return max(total, a)


@inlined
def idle_sum(v, h, before, since, S, P):
    """sum of w over the rounds after ``since`` (counted from the base), in which only thresholds were applied to v."""
    now = np.int64(S[T] - S[BASE])
    if P[L2] == 0.0:  # no scale: thresholds are steps, whose sums are known
        return falling_sum(v, S[BASE] + since, now - since, P[STEP], P[L1] * h, P[DECAY] != 0.0)
    # the last round that leaves something of v: S_m - S_r < |v| / h
    low, high = since, now
    limit = before + (abs(v) / h if h > 0.0 else np.inf)
    while low < high:
        middle = (low + high + 1) // 2
        if S[TABLE + 3 * middle] < limit:
            low = middle
        else:
            high = middle - 1
    first, last = TABLE + 3 * since, TABLE + 3 * low
    total = (abs(v) + h * before) * (S[last + 1] - S[first + 1]) - h * (S[last + 2] - S[first + 2])
    return total if v > 0.0 else -total


@inlined
def bring_up(place, F, W, S, P):
    """Pay what the feature owes up to the last round."""
    v = F[place]
    if v != 0.0:
        h = height(F[place + HEIGHT], P)
        if P[AVERAGE] != 0.0:
            F[place + SUM] += idle_sum(v, h, F[place + DEBT], np.int64(F[place + ROUND]), S, P)
        F[place] = soft(v, (S[OWED] - F[place + DEBT]) * h)
    F[place + DEBT] = S[OWED]
    if P[AVERAGE] != 0.0:
        F[place + ROUND] = S[T] - S[BASE]


@inlined
def fobos_score(indices, values, start, stop, F, W, S, P):
    z = 0.0
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        bring_up(place, F, W, S, P)
        z += value_at(values, k) * F[place]
    return S[SCALE] * z


@inlined
def fobos_current(j, F, W, S, P):
    v = F[j * W]
    if v == 0.0:
        return 0.0
    return S[SCALE] * soft(v, (S[OWED] - F[j * W + DEBT]) * height(F[j * W + HEIGHT], P))


@inlined
def fobos_mean(j, F, W, S, P):
    place = j * W
    total = F[place + SUM]
    if F[place] != 0.0:
        h = height(F[place + HEIGHT], P)
        total += idle_sum(F[place], h, F[place + DEBT], np.int64(F[place + ROUND]), S, P)
    return total / max(1.0, S[T])


@inlined
def begin_anew(F, W, S, P):
    """Bring every feature up to date, so that debts and scale can start again."""
    scale = S[SCALE]
    for place in range(0, F.shape[0], W):
        if F[place] != 0.0:
            bring_up(place, F, W, S, P)
            F[place] *= scale
        F[place + DEBT] = 0.0
        if P[AVERAGE] != 0.0:
            F[place + ROUND] = 0.0
    S[SCALE] = 1.0
    S[OWED] = 0.0
    S[BASE] = S[T]


@inlined
def fobos_update(indices, values, start, stop, y, z, F, W, S, P):
    """The features of the row are up to date, ``fobos_score`` saw to it."""
    S[T] += 1.0
    eta = eta_at(S[T], P)
    scale = S[SCALE]
    threshold = eta * P[L1] / scale
    after = scale / (1.0 + eta * P[L2])
    S[SCALE] = after
    S[OWED] += threshold
    rounds = np.int64(S[T] - S[BASE])
    tabled = P[AVERAGE] != 0.0 and P[L2] != 0.0
    if tabled:
        entry = TABLE + 3 * rounds
        S[entry] = S[OWED]
        S[entry + 1] = S[entry - 2] + after
        S[entry + 2] = S[entry - 1] + after * S[OWED]
    move = -eta * derivative_at(z, y, P)
    if move != 0.0:
        for k in range(start, stop):
            place = np.int64(indices[k]) * W
            x = value_at(values, k)
            if P[POWER] != 0.0:
                F[place + HEIGHT] = raised(F[place + HEIGHT], abs(move * x), P)
            v = soft(F[place] + move * x / scale, threshold * height(F[place + HEIGHT], P))
            F[place] = v
            F[place + DEBT] = S[OWED]
            if P[AVERAGE] != 0.0:
                F[place + ROUND] = np.float64(rounds)
                F[place + SUM] += after * v
    if (tabled and rounds == PERIOD) or is_small(after, P):
        begin_anew(F, W, S, P)


# -- subgradient: F holds w, the round it is up to date with, and where an average is wanted the sum of w so far


@inlined
def idle(place, F, S, P):
    """(w, sum of it over the rounds) after the rounds since the feature was up to date: ``w -= eta_s l1 sign(w)``."""
    return idle_rounds(F[place], F[place + 1], S[T], P[STEP], P[L1], P[DECAY] != 0.0)


@inlined
def subgradient_score(indices, values, start, stop, F, W, S, P):
    z = 0.0
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        w, total = idle(place, F, S, P)
        F[place] = w
        F[place + 1] = S[T]
        if P[AVERAGE] != 0.0:
            F[place + 2] += total
        z += value_at(values, k) * w
    return z


@inlined
def subgradient_current(j, F, W, S, P):
    w, _ = idle(j * W, F, S, P)
    return w


@inlined
def subgradient_mean(j, F, W, S, P):
    _, total = idle(j * W, F, S, P)
    return (F[j * W + 2] + total) / max(1.0, S[T])


@inlined
def subgradient_update(indices, values, start, stop, y, z, F, W, S, P):
    S[T] += 1.0
    derivative = derivative_at(z, y, P)
    if derivative == 0.0:
        return
    eta = eta_at(S[T], P)
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        w = F[place]
        sign = 1.0 if w > 0.0 else (-1.0 if w < 0.0 else 0.0)
        w -= eta * (derivative * value_at(values, k) + P[L1] * sign)
        F[place] = w
        F[place + 1] = S[T]
        if P[AVERAGE] != 0.0:
            F[place + 2] += w
