"""Crammer and Singer's multiclass machine by its sequential dual method (Keerthi, Sundararajan, Chang, Hsieh, Lin, KDD
2008): a row's k dual variables at once, exactly.

    primal  1/2 sum_k ||w_k||^2 + sum_i C_i (max_k v_ik - v_iy),    v_ik = <w_k, x_i> + [k != y_i]
    dual    -1/2 sum_k ||w_k||^2 - sum_i sum_{k != y_i} a_ik,       w_k = sum_i a_ik x_i,
            a_ik <= C_i [k = y_i], sum_k a_ik = 0

A row's part of primal - dual is sum_k (C_i [k = y_i] - a_ik) (max_j v_ij - v_ik) >= 0.  It is 0 where all k with a_ik
below its bound have the largest v.  Where that is a single k = s, and v_s lies ``excess`` above all others, the row is
at a corner, which it leaves when some decision value has moved by half of that.

The classes lie side by side: w (d + 1, width) and alpha (n, k), as in columns.py; y (n,) int16 is the class, -1
where a row has none; cost (k + 1,) float64 by class, the last one 0.
"""

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.columns import add_row_to, all_lanes, entries_ahead, prefetch_lanes, row_scores
from blocksvm.kernels.loss_functions import (
    AT_REST,
    FREE,
    NEAR,
    NEGLIGIBLE,
    SUMS,
    UNIT_ROUNDOFF,
    importance_of,
    next_rest,
)
from blocksvm.kernels.rows import ROW_AHEAD, WEIGHTS_AHEAD, length_of, prefetch, prefetch_row


@inlined
def row_state(v, a, y, c):
    """(loss / C, share of the gap, projected gradient, excess) of a row with v (k,) and a (k,)."""
    k = v.shape[0]
    largest = v[0]
    for j in range(1, k):
        largest = max(largest, v[j])
    share = 0.0
    lowest = largest  # of those below their bound
    below = corner = 0
    for j in range(k):
        slack = (c if j == y else 0.0) - a[j]
        if slack > 0.0:
            share += slack * (largest - v[j])
            lowest = min(lowest, v[j])
            below += 1
            corner = j
    excess = 0.0
    if below == 1:
        others = -np.inf
        for j in range(k):
            if j != corner:
                others = max(others, v[j])
        excess = max(v[corner] - others, 0.0)
    return largest - v[y], share, largest - lowest, excess


@inlined
def best_row(v, a, y, c, q, edges, new):
    """``new`` (k,): the a that maximises the dual over this row, a_k = C_k - max(0, D_k - theta) / q with D_k = v_k +
    q (C_k - a_k) and sum_k max(0, D_k - theta) = q C; edges (k,) is working space.  q = ||x||^2 > 0.

    D and theta are taken from the largest D, which is then 0 and above theta whatever is rounded.
    """
    k = v.shape[0]
    largest = -np.inf
    for j in range(k):
        edges[j] = v[j] + q * ((c if j == y else 0.0) - a[j])
        largest = max(largest, edges[j])
    total = 0.0
    for j in range(k):
        edges[j] -= largest
        total += edges[j]
    count = k
    theta = (total - q * c) / count
    while True:  # those at or below theta have no part in the sum (Michelot, 1986): at most k times
        total = 0.0
        left = 0
        for j in range(k):
            if edges[j] > theta:
                total += edges[j]
                left += 1
        if left == 0 or left >= count:
            break
        count = left
        theta = (total - q * c) / count
    for j in range(k):
        new[j] = (c if j == y else 0.0) - max(0.0, edges[j] - theta) / q


