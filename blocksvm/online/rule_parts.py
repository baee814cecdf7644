"""Functions that the learners' rules share: the derivative of the loss, step sizes, and the plain memory of a learner
whose weights change only where a row has an entry.

In all of them ``row`` is a ``SparseRow`` and ``memory`` a ``Memory`` (memory.py).
"""

import numpy as np

from blocksvm.kernels import inlined, inlined_with, with_parts
from blocksvm.kernels.loss_functions import derivative
from blocksvm.kernels.rows import strided_dot, value_at
from blocksvm.online.learner import BIAS, PRIOR, WEIGHTS, Rule
from blocksvm.online.memory import Layout, layout, parameters, unsigned

# what learners take whose weights move in rounds that do not have their feature, too, so that a mean costs a sweep
LAST_ALONE = (WEIGHTS, PRIOR, BIAS)
# positions that all learners share
ROUNDS = 0
PARAMETER = parameters()

# the plain memory: w and, where an average is wanted, its lazy sum (``change_weight``)
COLUMN = layout("weight", averaging=("lagged",))
AT = unsigned(COLUMN)
LAGGED = COLUMN.lagged  # ``plain_rule`` makes ``plain_mean`` for layouts that have it elsewhere

# A scale that all weights share is multiplied in when it falls below the first of these; with averages, which are
# differences of numbers 1 / scale times as large, below the second.
SMALLEST_SCALE, SMALLEST_AVERAGED = 1.0e-9, 1.0e-4


@inlined
def dot(row, memory):
    """<v, x>; v is the first number of each feature."""
    return strided_dot(row.indices, row.values, row.start, row.stop, memory.columns, memory.width)


@inlined
def derivative_at(z, y, importance, memory):
    """The derivative of the loss with respect to the score, times the row's importance."""
    return importance * derivative(memory.loss, z, y, 1.0)


@inlined
def eta_at(t, parameters):
    """The step size of round t: constant, or proportional to 1 / sqrt(t)."""
    step = parameters[PARAMETER.step]
    return step / np.sqrt(t) if parameters[PARAMETER.decay] != 0.0 else step


@inlined
def averages(parameters):
    """Whether the mean of the weights is wanted; the columns for it are present then."""
    return parameters[PARAMETER.average] != 0.0


@inlined
def sum_of_squares(row):
    """||x||^2."""
    values, start, stop = row.values, row.start, row.stop
    total = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        v = value_at(values, k)
        total += v * v
    return total


@inlined
def is_small(scale, parameters):
    return scale < (SMALLEST_AVERAGED if averages(parameters) else SMALLEST_SCALE)


@inlined
def soft(v, threshold):
    """sign(v) max(0, |v| - threshold), without a branch, which would be mispredicted."""
    return np.copysign(max(abs(v) - threshold, 0.0), v) + 0.0  # turns -0 into 0


@inlined
def change_weight(weight, lagged, change, memory):
    """``w_j += change`` in the current round, for the weight at position ``weight`` of columns.

    The average needs no sweep over all weights: a change in round t is in the weights after rounds t, ..., T, so that
    sum_t w_{t+1} = T w_{T+1} - sum_t (t - 1) change_t.  The number at ``lagged`` is the second sum.
    """
    columns, scalars, parameters = memory.columns, memory.scalars, memory.parameters
    columns[weight] += change
    if averages(parameters):
        columns[lagged] += (scalars[ROUNDS] - 1.0) * change


@inlined
def add_plain(row, factor, memory):
    """``w += factor x``."""
    indices, values, start, stop = row
    width = memory.width
    for k in range(np.uint64(start), np.uint64(stop)):
        slot = np.uint64(indices[k]) * np.uint64(width)
        change = factor * value_at(values, k)
        change_weight(slot + AT.weight, slot + AT.lagged, change, memory)


@inlined
def plain_current(j, memory):
    return memory.columns[j * memory.width]


@inlined
def plain_mean(j, memory):
    columns, slot = memory.columns, j * memory.width
    return columns[slot] - columns[slot + LAGGED] / max(1.0, memory.scalars[ROUNDS])


def plain_rule(update, columns: Layout = COLUMN, **more) -> Rule:
    """The rule of a learner whose weights are the first number of each feature and change by ``change_weight``."""
    mean = plain_mean
    if columns.lagged != LAGGED:
        mean = inlined_with(plain_mean, f"mean_of_{update.__name__}", LAGGED=columns.lagged)
    return Rule(dot, update, plain_current, mean, columns, **more)


# placeholders, which ``lazy`` replaces: idle(slot, memory) -> (w_j, its sum over the rounds since feature j was up to
# date), slot: of its numbers, unsigned; moved(slot, g, eta, memory) -> w_j after a step against the derivative g by it,
# of a feature that is up to date; positions of the sum of w_j over the rounds, and of the round with which it is
idle = moved = plain_current
SUM, ROUND = 0, 0
L1 = parameters("l1").l1  # of those that use ``score``


def score(row, memory):
    """<w, x>, once the row's features are up to date."""
    indices, values, start, stop = row
    columns, width, parameters = memory.columns, memory.width, memory.parameters
    if parameters[L1] == 0.0 and not averages(parameters):  # idle rounds change nothing
        return dot(row, memory)
    now = memory.scalars[ROUNDS]
    z = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        slot = np.uint64(indices[k]) * np.uint64(width)
        w, total = idle(slot, memory)
        columns[slot] = w
        columns[slot + np.uint64(ROUND)] = now
        if averages(parameters):
            columns[slot + np.uint64(SUM)] += total
        z += value_at(values, k) * w
    return z


def update(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[ROUNDS] += 1.0
    derivative = derivative_at(z, y, importance, memory)
    if derivative == 0.0:
        return
    now = scalars[ROUNDS]
    eta = eta_at(now, parameters)
    for k in range(np.uint64(start), np.uint64(stop)):
        slot = np.uint64(indices[k]) * np.uint64(width)
        w = moved(slot, derivative * value_at(values, k), eta, memory)
        columns[slot] = w
        columns[slot + np.uint64(ROUND)] = now
        if averages(parameters):
            columns[slot + np.uint64(SUM)] += w


def current(j, memory):
    w, _ = idle(np.uint64(j) * np.uint64(memory.width), memory)
    return w


def mean(j, memory):
    slot = np.uint64(j) * np.uint64(memory.width)
    _, total = idle(slot, memory)
    return (memory.columns[slot + np.uint64(SUM)] + total) / max(1.0, memory.scalars[ROUNDS])


def lazy(name: str, idle, column: Layout, moved=None) -> dict:
    """``current`` and ``mean`` of a learner that brings a feature up to date only before a row that has it; with
    ``moved`` its ``score`` and ``update``, too, of a layout whose first number is the weight."""
    parts = {"idle": idle, "moved": moved, "ROUND": column.round, "SUM": column.sum}
    return with_parts(name, parts, *((score, update) if moved else ()), current, mean)
