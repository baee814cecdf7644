"""cw-var, cw-stdev, arow, scw1, scw2: a Gaussian over weights with a diagonal covariance.

With v = x' Sigma x, and phi the quantile of the normal distribution at the confidence, w += alpha y Sigma x where

CW-var    (Dredze, Crammer, Pereira, ICML 2008) m < phi v: alpha >= 0 solves
          2 phi v alpha^2 + (1 + 2 phi m) alpha + (m - phi v) / v = 0;  1 / Sigma_j += 2 alpha phi x_j^2
CW-stdev  (Crammer, Dredze, Pereira, NIPS 2008) s = m / sqrt(v) < phi: a = alpha sqrt(v) >= 0 solves
          (1 + phi^2) a^2 + (2 + phi^2) s a + s^2 - phi^2 = 0;  Sigma_j *= 1 - (a phi / (q + a phi)) Sigma_j x_j^2 / v
          with q = 2 / (a phi + sqrt(a^2 phi^2 + 4))
SCW-I, II (Wang, Zhao, Hoi, ICML 2012) the same, alpha cut off at C, or softened by v + 1 / (2C) in the equation
AROW      (Crammer, Kulesza, Dredze, NIPS 2009) m < 1: alpha = (1 - m) / (v + r);
          Sigma_j *= 1 - Sigma_j x_j^2 / (v + r)

A row of importance h has h C in place of C, and r / h in place of r.
"""

from statistics import NormalDist

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.rows import value_at
from blocksvm.online.learner import UNIFORM, C, Learner, Setting, Settings, cut_off, positive, softened
from blocksvm.online.memory import layout, parameters
from blocksvm.online.rule_parts import ROUNDS, change_weight, plain_rule

# spread: the precision (CW-var) or the variance (the others) of a weight
COLUMN = layout("weight", "spread", averaging=("lagged",))
CW = parameters("phi", "most", "slack")
ADAPTIVE = parameters("r")


@inlined
def row_variance(row, memory):
    """v = x' Sigma x."""
    indices, values, start, stop = row
    columns, width = memory.columns, memory.width
    v = 0.0
    for k in range(start, stop):
        x = value_at(values, k)
        v += columns[np.int64(indices[k]) * width + COLUMN.spread] * x * x
    return v


@inlined
def cw_var_update(row, y, z, importance, memory):
    """alpha >= 0 solves 2 phi v alpha^2 + b alpha + (m - phi v) / v = 0 with b = 1 + 2 phi m;
    w += alpha y Sigma x; Sigma^-1 += 2 alpha phi diag(x^2).

    The discriminant b^2 - 8 phi (m - phi v) is (1 - 2 phi m)^2 + 8 phi^2 v.  Of the two forms of the root the one
    without cancellation is computed.
    """
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[ROUNDS] += 1.0
    phi = parameters[CW.phi]
    m = y * z
    v = 0.0
    for k in range(start, stop):
        x = value_at(values, k)
        v += x * x / columns[np.int64(indices[k]) * width + COLUMN.spread]
    if v == 0.0 or m >= phi * v:
        return
    b = 1.0 + 2.0 * phi * m
    root = np.hypot(1.0 - 2.0 * phi * m, phi * np.sqrt(8.0 * v))
    alpha = 2.0 * (phi - m / v) / (b + root) if b > 0.0 else (root - b) / (4.0 * phi * v)
    for k in range(start, stop):
        slot = np.int64(indices[k]) * width
        x = value_at(values, k)
        change = alpha * y * (x / columns[slot + COLUMN.spread])
        change_weight(slot + COLUMN.weight, slot + COLUMN.lagged, change, memory)
        columns[slot + COLUMN.spread] += 2.0 * alpha * phi * x * x