@kernel
def crammer_singer_pass(rows, order, bias, cost, limits, arrays):
    """One inner pass over the rows in ``order``; rows, limits and arrays as ``one_problem_pass`` has them,
    but with alpha (n, k); bias, cost (k + 1,) by class: as above.  conjugates (k,) gain the changes of a_ik, k != y_i.
    Returns what it does; projected gradients are never below 0.  A row at a corner whose excess lies above
    ``limits.above`` is dropped."""
    entries, y, weights, sq_norms = rows.entries, rows.y, rows.weights, rows.sq_norms
    shrink_above, _, rest_beyond, rest_visits, reading, _ = limits
    columns, alpha, active, rest, conjugates, seen, additions, _, pauses, share = arrays
    width = columns.shape[1]
    w = columns.reshape(-1)
    k = alpha.shape[1]
    n = order.shape[0]
    with_set = share.shape[0] > 0
    z = np.empty(width)
    v = z[:k]
    new = np.empty(k)
    edges = np.empty(k)
    steps = np.zeros(width)
    lanes = all_lanes(width)
    moving = all_lanes(width)
    in_row = entries_ahead(entries.indptr, entries.longs, width)
    pg_max = 0.0
    dropped = nonzeros = n_rows_moving = 0
    bias_sq = bias * bias
    loss = resting_loss = gain = 0.0
    for t in range(n):
        if t + ROW_AHEAD < n:
            ahead = order[t + ROW_AHEAD]
            prefetch_row(entries, ahead)
            prefetch(sq_norms, ahead)
            prefetch(y, ahead)
        if in_row == 0 and t + WEIGHTS_AHEAD < n:
            prefetch_lanes(entries, w, width, lanes, lanes.shape[0], order[t + WEIGHTS_AHEAD])
        i = order[t]
        label = y[i]
        c = cost[label] * importance_of(weights, i)
        if c == 0.0:
            continue
        nonzeros += length_of(entries, i)
        row_scores(entries, i, w, width, bias, lanes, in_row, z)
        for j in range(k):
            if j != label:
                v[j] += 1.0
        a = alpha[i]
        lost, mine, projected, excess = row_state(v, a, label, c)
        loss += c * lost
        if with_set:
            share[i] = AT_REST if excess > NEAR else max(mine, FREE) if excess == 0.0 else mine
            seen[0] += max(share[i], 0.0)
        if reading:
            stays = with_set and share[i] < 0.0
            rest[i, 0] = next_rest(excess, stays, with_set, rest_beyond, rest_visits, pauses, i, 0)
            if rest[i, 0] > 1:
                resting_loss += c * lost
        if excess > shrink_above:
            active[i] = 0
            dropped += 1
            continue
        pg_max = max(pg_max, projected)
        if projected <= NEGLIGIBLE:
            continue
        q = sq_norms[i] + bias_sq
        if q > 0.0:
            best_row(v, a, label, c, q, edges, new)
        else:  # every class but its own has the same v: all of C to one of them
            for j in range(k):
                new[j] = 0.0
            new[label] = c
            new[1 if label == 0 else 0] = -c
        n_moving = 0
        for j in range(k):
            step = new[j] - a[j]
            steps[j] = step
            if step != 0.0:
                if j != label:
                    conjugates[j] += step
                gain -= step * (v[j] + 0.5 * q * step)
                a[j] = new[j]
                if n_moving == 0 or moving[n_moving - 1] != j // LINE:
                    moving[n_moving] = j // LINE
                    n_moving += 1
        add_row_to(entries, i, w, width, bias, moving, n_moving, steps)
        additions[0] += 1.0
        n_rows_moving += 1
    return pg_max, 0.0, dropped, nonzeros, loss, resting_loss, gain, seen[0], n_rows_moving


@kernel
def crammer_singer_sums(scores, within, y, weights, alpha, cost):
    """The sums over a block's rows that a certificate needs, given scores (n, k) that are known to +- within (n, k): as
    ``certificate_sums`` has them, of the rows' shares of the gap, and of sum_k a_k <w_k, x>.

    Loss and share are largest of k functions, linear in the scores: class j's share has the slope C [k = j] - slack_k.
    """
    k = scores.shape[1]
    v = np.empty(k)
    off = np.empty(k)
    sums = np.zeros(SUMS)
    for i in range(scores.shape[0]):
        label = y[i]
        c = cost[label] * importance_of(weights, i)
        if c == 0.0:
            continue
        for j in range(k):
            v[j] = scores[i, j] + (1.0 if j != label else 0.0)
            off[j] = within[i, j] + 4.0 * UNIT_ROUNDOFF * (abs(scores[i, j]) + 1.0)
        lost, share, projected, excess = row_state(v, alpha[i], label, c)
        largest = v[label] + lost
        product = slopes = moved = products = 0.0
        size = c * lost
        for j in range(k):
            product += alpha[i, j] * scores[i, j]
            size += abs(alpha[i, j] * v[j])
            slopes += ((c if j == label else 0.0) - alpha[i, j]) * off[j]
            moved += abs(alpha[i, j]) * within[i, j]
            products += abs(alpha[i, j] * scores[i, j])
        more = wider = 0.0
        for j in range(k):
            slack = (c if j == label else 0.0) - alpha[i, j]
            below = c * (v[j] - largest)
            wider = max(wider, below + slopes + (abs(c - slack) - slack) * off[j])
            if j != label:
                more = max(more, below + c * (off[j] + off[label]))
        terms = (c * lost, share, product, size, more, wider, moved, products, c)
        for t in range(SUMS):
            sums[t] += terms[t]
    return sums


@kernel
def crammer_singer_shares(scores, y, weights, alpha, cost, rest, pauses, out):
    """``out`` (n,) float64: each row's share of the gap, AT_REST for one at a corner that it will not leave soon; a row
    that can move is at rest no longer (rest, pauses (n, 1))."""
    k = scores.shape[1]
    v = np.empty(k)
    for i in range(scores.shape[0]):
        label = y[i]
        c = cost[label] * importance_of(weights, i)
        out[i] = AT_REST
        if c == 0.0:
            continue
        for j in range(k):
            v[j] = scores[i, j] + (1.0 if j != label else 0.0)
        lost, share, projected, excess = row_state(v, alpha[i], label, c)
        if excess <= NEAR:
            out[i] = max(share, FREE) if excess == 0.0 else share
            rest[i, 0] = 0
            pauses[i, 0] = 0
        else:
            rest[i, 0] = max(rest[i, 0], 1)


@kernel
def crammer_singer_feasible(alpha, y, weights, cost, ratio):
    """Another problem's a for this one: times ratio (k,) by the row's class, and 0 where it costs nothing, or where
    that is beyond its bounds."""
    for i in range(alpha.shape[0]):
        label = y[i]
        c = cost[label] * importance_of(weights, i)
        factor = ratio[label] if c > 0.0 else 0.0
        largest = alpha[i, label] * factor
        if largest > c and largest > 0.0:
            factor *= c / largest
        left = 0.0
        for j in range(alpha.shape[1]):
            if j != label:
                alpha[i, j] = min(alpha[i, j] * factor, 0.0)
                left += alpha[i, j]
        alpha[i, label] = min(-left, c)
