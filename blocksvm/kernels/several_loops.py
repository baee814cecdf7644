"""Several problems over the same rows, minimised together: each row is read once for all of them.

The problems lie side by side in memory (blocksvm/base/vectors.py): w ((d + 1) * width,) float64 holds the weights of problem c
in column c, and a feature's ``width`` numbers, of which some may belong to no problem and are 0, begin on a cache line of
their own.  So a nonzero of a row costs a cache line for each eight problems, where k runs would fetch k lines from k
places; the mathematics of each problem is that of its own run (dual_cd.py, margins.py).  A *lane* is such a line, or all
of a width of 4; lane g has the columns from 8 g on.  alpha (l, k) float64.

codes (n,) int16 tell a row's kind, sides (m, k) int8 on which side, -1 or +1, of each problem a row of each kind lies
(0: it is no part of it, as the last kind, of code -1, of none), costs (k, 2) float64 the cost C_i of a row on the sides -1
and +1; reals (n,) float64: the rows' targets in all problems, where they are real numbers, else None, and the side is the
target; live (t,) int32: the problems that are still worked on.
"""

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, inlined_views, kernel
from blocksvm.kernels.dual_cd_loops import NEGLIGIBLE
from blocksvm.kernels.lanes import eight, four, plus, put, times
from blocksvm.kernels.loss_functions import (
    AT_REST,
    SUMS,
    conjugate,
    direction,
    feasible,
    importance_of,
    share_of_gap,
    stationarity,
    step,
    terms_of_gap,
    value,
)
from blocksvm.kernels.prefetch import HOT_WEIGHTS, ROW_AHEAD, WEIGHTS_AHEAD, prefetch, prefetch_row, value_at

ENTRIES_AHEAD = 32  # of 8, 16, 32, 64 the last three are alike on IMDB's words over 5 problems, 8 is slower
IN_FLIGHT = 1 << 15  # numbers: a quarter of a second-level cache
NEVER = 255  # in the place of a rest


@inlined
def target_of(side, reals, i):
    """The target of row i, which lies on this side of a problem."""
    if reals is None:
        return np.float64(side)
    return reals[i]


@inlined
def cost_of(cost, side, c):
    """The cost of a row that lies on this side of problem c, without the row's weight."""
    if side == 0:
        return 0.0
    return cost[c, 1] if side > 0 else cost[c, 0]


@inlined
def prefetch_lanes(indptr, indices, w, width, lanes, n_lanes, row):
    """Ask for the weights that ``row`` names, in the first ``n_lanes`` of these lanes."""
    start = indptr[row]
    at = indptr[row + 1] - 1
    hot = HOT_WEIGHTS // width
    while at >= start and indices[at] >= hot:
        base = np.int64(indices[at]) * width
        for t in range(n_lanes):
            prefetch(w, base + lanes[t] * LINE)
        at -= 1


