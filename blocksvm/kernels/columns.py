"""Rows over k weight vectors that lie side by side in memory (blocksvm/base/vectors.py).

w (d + 1, width) float64 has the weights of problem c in column c, and a feature's ``width`` numbers, of which some may
belong to no problem and are 0, begin on a cache line of their own; of one problem the width is 1.  So a nonzero of a
row costs a cache line for each eight problems, where k runs would fetch k lines from k lines.  A *lane* is such a line,
or all of a width of 4; lane g has the columns from 8 g on.  live (t,) int32: the columns that are worked on; None: the
only one there is.
"""

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, inlined_views, kernel
from blocksvm.kernels.lanes import eight, four, plus, put, times
from blocksvm.kernels.rows import (
    HOT_WEIGHTS,
    WEIGHTS_AHEAD,
    add_row,
    ask_for_weights,
    dot,
    hot_run,
    over_runs,
    prefetch,
    prefetch_weights,
    products,
    value_at,
    value_in,
)

ENTRIES_AHEAD = 32  # of 8, 16, 32, 64 the last three are alike on IMDB's words over 5 problems, 8 is slower
NONZEROS_OF_A_WORD = 2  # of packed rows of text, about
IN_FLIGHT = 1 << 15  # numbers: a quarter of a second-level cache


@inlined
def count_of(live):
    """How many columns are worked on."""
    if live is None:
        return 1
    return live.shape[0]


@inlined
def column_of(live, s):
    """The s-th of them; unsigned positions spare the test for an index that counts from the end."""
    if live is None:
        return np.uint64(0)
    return np.uint64(live[s])


@inlined
def prefetch_lanes(entries, w, width, lanes, n_lanes, row):
    """Ask for the weights that ``row`` names, in the first ``n_lanes`` of these lanes."""
    for t in range(n_lanes):
        ask_for_weights(
            entries.indptr, entries.indices, entries.longs, entries.shorts, w, np.int64(row), 1, width,
            np.int64(lanes[t]) * LINE, HOT_WEIGHTS // width,
        )  # fmt: skip


