"""Second-order learners: a Gaussian over weights with a diagonal covariance.  F holds the mean, then the precision
(CW-var) or the variance (the others).

CW-var    Dredze, Crammer, Pereira, ICML 2008           CW-stdev  Crammer, Dredze, Pereira, NIPS 2008
AROW      Crammer, Kulesza, Dredze, NIPS 2009           SCW-I, II Wang, Zhao, Hoi, ICML 2012
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import value_at
from blocksvm.kernels.online.rows import OWN, T, add_to_weight

PHI, MOST, SLACK = OWN, OWN + 1, OWN + 2
R = OWN


@inlined
def row_variance(indices, values, start, stop, F, W):
    """v = x' Sigma x."""
    v = 0.0
    for k in range(start, stop):
        x = value_at(values, k)
        v += F[np.int64(indices[k]) * W + 1] * x * x
    return v


@inlined
def cw_var_update(indices, values, start, stop, y, z, F, W, S, P):
    """alpha >= 0 solves 2 phi v alpha^2 + b alpha + (m - phi v) / v = 0 with b = 1 + 2 phi m;
    w += alpha y Sigma x; Sigma^-1 += 2 alpha phi diag(x^2).

    The discriminant b^2 - 8 phi (m - phi v) is (1 - 2 phi m)^2 + 8 phi^2 v, and of the two forms of the root the one
    is taken that does not cancel.
    """
    S[T] += 1.0
    phi = P[PHI]
    m = y * z
    v = 0.0
    for k in range(start, stop):
        x = value_at(values, k)
        v += x * x / F[np.int64(indices[k]) * W + 1]
    if v == 0.0 or m >= phi * v:
        return
    b = 1.0 + 2.0 * phi * m
    root = np.hypot(1.0 - 2.0 * phi * m, phi * np.sqrt(8.0 * v))
    alpha = 2.0 * (phi - m / v) / (b + root) if b > 0.0 else (root - b) / (4.0 * phi * v)
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        x = value_at(values, k)
        add_to_weight(place, alpha * y * (x / F[place + 1]), F, W, S, P)
        F[place + 1] += 2.0 * alpha * phi * x * x


@inlined
def cw_stdev_update(indices, values, start, stop, y, z, F, W, S, P):
    """CW-stdev, and SCW as its clipped (alpha <= most = C) and softened (n = v + slack, slack = 1 / (2C)) forms.

    The papers' closed forms in units of sqrt(v): s = m / sqrt(v), a = alpha sqrt(v), q = sqrt(u / v), ratio = v / n.
    a solves a^2 (1 + phi^2 ratio) / ratio^2 + a s (2 + phi^2 ratio) / ratio + s^2 - phi^2 = 0, then
    q = 2 / (a phi + sqrt(a^2 phi^2 + 4)), beta v = a phi / (q + a phi); w += alpha y Sigma x;
    Sigma_j *= 1 - beta v (Sigma_j x_j^2 / v), which stays positive whatever the rounding.
    """
    S[T] += 1.0
    phi = P[PHI]
    v = row_variance(indices, values, start, stop, F, W)
    if v == 0.0:
        return
    deviation = np.sqrt(v)
    s = y * z / deviation
    if s >= phi:
        return
    ratio = v / (v + P[SLACK])
    zeta = 1.0 + phi * phi * ratio
    linear = s * (2.0 + phi * phi * ratio)
    root = phi * np.hypot(phi * s * ratio, 2.0 * np.sqrt(zeta))
    if s > 0.0:
        a = 2.0 * (phi - s) * (phi + s) * ratio / (linear + root)
    else:
        a = (root - linear) * ratio / (2.0 * zeta)
    a = min(a, P[MOST] * deviation)
    q = 2.0 / (a * phi + np.hypot(a * phi, 2.0))
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        x = value_at(values, k)
        variance = F[place + 1]
        add_to_weight(place, a * y * (variance * x / deviation), F, W, S, P)
        rest = max(0.0, 1.0 - variance * x * x / v)
        F[place + 1] = variance * (q + a * phi * rest) / (q + a * phi)


@inlined
def arow_update(indices, values, start, stop, y, z, F, W, S, P):
    """m < 1: beta = 1 / (v + r), alpha = (1 - m) beta; w += alpha y Sigma x; Sigma -= beta Sigma x x' Sigma (diagonal)."""
    S[T] += 1.0
    loss = 1.0 - y * z
    if loss <= 0.0:
        return
    v = row_variance(indices, values, start, stop, F, W)
    if v == 0.0:
        return
    factor = loss / (v + P[R]) * y
    for k in range(start, stop):
        place = np.int64(indices[k]) * W
        x = value_at(values, k)
        variance = F[place + 1]
        add_to_weight(place, factor * (variance * x), F, W, S, P)
        rest = max(0.0, v - variance * x * x)
        F[place + 1] = variance * ((P[R] + rest) / (v + P[R]))
