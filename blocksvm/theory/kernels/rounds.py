"""Kernels of a replay: losses of scores, norms of rows, and what a learner's rounds do to its weights.

The learner itself runs here, by its own functions; of the weights w_t before round t, t = 1, 2, ..., there are read

    from the features of each round's row (``read_touched``, ``settle``): sums of |w_t,j| over the rounds, by its weight
        before and after each touch and by its mean, which the learner has of the rounds in between, too: there a weight
        only shrinks, and keeps its sign
    from all features that have occurred (``read_all``): what needs whole weights in each round
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss_functions import conjugate, derivative, direction, step, value
from blocksvm.kernels.rows import value_at
from blocksvm.online.memory import SparseRow
from blocksvm.online.rules.sparse import COLUMN
from blocksvm.online.rules.sparse import height as height_of

# Numbers of a feature in ``read_touched``: the round of the last touch, |w| and the sum of w after it; sums over the
# rounds of |w_t|, h_t |w_t| and h_t; the range of w.
SINCE, LAST, TOTAL, SUM, VARYING, HEIGHTS, LOW, HIGH = range(8)
READ = 8
# Numbers of a round in ``read_all``, for fixed weights u: ||w_t||_1, ||w_t - w_t+1||^2, ||w_t - u||^2 - ||w_t+1 -
# u||^2, sum h_j |w_t+1,j|, sum h_j |u_j| and ||h||^2 with the heights h of the round.
LENGTH, MOVED, NEARER, OF_W, OF_U, OF_HEIGHTS = range(6)
OF_ROUND = 6


@kernel
def losses_of(z, y, width, loss, losses, slopes):
    """``losses[t], slopes[t]`` = the loss of score z[t] at label y[t], and its derivative that the learners follow.

    With a width above 0 those of max over a of -conjugate(a) - a direction z - width a^2 / 2, which has no kinks, lies
    below the loss and nears it as width falls; the coordinate step is the maximiser."""
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


@kernel
def row_p_norms(indptr, indices, values, order, p, out):
    """``out[r]`` = ||x||_p of row order[r], p = inf for the largest entry; scaled by it, so that no power overflows."""
    for r in range(order.shape[0]):
        start, stop = indptr[order[r]], indptr[order[r] + 1]
        largest = 0.0
        for k in range(start, stop):
            largest = max(largest, abs(float(value_at(values, k))))
        if largest == 0.0 or p == np.inf:
            out[r] = largest
            continue
        total = 0.0
        for k in range(start, stop):
            total += (abs(float(value_at(values, k))) / largest) ** p
        out[r] = largest * total ** (1.0 / p)


# placeholders for a learner's functions, and the height h_j of its regulariser


def score(row, memory):
    raise NotImplementedError


def update(row, y, z, importance, memory):
    raise NotImplementedError


def current(j, memory):
    raise NotImplementedError


def mean(j, memory):
    raise NotImplementedError


@inlined
def height(j, memory):
    return 1.0


@inlined
def height_of_powers(j, memory):
    """h_j of HF-FOBOS."""
    return height_of(memory.columns[j * memory.width + COLUMN.powers], memory.parameters)


@inlined
def sum_since(j, w, total, read):
    """The sum of |w_j| over the rounds after the last touch but this one; w: |w_j| now, total: the sum of w_j."""
    return read[j, LAST] + abs(total - read[j, TOTAL]) - w


def read_touched(indptr, indices, values, y, order, first, norm, memory, read, norms):
    """first: rounds before these rows; norm: the scalar that is ||w||^2, or -1; read (d, READ); norms (T,): output of
    ||w_t||^2."""
    rounds = memory.scalars
    for r in range(order.shape[0]):
        i, t = order[r], first + r + 1.0
        row = SparseRow(indices, values, indptr[i], indptr[i + 1])
        norms[first + r] = rounds[norm] if norm >= 0 else 0.0
        z = score(row, memory)
        for k in range(row.start, row.stop):
            j = indices[k]
            w, h = abs(current(j, memory)), height(j, memory)
            idle = sum_since(j, w, rounds[0] * mean(j, memory), read)
            read[j, SUM] += idle + w
            read[j, VARYING] += h * idle
            read[j, HEIGHTS] += h * (t - 1.0 - read[j, SINCE])
            read[j, LAST] = w
        update(row, float(y[i]), z, 1.0, memory)
        for k in range(row.start, row.stop):
            j = indices[k]
            w, h = current(j, memory), height(j, memory)  # the round's own height has its gradient in it
            read[j, VARYING] += h * read[j, LAST]
            read[j, HEIGHTS] += h
            read[j, SINCE], read[j, LAST], read[j, TOTAL] = t, abs(w), rounds[0] * mean(j, memory)
            read[j, LOW], read[j, HIGH] = min(read[j, LOW], w), max(read[j, HIGH], w)


def heights_after(memory, out):
    """The heights h (d,) after the rounds so far."""
    for j in range(out.shape[0]):
        out[j] = height(j, memory)


def settle(t, memory, read, weights, sums):
    """(sum over the rounds up to t of sum_j weights_j |w_j|, the same with the heights h of each round); sums (d,):
    output of the sums of h."""
    total = varying = 0.0
    for j in range(read.shape[0]):
        h = height(j, memory)
        rest = sum_since(j, abs(current(j, memory)), memory.scalars[0] * mean(j, memory), read)
        total += weights[j] * (read[j, SUM] + rest)
        varying += read[j, VARYING] + h * rest
        sums[j] = read[j, HEIGHTS] + h * (t - read[j, SINCE])
    return total, varying


@inlined
def touch(j, seen, touched, n):
    """The number of features that have occurred, with j; a new j is appended to the ``n`` of ``touched``."""
    if seen[j] == 0:
        seen[j] = 1
        touched[n] = j
        return n + 1
    return n


def read_all(indptr, indices, values, y, order, first, memory, u, w, touched, seen, count, low, high, out):
    """u (d,); w, low, high (d,): the weights and their range; touched (d,) int32 with count[0] features that have
    occurred, seen (d,) uint8; out (OF_ROUND, T)."""
    n = count[0]
    for r in range(order.shape[0]):
        i, t = order[r], first + r
        row = SparseRow(indices, values, indptr[i], indptr[i + 1])
        update(row, float(y[i]), score(row, memory), 1.0, memory)
        for k in range(row.start, row.stop):
            n = touch(indices[k], seen, touched, n)
        score(SparseRow(touched, None, 0, n), memory)  # brings them up to date
        length = moved = nearer = of_w = of_u = of_heights = 0.0
        for a in range(n):
            j = touched[a]
            before, after, h = w[j], current(j, memory), height(j, memory)
            change = before - after
            length += abs(before)
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
