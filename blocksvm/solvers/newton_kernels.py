"""Sums over rows for Newton's method: dual variables and curvatures at a point, the Gram matrix sum_i h_i x_i x_i^T.

A Gram matrix (p, p) has the features' numbers as rows and columns, p a multiple of 8, and is cut into tiles of 8 x 8; a
strip is a row of tiles.  The tiles on the diagonal and right of it are added to, row after row of the data, so that
neither the panels nor who adds which strip change a bit.

Features below ``hot`` are written to a panel, a dense copy of up to ``PANEL`` rows times sqrt(h_i), whose tiles are
kept in registers while they are added to.  Where one of two features is not, their product is added where it belongs,
one by one: that takes a multiple of the time of a product in a panel, but takes none for what is 0.
"""

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.columns import column_of, count_of
from blocksvm.kernels.lanes import eight, plus, put
from blocksvm.kernels.loss_functions import (
    cost_of,
    derivative,
    direction,
    feasible,
    importance_of,
    second_derivative,
    side_of,
    target_of,
)
from blocksvm.kernels.rows import length_of, unpack

PANEL = 128  # rows: two strips of them fill half of a first-level cache


@kernel
def duals_and_curvatures(scores, codes, reals, weights, objective, live, alpha, curvatures):
    """alpha (n, k) and curvatures (n, k), zeros before, of the live problems at the scores (n, k): a = -derivative /
    direction, at which the loss and its conjugate have no gap, and the second derivative."""
    bias, costs, sides, loss = objective
    for i in range(scores.shape[0]):
        importance = importance_of(weights, i)
        for s in range(count_of(live)):
            c = column_of(live, s)
            side = side_of(sides, codes, reals, i, c)
            cost = cost_of(costs, side, c) * importance
            if cost == 0.0:
                continue
            z, target = scores[i, c], target_of(side, reals, i)
            a = -derivative(loss, z, target, cost) / direction(loss, target)
            alpha[i, c] = feasible(loss, a, target, cost)
            curvatures[i, c] = second_derivative(loss, z, target, cost)


@inlined
def add_tile(left, first, right, other, n, gram, position, p):
    """The tile that begins at ``position`` gains sum_r left_r right_r^T of the n rows of two panels' strips."""
    row = np.uint64(p)
    z0 = eight(gram, position)
    z1 = eight(gram, position + row)
    z2 = eight(gram, position + np.uint64(2) * row)
    z3 = eight(gram, position + np.uint64(3) * row)
    z4 = eight(gram, position + np.uint64(4) * row)
    z5 = eight(gram, position + np.uint64(5) * row)
    z6 = eight(gram, position + np.uint64(6) * row)
    z7 = eight(gram, position + np.uint64(7) * row)
    for r in range(np.uint64(n)):
        x = eight(right, other + r * np.uint64(LINE))
        at = first + r * np.uint64(LINE)
        z0 = plus(z0, left[at], x)
        z1 = plus(z1, left[at + np.uint64(1)], x)
        z2 = plus(z2, left[at + np.uint64(2)], x)
        z3 = plus(z3, left[at + np.uint64(3)], x)
        z4 = plus(z4, left[at + np.uint64(4)], x)
        z5 = plus(z5, left[at + np.uint64(5)], x)
        z6 = plus(z6, left[at + np.uint64(6)], x)
        z7 = plus(z7, left[at + np.uint64(7)], x)
    put(gram, position, z0)
    put(gram, position + row, z1)
    put(gram, position + np.uint64(2) * row, z2)
    put(gram, position + np.uint64(3) * row, z3)
    put(gram, position + np.uint64(4) * row, z4)
    put(gram, position + np.uint64(5) * row, z5)
    put(gram, position + np.uint64(6) * row, z6)
    put(gram, position + np.uint64(7) * row, z7)


@inlined
def add_panel(panel, n, strips, p, start, step, gram):
    """Its n rows to every ``step``-th strip from ``start`` on; then it is 0 again."""
    of_strip = PANEL * LINE
    for a in range(start, strips, step):
        for b in range(a, strips):
            position = np.uint64(LINE * (a * p + b))
            add_tile(panel, np.uint64(a * of_strip), panel, np.uint64(b * of_strip), n, gram, position, p)
    for b in range(strips):
        for e in range(n * LINE):
            panel[b * of_strip + e] = 0.0


