"""Dual coordinate descent over the rows of one block (Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008, Alg. 3).

    max_a  D(a) = -sum_i conjugate(a_i, y_i, c_i) - 1/2 ||w0 + sum_i a_i direction(y_i) x_i||^2 + constant

one a_i at a time, with w = w0 + sum_i a_i direction(y_i) x_i maintained.  The type of a loss decides
what is compiled (loss_functions.py).
"""

from typing import NamedTuple

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.loss_functions import (
    AT_REST,
    conjugate,
    direction,
    feasible,
    row_cost,
    share_of_gap,
    stationarity,
    step,
    value,
)
from blocksvm.kernels.prefetch import (
    ROW_AHEAD,
    WEIGHTS_AHEAD,
    add_row,
    dot,
    hot_run,
    prefetch,
    prefetch_row,
    prefetch_weights,
)

# A projected gradient below this changes nothing that float64 could show (LIBLINEAR's constant).
NEGLIGIBLE = 1.0e-12


class Objective(NamedTuple):
    """The numbers of a problem: the value of the constant feature whose weight is w[-1]; cost (3,) float64 by the sign
    of y (``row_cost``); loss: NamedTuple with its functions (loss_functions.py)."""

    bias: float
    cost: np.ndarray
    loss: tuple


class Limits(NamedTuple):
    """The limits beyond which a pass leaves rows out.

    above > 0 and below < 0: the extremes of the last pass's projected gradients, beyond which a row at its bound is
    dropped from the visit (+-inf: none is); rest_beyond > 0: a row at a bound whose gradient lies farther than this
    beyond it is left out of its next ``rest_visits`` visits (+inf: none).
    """

    above: float = np.inf
    below: float = -np.inf
    rest_beyond: float = np.inf
    rest_visits: int = 0


class PassArrays(NamedTuple):
    """The arrays that a pass updates: w (d + 1,), alpha (n,) float64, active (n,) and rest (n,) uint8.

    With a working set (both of length 0 without one): pauses (n,) uint8, how long each row's last rest was, the next
    one is 3 visits more than twice as long, at most ``rest_visits``; share (n,) float64, each visited row's share of the
    gap as ``share_of_gap`` has it, before its own step.
    """

    w: np.ndarray
    alpha: np.ndarray
    active: np.ndarray
    rest: np.ndarray
    pauses: np.ndarray
    share: np.ndarray


@kernel
def dual_cd_pass(rows, order, objective, limits, arrays, moving):
    """One inner pass over the rows in ``order``; or, where ``moving`` is given, the same without a step, at one w.

    rows: ``Rows``, with y int16 of +-1, or float64; order (m,) int32, the rows to visit, all active; objective:
    ``Objective``; limits: ``Limits``; arrays: ``PassArrays``; moving (m,) int32, filled with the rows that a step would
    move, in their order, or None.  Rows of cost 0 are passed over.

    Returns (pg_max, pg_min, rows dropped, nonzeros, loss sum of the margins seen before each row's own step, the part
    of it that belongs to rows put to rest, change of sum_i conjugate_i, increase of D, sum of the shares, rows that
    move).
    """
    indptr, indices, values, y, weights, sq_norms = rows
    bias, cost, loss = objective
    shrink_above, shrink_below, rest_beyond, rest_visits = limits
    w, alpha, active, rest, pauses, share = arrays
    d = w.shape[0] - 1
    n = order.shape[0]
    with_set = share.shape[0] > 0
    pg_max = -np.inf
    pg_min = np.inf
    dropped = nonzeros = n_moving = 0
    bias_sq = bias * bias
    loss_sum = resting_loss = change = gain = shares = 0.0
    run = hot_run(indptr, indices)
    for t in range(n):
        if t + ROW_AHEAD < n:
            ahead = order[t + ROW_AHEAD]
            prefetch_row(indptr, indices, values, ahead)
            prefetch(sq_norms, ahead)
            prefetch(alpha, ahead)
        if t + WEIGHTS_AHEAD < n:
            prefetch_weights(indptr, indices, w, order[t + WEIGHTS_AHEAD], run)
        i = order[t]
        c = row_cost(cost, weights, y, i)
        if c == 0.0:
            continue
        start = indptr[i]
        stop = indptr[i + 1]
        nonzeros += stop - start
        target = float(y[i])
        a = alpha[i]
        z = dot(indices, values, start, stop, w) + bias * w[d]
        suffered = value(loss, z, target, c)
        loss_sum += suffered
        projected, excess = stationarity(loss, a, z, target, c)
        if with_set:
            share[i] = share_of_gap(loss, a, z, target, c)
            shares += max(share[i], 0.0)
        if rest[i] == 0 and abs(excess) > rest_beyond:
            rest[i] = rest_visits
            if with_set:
                pauses[i] = min(2 * pauses[i] + 3, rest_visits)
                rest[i] = pauses[i]
            resting_loss += suffered
        elif with_set and rest[i] == 0 and rest_beyond < np.inf:
            pauses[i] = 0
        if excess > shrink_above or excess < shrink_below:
            active[i] = 0
            dropped += 1
            continue
        pg_max = max(pg_max, projected)
        pg_min = min(pg_min, projected)
        if abs(projected) > NEGLIGIBLE:
            n_moving += 1
            if moving is not None:
                moving[n_moving - 1] = i
                continue
            q = sq_norms[i] + bias_sq
            new = step(loss, a, z, q, target, c)
            more = conjugate(loss, new, target, c) - conjugate(loss, a, target, c)
            change += more
            move = (new - a) * direction(loss, target)
            gain -= more + move * (z + 0.5 * move * q)
            alpha[i] = new
            add_row(indices, values, start, stop, move, w)
            w[d] += move * bias
    return pg_max, pg_min, dropped, nonzeros, loss_sum, resting_loss, change, gain, shares, n_moving


