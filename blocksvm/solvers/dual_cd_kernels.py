"""Dual coordinate descent over the rows of one block (Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008, Alg. 3), for
k problems over the same rows, each of them

    max_a  D(a) = -sum_i conjugate(a_i, y_i, c_i) - 1/2 ||w0 + sum_i a_i direction(y_i) x_i||^2 + constant

one a_i at a time, with w = w0 + sum_i a_i direction(y_i) x_i maintained; a row is read once for all of them.  Weights
lie side by side, as columns.py has it; alpha (n, k).  A row's side of a problem, its target and cost: ``Objective``.
The type of a loss decides what is compiled (loss_functions.py).
"""

from typing import NamedTuple

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.columns import add_to_lane, column_of, count_of, entries_ahead, lane_scores, prefetch_lanes
from blocksvm.kernels.loss_functions import (
    AT_REST,
    NEGLIGIBLE,
    conjugate,
    cost_of,
    direction,
    importance_of,
    next_rest,
    share_of_gap,
    side_of,
    stationarity,
    step,
    target_of,
    value,
)
from blocksvm.kernels.rows import (
    ROW_AHEAD,
    WEIGHTS_AHEAD,
    add_row,
    dot,
    hot_run,
    length_of,
    prefetch,
    prefetch_row,
    prefetch_weights,
)

NEVER = 255  # in the place of a rest
LONGEST_REST = NEVER - 2


class Limits(NamedTuple):
    """The limits beyond which a pass leaves rows out."""

    above: float = np.inf  # > 0: the largest projected gradient of the last pass; a row at its bound beyond it, or
    below: float = -np.inf  # < 0: beyond the smallest one, is dropped from the visit
    rest_beyond: float = np.inf  # > 0: a row at a bound whose gradient lies farther than this beyond it is left out of
    rest_visits: int = 0  # so many of its next readings
    reading: bool = False  # the rows are those of a block, not of a working set
    first: bool = True  # in the first pass of such a visit


class PassArrays(NamedTuple):
    """The arrays that a pass updates; the last two are of length 0 without a working set.

    rest[i, c]: 0, row i is visited for problem c; 1, not in passes over a working set, where it has no share, nor again
    in this visit; 1 + r: nor in the next r readings; NEVER: it is no part of the problem.
    """

    w: np.ndarray  # (d + 1, width)
    alpha: np.ndarray  # (n, k)
    active: np.ndarray  # (n,) uint8
    rest: np.ndarray  # (n, k) uint8
    conjugates: np.ndarray  # (k,) gain the changes of each problem's sum_i conjugate_i,
    seen: np.ndarray  # its shares of the gap,
    additions: np.ndarray  # and how many steps were added to its w
    scale: np.ndarray  # (k,): of shares
    pauses: np.ndarray  # (n, k) uint8: how long each row's last rest was; the next one is longer (``next_rest``)
    share: np.ndarray  # (n,): each visited row's scaled shares of the gaps (``share_of_gap``) before its step, added up


@inlined
def is_awake(rest, first):
    """Whether a row is visited for a problem, where ``rest`` is what ``PassArrays.rest`` has of the two."""
    return rest <= (1 if first else 0)


@inlined
def awake_for_some(rest, row, live, first):
    """Whether the row is visited for one of these problems."""
    s = 0
    while s < count_of(live) and not is_awake(rest[row, column_of(live, s)], first):
        s += 1
    return s < count_of(live)


@kernel
def leave_resting(order, rest, live, active, reading):
    """Compact ``order`` to the rows that are awake for some live problem; the others are inactive in this visit and, in
    a ``reading``, one nearer to their return.  Returns how many stay."""
    n_awake = 0
    for t in range(order.shape[0]):
        i = order[t]
        if awake_for_some(rest, i, live, reading):
            order[n_awake] = i
            n_awake += 1
            continue
        active[i] = 0
        if reading:
            for s in range(count_of(live)):
                c = column_of(live, s)
                if rest[i, c] != NEVER:
                    rest[i, c] -= 1
    return n_awake


