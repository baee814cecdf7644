"""Sums over a block's rows for the problems of problem.py: terms of certificates, coefficients by which w is made of
alpha, and alpha within its bounds.

Of the rows' arrays: codes (n,), reals (n,) float64 their targets where they are real numbers, else None, weights (n,)
float64 or None; live (t,) int32: the problems that are worked on, None: the only one.
"""

from typing import NamedTuple

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.columns import column_of, count_of
from blocksvm.kernels.loss_functions import (
    SUMS,
    conjugate,
    cost_of,
    direction,
    feasible,
    importance_of,
    side_of,
    target_of,
    terms_of_gap,
)


class Objective(NamedTuple):
    """The numbers of k problems."""

    bias: float  # the value of the constant feature, whose weight is w's last
    costs: np.ndarray  # (k, 2): of a row on the side -1 and +1, without the row's weight
    sides: np.ndarray | None  # (m, k) int8: of rows of each code, the last one -1; None: the code is the side
    loss: tuple  # a NamedTuple with its functions (loss_functions.py)


@kernel
def certificate_sums(scores, within, codes, reals, weights, objective, live, alpha, out):
    """``out`` (k, SUMS) gains, for each live problem, what ``terms_of_gap`` has of each row, given scores (n, k) that
    are known to +- within (n, k); alpha (n, k), or None for a primal method, which is as 0."""
    bias, costs, sides, loss = objective
    for i in range(scores.shape[0]):
        importance = importance_of(weights, i)
        for s in range(count_of(live)):
            c = column_of(live, s)
            side = side_of(sides, codes, reals, i, c)
            cost = cost_of(costs, side, c) * importance
            if cost == 0.0:
                continue
            a = 0.0 if alpha is None else alpha[i, c]
            terms = terms_of_gap(loss, a, scores[i, c], within[i, c], target_of(side, reals, i), cost)
            for t in range(SUMS):
                out[c, t] += terms[t]


@kernel
def dual_coefficients(alpha, codes, reals, weights, objective, conjugates, out):
    """``out[i, c] = alpha[i, c] * direction``, 0 where a row is no part of a problem, by which w is recomputed
    (``add_rows``); conjugates (k, 3) gain each problem's sums of conjugate(f a_i) for f = 1, 1/2 and 1/4."""
    bias, costs, sides, loss = objective
    out[:] = 0.0
    for i in range(alpha.shape[0]):
        importance = importance_of(weights, i)
        for c in range(alpha.shape[1]):
            side = side_of(sides, codes, reals, i, c)
            cost = cost_of(costs, side, c) * importance
            if cost > 0.0:
                target = target_of(side, reals, i)
                a = alpha[i, c]
                out[i, c] = a * direction(loss, target)
                conjugates[c, 0] += conjugate(loss, a, target, cost)
                conjugates[c, 1] += conjugate(loss, 0.5 * a, target, cost)
                conjugates[c, 2] += conjugate(loss, 0.25 * a, target, cost)


@kernel
def make_feasible(alpha, codes, reals, weights, objective, ratio, largest):
    """Other problems' dual variables for these: times ratio (k, 2) by problem and side (of real targets the second),
    then into each row's own bounds; 0 where a row is no part of a problem.  largest (k,): lowered to the largest factor
    by which all of a problem's may be multiplied."""
    bias, costs, sides, loss = objective
    for i in range(alpha.shape[0]):
        importance = importance_of(weights, i)
        for c in range(alpha.shape[1]):
            side = side_of(sides, codes, reals, i, c)
            cost = cost_of(costs, side, c) * importance
            target = target_of(side, reals, i)
            a = feasible(loss, alpha[i, c] * cost_of(ratio, side, c), target, cost) if cost > 0.0 else 0.0
            alpha[i, c] = a
            if cost > 0.0 and feasible(loss, a * largest[c], target, cost) != a * largest[c]:
                low = 1.0
                high = largest[c]
                while True:
                    middle = 0.5 * (low + high)
                    if not low < middle < high:
                        break
                    if feasible(loss, a * middle, target, cost) == a * middle:
                        low = middle
                    else:
                        high = middle
                largest[c] = low


@kernel
def sums_by_side(scores, codes, reals, weights, objective, alpha, sq_norms):
    """(2, 3) float64, for certificates of one problem with an unregularised bias: of the rows with a direction < 0 and
    of those above 0 the sums of conjugate + a direction z, of |a direction|, and of |a direction| ||x||; sq_norms (n,)
    float64 ||x_i||^2 without a constant feature."""
    bias, costs, sides, loss = objective
    sums = np.zeros((2, 3))
    for i in range(scores.shape[0]):
        part = side_of(sides, codes, reals, i, 0)
        cost = cost_of(costs, part, 0) * importance_of(weights, i)
        if cost == 0.0:
            continue
        target = target_of(part, reals, i)
        a = alpha[i, 0]
        signed = a * direction(loss, target)
        if signed != 0.0:
            side = 1 if signed > 0.0 else 0
            sums[side, 0] += conjugate(loss, a, target, cost) + signed * scores[i, 0]
            sums[side, 1] += abs(signed)
            sums[side, 2] += abs(signed) * np.sqrt(sq_norms[i])
    return sums
