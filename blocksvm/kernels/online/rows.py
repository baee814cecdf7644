"""What the learners share: losses with their derivatives, step sizes, products and additions over strided weights, and
the plain memory of a learner whose weights change only where a row has an entry.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import strided_dot, value_at

T = 0  # of S: rounds done

# of P, for all learners; a learner's own settings begin at OWN
AVERAGE, LOSS, EPSILON, STEP, DECAY, OWN = 0, 1, 2, 3, 4, 5

# A scale that all weights share is multiplied in when it falls below the first of these; where averages are wanted below
# the second, since they are differences of numbers that are 1 / scale times as large.
SMALLEST_SCALE, SMALLEST_AVERAGED = 1.0e-9, 1.0e-4

HINGE, PERCEPTRON, SQUARED_HINGE, LOGISTIC, SQUARED, EPSILON_INSENSITIVE = 0, 1, 2, 3, 4, 5


@inlined
def loss_at(kind, z, y, epsilon):
    """(loss, derivative with respect to the score z) for a label y of +-1.

    At the kinks: hinge has derivative 0 at m = 1, the perceptron's loss has -y at m = 0.
    """
    m = y * z
    if kind == HINGE:
        return (1.0 - m, -y) if m < 1.0 else (0.0, 0.0)
    if kind == PERCEPTRON:
        return (-m, -y) if m <= 0.0 else (0.0, 0.0)
    if kind == SQUARED_HINGE:
        gap = max(0.0, 1.0 - m)
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
    if distance > epsilon:
        return distance - epsilon, 1.0 if z > y else -1.0
    return 0.0, 0.0


@inlined
def derivative_at(z, y, P):
    """Of the loss in P, with respect to the score."""
    _, derivative = loss_at(P[LOSS], z, y, P[EPSILON])
    return derivative


@inlined
def eta_at(t, P):
    """Step of round t: constant, or falling with 1 / sqrt(t)."""
    return P[STEP] / np.sqrt(t) if P[DECAY] != 0.0 else P[STEP]


@inlined
def sum_of_squared_values(values, start, stop):
    """||x||^2 of a row."""
    total = 0.0
    for k in range(start, stop):
        v = value_at(values, k)
        total += v * v
    return total


@inlined
def is_small(scale, P):
    """Whether it is time to multiply a scale in."""
    return scale < (SMALLEST_AVERAGED if P[AVERAGE] != 0.0 else SMALLEST_SCALE)


@inlined
def plain_score(indices, values, start, stop, F, W, S, P):
    return strided_dot(indices, values, start, stop, F, W)


@inlined
def add_to_weight(place, change, F, W, S, P):
    """``w_j += change`` in round S[T], for the weight at ``place`` = W j.

    Averages need no sweep over all weights: a change in round t is in the weights after rounds t, t + 1, ... T, so that
    sum_t w_{t+1} = T w_{T+1} - sum_t (t - 1) change_t; the last number of a feature is that second sum.
    """
    F[place] += change
    if P[AVERAGE] != 0.0:
        F[place + W - 1] += (S[T] - 1.0) * change


@inlined
def add_plain(indices, values, start, stop, factor, F, W, S, P):
    """``w += factor x``."""
    for k in range(start, stop):
        add_to_weight(np.int64(indices[k]) * W, factor * value_at(values, k), F, W, S, P)


@inlined
def plain_current(j, F, W, S, P):
    return F[j * W]


@inlined
def plain_mean(j, F, W, S, P):
    return F[j * W] - F[j * W + W - 1] / max(1.0, S[T])
