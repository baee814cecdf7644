"""Functions that the learners' rules share: the derivative of the loss, step sizes, and the plain memory of a learner
whose weights change only where a row has an entry.

In all of them ``row`` is a ``SparseRow`` and ``memory`` a ``Memory`` (memory.py).
"""

import numpy as np

from blocksvm.kernels import inlined, inlined_views, inlined_with, with_parts
from blocksvm.kernels.loss_functions import derivative
from blocksvm.kernels.prefetch import strided_dot, value_at
from blocksvm.online.learner import Rule
from blocksvm.online.memory import Layout, Memory, layout, parameters, unsigned

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


@inlined_views
def part_of_memory(memory, columns, scalars, loss):
    """The memory of one of several learners, from these positions on, with its own loss."""
    return Memory(
        memory.columns[columns:], memory.width, memory.scalars[scalars:], memory.parameters, loss, memory.scratch
    )


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
    """Whether a scale is to be multiplied in."""
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
def mean_of(weight, lagged, memory):
    """The mean over the rounds of a weight that ``change_weight`` changes."""
    columns, scalars = memory.columns, memory.scalars
    return columns[weight] - columns[lagged] / max(1.0, scalars[ROUNDS])


@inlined
def add_plain(row, factor, memory):
    """``w += factor x``."""
    indices, values, start, stop = row
    width = memory.width
    for k in range(np.uint64(start), np.uint64(stop)):
        place = np.uint64(indices[k]) * np.uint64(width)
        change = factor * value_at(values, k)
        change_weight(place + AT.weight, place + AT.lagged, change, memory)


@inlined
def plain_score(row, memory):
    """<w, x>; the weight is the first number of a feature."""
    return dot(row, memory)


@inlined
def plain_current(j, memory):
    columns, width = memory.columns, memory.width
    return columns[j * width]


@inlined
def plain_mean(j, memory):
    place = j * memory.width
    return mean_of(place, place + LAGGED, memory)


def plain_rule(update, columns: Layout = COLUMN, **more) -> Rule:
    """The rule of a learner whose weights are the first number of each feature and change by ``change_weight``."""
    mean = plain_mean
    if columns.lagged != LAGGED:
        mean = inlined_with(plain_mean, f"mean_of_{update.__name__}", LAGGED=columns.lagged)
    return Rule(plain_score, update, plain_current, mean, columns, **more)


# placeholders, which ``lazy`` replaces
SUM = 0  # the position of the sum of w_j over the rounds with which feature j is up to date


def idle(place, memory):
    """(w_j, its sum over the rounds since feature j was up to date); place: of its numbers, unsigned."""
    raise NotImplementedError


def current(j, memory):
    w, _ = idle(np.uint64(j) * np.uint64(memory.width), memory)
    return w


def mean(j, memory):
    place = np.uint64(j) * np.uint64(memory.width)
    _, total = idle(place, memory)
    return (memory.columns[place + np.uint64(SUM)] + total) / max(1.0, memory.scalars[ROUNDS])


def lazy(name: str, idle, column: Layout) -> dict:
    """``current`` and ``mean`` of a learner that brings a feature up to date only before a row that has it."""
    return with_parts(name, {"idle": idle, "SUM": column.sum}, current, mean)
