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
MOSTLY = 3  # times the problems that are wanted: with fewer in all, all are computed, side by side
ENTRIES_AHEAD = 16
IN_FLIGHT = 1 << 15  # numbers: a quarter of a second-level cache
NEVER = 255  # in the place of a rest


@inlined
def target_of(targets, reals, i, code, c):
    """The target of row i, of kind ``code``, in problem c."""
    if reals is None:
        return targets[code, c]
    return reals[i]


@inlined
def prefetch_columns(indptr, indices, w, k, lines, n_lines, row):
    """Ask for the weights that ``row`` names, at the first ``n_lines`` of these places in each feature's k numbers; w
    ((d + 1) * k,)."""
    start = indptr[row]
    at = indptr[row + 1] - 1
    hot = HOT_WEIGHTS // k
    while at >= start and indices[at] >= hot:
        base = np.int64(indices[at]) * k
        for line in range(n_lines):
            prefetch(w, base + lines[line])
        at -= 1


@inlined
def awake_lines(rest, row, live, reading, lines):
    """Fill ``lines`` with a place in each cache line of a feature's k numbers that the row needs; returns how many.
    Where lines begin is not known, so the last place of each run of neighbours is among them."""
    n_lines = 0
    end = 0
    before = -1
    for s in range(live.shape[0]):
        c = live[s]
        if not is_awake(rest[row, c], reading):
            continue
        if before >= 0 and c > before + 1 and lines[n_lines - 1] != before:
            lines[n_lines] = before
            n_lines += 1
        if c >= end:
            lines[n_lines] = c
            n_lines += 1
            end = c + LINE
        before = c
    if before >= 0 and lines[n_lines - 1] != before:
        lines[n_lines] = before
        n_lines += 1
    return n_lines


