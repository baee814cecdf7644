"""nag: normalised adaptive gradient steps, invariant to the features' scales, and importance-aware.

NAG (Ross, Mineiro, Langford, UAI 2013, Alg. 2), for a row x of importance h:
    s_j = the largest |x_j| so far; when |x_j| > s_j: w_j <- w_j s_j / |x_j|, s_j <- |x_j|   (before the prediction)
    N += h sum_j x_j^2 / s_j^2,  t += h,  G_j += h g_j^2,  rate_j = step sqrt(t / N) / (s_j sqrt(G_j))
Importance-aware step (Karampatziakis, Langford, UAI 2011): the limit of ever more, ever smaller gradient steps, which
never passes the loss's minimum: w_j += a rate_j x_j, with a = ``Loss.aware_step`` at q = sum_j rate_j x_j^2; for the
hinge loss a = y min(h, (1 - m) / q) with the margin m.
"""

from collections.abc import Mapping

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.loss_functions import aware_step, derivative
from blocksvm.kernels.rows import products, value_at
from blocksvm.losses import require
from blocksvm.online.learner import LOSS, Learner, Rule, Settings, positive
from blocksvm.online.memory import layout, parameters, unsigned
from blocksvm.online.rule_parts import ROUNDS, averages

# scaled: w_j s_j, which does not change when s_j grows; scale: s_j; squares: G_j.  With X_j = x_j / s_j,
#     <w, x> = sum_j scaled_j X_j,   scaled_j += a y step sqrt(t / N) x_j / sqrt(G_j)
# so that no branch, which would be mispredicted, depends on whether a feature is new or its scale grows
COLUMN = layout("scaled", "scale", "squares", averaging=("lagged",))
AT = unsigned(COLUMN)
SCALAR = layout("rounds", "norms", "importance")  # N, t
SMALLEST = 1e-305  # if s_j sqrt(G_j) is at most this, G_j counts as 0, so that no step overflows
SCRATCH = 3  # numbers of the scratch for each entry of a row: its X_j, and two more
PARAMETER = parameters()
LEAST = np.finfo(np.float64).tiny  # the scale of a feature that has not occurred


@inlined
def scale_with(x, slot, columns):
    """s_j after an entry x; slot: of the feature's numbers, unsigned."""
    return max(max(columns[slot + AT.scale], abs(x)), LEAST)


@inlined
def to_shares(values, start, n, scratch):
    """Replace s_j by the row's X_j = x_j / s_j, in a loop that is vectorised."""
    for k in range(n):
        scratch[k] = value_at(values, start + k) / scratch[k]


@inlined
def nag_score(row, memory):
    """<w, x> with the scales after this row; the row's X_j are left in the scratch."""
    indices, values = row.indices, row.values
    columns, scratch = memory.columns, memory.scratch
    n, start, width = np.uint64(row.stop - row.start), np.uint64(row.start), np.uint64(memory.width)
    for k in range(n):
        slot = np.uint64(indices[start + k]) * width
        scratch[k] = scale_with(value_at(values, start + k), slot, columns)
        scratch[n + k] = columns[slot + AT.scaled]
    to_shares(values, start, n, scratch)
    return products(scratch, np.uint64(0), n, n)


@inlined
def nag_update(row, y, z, importance, memory):
    indices, values = row.indices, row.values
    columns, scalars, parameters, scratch = memory.columns, memory.scalars, memory.parameters, memory.scratch
    scalars[SCALAR.rounds] += 1.0
    scalars[SCALAR.importance] += importance
    slope = derivative(memory.loss, z, y, 1.0)
    averaged, past = averages(parameters), scalars[ROUNDS] - 1.0  # rounds
    n, start, width = np.uint64(row.stop - row.start), np.uint64(row.start), np.uint64(memory.width)
    if averaged:  # how the weights change as the row's scales grow
        for k in range(n):
            slot = np.uint64(indices[start + k]) * width
            old = columns[slot + AT.scale]
            if old > 0.0:
                change = columns[slot + AT.scaled] * (1.0 / max(old, abs(value_at(values, start + k))) - 1.0 / old)
                columns[slot + AT.lagged] += past * change
    if slope == 0.0:
        for k in range(n):
            slot = np.uint64(indices[start + k]) * width
            columns[slot + AT.scale] = scale_with(value_at(values, start + k), slot, columns)
        scalars[SCALAR.norms] += importance * products(scratch, np.uint64(0), np.uint64(0), n)
        return
    # roots and quotients in a separate loop over contiguous memory, which is vectorised
    two_n = n + n
    for k in range(n):
        slot = np.uint64(indices[start + k]) * width
        x = value_at(values, start + k)
        g = slope * x
        squares = columns[slot + AT.squares] + importance * g * g
        scale = scale_with(x, slot, columns)
        columns[slot + AT.squares] = squares
        columns[slot + AT.scale] = scale
        scratch[n + k], scratch[two_n + k] = squares, scale
    for k in range(n):
        root = np.sqrt(scratch[n + k])
        move = value_at(values, start + k) / root
        scratch[n + k] = move if scratch[two_n + k] * root > SMALLEST else 0.0
    scalars[SCALAR.norms] += importance * products(scratch, np.uint64(0), np.uint64(0), n)
    q = products(scratch, np.uint64(0), n, n)
    if q == 0.0:
        return
    pace = parameters[PARAMETER.step] * np.sqrt(scalars[SCALAR.importance] / scalars[SCALAR.norms])
    factor = aware_step(memory.loss, z, y, q * pace, importance) * pace
    for k in range(n):
        slot = np.uint64(indices[start + k]) * width
        columns[slot + AT.scaled] += factor * scratch[n + k]
        if averaged:
            columns[slot + AT.lagged] += past * (factor * scratch[n + k] / columns[slot + AT.scale])


@inlined
def nag_current(j, memory):
    slot = j * memory.width
    return memory.columns[slot + COLUMN.scaled] / max(memory.columns[slot + COLUMN.scale], LEAST)


@inlined
def nag_mean(j, memory):
    lagged = memory.columns[j * memory.width + COLUMN.lagged]
    return nag_current(j, memory) - lagged / max(1.0, memory.scalars[ROUNDS])


def with_aware_step(settings: dict, known: Mapping) -> dict:
    require(settings["loss"], "aware_step", "nag")
    return settings


NAG = Learner(
    "nag", "normalised adaptive gradient, importance-aware: no tuning to the features' scales", "nag --loss logistic",
    "Ross, Mineiro, Langford, UAI 2013; Karampatziakis, Langford, UAI 2011",
    settings=Settings((LOSS, positive("step", "learning rate", 0.5))),
    rule=Rule(nag_score, nag_update, nag_current, nag_mean, COLUMN, SCALAR, scratch=SCRATCH), complete=with_aware_step,
)  # fmt: skip