@kernel
def one_problem_pass(rows, reals, order, objective, limits, arrays, moving):
    """One inner pass over the rows in ``order``, for the only problem; or, with room in ``moving``, the same without a
    step, at one w.  A loop beside ``lane_pass``, whose arrays of scores and steps lie on the way from a row to the
    next.

    rows: a ``Block``, whose y are codes; reals (n,) float64: the rows' targets where they are real numbers, else None;
    order (m,) int32, the rows to visit, all active; objective: ``Objective``; limits: ``Limits``; arrays:
    ``PassArrays``; moving (m,) int32, filled with the rows that a step would move, in their order, or (0,).

    Returns (pg_max, pg_min, rows dropped, nonzeros, loss sum of the margins seen before each row's own step, the part
    of it that belongs to rows put to rest, increase of D, sum of the shares, rows that move).
    """
    entries, codes, weights, sq_norms = rows.entries, rows.y, rows.weights, rows.sq_norms
    bias, costs, sides, loss = objective
    shrink_above, shrink_below, rest_beyond, rest_visits, reading, first = limits
    w, alpha = arrays.w.reshape(-1), arrays.alpha.reshape(-1)
    active, rest, pauses, share = arrays.active, arrays.rest, arrays.pauses, arrays.share
    d = w.shape[0] - 1
    n = order.shape[0]
    with_set = share.shape[0] > 0
    pg_max = -np.inf
    pg_min = np.inf
    dropped = nonzeros = n_moving = n_steps = 0
    bias_sq = bias * bias
    loss_sum = resting_loss = change = gain = shares = 0.0
    run = hot_run(entries)
    for t in range(n):
        if t + ROW_AHEAD < n:
            ahead = order[t + ROW_AHEAD]
            prefetch_row(entries, ahead)
            prefetch(sq_norms, ahead)
            prefetch(alpha, ahead)
            if t + 2 * ROW_AHEAD < n:
                prefetch(entries.indptr, order[t + 2 * ROW_AHEAD])
        if t + WEIGHTS_AHEAD < n:
            prefetch_weights(entries, w, order[t + WEIGHTS_AHEAD], run)
        i = order[t]
        side = side_of(sides, codes, reals, i, 0)
        cost = cost_of(costs, side, 0) * importance_of(weights, i)
        if cost == 0.0:
            rest[i, 0] = NEVER
            continue
        if not is_awake(rest[i, 0], first):
            continue
        nonzeros += length_of(entries, i)
        target = target_of(side, reals, i)
        a = alpha[i]
        z = dot(entries, i, w) + bias * w[d]
        suffered = value(loss, z, target, cost)
        loss_sum += suffered
        projected, excess = stationarity(loss, a, z, target, cost)
        stays = False
        if with_set:
            share[i] = share_of_gap(loss, a, z, target, cost)
            stays = share[i] < 0.0
            shares += max(share[i], 0.0)
        if reading:
            rest[i, 0] = next_rest(excess, stays, with_set, rest_beyond, rest_visits, pauses, i, 0)
            if rest[i, 0] > 1:
                resting_loss += suffered
        if excess > shrink_above or excess < shrink_below:
            active[i] = 0
            dropped += 1
            continue
        pg_max = max(pg_max, projected)
        pg_min = min(pg_min, projected)
        if abs(projected) > NEGLIGIBLE:
            n_moving += 1
            if moving.shape[0] > 0:
                moving[n_moving - 1] = i
                continue
            q = sq_norms[i] + bias_sq
            new = step(loss, a, z, q, target, cost)
            more = conjugate(loss, new, target, cost) - conjugate(loss, a, target, cost)
            change += more
            move = (new - a) * direction(loss, target)
            gain -= more + move * (z + 0.5 * move * q)
            alpha[i] = new
            add_row(entries, i, move, w)
            w[d] += move * bias
            n_steps += 1
    arrays.conjugates[0] += change
    arrays.seen[0] += shares
    arrays.additions[0] += n_steps
    return pg_max, pg_min, dropped, nonzeros, loss_sum, resting_loss, gain, shares, n_moving