@kernel
def add_gram(entries, curvatures, d, bias, hot, panel, start, step, p, gram):
    """``gram`` (p * p,) gains sum_i curvatures[i] x_i x_i^T in every ``step``-th strip from ``start`` on; feature d is
    the constant one.

    curvatures (n,): rows of 0 are passed over; hot: a multiple of 8, p or at most d; panel (hot * PANEL,): zeros.
    """
    strips = hot // LINE
    filled = 0
    features, values = np.empty(0, np.int64), np.empty(0)
    for i in range(curvatures.shape[0]):
        h = curvatures[i]
        if h == 0.0:
            continue
        n = length_of(entries, i)
        if n > features.shape[0]:
            features, values = np.empty(2 * n, np.int64), np.empty(2 * n)
        unpack(entries, i, 0, features, values)
        cold = 0
        root = np.sqrt(h)
        while cold < n and features[cold] < hot:
            j = features[cold]
            panel[(j // LINE * PANEL + filled) * LINE + j % LINE] = root * values[cold]
            cold += 1
        if d < hot:
            panel[(d // LINE * PANEL + filled) * LINE + d % LINE] = root * bias
        else:
            for e in range(n):
                j = features[e]
                if j // LINE % step == start:
                    x = h * values[e]
                    of_row = np.uint64(j * p)
                    for f in range(np.uint64(max(e, cold)), np.uint64(n)):
                        gram[of_row + np.uint64(features[f])] += x * values[f]
                    gram[j * p + d] += x * bias
            if d // LINE % step == start:
                gram[d * p + d] += h * bias * bias
        filled += 1
        if filled == PANEL:
            add_panel(panel, filled, strips, p, start, step, gram)
            filled = 0
    add_panel(panel, filled, strips, p, start, step, gram)


@kernel
def half_curvature(gram, direction):
    """1/2 <direction, gram direction> by the diagonal and what is right of it; gram (p, p), direction (d <= p,)."""
    total = 0.0
    for i in range(direction.shape[0]):
        along = 0.5 * gram[i, i] * direction[i]
        for j in range(i + 1, direction.shape[0]):
            along += gram[i, j] * direction[j]
        total += direction[i] * along
    return total


@kernel
def factorise(gram, scale, raised, p, factor):
    """``factor`` (p * p,) becomes U with U^T U = S gram S, of the diagonal S = ``scale`` that makes that of the product
    1, to which ``raised`` is added (Cholesky; Golub, Van Loan, Matrix Computations, 4th ed., sec. 4.2.6); gram (p, p)
    on the diagonal and right of it.  Returns False where a pivot is not above 0.

    Rows are worked off by panels: those of a panel one by one, then all below them tile by tile.
    """
    for i in range(p):
        for j in range(i, p):
            factor[i * p + j] = scale[i] * gram[i, j] * scale[j]
        factor[i * p + i] = 1.0 + raised
    panel = np.empty(p * PANEL)
    negative = np.empty(p * PANEL)
    for top in range(0, p, PANEL):
        end = min(top + PANEL, p)
        for i in range(top, end):
            for r in range(top, i):
                x = factor[r * p + i]
                for j in range(i, p):
                    factor[i * p + j] -= x * factor[r * p + j]
            pivot = factor[i * p + i]
            if not pivot > 0.0:
                return False
            root = 1.0 / np.sqrt(pivot)
            for j in range(i, p):
                factor[i * p + j] *= root
                at = (j // LINE * PANEL + i - top) * LINE + j % LINE
                panel[at] = factor[i * p + j]
                negative[at] = -factor[i * p + j]
        for a in range(end // LINE, p // LINE):
            for b in range(a, p // LINE):
                first = np.uint64(a * PANEL * LINE)
                other = np.uint64(b * PANEL * LINE)
                add_tile(negative, first, panel, other, end - top, factor, np.uint64(LINE * (a * p + b)), p)
    return True


@kernel
def solve(factor, p, x):
    """x (p,) becomes the solution of U^T U x = x."""
    for i in range(p):
        x[i] /= factor[i * p + i]
        for j in range(i + 1, p):
            x[j] -= factor[i * p + j] * x[i]
    for i in range(p - 1, -1, -1):
        for j in range(i + 1, p):
            x[i] -= factor[i * p + j] * x[j]
        x[i] /= factor[i * p + i]