@inlined_views
def all_lanes(width):
    return np.arange((width + LINE - 1) // LINE).astype(np.int32)


@inlined
def is_awake(rest, reading):
    """Whether a row is visited for a problem, where ``rest`` is what state["rest"] has of the two."""
    return rest <= (1 if reading else 0)


@inlined
def awake_for_some(rest, row, live, reading):
    """Whether the row is visited for one of these problems."""
    s = 0
    while s < live.shape[0] and not is_awake(rest[row, live[s]], reading):
        s += 1
    return s < live.shape[0]


@kernel
def leave_rows_at_rest(order, rest, live, active, reading):
    """Compact ``order`` to the rows that are awake for some live problem; the others are inactive in this visit and, in
    a ``reading``, one visit nearer to their return.  Returns how many stay."""
    n_awake = 0
    for t in range(order.shape[0]):
        i = order[t]
        if awake_for_some(rest, i, live, reading):
            order[n_awake] = i
            n_awake += 1
            continue
        active[i] = 0
        if reading:
            for s in range(live.shape[0]):
                if rest[i, live[s]] != NEVER:
                    rest[i, live[s]] -= 1
    return n_awake


@inlined
def entries_ahead(n_nonzeros, n_rows, width):
    """How many entries ahead of the one at work the weights are asked for, where those of whole rows ahead, ``width``
    numbers a nonzero, would not stay in the cache until they are wanted; else 0."""
    return ENTRIES_AHEAD if WEIGHTS_AHEAD * n_nonzeros * (width + LINE) > IN_FLIGHT * n_rows else 0


@inlined
def lane_scores(indices, values, start, stop, w, width, first, bias, ahead, load, z):
    """``z[c] = <w_c, x> + bias * w_c's last`` for the columns c of the lane that begins at ``first``; load: ``eight`` or
    ``four``."""
    stop = np.uint64(stop)
    ahead = np.uint64(ahead)
    score = times(bias, load(w, np.uint64(w.shape[0]) - width + first))
    for at in range(np.uint64(start), stop):
        if ahead > 0 and at + ahead < stop:
            prefetch(w, np.uint64(indices[at + ahead]) * width + first)
        score = plus(score, value_at(values, at), load(w, np.uint64(indices[at]) * width + first))
    put(z, first, score)


@inlined
def row_scores(indices, values, start, stop, w, width, bias, lanes, n_lanes, ahead, z):
    """``z[c] = <w_c, x> + bias * w_c's last`` for the columns c of the first ``n_lanes`` of these lanes; z (width,)."""
    wide = np.uint64(width)
    if width < LINE:
        lane_scores(indices, values, start, stop, w, wide, np.uint64(0), bias, ahead, four, z)
        return
    for t in range(n_lanes):
        lane_scores(indices, values, start, stop, w, wide, np.uint64(lanes[t] * LINE), bias, ahead, eight, z)


@inlined
def add_to_lane(indices, values, start, stop, w, width, first, bias, load, steps):
    """``w_c += steps[c] * x`` (and the constant feature) for the columns c of the lane that begins at ``first``."""
    step = load(steps, first)
    last = np.uint64(w.shape[0]) - width + first
    put(w, last, plus(load(w, last), bias, step))
    for at in range(np.uint64(start), np.uint64(stop)):
        place = np.uint64(indices[at]) * width + first
        put(w, place, plus(load(w, place), value_at(values, at), step))


@inlined
def add_row_to(indices, values, start, stop, w, width, bias, lanes, n_lanes, steps):
    """``w_c += steps[c] * x`` (and the constant feature) in the first ``n_lanes`` of these lanes; steps (width,)."""
    wide = np.uint64(width)
    if width < LINE:
        add_to_lane(indices, values, start, stop, w, wide, np.uint64(0), bias, four, steps)
        return
    for t in range(n_lanes):
        add_to_lane(indices, values, start, stop, w, wide, np.uint64(lanes[t] * LINE), bias, eight, steps)


@kernel
def several_dual_cd_pass(rows, reals, order, objective, sides, limits, live, reading, first, scale, arrays, width,
                         conjugates, seen):  # fmt: skip
    """One inner pass of dual coordinate descent over the rows in ``order``, for the live problems of a lane:
    ``dual_cd_pass`` of each.  A row is dropped from the visit where every one of them would do that.

    rows, objective, limits and arrays are as there, but with the codes for y and the costs for cost; alpha, rest and
    pauses (n, k); share (n,): the row's scaled shares, added up over the problems.  reading: the rows are those of a
    block, not of a working set; first: in the first pass of such a visit.  scale (k,): what each problem's shares of its
    gap are multiplied by; conjugates (k,) gain the changes of each problem's sum_i conjugate_i, and seen (k,) its own
    shares, unscaled.

    rest[i, c]: 0, row i is visited for problem c; 1, not in passes over a working set, where it has no share, nor again
    in this visit; 1 + r: nor in the next r readings; NEVER: it is no part of the problem.

    Returns as ``dual_cd_pass`` does, of all problems together, but not how many rows move.
    """
    indptr, indices, values, codes, weights, sq_norms = rows
    bias, costs, loss = objective
    shrink_above, shrink_below, rest_beyond, rest_visits = limits
    w, alpha, active, rest, pauses, share = arrays
    n = order.shape[0]
    n_live = live.shape[0]
    with_set = share.shape[0] > 0
    z = np.empty(width)
    steps = np.zeros(width)
    awake = np.empty(n_live, np.int32)
    lane = np.full(1, live[0] // LINE, np.int32)
    in_row = entries_ahead(indptr[indptr.shape[0] - 1], indptr.shape[0] - 1, width)
    pg_max = -np.inf
    pg_min = np.inf
    dropped = nonzeros = 0
    bias_sq = bias * bias
    loss_sum = resting_loss = changes = gain = shares = 0.0
    for t in range(n):
        if t + ROW_AHEAD < n:
            ahead = order[t + ROW_AHEAD]
            prefetch_row(indptr, indices, values, ahead)
            prefetch(sq_norms, ahead)
            prefetch(codes, ahead)
        if in_row == 0 and t + WEIGHTS_AHEAD < n:
            ahead = order[t + WEIGHTS_AHEAD]
            if awake_for_some(rest, ahead, live, first):
                prefetch_lanes(indptr, indices, w, width, lane, 1, ahead)
        i = order[t]
        importance = importance_of(weights, i)
        code = codes[i]
        n_awake = 0
        for s in range(n_live):
            c = live[s]
            if is_awake(rest[i, c], first):
                if cost_of(costs, sides[code, c], c) * importance == 0.0:
                    rest[i, c] = NEVER
                else:
                    awake[n_awake] = c
                    n_awake += 1
            elif first and rest[i, c] != NEVER:
                rest[i, c] -= 1
        if n_awake == 0:
            if with_set:
                share[i] = AT_REST
            continue
        start = indptr[i]
        stop = indptr[i + 1]
        nonzeros += stop - start
        row_scores(indices, values, start, stop, w, width, bias, lane, 1, in_row, z)
        q = sq_norms[i] + bias_sq
        moves = False
        all_beyond = True
        row_share = AT_REST
        for s in range(n_awake):
            c = awake[s]
            side = sides[code, c]
            cost = cost_of(costs, side, c) * importance
            target = target_of(side, reals, i)
            a = alpha[i, c]
            suffered = value(loss, z[c], target, cost)
            loss_sum += suffered
            projected, excess = stationarity(loss, a, z[c], target, cost)
            mine = AT_REST
            if with_set:
                mine = share_of_gap(loss, a, z[c], target, cost)
                if mine >= 0.0:
                    row_share = max(row_share, 0.0) + mine * scale[c]
                    seen[c] += mine
            if reading:
                if abs(excess) > rest_beyond:
                    pause = rest_visits
                    if with_set:
                        pause = min(2 * pauses[i, c] + 3, rest_visits)
                        pauses[i, c] = pause
                    rest[i, c] = 1 + pause
                    resting_loss += suffered
                else:
                    rest[i, c] = 1 if with_set and mine < 0.0 else 0
                    if with_set and rest_beyond < np.inf:
                        pauses[i, c] = 0
            if excess > shrink_above or excess < shrink_below:
                continue
            all_beyond = False
            pg_max = max(pg_max, projected)
            pg_min = min(pg_min, projected)
            if abs(projected) > NEGLIGIBLE:
                new = step(loss, a, z[c], q, target, cost)
                more = conjugate(loss, new, target, cost) - conjugate(loss, a, target, cost)
                conjugates[c] += more
                changes += more
                move = (new - a) * direction(loss, target)
                gain -= more + move * (z[c] + 0.5 * move * q)
                alpha[i, c] = new
                steps[c] = move
                moves = True
        if with_set:
            share[i] = row_share
            shares += max(row_share, 0.0)
        if all_beyond:
            active[i] = 0
            dropped += 1
        if moves:
            add_row_to(indices, values, start, stop, w, width, bias, lane, 1, steps)
            for s in range(n_awake):
                steps[awake[s]] = 0.0
    return pg_max, pg_min, dropped, nonzeros, loss_sum, resting_loss, changes, gain, shares


@kernel
def add_up_shares(order, of_lanes, out):
    """``out`` (n,): of the rows in ``order`` the sum of the lanes' shares, of_lanes (lanes, n), that are not below 0."""
    for t in range(order.shape[0]):
        i = order[t]
        out[i] = AT_REST
        for lane in range(of_lanes.shape[0]):
            if of_lanes[lane, i] >= 0.0:
                out[i] = max(out[i], 0.0) + of_lanes[lane, i]


@kernel
def several_decision_values(indptr, indices, values, w, width, bias, out):
    """``out[i, c] = <w_c, x_i> + bias * w_c's last`` for all rows and problems; out (n, k)."""
    k = out.shape[1]
    n = out.shape[0]
    z = np.empty(width)
    lanes = all_lanes(width)
    n_lanes = lanes.shape[0]
    in_row = entries_ahead(indptr[n] - indptr[0], n, width)
    for i in range(n):
        if in_row == 0 and i + WEIGHTS_AHEAD < n:
            prefetch_lanes(indptr, indices, w, width, lanes, n_lanes, i + WEIGHTS_AHEAD)
        row_scores(indices, values, indptr[i], indptr[i + 1], w, width, bias, lanes, n_lanes, in_row, z)
        for c in range(k):
            out[i, c] = z[c]


@kernel
def several_certificate_sums(scores, within, codes, reals, weights, alpha, sides, costs, loss, live, out):
    """``out`` (k, SUMS) gains, for each live problem, what ``certificate_sums`` returns; scores, within, alpha (n, k)."""
    for i in range(scores.shape[0]):
        importance = importance_of(weights, i)
        code = codes[i]
        for s in range(live.shape[0]):
            c = live[s]
            side = sides[code, c]
            cost = cost_of(costs, side, c) * importance
            if cost == 0.0:
                continue
            terms = terms_of_gap(loss, alpha[i, c], scores[i, c], within[i, c], target_of(side, reals, i), cost)
            for t in range(SUMS):
                out[c, t] += terms[t]


@kernel
def several_shares(scores, codes, reals, weights, alpha, sides, costs, loss, live, scale, rest, pauses, out):
    """``out`` (n,) float64: each row's scaled shares of the live problems' gaps, added up, as ``several_dual_cd_pass``
    has them; where a row can move for a problem it is at rest no longer."""
    for i in range(scores.shape[0]):
        importance = importance_of(weights, i)
        code = codes[i]
        total = AT_REST
        for s in range(live.shape[0]):
            c = live[s]
            side = sides[code, c]
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


@kernel
def several_coefficients(alpha, codes, reals, weights, sides, costs, loss, live, conjugates, out):
    """``out[i, c] = alpha[i, c] * direction`` for the live problems, 0 for the others, by which w is recomputed;
    conjugates (k,) gain each problem's sum_i conjugate(a_i)."""
    out[:] = 0.0
    for i in range(alpha.shape[0]):
        importance = importance_of(weights, i)
        code = codes[i]
        for s in range(live.shape[0]):
            c = live[s]
            side = sides[code, c]
            cost = cost_of(costs, side, c) * importance
            if cost > 0.0:
                out[i, c] = alpha[i, c] * direction(loss, target_of(side, reals, i))
                conjugates[c] += conjugate(loss, alpha[i, c], target_of(side, reals, i), cost)


@kernel
def several_feasible(alpha, codes, reals, weights, sides, costs, loss, ratio):
    """Other problems' dual variables for these: times ratio (k, 2) by problem and side, then into each row's own
    bounds; 0 where a row is no part of a problem."""
    for i in range(alpha.shape[0]):
        importance = importance_of(weights, i)
        code = codes[i]
        for c in range(alpha.shape[1]):
            side = sides[code, c]
            cost = cost_of(costs, side, c) * importance
            a = alpha[i, c] * cost_of(ratio, side, c)
            alpha[i, c] = feasible(loss, a, target_of(side, reals, i), cost) if cost > 0.0 else 0.0


@kernel
def add_rows_to_several(indptr, indices, values, coefficients, bias, w, width):
    """``w_c += sum_i coefficients[i, c] * x_i`` (and the constant feature); coefficients (n, k)."""
    k = coefficients.shape[1]
    moving = all_lanes(width)
    steps = np.zeros(width)
    for i in range(coefficients.shape[0]):
        n_moving = 0
        for c in range(k):
            steps[c] = coefficients[i, c]
            if steps[c] != 0.0 and (n_moving == 0 or moving[n_moving - 1] != c // LINE):
                moving[n_moving] = c // LINE
                n_moving += 1
        add_row_to(indices, values, indptr[i], indptr[i + 1], w, width, bias, moving, n_moving, steps)


@kernel
def sums_of_columns(w, prior, out):
    """``out`` (k, 4): of the first k columns of w (d + 1, width) and of w0, the prior (d + 1, width) or (0, 0): ||w||^2,
    ||w - w0||^2, <w, w - w0> and <w0, w - w0>."""
    k = out.shape[0]
    out[:] = 0.0
    if prior.shape[0] == 0:
        for j in range(w.shape[0]):
            for c in range(k):
                out[c, 0] += w[j, c] * w[j, c]
        for c in range(k):
            out[c, 1] = out[c, 0]
            out[c, 2] = out[c, 0]
        return
    for j in range(w.shape[0]):
        for c in range(k):
            difference = w[j, c] - prior[j, c]
            out[c, 0] += w[j, c] * w[j, c]
            out[c, 1] += difference * difference
            out[c, 2] += w[j, c] * difference
            out[c, 3] += prior[j, c] * difference
