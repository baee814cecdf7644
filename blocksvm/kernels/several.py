"""Several problems over the same rows, minimised together: each row is read once for all of them.

The problems lie side by side in memory: w (d + 1, k) and alpha (l, k) float64 hold those of problem c in column c.  So a
nonzero of a row costs a few neighbouring cache lines for all problems, where k runs would fetch k lines from k places;
the mathematics of each problem is that of its own run (dual_cd.py, margins.py).

codes (n,) int16 tell a row's kind, targets (m, k) float64 and costs (m, k) float64 the target and the cost C_i that a row
of each kind has in each problem (cost 0: it is no part of it; the last kind, of code -1, has no target at all); reals
(n,) float64: the rows' targets in all problems, where they are real numbers, else None; live (t,) int32: the problems
that are still worked on.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.dual_cd import NEGLIGIBLE
from blocksvm.kernels.loss import (
    AT_REST,
    conjugate,
    direction,
    feasible,
    share_of_gap,
    stationarity,
    step,
    value,
)
from blocksvm.kernels.memory import HOT_WEIGHTS, ROW_AHEAD, WEIGHTS_AHEAD, prefetch, prefetch_row, value_at

LINE = 8  # float64 numbers in a cache line
MOSTLY = 3  # times the live problems: with fewer in all, the decision values of all are computed, side by side


@inlined
def target_of(targets, reals, i, code, c):
    """The target of row i, of kind ``code``, in problem c."""
    if reals is None:
        return targets[code, c]
    return reals[i]


@inlined
def prefetch_columns(indptr, indices, w, k, lines, row):
    """Ask for the weights that ``row`` names, of the problems in these ``lines`` of each feature's numbers; w
    ((d + 1) * k,)."""
    start = indptr[row]
    at = indptr[row + 1] - 1
    hot = HOT_WEIGHTS // k
    while at >= start and indices[at] >= hot:
        base = np.int64(indices[at]) * k
        for line in lines:
            prefetch(w, base + line)
        at -= 1


@inlined
def lines_of(live, k):
    """Where in a feature's k numbers the cache lines begin that hold the ``live`` problems."""
    wanted = np.zeros(k, np.uint8)
    for c in live:
        wanted[c - c % LINE] = 1
    return np.flatnonzero(wanted)


@inlined
def row_scores(indices, values, start, stop, w, k, bias, z):
    """``z[c] = <w_c, x> + bias * w_c's last`` for all problems; w ((d + 1) * k,)."""
    width = np.uint64(k)
    last = np.uint64(w.shape[0]) - width
    for c in range(width):
        z[c] = bias * w[last + c]
    for at in range(np.uint64(start), np.uint64(stop)):
        v = value_at(values, at)
        base = np.uint64(indices[at]) * width
        for c in range(width):
            z[c] += v * w[base + c]


@inlined
def some_row_scores(indices, values, start, stop, w, k, bias, live, z):
    """The same for the ``live`` problems alone."""
    width = np.uint64(k)
    last = np.uint64(w.shape[0]) - width
    for t in range(live.shape[0]):
        z[live[t]] = bias * w[last + np.uint64(live[t])]
    for at in range(np.uint64(start), np.uint64(stop)):
        v = value_at(values, at)
        base = np.uint64(indices[at]) * width
        for t in range(live.shape[0]):
            c = np.uint64(live[t])
            z[c] += v * w[base + c]


@inlined
def add_row_to(indices, values, start, stop, w, k, moved, steps, n_moved):
    """``w_c += steps[c] * x`` for the problems c = moved[t], t < n_moved; steps (k,) is 0 for all others."""
    width = np.uint64(k)
    if MOSTLY * n_moved >= k:
        for at in range(np.uint64(start), np.uint64(stop)):
            v = value_at(values, at)
            base = np.uint64(indices[at]) * width
            for c in range(width):
                w[base + c] += steps[c] * v
        return
    for at in range(np.uint64(start), np.uint64(stop)):
        v = value_at(values, at)
        base = np.uint64(indices[at]) * width
        for t in range(n_moved):
            w[base + np.uint64(moved[t])] += steps[moved[t]] * v


