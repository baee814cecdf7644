"""Extrapolation along the direction in which the last passes have moved the dual variables.

Where rows are nearly alike, D rises for hundreds of passes along directions in which it is almost flat: each pass moves
a by next to nothing, and by the same amount as the pass before.  A step theta along what the last passes have done,

    a'_i = feasible(a_i + theta m_i),      m_i = a_i - (a_i some passes ago) of the rows between their bounds,

makes hundreds of such passes at once.  Without bounds in its way D(a') = D(a) + theta slope - theta^2 curvature / 2 is
largest at theta = slope / curvature; with the projection onto the bounds theta is halved until D has risen by enough
(Armijo's rule along the projection arc: Bertsekas, IEEE Transactions on Automatic Control 21, 1976).
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.loss_placeholders import conjugate, direction, feasible, row_cost, stationarity
from blocksvm.kernels.prefetch import ROW_AHEAD, add_row, dot, prefetch_row

FARTHEST = 1.0e4  # times what the passes have moved
HALVINGS = 6
ENOUGH = 0.1  # of what the gradient predicts for the step that is left within the bounds


@inlined
def ask_ahead(indptr, indices, values, members, t, count):
    """Ask for the memory of a row that follows the t-th of ``count``."""
    if t + ROW_AHEAD < count:
        prefetch_row(indptr, indices, values, members[t + ROW_AHEAD])


def extrapolate(rows, members, objective, w, alpha, moved, scores):
    """A step of the rows ``members`` (m,) int32 along what the last passes have done to them.

    moved (n,) float64: alpha as it was before these passes; the step's direction is left in it; scores (n,) float64 is
    written over; w (d + 1,) and alpha (n,) float64 are updated; the other arguments are those of ``dual_cd_pass``.  The
    conjugates must be quadratic (``Loss.quadratic``).

    Returns (theta, nonzeros in whole passes, change of sum_i conjugate_i, increase of D); theta = 0 where nothing was
    gained: alpha is then as it was, and w but for rounding.
    """
    indptr, indices, values, y, weights, _ = rows
    bias, cost, p = objective
    d = w.shape[0] - 1
    m = members.shape[0]
    slope = curvature = 0.0
    n_members = nonzeros = 0
    for t in range(m):
        i = members[t]
        c = row_cost(cost, weights, y, i)
        if c == 0.0:
            continue
        target = float(y[i])
        a = alpha[i]
        move = a - moved[i]
        low = feasible(-np.inf, target, c, p)
        high = feasible(np.inf, target, c, p)
        if move == 0.0 or a == low or a == high:
            continue
        z = dot(indices, values, indptr[i], indptr[i + 1], w) + bias * w[d]
        scores[i] = z
        projected, _ = stationarity(a, z, target, c, p)
        slope -= projected * move
        # the conjugate's second derivative is the same everywhere between the bounds
        s = 0.5 * (high - low) if high < np.inf else 1.0
        second = (conjugate(low + 2.0 * s, target, c, p) + conjugate(low, target, c, p)) - 2.0 * conjugate(
            low + s, target, c, p
        )
        curvature += max(second, 0.0) / (s * s) * move * move
        moved[i] = move
        members[n_members], members[t] = i, members[n_members]
        n_members += 1
        nonzeros += indptr[i + 1] - indptr[i]
    if not slope > 0.0:
        return 0.0, nonzeros // 2, 0.0, 0.0
    for t in range(n_members):
        i = members[t]
        ask_ahead(indptr, indices, values, members, t, n_members)
        move = moved[i] * direction(float(y[i]), p)
        add_row(indices, values, indptr[i], indptr[i + 1], move, w)
        w[d] += move * bias
    for t in range(n_members):
        i = members[t]
        ask_ahead(indptr, indices, values, members, t, n_members)
        z = dot(indices, values, indptr[i], indptr[i + 1], w) + bias * w[d]
        curvature += moved[i] * direction(float(y[i]), p) * (z - scores[i])
    passes = 3  # half ones
    theta = min(slope / curvature, FARTHEST) if curvature > 0.0 else FARTHEST
    change = gain = 0.0
    before = 1.0  # how far along the direction w is, at first without regard to the bounds
    bounded = False
    for halving in range(HALVINGS + 1):
        if halving == HALVINGS:
            theta = 0.0
        for t in range(n_members):
            i = members[t]
            ask_ahead(indptr, indices, values, members, t, n_members)
            target = float(y[i])
            c = row_cost(cost, weights, y, i)
            new = feasible(alpha[i] + theta * moved[i], target, c, p)
            now = alpha[i] + before * moved[i]
            if bounded:
                now = feasible(now, target, c, p)
            move = (new - now) * direction(target, p)
            add_row(indices, values, indptr[i], indptr[i + 1], move, w)
            w[d] += move * bias
        passes += 1
        if theta == 0.0:
            break
        change = gain = predicted = 0.0
        for t in range(n_members):
            i = members[t]
            ask_ahead(indptr, indices, values, members, t, n_members)
            target = float(y[i])
            c = row_cost(cost, weights, y, i)
            new = feasible(alpha[i] + theta * moved[i], target, c, p)
            projected, _ = stationarity(alpha[i], scores[i], target, c, p)
            predicted -= projected * (new - alpha[i])
            more = conjugate(new, target, c, p) - conjugate(alpha[i], target, c, p)
            z = dot(indices, values, indptr[i], indptr[i + 1], w) + bias * w[d]
            change += more
            gain -= more + (new - alpha[i]) * direction(target, p) * 0.5 * (scores[i] + z)
        passes += 1
        if gain > 0.0 and gain >= ENOUGH * predicted:
            break
        before = theta
        bounded = True
        theta *= 0.5
    if theta == 0.0:
        return 0.0, nonzeros * passes // 2, 0.0, 0.0
    for t in range(n_members):
        i = members[t]
        alpha[i] = feasible(alpha[i] + theta * moved[i], float(y[i]), row_cost(cost, weights, y, i), p)
    return theta, nonzeros * passes // 2, change, gain