@kernel
def lane_pass(rows, reals, order, objective, limits, live, arrays):
    """``one_problem_pass`` for the live problems of a lane, live (t,) int32; a row is dropped from the visit where
    every one of them would do that."""
    entries, codes, weights, sq_norms = rows.entries, rows.y, rows.weights, rows.sq_norms
    bias, costs, sides, loss = objective
    shrink_above, shrink_below, rest_beyond, rest_visits, reading, first = limits
    columns, alpha, active, rest, conjugates, seen, additions, scale, pauses, share = arrays
    width = columns.shape[1]
    w = columns.reshape(-1)
    n = order.shape[0]
    with_set = share.shape[0] > 0
    z = np.empty(width)
    steps = np.zeros(width)
    awake = np.empty(live.shape[0], np.uint64)
    lanes = np.full(1, live[0] // LINE, np.int32)
    first_column = np.uint64(live[0] // LINE * LINE)
    wide = np.uint64(width)
    in_row = entries_ahead(entries.indptr, entries.longs, width)
    pg_max = -np.inf
    pg_min = np.inf
    dropped = nonzeros = n_moving = 0
    bias_sq = bias * bias
    loss_sum = resting_loss = gain = shares = 0.0
    for t in range(n):
        if t + ROW_AHEAD < n:
            ahead = order[t + ROW_AHEAD]
            prefetch_row(entries, ahead)
            prefetch(sq_norms, ahead)
            prefetch(codes, ahead)
            prefetch(alpha, ahead)
        if in_row == 0 and t + WEIGHTS_AHEAD < n and awake_for_some(rest, order[t + WEIGHTS_AHEAD], live, first):
            prefetch_lanes(entries, w, width, lanes, 1, order[t + WEIGHTS_AHEAD])
        i = order[t]
        row = np.uint64(i)
        importance = importance_of(weights, row)
        n_awake = 0
        for s in range(live.shape[0]):
            c = np.uint64(live[s])
            if is_awake(rest[row, c], first):
                if cost_of(costs, side_of(sides, codes, reals, row, c), c) * importance == 0.0:
                    rest[row, c] = NEVER
                else:
                    awake[n_awake] = c
                    n_awake += 1
            elif first and rest[row, c] != NEVER:
                rest[row, c] -= 1
        if n_awake == 0:
            if with_set:
                share[row] = AT_REST
            continue
        nonzeros += length_of(entries, i)
        lane_scores(entries, i, w, wide, first_column, bias, in_row, z)
        q = sq_norms[row] + bias_sq
        moves = False
        all_beyond = True
        row_share = 0.0
        can_move = False
        for s in range(n_awake):
            c = awake[s]
            side = side_of(sides, codes, reals, row, c)
            cost = cost_of(costs, side, c) * importance
            target = target_of(side, reals, row)
            a = alpha[row, c]
            margin = z[c]
            suffered = value(loss, margin, target, cost)
            loss_sum += suffered
            projected, excess = stationarity(loss, a, margin, target, cost)
            stays = False
            if with_set:
                mine = share_of_gap(loss, a, margin, target, cost)
                stays = mine < 0.0
                can_move |= not stays
                mine = max(mine, 0.0)
                row_share += mine * scale[c]
                seen[c] += mine
            if reading:
                rest[row, c] = next_rest(excess, stays, with_set, rest_beyond, rest_visits, pauses, row, c)
                if rest[row, c] > 1:
                    resting_loss += suffered
            if excess > shrink_above or excess < shrink_below:
                continue
            all_beyond = False
            pg_max = max(pg_max, projected)
            pg_min = min(pg_min, projected)
            if abs(projected) > NEGLIGIBLE:
                moves = True
                new = step(loss, a, margin, q, target, cost)
                more = conjugate(loss, new, target, cost) - conjugate(loss, a, target, cost)
                conjugates[c] += more
                move = (new - a) * direction(loss, target)
                gain -= more + move * (margin + 0.5 * move * q)
                alpha[row, c] = new
                steps[c] = move
                additions[c] += 1.0
        if with_set:
            share[row] = row_share if can_move else AT_REST
            shares += row_share
        if all_beyond:
            active[row] = 0
            dropped += 1
        if moves:
            add_to_lane(entries, i, w, wide, first_column, bias, steps)
            for s in range(n_awake):
                steps[awake[s]] = 0.0
            n_moving += 1
    return pg_max, pg_min, dropped, nonzeros, loss_sum, resting_loss, gain, shares, n_moving


@kernel
def add_up_shares(order, of_lanes, out):
    """``out`` (n,): of the rows in ``order`` the sum of the lanes' shares that are not below 0; of_lanes (lanes, n)."""
    for t in range(order.shape[0]):
        i = order[t]
        out[i] = AT_REST
        for lane in range(of_lanes.shape[0]):
            if of_lanes[lane, i] >= 0.0:
                out[i] = max(out[i], 0.0) + of_lanes[lane, i]


@kernel
def shares_of_gap(scores, codes, reals, weights, objective, live, alpha, scale, rest, pauses, out):
    """``out`` (n,) float64: each row's scaled shares of the live problems' gaps at decision values ``scores`` (n, k),
    added up, as ``lane_pass`` has them; where a row can move for a problem it is at rest no longer."""
    bias, costs, sides, loss = objective
    for i in range(scores.shape[0]):
        importance = importance_of(weights, i)
        total = AT_REST
        for s in range(count_of(live)):
            c = column_of(live, s)
            side = side_of(sides, codes, reals, i, c)
            cost = cost_of(costs, side, c) * importance
            if cost == 0.0:
                rest[i, c] = NEVER
                continue
            mine = share_of_gap(loss, alpha[i, c], scores[i, c], target_of(side, reals, i), cost)
            if mine >= 0.0:
                total = max(total, 0.0) + mine * scale[c]
                rest[i, c] = 0
                pauses[i, c] = 0
            else:
                rest[i, c] = max(rest[i, c], 1)
        out[i] = total
