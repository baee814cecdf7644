"""Kernels of a replay: losses of scores, norms of rows, and what a learner's rounds do to its weights.

The learner itself runs here, by its own functions; of the weights w_t before round t, t = 1, 2, ..., there is read what
bounds need: of all features that have occurred (``read_all``), or their norm, which the learner keeps (``read_norms``).
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss_functions import conjugate, derivative, direction, step, value
from blocksvm.online.memory import SparseRow
from blocksvm.online.rule_parts import dot as score
from blocksvm.online.rule_parts import plain_current as current
from blocksvm.online.rules.perceptron import perceptron_update as update
from blocksvm.online.rules.sparse import COLUMN, PARAMETER, height_at

# Numbers of a round in ``read_all``, for fixed weights u: sum_j weights_j |w_t,j|, ||w_t - w_t+1||^2, ||w_t - u||^2 -
# ||w_t+1 - u||^2, sum h_j |w_t+1,j|, sum h_j |u_j| and ||h||^2 with the heights h of the round.
LENGTH, MOVED, NEARER, OF_W, OF_U, OF_HEIGHTS = range(6)
OF_ROUND = 6


@kernel
def losses_of(z, y, width, loss, losses, slopes):
    """``losses[t], slopes[t]`` = the loss of score z[t] at label y[t], and its derivative that the learners follow.

    With a width above 0 those of max over a of -conjugate(a) - a direction z - width a^2 / 2, which has no kinks, lies
    below the loss and nears it as width falls; the coordinate step is the maximiser.
    """
    for t in range(z.shape[0]):
        if width > 0.0:
            a, along = step(loss, 0.0, z[t], width, y[t], 1.0), direction(loss, y[t])
            losses[t] = -conjugate(loss, a, y[t], 1.0) - a * along * z[t] - 0.5 * width * a * a
            slopes[t] = -a * along
        else:
            losses[t], slopes[t] = value(loss, z[t], y[t], 1.0), derivative(loss, z[t], y[t], 1.0)


@kernel
def sum_of_conjugates(s, y, loss):
    """At slopes s that the loss has."""
    total = 0.0
    for t in range(s.shape[0]):
        total += conjugate(loss, -s[t] * direction(loss, y[t]), y[t], 1.0)
    return total


# in the loops below score, update and current are placeholders, and the height h_j of a learner's regulariser is, too


@inlined
def height(j, memory):
    return 1.0


@inlined
def height_of_powers(j, memory):
    """h_j of HF-FOBOS."""
    total, parameters = memory.columns[j * memory.width + COLUMN.powers], memory.parameters
    return height_at(total, parameters[PARAMETER.p], parameters[PARAMETER.cap])


def read_norms(indptr, indices, values, y, order, first, norm, memory, norms):
    """first: rounds before these rows; norm: the scalar that is ||w||^2; norms (T,): output of ||w_t||^2."""
    for r in range(order.shape[0]):
        i = order[r]
        norms[first + r] = memory.scalars[norm]
        row = SparseRow(indices, values, indptr[i], indptr[i + 1])
        update(row, float(y[i]), score(row, memory), 1.0, memory)


def heights_after(memory, out):
    """The heights h (d,) after the rounds so far."""
    for j in range(out.shape[0]):
        out[j] = height(j, memory)


def read_all(indptr, indices, values, y, order, first, memory, u, weights, w, touched, seen, count, low, high, out):
    """u, weights (d,); w, low, high (d,): the weights and their range; touched (d,) int32 with count[0] features that
    have occurred, seen (d,) uint8; out (OF_ROUND, T)."""
    n = count[0]
    for r in range(order.shape[0]):
        i, t = order[r], first + r
        row = SparseRow(indices, values, indptr[i], indptr[i + 1])
        update(row, float(y[i]), score(row, memory), 1.0, memory)
        for k in range(row.start, row.stop):
            if seen[indices[k]] == 0:
                seen[indices[k]] = 1
                touched[n] = indices[k]
                n += 1
        score(SparseRow(touched, None, 0, n), memory)  # brings them up to date
        length = moved = nearer = of_w = of_u = of_heights = 0.0
        for a in range(n):
            j = touched[a]
            before, after, h = w[j], current(j, memory), height(j, memory)
            change = before - after
            length += weights[j] * abs(before)
            moved += change * change
            nearer += change * (before + after - 2.0 * u[j])
            of_w += h * abs(after)
            of_u += h * abs(u[j])
            of_heights += h * h
            w[j], low[j], high[j] = after, min(low[j], after), max(high[j], after)
        out[LENGTH, t], out[MOVED, t], out[NEARER, t] = length, moved, nearer
        out[OF_W, t], out[OF_U, t], out[OF_HEIGHTS, t] = of_w, of_u, of_heights
    count[0] = n


@kernel
def row_digests(indptr, indices, value_bits, out):
    """``out[i]``, equal for rows with equal features and values, and for others hardly ever: 64 bits, mixed as in
    splitmix64 (Steele, Lea, Flood, OOPSLA 2014).  value_bits (nnz,) unsigned, or (0,) where every value is 1."""
    for i in range(len(indptr) - 1):
        digest = np.uint64(indptr[i + 1] - indptr[i])
        for k in range(indptr[i], indptr[i + 1]):
            digest = (digest ^ np.uint64(indices[k])) * np.uint64(0x9E3779B97F4A7C15)
            digest ^= digest >> np.uint64(29)
            if len(value_bits) > 0:
                digest = (digest ^ np.uint64(value_bits[k])) * np.uint64(0xBF58476D1CE4E5B9)
                digest ^= digest >> np.uint64(32)
        out[i] = digest
