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
from blocksvm.learners.layout import layout, unsigned
from blocksvm.learners.protocol import Learner, Setting, Settings, following_numbers, positive
from blocksvm.learners.rows import (
    EPSILON_INSENSITIVE,
    HINGE,
    LOGISTIC,
    PARAMETER,
    ROUNDS,
    SQUARED,
    SQUARED_HINGE,
    averages,
    loss_at,
)

# scaled: w_j s_j, which stays the same when s_j grows; scale: s_j; squares: G_j.  In these numbers, with X_j = x_j / s_j,
#     <w, x> = sum_j scaled_j X_j,   scaled_j += a y step sqrt(t / N) x_j / sqrt(G_j)
# so that nothing branches on whether a feature is new or its scale grows, which cannot be foretold
COLUMN = layout("scaled", "scale", "squares", averaging=("lagged",))
AT = unsigned(COLUMN)
SCALAR = layout("rounds", "norms", "importance")  # N, t
SMALLEST = 1e-305  # where s_j sqrt(G_j) is not above it G_j counts as 0, so that no step overflows
LEAST = np.finfo(np.float64).tiny  # in the place of the scale of a feature that has not been seen


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
    """w_j x_j by the weight as the row's scale will have made it; place: of the feature's numbers, unsigned."""
    return columns[place + AT.scaled] * (x / max(max(columns[place + AT.scale], abs(x)), LEAST))


@inlined
def nag_score(indices, values, start, stop, columns, width, scalars, parameters):
    z = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        z += nag_product(value_at(values, k), np.uint64(indices[k]) * np.uint64(width), columns)
    return z


@inlined
def grown_scale(x, place, columns):
    """s_j, which x makes as large as itself."""
    scale = max(max(columns[place + AT.scale], abs(x)), LEAST)
    columns[place + AT.scale] = scale
    return scale


@inlined
def average_growth(indices, values, start, stop, columns, width, past):
    """Tell the average how the weights change as the row's scales grow; past: the rounds before this one."""
    for k in range(start, stop):
        place = np.uint64(indices[k]) * np.uint64(width)
        old = columns[place + AT.scale]
        if old > 0.0:
            change = columns[place + AT.scaled] * (1.0 / max(old, abs(value_at(values, k))) - 1.0 / old)
            columns[place + AT.lagged] += past * change


@inlined
def average_moves(indices, start, factor, moves, columns, width, past):
    for k in range(np.uint64(moves.shape[0])):
        place = np.uint64(indices[start + k]) * width
        columns[place + AT.lagged] += past * (factor * moves[k] / columns[place + AT.scale])


@inlined
def nag_update(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters):
    scalars[SCALAR.rounds] += 1.0
    scalars[SCALAR.importance] += importance
    kind = parameters[PARAMETER.loss]
    epsilon = parameters[PARAMETER.epsilon]
    _, derivative = loss_at(kind, z, y, epsilon)
    if averages(parameters):
        average_growth(indices, values, start, stop, columns, width, scalars[ROUNDS] - 1.0)
    n = np.uint64(stop - start)
    start, width = np.uint64(start), np.uint64(width)
    total, q = 0.0, 0.0
    if derivative == 0.0:
        for k in range(start, start + n):
            x = value_at(values, k)
            share = x / grown_scale(x, np.uint64(indices[k]) * width, columns)
            total += share * share
        scalars[SCALAR.norms] += importance * total
        return
    # roots and quotients in a sweep of their own, of memory that lies in a row: several at once
    room = np.empty((3, n))
    numbers, shares, moves = room[0], room[1], room[2]
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        x = value_at(values, start + k)
        g = derivative * x
        squares = columns[place + AT.squares] + importance * g * g
        columns[place + AT.squares] = squares
        numbers[k], shares[k], moves[k] = x, grown_scale(x, place, columns), squares
    for k in range(n):
        scale, root = shares[k], np.sqrt(moves[k])
        move = numbers[k] / root
        moves[k] = move if scale * root > SMALLEST else 0.0
        shares[k] = numbers[k] / scale
    for k in range(n):
        total += shares[k] * shares[k]
        q += shares[k] * moves[k]
    scalars[SCALAR.norms] += importance * total
    if q == 0.0:
        return
    pace = parameters[PARAMETER.step] * np.sqrt(scalars[SCALAR.importance] / scalars[SCALAR.norms])
    factor = signed_step(kind, z, y, epsilon, q * pace, importance) * pace
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        columns[place + AT.scaled] += factor * moves[k]
    if averages(parameters):
        average_moves(indices, start, factor, moves, columns, width, scalars[ROUNDS] - 1.0)


@inlined
def nag_current(j, columns, width, scalars, parameters):
    return columns[j * width + COLUMN.scaled] / max(columns[j * width + COLUMN.scale], LEAST)


@inlined
def nag_mean(j, columns, width, scalars, parameters):
    w = nag_current(j, columns, width, scalars, parameters)
    return w - columns[j * width + COLUMN.lagged] / max(1.0, scalars[ROUNDS])


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
    current=nag_current,
    mean=nag_mean,
    columns=COLUMN,
    scalars=SCALAR,
)