def several_dual_cd_pass(indptr, indices, values, codes, reals, weights, sq_norms, order, bias, targets, costs, p,
                         shrink_above, shrink_below, rest_beyond, rest_visits, live, scale, w, alpha, active, rest,
                         pauses, share, conjugates, seen):  # fmt: skip
    """One inner pass of dual coordinate descent over the rows in ``order``, for all live problems: ``dual_cd_pass`` of
    each.  A row is dropped, or put to rest, where every live problem would do that.

    scale (k,): what each problem's shares of its gap are multiplied by; w ((d + 1) * k,), alpha (n, k), active, rest and
    pauses (n,), share (n,) float64 (the row's scaled shares, added up over the problems) are updated; conjugates (k,) gain
    the changes of each problem's sum_i conjugate_i, and seen (k,) its own shares, unscaled.

    Returns as ``dual_cd_pass`` does, of all problems together.
    """
    k = alpha.shape[1]
    n = order.shape[0]
    n_live = live.shape[0]
    dense = MOSTLY * n_live >= k
    lines = np.arange(0, k, LINE) if dense else lines_of(live, k)
    with_set = share.shape[0] > 0
    z = np.empty(k)
    steps = np.zeros(k)
    moved = np.empty(k, np.int32)
    last = w.shape[0] - k
    pg_max = -np.inf
    pg_min = np.inf
    dropped = 0
    nonzeros = 0
    bias_sq = bias * bias
    loss = 0.0
    resting_loss = 0.0
    changes = 0.0
    gain = 0.0
    shares = 0.0
    for t in range(n):
        if t + ROW_AHEAD < n:
            ahead = order[t + ROW_AHEAD]
            prefetch_row(indptr, indices, values, ahead)
            prefetch(sq_norms, ahead)
            prefetch(codes, ahead)
        if t + WEIGHTS_AHEAD < n:
            prefetch_columns(indptr, indices, w, k, lines, order[t + WEIGHTS_AHEAD])
        i = order[t]
        importance = 1.0 if weights is None else weights[i]
        start = indptr[i]
        stop = indptr[i + 1]
        nonzeros += stop - start
        code = codes[i]
        if dense:
            row_scores(indices, values, start, stop, w, k, bias, z)
        else:
            some_row_scores(indices, values, start, stop, w, k, bias, live, z)
        q = sq_norms[i] + bias_sq
        n_moved = 0
        part_of_some = False
        all_far = True
        all_beyond = True
        row_loss = 0.0
        row_share = AT_REST
        for s in range(n_live):
            c = live[s]
            cost = costs[code, c] * importance
            if cost == 0.0:
                continue
            part_of_some = True
            target = target_of(targets, reals, i, code, c)
            a = alpha[i, c]
            suffered = value(z[c], target, cost, p)
            row_loss += suffered
            projected, excess = stationarity(a, z[c], target, cost, p)
            all_far = all_far and abs(excess) > rest_beyond
            if with_set:
                mine = share_of_gap(a, z[c], target, cost, p)
                if mine >= 0.0:
                    row_share = max(row_share, 0.0) + mine * scale[c]
                    seen[c] += mine
            if excess > shrink_above or excess < shrink_below:
                continue
            all_beyond = False
            pg_max = max(pg_max, projected)
            pg_min = min(pg_min, projected)
            if abs(projected) > NEGLIGIBLE:
                new = step(a, z[c], q, target, cost, p)
                more = conjugate(new, target, cost, p) - conjugate(a, target, cost, p)
                conjugates[c] += more
                changes += more
                move = (new - a) * direction(target, p)
                gain -= more + move * (z[c] + 0.5 * move * q)
                alpha[i, c] = new
                moved[n_moved] = c
                steps[c] = move
                n_moved += 1
        if not part_of_some:
            if with_set:
                share[i] = AT_REST
            continue
        loss += row_loss
        if with_set:
            share[i] = row_share
            shares += max(row_share, 0.0)
        if rest[i] == 0 and all_far:
            rest[i] = rest_visits
            if with_set:
                pauses[i] = min(2 * pauses[i] + 1, rest_visits)
                rest[i] = pauses[i]
            resting_loss += row_loss
        elif with_set and rest[i] == 0 and rest_beyond < np.inf:
            pauses[i] = 0
        if all_beyond:
            active[i] = 0
            dropped += 1
        if n_moved > 0:
            add_row_to(indices, values, start, stop, w, k, moved, steps, n_moved)
            for m in range(n_moved):
                w[last + moved[m]] += steps[moved[m]] * bias
                steps[moved[m]] = 0.0
    return pg_max, pg_min, dropped, nonzeros, loss, resting_loss, changes, gain, shares


@kernel
def several_decision_values(indptr, indices, values, w, bias, out):
    """``out[i, c] = <w_c, x_i> + bias * w_c's last`` for all rows and problems; w ((d + 1) * k,), out (n, k)."""
    k = out.shape[1]
    n = out.shape[0]
    lines = np.arange(0, k, LINE)
    for i in range(n):
        if i + WEIGHTS_AHEAD < n:
            prefetch_columns(indptr, indices, w, k, lines, i + WEIGHTS_AHEAD)
        row_scores(indices, values, indptr[i], indptr[i + 1], w, k, bias, out[i])


