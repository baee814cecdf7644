"""nag: normalised adaptive gradient steps, which need no tuning to the features' scales, made aware of importance.

NAG (Ross, Mineiro, Langford, UAI 2013, Alg. 2), for a row x of importance h:
    s_j = the largest |x_j| so far; when |x_j| > s_j: w_j <- w_j s_j / |x_j|, s_j <- |x_j|   (before the prediction)
    N += h sum_j x_j^2 / s_j^2,  t += h,  G_j += h g_j^2,  rate_j = step sqrt(t / N) / (s_j sqrt(G_j))
Importance-aware step (Karampatziakis, Langford, UAI 2011): the limit of ever more, ever smaller gradient steps, which
never goes past the loss's minimum: w_j += a y rate_j x_j; with q = sum_j rate_j x_j^2 and the margin m = y <w, x>
    hinge          a = min(h, (1 - m) / q)
    squared hinge  a = (1 - m) (1 - e^(-2 h q)) / q
    squared        a = (1 - m) (1 - e^(-h q)) / q          (of the loss (<w, x> - y)^2 / 2, y = +-1)
    numbers        w_j += a sign(y - z) rate_j x_j with the a of hinge or squared at m = 1 - (|y - z| - epsilon)
    logistic       a = (m' - m) / q,  m' + e^m' = m + e^m + h q     (m' is log of Lambert's W at e^(m + e^m + h q))
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import value_at
from blocksvm.learners.layout import layout
from blocksvm.learners.protocol import Learner, Setting, Settings, following_numbers, positive
from blocksvm.learners.rows import (
    EPSILON_INSENSITIVE,
    HINGE,
    LOGISTIC,
    PARAMETER,
    SQUARED,
    SQUARED_HINGE,
    change_weight,
    loss_at,
    mean_of,
    plain_current,
)

# inverse: 1 / s_j, 0 for a feature that has not been seen; squares: G_j; rate: 1 / (s_j sqrt(G_j)), kept from one sweep of
# a row to the next
COLUMN = layout("weight", "inverse", "squares", "rate", averaging=("lagged",))
SCALAR = layout("rounds", "norms", "importance")  # N, t
SMALLEST = 1e-305  # where s_j sqrt(G_j) is not above it G_j counts as 0, so that no rate overflows


@inlined
def logistic_advance(m, amount):
    """How far the margin m rises by a step of amount h q: d > 0 with d + e^m (e^d - 1) = amount.

    By Newton's method from above, where it falls towards the root; for a large m divided by e^m, so that nothing
    overflows.
    """
    e = np.exp(-abs(m))
    if m > 0.0:
        d = min(amount * e / (1.0 + e), np.log1p(amount * e))
    else:
        d = min(amount / (1.0 + e), np.log1p(amount / e) if e > 0.0 else np.inf)
    for _ in range(60):
        if m > 0.0:
            excess, slope = e * (d - amount) + np.expm1(d), e + np.exp(d)
        else:
            excess, slope = d - amount + e * np.expm1(d), 1.0 + e * np.exp(d)
        step = excess / slope
        d = max(0.0, d - step)
        if abs(step) <= 1e-15 * d:
            break
    return d


@inlined
def aware_step(kind, m, q, h):
    """a of a row whose margin m lies below the loss's minimum."""
    if kind == HINGE:
        return min(h, (1.0 - m) / q)
    if kind == LOGISTIC:
        return logistic_advance(m, h * q) / q
    rate = 2.0 if kind == SQUARED_HINGE else 1.0
    return (1.0 - m) * -np.expm1(-rate * h * q) / q


@inlined
def signed_step(kind, z, y, epsilon, q, h):
    """What the row is added with, as it moves with rate_j in each feature."""
    if kind < SQUARED:
        return y * aware_step(kind, y * z, q, h)
    width = epsilon if kind == EPSILON_INSENSITIVE else 0.0
    step = aware_step(SQUARED if kind == SQUARED else HINGE, 1.0 - (abs(y - z) - width), q, h)
    return step if y > z else -step


@inlined
def nag_product(x, place, columns):
    """w_j x_j by the weight as the row's scale will have made it; place: of the feature's numbers."""
    product = x * columns[place + COLUMN.weight]
    share = abs(x) * columns[place + COLUMN.inverse]
    if share > 1.0:
        product /= share
    return product


@inlined
def nag_score(indices, values, start, stop, columns, width, scalars, parameters):
    z = 0.0
    for k in range(start, stop):
        z += nag_product(value_at(values, k), np.int64(indices[k]) * width, columns)
    return z


@inlined
def nag_update(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters):
    scalars[SCALAR.rounds] += 1.0
    scalars[SCALAR.importance] += importance
    kind = parameters[PARAMETER.loss]
    epsilon = parameters[PARAMETER.epsilon]
    _, derivative = loss_at(kind, z, y, epsilon)
    total, q = 0.0, 0.0
    for k in range(start, stop):
        place = np.int64(indices[k]) * width
        x = value_at(values, k)
        inverse = columns[place + COLUMN.inverse]
        share = abs(x) * inverse
        if inverse == 0.0 or share > 1.0:
            if inverse != 0.0:
                change = columns[place + COLUMN.weight] * (1.0 / share - 1.0)
                change_weight(place + COLUMN.weight, place + COLUMN.lagged, change, columns, scalars, parameters)
            inverse = 1.0 / abs(x)
            columns[place + COLUMN.inverse] = inverse
            share = 1.0
        total += share * share
        if derivative != 0.0:
            g = derivative * x
            squares = columns[place + COLUMN.squares] + importance * g * g
            root = np.sqrt(squares)
            rate = inverse / root if root > SMALLEST * inverse else 0.0
            columns[place + COLUMN.squares] = squares
            columns[place + COLUMN.rate] = rate
            q += x * x * rate
    scalars[SCALAR.norms] += importance * total
    if q == 0.0:
        return
    pace = parameters[PARAMETER.step] * np.sqrt(scalars[SCALAR.importance] / scalars[SCALAR.norms])
    factor = signed_step(kind, z, y, epsilon, q * pace, importance) * pace
    for k in range(start, stop):
        place = np.int64(indices[k]) * width
        change = factor * columns[place + COLUMN.rate] * value_at(values, k)
        change_weight(place + COLUMN.weight, place + COLUMN.lagged, change, columns, scalars, parameters)


@inlined
def nag_mean(j, columns, width, scalars, parameters):
    return mean_of(j * width + COLUMN.weight, j * width + COLUMN.lagged, columns, scalars)


LOSSES = ("hinge", "squared-hinge", "logistic", "squared")

NAG = Learner(
    name="nag",
    summary="normalised adaptive gradient, importance-aware: no tuning to the features' scales",
    source="Ross, Mineiro, Langford, UAI 2013; Karampatziakis, Langford, UAI 2011",
    example="nag --loss logistic",
    settings=Settings(
        (
            Setting("loss", "whose gradient is followed", "hinge", kind=str, choices=LOSSES),
            positive("step", "learning rate", 0.5),
        )
    ),
    for_numbers=following_numbers,
    fades=("squares",),
    score=nag_score,
    update=nag_update,
    current=plain_current,
    mean=nag_mean,
    columns=COLUMN,
    scalars=SCALAR,
)
