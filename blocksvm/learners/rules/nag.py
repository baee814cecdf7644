"""nag: normalised adaptive gradient steps, which need no tuning to the features' scales, made aware of importance.

NAG (Ross, Mineiro, Langford, UAI 2013, Alg. 2), for a row x of importance h:
    s_j = the largest |x_j| so far; when |x_j| > s_j: w_j <- w_j s_j / |x_j|, s_j <- |x_j|   (before the prediction)
    N += h sum_j x_j^2 / s_j^2,  t += h,  G_j += h g_j^2,  rate_j = step sqrt(t / N) / (s_j sqrt(G_j))
Importance-aware step (Karampatziakis, Langford, UAI 2011): the limit of ever more, ever smaller gradient steps, which
never goes past the loss's minimum: w_j += a rate_j x_j with the loss's own a at q = sum_j rate_j x_j^2
(``Loss.aware_step``); of the hinge a = y min(h, (1 - m) / q) for the margin m.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.loss_placeholders import aware_step, derivative
from blocksvm.kernels.prefetch import products, value_at
from blocksvm.learners.engine.layout import layout, parameters, unsigned
from blocksvm.learners.engine.learner import LOSS, Kept, Learner, Settings, following_numbers, positive
from blocksvm.learners.engine.rule_parts import ROUNDS, averages, with_scratch

# scaled: w_j s_j, which stays the same when s_j grows; scale: s_j; squares: G_j.  In these numbers, with X_j = x_j / s_j,
#     <w, x> = sum_j scaled_j X_j,   scaled_j += a y step sqrt(t / N) x_j / sqrt(G_j)
# so that nothing branches on whether a feature is new or its scale grows, which cannot be foretold
COLUMN = layout("scaled", "scale", "squares", averaging=("lagged",))
AT = unsigned(COLUMN)
SCALAR = layout("rounds", "norms", "importance")  # N, t
SMALLEST = 1e-305  # where s_j sqrt(G_j) is not above it G_j counts as 0, so that no step overflows
NAG_SCRATCH = np.uint64(3)  # numbers that the two-class loop keeps of each entry of a row: its X_j, and two more
PARAMETER = parameters()
LEAST = np.finfo(np.float64).tiny  # in the place of the scale of a feature that has not been seen


@inlined
def nag_product(x, place, columns):
    """w_j x_j by the weight as the row's scale will have made it; place: of the feature's numbers, unsigned."""
    return columns[place + AT.scaled] * (x / max(max(columns[place + AT.scale], abs(x)), LEAST))


@inlined
def nag_score(row, memory):
    indices, values, start, stop = row
    columns, width = memory.columns, memory.width
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
def shares_of(row, memory):
    """Scratch with the X_j of a row that comes without any."""
    indices, values = row.indices, row.values
    columns = memory.columns
    n, start, width = np.uint64(row.stop - row.start), np.uint64(row.start), np.uint64(memory.width)
    room = np.empty(NAG_SCRATCH * n)
    for k in range(n):
        room[k] = scale_with(value_at(values, start + k), np.uint64(indices[start + k]) * width, columns)
    keep_shares(values, start, n, room)
    return room


@inlined
def nag_score_kept(row, memory):
    """The same, with the row's X_j left in the scratch for the update."""
    indices, values = row.indices, row.values
    columns, room = memory.columns, memory.scratch
    n, start, width = np.uint64(row.stop - row.start), np.uint64(row.start), np.uint64(memory.width)
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        room[k] = scale_with(value_at(values, start + k), place, columns)
        room[n + k] = columns[place + AT.scaled]
    keep_shares(values, start, n, room)
    return products(room, np.uint64(0), n, n)


@inlined
def average_growth(row, memory, past):
    """Tell the average how the weights change as the row's scales grow; past: the rounds before this one."""
    indices, values, start, stop = row
    columns, width = memory.columns, memory.width
    for k in range(start, stop):
        place = np.uint64(indices[k]) * np.uint64(width)
        old = columns[place + AT.scale]
        if old > 0.0:
            change = columns[place + AT.scaled] * (1.0 / max(old, abs(value_at(values, k))) - 1.0 / old)
            columns[place + AT.lagged] += past * change


@inlined
def average_moves(row, factor, memory, past):
    indices, columns, room = row.indices, memory.columns, memory.scratch
    n, start, width = np.uint64(row.stop - row.start), np.uint64(row.start), np.uint64(memory.width)
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        columns[place + AT.lagged] += past * (factor * room[n + k] / columns[place + AT.scale])


@inlined
def nag_update_kept(row, y, z, importance, memory):
    """A round, with the row's X_j in the scratch, of which the rest is working space."""
    indices, values = row.indices, row.values
    columns, scalars, parameters, room = memory.columns, memory.scalars, memory.parameters, memory.scratch
    scalars[SCALAR.rounds] += 1.0
    scalars[SCALAR.importance] += importance
    slope = derivative(z, y, 1.0, memory.p)
    if averages(parameters):
        average_growth(row, memory, scalars[ROUNDS] - 1.0)
    n, start, width = np.uint64(row.stop - row.start), np.uint64(row.start), np.uint64(memory.width)
    if slope == 0.0:
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
        g = slope * x
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
    factor = aware_step(z, y, q * pace, importance, memory.p) * pace
    for k in range(n):
        place = np.uint64(indices[start + k]) * width
        columns[place + AT.scaled] += factor * room[n + k]
    if averages(parameters):
        average_moves(row, factor, memory, scalars[ROUNDS] - 1.0)


@inlined
def nag_update(row, y, z, importance, memory):
    nag_update_kept(row, y, z, importance, with_scratch(memory, shares_of(row, memory)))


@inlined
def nag_current(j, memory):
    place = j * memory.width
    return memory.columns[place + COLUMN.scaled] / max(memory.columns[place + COLUMN.scale], LEAST)


@inlined
def nag_mean(j, memory):
    lagged = memory.columns[j * memory.width + COLUMN.lagged]
    return nag_current(j, memory) - lagged / max(1.0, memory.scalars[ROUNDS])


NAG = Learner(
    name="nag",
    summary="normalised adaptive gradient, importance-aware: no tuning to the features' scales",
    source="Ross, Mineiro, Langford, UAI 2013; Karampatziakis, Langford, UAI 2011",
    example="nag --loss logistic",
    settings=Settings((LOSS, positive("step", "learning rate", 0.5))),
    needs=("aware_step",),
    for_numbers=following_numbers,
    fades=("squares",),
    score=nag_score,
    update=nag_update,
    kept=Kept(nag_score_kept, nag_update_kept, int(NAG_SCRATCH)),
    current=nag_current,
    mean=nag_mean,
    columns=COLUMN,
    scalars=SCALAR,
)