@inlined_views
def all_lanes(width):
    return np.arange((width + LINE - 1) // LINE).astype(np.int32)


@inlined
def entries_ahead(indptr, longs, width):
    """How many entries ahead of the one at work the weights are asked for, where those of whole rows ahead, ``width``
    numbers a nonzero, would not stay in the cache until they are wanted; else 0."""
    n_rows = indptr.shape[0] - 1
    n_nonzeros = indptr[n_rows] - indptr[0]
    if longs is not None:
        n_nonzeros *= NONZEROS_OF_A_WORD
    return ENTRIES_AHEAD if WEIGHTS_AHEAD * n_nonzeros * (width + LINE) > IN_FLIGHT * n_rows else 0


@inlined
def add_scores(features, begin, n, values, codes, numbers, at, score, others):
    """``score`` + sum_k value_k w[feature_k] over a run (``rows.over_runs``), in as many columns as ``load`` takes."""
    w, width, first, ahead, load = others
    for k in range(n):
        if ahead > 0 and k + ahead < n:
            prefetch(w, np.uint64(features[begin + k + ahead]) * width + first)
        position = np.uint64(features[begin + k]) * width + first
        score = plus(score, value_in(values, codes, numbers, k, at), load(w, position))
    return score


@inlined
def numbers_scores(entries, i, w, width, first, bias, ahead, load, z):
    """``lane_scores`` of as many columns as ``load`` (``four``, ``eight``) takes."""
    score = times(bias, load(w, np.uint64(w.shape[0]) - width + first))
    put(z, first, over_runs(entries, i, add_scores, score, (w, width, first, np.uint64(ahead), load)))


@inlined
def lane_scores(entries, i, w, width, first, bias, ahead, z):
    """``z[c] = <w_c, x_i> + bias * w_c's last`` for the columns c of the lane that begins at ``first``."""
    if width < LINE:
        numbers_scores(entries, i, w, width, first, bias, ahead, four, z)
    else:
        numbers_scores(entries, i, w, width, first, bias, ahead, eight, z)


@inlined
def row_scores(entries, i, w, width, bias, lanes, ahead, z):
    """``lane_scores`` in all of these lanes; z (width,)."""
    for t in range(lanes.shape[0]):
        first = np.uint64(lanes[t] * LINE)
        lane_scores(entries, i, w, np.uint64(width), first, bias, ahead, z)


@inlined
def add_steps(features, begin, n, values, codes, numbers, at, step, others):
    """``w[feature_k] += value_k step`` over a run."""
    w, width, first, load = others
    for k in range(n):
        position = np.uint64(features[begin + k]) * width + first
        put(w, position, plus(load(w, position), value_in(values, codes, numbers, k, at), step))
    return step


@inlined
def add_numbers(entries, i, w, width, first, bias, load, steps):
    """``add_to_lane`` of as many columns as ``load`` (``four``, ``eight``) takes."""
    step = load(steps, first)
    last = np.uint64(w.shape[0]) - width + first
    put(w, last, plus(load(w, last), bias, step))
    over_runs(entries, i, add_steps, step, (w, width, first, load))


@inlined
def add_to_lane(entries, i, w, width, first, bias, steps):
    """``w_c += steps[c] * x_i`` (and the constant feature) for the columns c of the lane that begins at ``first``."""
    if width < LINE:
        add_numbers(entries, i, w, width, first, bias, four, steps)
    else:
        add_numbers(entries, i, w, width, first, bias, eight, steps)


@inlined
def add_row_to(entries, i, w, width, bias, lanes, n_lanes, steps):
    """The same in the first ``n_lanes`` of these lanes; steps (width,)."""
    for t in range(n_lanes):
        add_to_lane(entries, i, w, np.uint64(width), np.uint64(lanes[t] * LINE), bias, steps)


def decision_values(entries, w, bias, out):
    """``out[i, c] = <w_c, x_i> + bias * w_c's last`` for all rows of a block; w (d + 1, width), out (n, k).  What one
    column does not need is not compiled for it."""
    if w.shape[1] == 1:
        values_of_column(entries, w.reshape(-1), bias, out.reshape(-1))
    else:
        values_of_lanes(entries, w, bias, out)


@kernel
def values_of_column(entries, w, bias, out):
    n = out.shape[0]
    constant = bias * w[w.shape[0] - 1]
    run = hot_run(entries)
    for i in range(n):
        if i + WEIGHTS_AHEAD < n:
            prefetch_weights(entries, w, i + WEIGHTS_AHEAD, run)
        out[i] = dot(entries, i, w) + constant


@kernel
def values_of_lanes(entries, w, bias, out):
    n, k = out.shape
    width = w.shape[1]
    flat = w.reshape(-1)
    z = np.empty(width)
    lanes = all_lanes(width)
    ahead = entries_ahead(entries.indptr, entries.longs, width)
    for i in range(n):
        if ahead == 0 and i + WEIGHTS_AHEAD < n:
            prefetch_lanes(entries, flat, width, lanes, lanes.shape[0], i + WEIGHTS_AHEAD)
        row_scores(entries, i, flat, width, bias, lanes, ahead, z)
        for c in range(k):
            out[i, c] = z[c]


def add_rows(entries, coefficients, bias, w):
    """``w_c += sum_i coefficients[i, c] * x_i`` (and the constant feature); coefficients (n, k), w (d + 1, width)."""
    if w.shape[1] == 1:
        add_to_column(entries, coefficients.reshape(-1), bias, w.reshape(-1))
    else:
        add_to_lanes(entries, coefficients, bias, w)


@kernel
def add_to_column(entries, coefficients, bias, w):
    last = w.shape[0] - 1
    for i in range(coefficients.shape[0]):
        step = coefficients[i]
        if step != 0.0:
            add_row(entries, i, step, w)
            w[last] += step * bias


@kernel
def add_to_lanes(entries, coefficients, bias, w):
    n, k = coefficients.shape
    width = w.shape[1]
    flat = w.reshape(-1)
    moving = all_lanes(width)
    steps = np.zeros(width)
    for i in range(n):
        n_moving = 0
        for c in range(k):
            steps[c] = coefficients[i, c]
            if steps[c] != 0.0 and (n_moving == 0 or moving[n_moving - 1] != c // LINE):
                moving[n_moving] = c // LINE
                n_moving += 1
        add_row_to(entries, i, flat, width, bias, moving, n_moving, steps)


@inlined
def add_sizes(features, begin, n, values, codes, numbers, at, size, others):
    """``size`` + sum_k |value_k w[feature_k]| over a run, for the column ``c`` of w."""
    w, width, c = others
    for k in range(n):
        size += abs(value_in(values, codes, numbers, k, at) * w[np.uint64(features[begin + k]) * width + c])
    return size


@kernel
def sizes_of_products(entries, w, bias, out):
    """``out[i, c] = sum_j |w_jc x_ij|`` with the constant feature, for w (d + 1, width); out (n, k).  The rounding of a
    decision value is proportional to it."""
    last = w.shape[0] - 1
    width = np.uint64(w.shape[1])
    flat = w.reshape(-1)
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = over_runs(entries, i, add_sizes, abs(w[last, c] * bias), (flat, width, np.uint64(c)))


@kernel
def squared_norms(w, prior, out):
    """``out`` (k, 4): of the first k columns of w (m, width) and of w0, the prior (m, width) or (0, 0): ||w||^2,
    ||w - w0||^2 (never by a difference of squares), <w, w - w0> and <w0, w - w0>."""
    k = out.shape[0]
    out[:] = 0.0
    if w.shape[1] == 1 and prior.shape[0] == 0:
        flat = w.reshape(-1)
        out[0, :3] = products(flat, np.uint64(0), np.uint64(0), np.uint64(flat.shape[0]))
        return
    for j in range(w.shape[0]):
        for c in range(k):
            w0 = prior[j, c] if prior.shape[0] > 0 else 0.0
            difference = w[j, c] - w0
            out[c, 0] += w[j, c] * w[j, c]
            out[c, 1] += difference * difference
            out[c, 2] += w[j, c] * difference
            out[c, 3] += w0 * difference


@kernel
def squared_drifts(w, prior, added, out):
    """``out`` (k,): of the first k columns of w, the prior w0 (m, width) or (0, 0), and ``added`` (m, width), what rows
    have added to it: ||(w - w0) - added||^2; where w and w0 agree nothing is rounded, however large they are."""
    out[:] = 0.0
    for j in range(w.shape[0]):
        for c in range(out.shape[0]):
            w0 = prior[j, c] if prior.shape[0] > 0 else 0.0
            out[c] += ((w[j, c] - w0) - added[j, c]) ** 2


@kernel
def sum_of_squares(x):
    """||x||^2, in a fixed order (a library's sum depends on the machine's width)."""
    return products(x, np.uint64(0), np.uint64(0), np.uint64(x.shape[0]))


@kernel
def row_sq_norms(indptr, indices, values, out):
    """``out[i] = ||x_i||^2`` in float64."""
    for i in range(indptr.shape[0] - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += value_at(values, k) ** 2
        out[i] = total


@kernel
def sparse_values(entries, ends, classes, weights, intercepts, out):
    """``out[i, c] = <w_c, x_i> + intercepts[c]`` of plain rows; feature j has the weights ends[j] .. ends[j + 1] - 1,
    of these classes, and no others; out (n, k)."""
    for i in range(out.shape[0]):
        out[i, :] = 0.0
        for e in range(entries.indptr[i], entries.indptr[i + 1]):
            value = value_at(entries.values, e)
            j = entries.indices[e]
            for t in range(ends[j], ends[j + 1]):
                out[i, classes[t]] += value * weights[t]
        out[i, :] += intercepts
