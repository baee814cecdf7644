"""coin: coin betting, in which each feature bets a fraction of its wealth; no step size is to be chosen.

Coin betting with the estimator of Krichevsky and Trofimov (Orabona, Pal, NIPS 2016, Alg. 1), feature by feature, a
gradient counting by its size (as Orabona, Tommasi, NIPS 2017, Alg. 1): with g_j = loss'(<w, x>) x_j,

    L_j = max |x_j| max(1, max |loss'|),  G_j = sum |g_j|,  theta_j = -sum g_j,  W_j = W_j - g_j w_j,
    w_j = theta_j / (L_j + G_j) W_j / L_j

so that a bet g_j w_j is never more than the wealth W_j.  Its initial value is ``wealth`` over the mean number of
entries of the rows so far, since a row's entries move its score together.  It is reset to that value where L_j grew and
a lost bet exceeded the wealth.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.rows import value_at
from blocksvm.online.learner import LOSS, Learner, Settings, positive
from blocksvm.online.memory import layout, parameters, unsigned
from blocksvm.online.rule_parts import change_weight, derivative_at, plain_rule

COLUMN = layout("weight", "theta", "scale", "total", "wealth", averaging=("lagged",))
AT = unsigned(COLUMN)
SCALAR = layout("rounds", "rows", "entries", "steepest")
PARAMETER = parameters("wealth")
SMALLEST = 1e-290  # a smaller entry is skipped: its weight would overflow


@inlined
def coin_update(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    scalars[SCALAR.rows] += 1.0
    scalars[SCALAR.entries] += stop - start
    derivative = derivative_at(z, y, importance, memory)
    if derivative == 0.0:
        return
    scalars[SCALAR.steepest] = max(scalars[SCALAR.steepest], abs(derivative))
    first = parameters[PARAMETER.wealth] * scalars[SCALAR.rows] / max(1.0, scalars[SCALAR.entries])
    for k in range(np.uint64(start), np.uint64(stop)):
        slot = np.uint64(indices[k]) * np.uint64(width)
        x = value_at(values, k)
        g = derivative * x
        if g == 0.0 or abs(x) < SMALLEST:
            continue
        w, total, before = columns[slot + AT.weight], columns[slot + AT.total], columns[slot + AT.wealth]
        # a selection without a branch, which would be mispredicted: whether a feature is new is irregular
        wealth = (before if total != 0.0 else first) - g * w
        wealth = wealth if wealth > 0.0 else first
        theta = columns[slot + AT.theta] - g
        scale = max(columns[slot + AT.scale], abs(x))
        total += abs(g)
        columns[slot + AT.wealth] = wealth
        columns[slot + AT.theta] = theta
        columns[slot + AT.scale] = scale
        columns[slot + AT.total] = total
        bound = scale * scalars[SCALAR.steepest]
        change = theta / (bound + total) * (wealth / bound) - w
        change_weight(slot + AT.weight, slot + AT.lagged, change, memory)


COIN = Learner(
    "coin", "coin betting: no step size to choose", "coin --loss logistic",
    "Orabona, Pal, NIPS 2016; Orabona, Tommasi, NIPS 2017",
    settings=Settings((LOSS, positive("wealth", "wealth that the features of a row bet with at first", 16.0))),
    rule=plain_rule(
        coin_update, COLUMN, scalars=SCALAR, parameters=PARAMETER, initial=lambda settings: {"steepest": 1.0},
    ),
)  # fmt: skip