@kernel
def dual_coefficients(alpha, y, weights, cost, loss, out):
    """``out[i] = alpha[i] * direction(y[i])``, by which w is rebuilt from alpha (``add_rows``).

    Returns the sums of conjugate(f a_i) for f = 1, 1/2 and 1/4.
    """
    whole = half = quarter = 0.0
    for i in range(alpha.shape[0]):
        a = alpha[i]
        target = float(y[i])
        out[i] = a * direction(loss, target)
        c = row_cost(cost, weights, y, i)
        if c > 0.0:
            whole += conjugate(loss, a, target, c)
            half += conjugate(loss, 0.5 * a, target, c)
            quarter += conjugate(loss, 0.25 * a, target, c)
    return whole, half, quarter


@kernel
def make_feasible(alpha, y, weights, cost, loss, ratio, largest):
    """Another problem's dual variables for this one: times ratio (2,) by class, then into the row's own bounds.

    Returns the largest factor, at most ``largest``, by which all of them may be multiplied.
    """
    for i in range(alpha.shape[0]):
        target = float(y[i])
        c = row_cost(cost, weights, y, i)
        a = feasible(loss, alpha[i] * ratio[1 if y[i] > 0 else 0], target, c) if c > 0.0 else 0.0
        alpha[i] = a
        if c > 0.0 and feasible(loss, a * largest, target, c) != a * largest:
            low = 1.0
            high = largest
            while True:
                middle = 0.5 * (low + high)
                if not low < middle < high:
                    break
                if feasible(loss, a * middle, target, c) == a * middle:
                    low = middle
                else:
                    high = middle
            largest = low
    return largest


@kernel
def leave_resting(order, rest, active):
    """Compact ``order`` to the rows that are not at rest; the others come one visit nearer to their return, and are
    inactive for this one.  Returns how many stay."""
    n_awake = 0
    for t in range(order.shape[0]):
        i = order[t]
        if rest[i] > 0:
            rest[i] -= 1
            active[i] = 0
        else:
            order[n_awake] = i
            n_awake += 1
    return n_awake


@kernel
def shares_of_gap(scores, y, weights, alpha, cost, loss, rest, pauses, out):
    """``out`` (n,) float64: each row's share of the gap at decision values ``scores`` (n,) float64; AT_REST also for
    rows of cost 0.  A row that can move is at rest no longer (rest, pauses (n,) uint8)."""
    for i in range(scores.shape[0]):
        c = row_cost(cost, weights, y, i)
        out[i] = share_of_gap(loss, alpha[i], scores[i], float(y[i]), c) if c > 0.0 else AT_REST
        if out[i] >= 0.0:
            rest[i] = 0
            pauses[i] = 0