def several_certificate_sums(scores, codes, reals, weights, alpha, targets, costs, p, live, out):
    """``out`` (k, 4) gains, for each live problem, what ``certificate_sums`` returns: the sums over rows of value, of the
    share of the gap, of a direction z, and of the terms' magnitudes; scores, alpha (n, k)."""
    for i in range(scores.shape[0]):
        importance = 1.0 if weights is None else weights[i]
        code = codes[i]
        for s in range(live.shape[0]):
            c = live[s]
            cost = costs[code, c] * importance
            if cost == 0.0:
                continue
            target = target_of(targets, reals, i, code, c)
            z = scores[i, c]
            a = alpha[i, c]
            suffered = value(z, target, cost, p)
            conjugated = conjugate(a, target, cost, p)
            product = a * direction(target, p) * z
            out[c, 0] += suffered
            out[c, 1] += suffered + (conjugated + product)
            out[c, 2] += product
            out[c, 3] += suffered + abs(conjugated) + abs(product)


def several_shares(scores, codes, reals, weights, alpha, targets, costs, p, live, scale, rest, pauses, out):
    """``out`` (n,) float64: each row's scaled shares of the live problems' gaps, added up, as ``several_dual_cd_pass``
    has them; a row that can move is at rest no longer."""
    for i in range(scores.shape[0]):
        importance = 1.0 if weights is None else weights[i]
        code = codes[i]
        total = AT_REST
        for s in range(live.shape[0]):
            c = live[s]
            cost = costs[code, c] * importance
            if cost > 0.0:
                mine = share_of_gap(alpha[i, c], scores[i, c], target_of(targets, reals, i, code, c), cost, p)
                if mine >= 0.0:
                    total = max(total, 0.0) + mine * scale[c]
        out[i] = total
        if total >= 0.0:
            rest[i] = 0
            pauses[i] = 0


def several_coefficients(alpha, codes, reals, weights, targets, costs, p, live, conjugates, out):
    """``out[i, c] = alpha[i, c] * direction`` for the live problems, 0 for the others, by which w is made anew;
    conjugates (k,) gain each problem's sum_i conjugate(a_i)."""
    out[:] = 0.0
    for i in range(alpha.shape[0]):
        importance = 1.0 if weights is None else weights[i]
        code = codes[i]
        for s in range(live.shape[0]):
            c = live[s]
            cost = costs[code, c] * importance
            if cost > 0.0:
                out[i, c] = alpha[i, c] * direction(target_of(targets, reals, i, code, c), p)
                conjugates[c] += conjugate(alpha[i, c], target_of(targets, reals, i, code, c), cost, p)


def several_feasible(alpha, codes, reals, weights, targets, costs, p, ratio):
    """Other problems' dual variables for these: times ratio (m, k) by kind of row and problem, then into each row's own
    bounds; 0 where a row is no part of a problem."""
    for i in range(alpha.shape[0]):
        importance = 1.0 if weights is None else weights[i]
        code = codes[i]
        for c in range(alpha.shape[1]):
            cost = costs[code, c] * importance
            a = alpha[i, c] * ratio[code, c]
            alpha[i, c] = feasible(a, target_of(targets, reals, i, code, c), cost, p) if cost > 0.0 else 0.0


@kernel
def add_rows_to_several(indptr, indices, values, coefficients, bias, w):
    """``w_c += sum_i coefficients[i, c] * x_i`` (and the constant feature); coefficients (n, k), w ((d + 1) * k,)."""
    k = coefficients.shape[1]
    last = w.shape[0] - k
    moved = np.empty(k, np.int32)
    for i in range(coefficients.shape[0]):
        n_moved = 0
        for c in range(k):
            if coefficients[i, c] != 0.0:
                moved[n_moved] = c
                n_moved += 1
                w[last + c] += coefficients[i, c] * bias
        if n_moved > 0:
            add_row_to(indices, values, indptr[i], indptr[i + 1], w, k, moved, coefficients[i], n_moved)


@kernel
def sums_of_columns(w, prior, out):
    """``out`` (k, 4): of each column of w (d + 1, k) and of w0, the prior (d + 1, k) or (0, 0): ||w||^2, ||w - w0||^2,
    <w, w - w0> and <w0, w - w0>."""
    k = w.shape[1]
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