@inlined
def cw_stdev_update(row, y, z, importance, memory):
    """CW-stdev, and SCW as its clipped (alpha <= most = C) and softened (n = v + slack, slack = 1 / (2C)) forms.

    The papers' closed forms in units of sqrt(v): s = m / sqrt(v), a = alpha sqrt(v), q = sqrt(u / v), ratio = v / n.
    a solves a^2 (1 + phi^2 ratio) / ratio^2 + a s (2 + phi^2 ratio) / ratio + s^2 - phi^2 = 0, then
    q = 2 / (a phi + sqrt(a^2 phi^2 + 4)), beta v = a phi / (q + a phi); w += alpha y Sigma x;
    Sigma_j *= 1 - beta v (Sigma_j x_j^2 / v), which stays positive whatever the rounding.
    """
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[ROUNDS] += 1.0
    phi = parameters[CW.phi]
    v = row_variance(row, memory)
    if v == 0.0:
        return
    deviation = np.sqrt(v)
    s = y * z / deviation
    if s >= phi:
        return
    ratio = v / (v + parameters[CW.slack] / importance)
    zeta = 1.0 + phi * phi * ratio
    linear = s * (2.0 + phi * phi * ratio)
    root = phi * np.hypot(phi * s * ratio, 2.0 * np.sqrt(zeta))
    if s > 0.0:
        a = 2.0 * (phi - s) * (phi + s) * ratio / (linear + root)
    else:
        a = (root - linear) * ratio / (2.0 * zeta)
    a = min(a, parameters[CW.most] * importance * deviation)
    q = 2.0 / (a * phi + np.hypot(a * phi, 2.0))
    for k in range(start, stop):
        slot = np.int64(indices[k]) * width
        x = value_at(values, k)
        variance = columns[slot + COLUMN.spread]
        change = a * y * (variance * x / deviation)
        change_weight(slot + COLUMN.weight, slot + COLUMN.lagged, change, memory)
        others = max(0.0, 1.0 - variance * x * x / v)
        columns[slot + COLUMN.spread] = variance * (q + a * phi * others) / (q + a * phi)


@inlined
def arow_update(row, y, z, importance, memory):
    """m < 1: beta = 1 / (v + r), alpha = (1 - m) beta; w += alpha y Sigma x; Sigma -= the diagonal of
    beta Sigma x x' Sigma."""
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[ROUNDS] += 1.0
    loss = 1.0 - y * z
    if loss <= 0.0:
        return
    v = row_variance(row, memory)
    if v == 0.0:
        return
    r = parameters[ADAPTIVE.r] / importance
    factor = loss / (v + r) * y
    for k in range(start, stop):
        slot = np.int64(indices[k]) * width
        x = value_at(values, k)
        variance = columns[slot + COLUMN.spread]
        change = factor * (variance * x)
        change_weight(slot + COLUMN.weight, slot + COLUMN.lagged, change, memory)
        others = max(0.0, v - variance * x * x)
        columns[slot + COLUMN.spread] = variance * ((r + others) / (v + r))


def with_phi(numbers):
    """The numbers with phi, the quantile of the standard normal distribution at the confidence eta."""
    return lambda settings: numbers(settings) | {"phi": NormalDist().inv_cdf(settings["confidence"])}


CONFIDENCE = Setting("confidence", "probability eta with which each row is to be right", 0.9, above=0.5, below=1.0)
VARIANCE = positive("variance", "variance of each weight at the start", 1.0)

SCW1 = Learner(
    "scw1", "soft confidence-weighted: the step cut off at C", "scw1 -C 0.5", "Wang, Zhao, Hoi, ICML 2012",
    settings=Settings((CONFIDENCE, C, VARIANCE)),
    rule=plain_rule(
        cw_stdev_update, COLUMN, parameters=CW, initial=lambda settings: {"spread": settings["variance"]},
        numbers=with_phi(cut_off),
    ),
)  # fmt: skip
SCW2 = SCW1.like(
    "scw2", "soft confidence-weighted: the step softened by 1 / (2C)", "scw2 -C 0.5", numbers=with_phi(softened)
)
CW_STDEV = SCW1.like(
    "cw-stdev", "confidence-weighted, the constraint with the standard deviation", "cw-stdev --confidence 0.8",
    "Crammer, Dredze, Pereira, NIPS 2008", settings=Settings((CONFIDENCE, VARIANCE)), takes=UNIFORM,
)  # fmt: skip
CW_VAR = CW_STDEV.like(
    "cw-var", "confidence-weighted, the constraint with the variance", "cw-var --confidence 0.8",
    "Dredze, Crammer, Pereira, ICML 2008", update=cw_var_update,
    initial=lambda settings: {"spread": 1.0 / settings["variance"]},
)  # fmt: skip
AROW = SCW1.like(
    "arow", "adaptive regularisation of weights", "arow --r 0.1", "Crammer, Kulesza, Dredze, NIPS 2009",
    settings=Settings((positive("r", "weight of the regularisation", 1.0), VARIANCE)), update=arow_update,
    parameters=ADAPTIVE, numbers=lambda settings: {},
)  # fmt: skip