@inlined
def all_lines(k):
    """The same for all problems."""
    lines = np.empty((k - 1) // LINE + 2, np.int32)
    for n in range(lines.shape[0] - 1):
        lines[n] = n * LINE
    lines[lines.shape[0] - 1] = k - 1
    return lines


@inlined
def is_awake(rest, reading):
    """Whether a row is visited for a problem, where ``rest`` is what state["rest"] has of the two."""
    return rest <= (1 if reading else 0)


@kernel
def leave_rows_at_rest(order, rest, live, active, reading):
    """Compact ``order`` to the rows that are awake for some live problem; the others are inactive in this visit and, in
    a ``reading``, one visit nearer to their return.  Returns how many stay."""
    kept = 0
    for t in range(order.shape[0]):
        i = order[t]
        awake = False
        for s in range(live.shape[0]):
            if is_awake(rest[i, live[s]], reading):
                awake = True
                break
        if awake:
            order[kept] = i
            kept += 1
            continue
        active[i] = 0
        if reading:
            for s in range(live.shape[0]):
                if rest[i, live[s]] != NEVER:
                    rest[i, live[s]] -= 1
    return kept


@inlined
def entries_ahead(n_nonzeros, n_rows, k):
    """How many entries ahead of the one at work the weights are asked for, where those of whole rows ahead would not stay
    in the cache until they are wanted; else 0."""
    return ENTRIES_AHEAD if WEIGHTS_AHEAD * n_nonzeros * (k + LINE) > IN_FLIGHT * n_rows else 0


@inlined
def prefetch_ahead(indices, at, stop, w, k, lines, n_lines):
    """Ask for the weights of an entry of the row at work."""
    if at < stop:
        base = np.int64(indices[at]) * k
        for line in range(n_lines):
            prefetch(w, base + lines[line])


@inlined
def row_scores(indices, values, start, stop, w, k, bias, lines, n_lines, ahead, z):
    """``z[c] = <w_c, x> + bias * w_c's last`` for all problems; w ((d + 1) * k,)."""
    width = np.uint64(k)
    last = np.uint64(w.shape[0]) - width
    for c in range(width):
        z[c] = bias * w[last + c]
    for at in range(np.uint64(start), np.uint64(stop)):
        if ahead > 0:
            prefetch_ahead(indices, at + np.uint64(ahead), np.uint64(stop), w, k, lines, n_lines)
        v = value_at(values, at)
        base = np.uint64(indices[at]) * width
        for c in range(width):
            z[c] += v * w[base + c]


@inlined
def some_row_scores(indices, values, start, stop, w, k, bias, chosen, n_chosen, lines, n_lines, ahead, z):
    """The same for the first ``n_chosen`` of the problems that are ``chosen`` alone."""
    width = np.uint64(k)
    last = np.uint64(w.shape[0]) - width
    for t in range(n_chosen):
        z[chosen[t]] = bias * w[last + np.uint64(chosen[t])]
    for at in range(np.uint64(start), np.uint64(stop)):
        if ahead > 0:
            prefetch_ahead(indices, at + np.uint64(ahead), np.uint64(stop), w, k, lines, n_lines)
        v = value_at(values, at)
        base = np.uint64(indices[at]) * width
        for t in range(n_chosen):
            c = np.uint64(chosen[t])
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
                         shrink_above, shrink_below, rest_beyond, rest_visits, live, reading, first, scale, w, alpha,
                         active, rest, pauses, share, conjugates, seen):  # fmt: skip
    """One inner pass of dual coordinate descent over the rows in ``order``, for all live problems: ``dual_cd_pass`` of
    each.  A row is dropped from the visit where every live problem would do that.

    reading: the rows are those of a block, not of a working set; first: in the first pass of such a visit.  scale (k,):
    what each problem's shares of its gap are multiplied by; w ((d + 1) * k,), alpha (n, k), active (n,), rest and pauses
    (n, k) uint8, share (n,) float64 (the row's scaled shares, added up over the problems) are updated; conjugates (k,)
    gain the changes of each problem's sum_i conjugate_i, and seen (k,) its own shares, unscaled.

    rest[i, c]: 0, row i is visited for problem c; 1, not in passes over a working set, where it has no share, nor again
    in this visit; 1 + r: nor in the next r readings; NEVER: it is no part of the problem.

    Returns as ``dual_cd_pass`` does, of all problems together.
    """
    k = alpha.shape[1]
    n = order.shape[0]
    n_live = live.shape[0]
    with_set = share.shape[0] > 0
    z = np.empty(k)
    steps = np.zeros(k)
    moved = np.empty(k, np.int32)
    awake = np.empty(k, np.int32)
    lines = np.empty(2 * k, np.int32)
    in_row = entries_ahead(indptr[indptr.shape[0] - 1], indptr.shape[0] - 1, k)
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
        if in_row == 0 and t + WEIGHTS_AHEAD < n:
            ahead = order[t + WEIGHTS_AHEAD]
            n_lines = awake_lines(rest, ahead, live, first, lines)
            prefetch_columns(indptr, indices, w, k, lines, n_lines, ahead)
        i = order[t]
        n_lines = awake_lines(rest, i, live, first, lines) if in_row > 0 else 0
        importance = 1.0 if weights is None else weights[i]
        code = codes[i]
        n_awake = 0
        for s in range(n_live):
            c = live[s]
            if is_awake(rest[i, c], first):
                if costs[code, c] * importance == 0.0:
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
        if MOSTLY * n_awake >= k:
            row_scores(indices, values, start, stop, w, k, bias, lines, n_lines, in_row, z)
        else:
            some_row_scores(
                indices, values, start, stop, w, k, bias, awake, n_awake, lines, n_lines, in_row, z
            )  # fmt: skip
        q = sq_norms[i] + bias_sq
        n_moved = 0
        all_beyond = True
        row_share = AT_REST
        for s in range(n_awake):
            c = awake[s]
            cost = costs[code, c] * importance
            target = target_of(targets, reals, i, code, c)
            a = alpha[i, c]
            suffered = value(z[c], target, cost, p)
            loss += suffered
            projected, excess = stationarity(a, z[c], target, cost, p)
            mine = AT_REST
            if with_set:
                mine = share_of_gap(a, z[c], target, cost, p)
                if mine >= 0.0:
                    row_share = max(row_share, 0.0) + mine * scale[c]
                    seen[c] += mine
            if reading:
                if abs(excess) > rest_beyond:
                    pause = rest_visits
                    if with_set:
                        pause = min(2 * pauses[i, c] + 1, rest_visits)
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
        if with_set:
            share[i] = row_share
            shares += max(row_share, 0.0)
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
    lines = all_lines(k)
    in_row = entries_ahead(indptr[n] - indptr[0], n, k)
    for i in range(n):
        if in_row == 0 and i + WEIGHTS_AHEAD < n:
            prefetch_columns(indptr, indices, w, k, lines, lines.shape[0], i + WEIGHTS_AHEAD)
        row_scores(
            indices, values, indptr[i], indptr[i + 1], w, k, bias, lines, lines.shape[0], in_row, out[i]
        )  # fmt: skip


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
    has them; where a row can move for a problem it is at rest no longer."""
    for i in range(scores.shape[0]):
        importance = 1.0 if weights is None else weights[i]
        code = codes[i]
        total = AT_REST
        for s in range(live.shape[0]):
            c = live[s]
            cost = costs[code, c] * importance
            if cost == 0.0:
                rest[i, c] = NEVER
                continue
            mine = share_of_gap(alpha[i, c], scores[i, c], target_of(targets, reals, i, code, c), cost, p)
            if mine >= 0.0:
                total = max(total, 0.0) + mine * scale[c]
                rest[i, c] = 0
                pauses[i, c] = 0
            else:
                rest[i, c] = max(rest[i, c], 1)
        out[i] = total


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
