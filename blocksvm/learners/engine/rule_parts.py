"""What the learners' functions over a row share: losses with their derivatives, step sizes, and the plain memory of a
learner whose weights change only where a row has an entry.

In all of them: indices, values, start, stop: the row; columns (features * width,) float64: ``width`` numbers a feature,
side by side, so that a feature costs one cache line; scalars: numbers that all features share, ``rounds`` (rows learned
from) first; parameters: the settings as numbers.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.prefetch import strided_dot, value_at
from blocksvm.learners.engine.layout import layout, parameters, unsigned
from blocksvm.learners.engine.learner import LOSS_NAMES

# what every learner has at the same position
ROUNDS = 0
PARAMETER = parameters()

# the plain memory: w, and where an average is wanted what it lags behind by
COLUMN = layout("weight", averaging=("lagged",))
AT = unsigned(COLUMN)

# A scale that all weights share is multiplied in when it falls below the first of these; where averages are wanted below
# the second, since they are differences of numbers that are 1 / scale times as large.
SMALLEST_SCALE, SMALLEST_AVERAGED = 1.0e-9, 1.0e-4

HINGE, PERCEPTRON, SQUARED_HINGE, LOGISTIC, SQUARED, EPSILON_INSENSITIVE, ABSOLUTE = range(len(LOSS_NAMES))


@inlined
def loss_at(kind, z, y, epsilon):
    """(loss, derivative with respect to the score z) for a label y of +-1, or, of the last three
    losses, a number; both nan where z is.

    At the kinks: hinge has derivative 0 at m = 1, the perceptron's loss has -y at m = 0.
    """
    m = y * z
    if kind == HINGE:
        return (0.0, 0.0) if m >= 1.0 else (1.0 - m, -y)
    if kind == PERCEPTRON:
        return (0.0, 0.0) if m > 0.0 else (-m, -y)
    if kind == SQUARED_HINGE:
        if m >= 1.0:
            return 0.0, 0.0
        gap = 1.0 - m
        return gap * gap, -2.0 * y * gap
    if kind == LOGISTIC:
        # log(1 + e^-m), without overflow
        if m > 0.0:
            e = np.exp(-m)
            return np.log1p(e), -y * e / (1.0 + e)
        e = np.exp(m)
        return np.log1p(e) - m, -y / (1.0 + e)
    if kind == SQUARED:
        return 0.5 * (z - y) * (z - y), z - y
    distance = abs(z - y)
    width = epsilon if kind == EPSILON_INSENSITIVE else 0.0
    if distance <= width:
        return 0.0, 0.0
    return distance - width, 1.0 if z > y else -1.0


@inlined
def derivative_at(z, y, importance, parameters):
    """Of the loss that the learner follows, times the row's importance, with respect to the score."""
    _, derivative = loss_at(parameters[PARAMETER.loss], z, y, parameters[PARAMETER.epsilon])
    return importance * derivative


@inlined
def eta_at(t, parameters):
    """Step of round t: constant, or falling with 1 / sqrt(t)."""
    step = parameters[PARAMETER.step]
    return step / np.sqrt(t) if parameters[PARAMETER.decay] != 0.0 else step


@inlined
def averages(parameters):
    """Whether the mean of the weights is wanted, and the columns for it are there."""
    return parameters[PARAMETER.average] != 0.0


@inlined
def sum_of_squared_values(values, start, stop):
    """||x||^2 of a row."""
    total = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        v = value_at(values, k)
        total += v * v
    return total


@inlined
def is_small(scale, parameters):
    """Whether it is time to multiply a scale in."""
    return scale < (SMALLEST_AVERAGED if averages(parameters) else SMALLEST_SCALE)


@inlined
def soft(v, threshold):
    """sign(v) max(0, |v| - threshold), without a branch: signs cannot be foretold"""
    return np.copysign(max(abs(v) - threshold, 0.0), v) + 0.0  # of -0 it makes 0


@inlined
def change_weight(weight, lagged, change, columns, scalars, parameters):
    """``w_j += change`` in the round under way, for the weight at position ``weight`` of columns.

    Averages need no sweep over all weights: a change in round t is in the weights after rounds t, t + 1, ... T, so that
    sum_t w_{t+1} = T w_{T+1} - sum_t (t - 1) change_t; the number at ``lagged`` is that second sum.
    """
    columns[weight] += change
    if averages(parameters):
        columns[lagged] += (scalars[ROUNDS] - 1.0) * change


@inlined
def mean_of(weight, lagged, columns, scalars):
    """Mean over the rounds of a weight that ``change_weight`` has changed."""
    return columns[weight] - columns[lagged] / max(1.0, scalars[ROUNDS])


@inlined
def add_plain(indices, values, start, stop, factor, columns, width, scalars, parameters):
    """``w += factor x``."""
    for k in range(np.uint64(start), np.uint64(stop)):
        place = np.uint64(indices[k]) * np.uint64(width)
        change = factor * value_at(values, k)
        change_weight(place + AT.weight, place + AT.lagged, change, columns, scalars, parameters)


@inlined
def plain_score(indices, values, start, stop, columns, width, scalars, parameters):
    """<w, x>, the weight being the first number of a feature."""
    return strided_dot(indices, values, start, stop, columns, width)


@inlined
def plain_current(j, columns, width, scalars, parameters):
    return columns[j * width]


@inlined
def plain_mean(j, columns, width, scalars, parameters):
    return mean_of(j * width + COLUMN.weight, j * width + COLUMN.lagged, columns, scalars)
