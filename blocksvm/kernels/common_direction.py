"""A direction of the dual that the rows of a visit have in common, along which D is kept at its maximum.

Where rows are alike (all have the constant feature, or the same frequent words), each step of coordinate descent moves
the scores of all others by about the same, and rows take a pass to undo what others did to them together.  So a step
tau along

    a_i + tau t_i,  t_i = s_i direction_i,      w + tau c,  c = sum_i s_i x_i,      s_i >= 0

is made with every row's own (deflation: Nicolaides, SIAM Journal on Numerical Analysis 24, 1987; a coarse space of one
dimension: Xu, SIAM Review 34, 1992).  With H = ||c||^2 + sum s_i^2 conjugate_i'' the best one after a move m of
a_i direction_i is -m <x_i, c> / H, and the curvature that the row meets is ||x_i||^2 - <x_i, c>^2 / H.  s_i is how far
a_i may go up and down at least, so that all t_i are possible at first.  The rows' own a_i follow when the
pass is over (``follow``); a row that meets its bound then leaves the direction.  What a pass leaves out, how far a_i
itself has gone along the direction, the steps after it bring in.

Each conjugate must be one quadratic polynomial (``Loss.quadratic``): then its differences over +-s_i are exact.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss import conjugate, direction, feasible, row_cost
from blocksvm.kernels.margins import sum_of_products
from blocksvm.kernels.memory import add_row, dot, value_at

# Entries of ``along`` (float64): H, or 0 where there is no direction; tau of the pass, or of a step after it; <w, c>
# and ||c||^2, and that at first; what w has still to gain of c; <x, c> of the constant feature alone; how many features
# its rows have; 0 before a choice, then 1 where there is a direction, else -1.
CURVATURE, TAU, INNER, SQUARE, AT_FIRST, GONE, CONSTANT, SUPPORT, CHOSEN, LENGTH = range(10)

# Features are numbered by falling frequency, and what rows have in common is frequent: passes look at so many of c's
# entries, which stay in the second-level cache.  What they miss by that the steps after the pass bring in.
MOST_FREQUENT = 16_384

LEAST_LEFT = 0.1  # of a row's curvature is never taken for less
LEAST_SQUARE = 1e-6  # of ||c||^2 at first: where rows have left less, their going leaves too much of rounding in it


@inlined
def two_dots(indices, values, start, stop, w, frequent):
    """(<w, x>, <c, x> of c's frequent features), each in two partial sums.

    The last entry of ``frequent`` is 0: it stands for all other features.
    """
    k = np.uint64(start)
    end = np.uint64(stop)
    one = np.uint64(1)
    others = np.uint64(frequent.shape[0] - 1)
    z0 = 0.0
    z1 = 0.0
    g0 = 0.0
    g1 = 0.0
    while k + one < end:
        i = np.uint64(indices[k])
        j = np.uint64(indices[k + one])
        u = value_at(values, k)
        v = value_at(values, k + one)
        z0 += u * w[i]
        z1 += v * w[j]
        g0 += u * frequent[min(i, others)]
        g1 += v * frequent[min(j, others)]
        k += np.uint64(2)
    if k < end:
        i = np.uint64(indices[k])
        u = value_at(values, k)
        z0 += u * w[i]
        g0 += u * frequent[min(i, others)]
    return z0 + z1, g0 + g1


@kernel
def look_again(w, common, support, along):
    """<w, c> as it is, into ``along``."""
    s0 = 0.0
    s1 = 0.0
    n = int(along[SUPPORT])
    for k in range(0, n - 1, 2):
        i = np.uint32(support[k])
        j = np.uint32(support[k + 1])
        s0 += w[i] * common[i]
        s1 += w[j] * common[j]
    if n % 2:
        i = np.uint32(support[n - 1])
        s0 += w[i] * common[i]
    along[INNER] = s0 + s1 + w[w.shape[0] - 1] * common[common.shape[0] - 1]


def choose_direction(indptr, indices, values, y, weights, sq_norms, order, every, bias, cost, p, w, alpha, room, common,
                     support, along):  # fmt: skip
    """The direction of the rows in ``order`` (m,) int32, of each ``every``-th of them.

    room (n,) and common (m + 1,) float64, both zeros, become s and c, of which the rows' m features and the constant one
    are kept; support (m,) int32: which features its rows have; along (LENGTH,) float64; the other arguments are those
    of ``dual_cd_pass``.  Returns how alike its rows are: the mean of <x_i, x_j> over pairs of them, weighted by
    s_i s_j, as a part of the mean of ||x_i||^2 (0 where fewer than two can move).
    """
    last = common.shape[0] - 1
    total = 0.0
    squares = 0.0
    norms = 0.0
    own = 0.0
    for t in range(0, order.shape[0], every):
        i = order[t]
        c = row_cost(cost, weights, y, i)
        if c == 0.0:
            continue
        a = alpha[i]
        target = float(y[i])
        s = min(a - feasible(-np.inf, target, c, p), feasible(np.inf, target, c, p) - a)
        if s > 0.0:
            room[i] = s
            for k in range(indptr[i], indptr[i + 1]):
                common[indices[k]] = 1.0
            q = sq_norms[i] + bias * bias
            total += s
            squares += s * s
            norms += s * q
            own += s * s * q
    # all features of its rows: an entry of c that is 0 now is not when one of them leaves
    found = 0
    for j in range(last):
        if common[j] != 0.0:
            support[found] = j
            found += 1
            common[j] = 0.0
    along[SUPPORT] = found
    for t in range(0, order.shape[0], every):
        i = order[t]
        if room[i] > 0.0:
            add_row(indices, values, indptr[i], indptr[i + 1], room[i], common)
            common[last] += room[i] * bias
    square = sum_of_products(common, common)
    along[SQUARE] = square
    along[AT_FIRST] = square
    look_again(w, common, support, along)
    pairs = total * total - squares
    if pairs <= 0.0 or norms <= 0.0:
        return 0.0
    return max(0.0, (square - own) / pairs / (norms / total))


def aim(y, weights, bias, cost, p, alpha, room, common, frequent, along):
    """H, and the tau that is best as the rows and w stand, into ``along``, and c's ``frequent`` features: for a pass, or
    for a further step.  Both are 0 where next to nothing is left of c."""
    for j in range(frequent.shape[0] - 1):
        frequent[j] = common[j]
    along[CONSTANT] = bias * common[common.shape[0] - 1]
    curvature = along[SQUARE]
    slope = along[INNER]
    for i in range(room.shape[0]):
        s = room[i]
        if s > 0.0:
            target = float(y[i])
            c = row_cost(cost, weights, y, i)
            above = conjugate(alpha[i] + s, target, c, p)
            here = conjugate(alpha[i], target, c, p)
            below = conjugate(alpha[i] - s, target, c, p)
            curvature += (above - here) + (below - here)
            slope += direction(target, p) * 0.5 * (above - below)
    enough = along[SQUARE] > LEAST_SQUARE * along[AT_FIRST]
    # the conjugates are convex: what lies below ||c||^2 is rounding
    along[CURVATURE] = max(curvature, along[SQUARE]) if enough else 0.0
    along[TAU] = -slope / along[CURVATURE] if enough else 0.0


def follow(indptr, indices, values, y, weights, sq_norms, bias, cost, p, w, alpha, room, common, along):
    """The rows' own a_i go the step tau along the direction; w follows later (``arrive``).

    A row that would pass its bound stops there, and one that the pass has left at its bound stays, since it may be
    at rest; neither is a part of the direction any longer.  Returns (change of sum_i conjugate_i, increase of D).
    """
    constant = w.shape[0] - 1
    last = common.shape[0] - 1
    tau = along[TAU]
    change = 0.0
    gain = -(tau * along[INNER] + 0.5 * tau * tau * along[SQUARE])
    along[INNER] += tau * along[SQUARE]
    along[GONE] += tau
    gone = along[GONE]
    for i in range(room.shape[0]):
        s = room[i]
        if s == 0.0:
            continue
        target = float(y[i])
        c = row_cost(cost, weights, y, i)
        sign = direction(target, p)
        a = alpha[i]
        wanted = a + tau * s * sign
        new = feasible(wanted, target, c, p)
        if a == feasible(-np.inf, target, c, p) or a == feasible(np.inf, target, c, p):
            new = a
        more = conjugate(new, target, c, p) - conjugate(a, target, c, p)
        change += more
        gain -= more
        alpha[i] = new
        if new != wanted:
            start = indptr[i]
            stop = indptr[i + 1]
            g = dot(indices, values, start, stop, common) + bias * common[last]
            z = dot(indices, values, start, stop, w) + bias * w[constant] + gone * g
            q = sq_norms[i] + bias * bias
            back = (new - wanted) * sign
            gain -= back * (z + 0.5 * back * q)
            # <w, c> and ||c||^2 with w as it will be, moved back, and with c without this row
            along[INNER] += back * g - s * (z + back * q)
            along[SQUARE] += s * (s * q - 2.0 * g)
            add_row(indices, values, start, stop, back + gone * s, w)
            w[constant] += (back + gone * s) * bias
            add_row(indices, values, start, stop, -s, common)
            common[last] -= s * bias
            room[i] = 0.0
    return change, gain


@kernel
def arrive(w, common, support, along):
    """w follows the rows: ``w += along[GONE] * common``."""
    gone = along[GONE]
    for k in range(int(along[SUPPORT])):
        j = np.uint32(support[k])
        w[j] += gone * common[j]
    w[w.shape[0] - 1] += gone * common[common.shape[0] - 1]
    along[GONE] = 0.0
    along[TAU] = 0.0
