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
from blocksvm.kernels.prefetch import products, value_at
from blocksvm.learners.engine.layout import layout, unsigned
from blocksvm.learners.engine.learner import Kept, Learner, Setting, Settings, following_numbers, positive
from blocksvm.learners.engine.rule_parts import (
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
NAG_ROOM = np.uint64(3)  # numbers that the two-class loop keeps of each entry of a row: its X_j, and two more
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
def scale_with(x, place, columns):
    """s_j, as large as x at least."""
    return max(max(columns[place + AT.scale], abs(x)), LEAST)


@inlined
def keep_shares(values, start, n, room):
    """The row's X_j = x_j / s_j in the place of s_j: several at once."""
    for k in range(n):
        room[k] = value_at(values, start + k) / room[k]


@inlined
def shares_of(indices, values, start, stop, columns, width):
    """Room with the X_j of a row that comes without any."""
    n, start, width = np.uint64(stop - start), np.uint64(start), np.uint64(width)
    room = np.empty(NAG_ROOM * n)
    for k in range(n):
        room[k] = scale_with(value_at(values, start + k), np.uint64(indices[start + k]) * width, columns)
    keep_shares(values, start, n, room)
    return room


@inlined
def nag_score_kept(indices, values, start, stop, columns, width, scalars, parameters, room):
    """The same, with the row's X_j kept in ``room`` for the update."""
    n, start, width = np.uint64(stop - start), np.uint64(start), np.uint64(width)
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        room[k] = scale_with(value_at(values, start + k), place, columns)
        room[n + k] = columns[place + AT.scaled]
    keep_shares(values, start, n, room)
    return products(room, np.uint64(0), n, n)


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
def average_moves(indices, start, n, factor, room, columns, width, past):
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        columns[place + AT.lagged] += past * (factor * room[n + k] / columns[place + AT.scale])


@inlined
def nag_update_kept(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters, room):
    """The same with the row's X_j in ``room``, of which the rest is working space."""
    scalars[SCALAR.rounds] += 1.0
    scalars[SCALAR.importance] += importance
    kind = parameters[PARAMETER.loss]
    epsilon = parameters[PARAMETER.epsilon]
    _, derivative = loss_at(kind, z, y, epsilon)
    if averages(parameters):
        average_growth(indices, values, start, stop, columns, width, scalars[ROUNDS] - 1.0)
    n = np.uint64(stop - start)
    start, width = np.uint64(start), np.uint64(width)
    if derivative == 0.0:
        for k in range(n):
            place = np.uint64(indices[start + k]) * width
            columns[place + AT.scale] = scale_with(value_at(values, start + k), place, columns)
        scalars[SCALAR.norms] += importance * products(room, np.uint64(0), np.uint64(0), n)
        return
    # roots and quotients in a sweep of their own, of memory that lies in a row: several at once
    two_n = n + n
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        x = value_at(values, start + k)
        g = derivative * x
        squares = columns[place + AT.squares] + importance * g * g
        scale = scale_with(x, place, columns)
        columns[place + AT.squares] = squares
        columns[place + AT.scale] = scale
        room[n + k], room[two_n + k] = squares, scale
    for k in range(n):
        root = np.sqrt(room[n + k])
        move = value_at(values, start + k) / root
        room[n + k] = move if room[two_n + k] * root > SMALLEST else 0.0
    scalars[SCALAR.norms] += importance * products(room, np.uint64(0), np.uint64(0), n)
    q = products(room, np.uint64(0), n, n)
    if q == 0.0:
        return
    pace = parameters[PARAMETER.step] * np.sqrt(scalars[SCALAR.importance] / scalars[SCALAR.norms])
    factor = signed_step(kind, z, y, epsilon, q * pace, importance) * pace
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        columns[place + AT.scaled] += factor * room[n + k]
    if averages(parameters):
        average_moves(indices, start, n, factor, room, columns, width, scalars[ROUNDS] - 1.0)


@inlined
def nag_update(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters):
    room = shares_of(indices, values, start, stop, columns, width)
    nag_update_kept(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters, room)


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
            Setting("loss", "the loss whose gradient is followed", "hinge", kind=str, choices=LOSSES),
            positive("step", "learning rate", 0.5),
        )
    ),
    for_numbers=following_numbers,
    fades=("squares",),
    score=nag_score,
    update=nag_update,
    kept=Kept(nag_score_kept, nag_update_kept, int(NAG_ROOM)),
    current=nag_current,
    mean=nag_mean,
    columns=COLUMN,
    scalars=SCALAR,
)
