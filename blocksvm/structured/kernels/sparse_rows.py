"""Sparse rows of their own: products, sums, and several of them against each other.  A row is indices (n,) int64,
rising, none twice, and values (n,) float64.

The multipliers of a small quadratic program: how far to move from each of some outputs.

    min 1/2 ||w' - w||^2 + C sum slack   s.t.  <w' - w, d_j> >= margins_j - slack;    w' - w = sum_j a_j d_j
    max over a >= 0  margins^T a - 1/2 a^T gram a   s.t.  sum a <= C over each group,    gram_jk = <d_j, d_k>

A group is the constraints that share a slack: those of an example, or each alone.
"""

import numpy as np

from blocksvm.kernels import kernel

LAST = np.int64(2**63 - 1)  # above all indices
NOTHING = 1e-12  # a share of C that the rounding of sums leaves over: no steps of this size are taken


@kernel
def inner(indices, values, w):
    """<row, w>"""
    total = 0.0
    for k in range(indices.shape[0]):
        total += values[k] * w[indices[k]]
    return total


@kernel
def add_to(indices, values, factor, w):
    """w += factor row"""
    for k in range(indices.shape[0]):
        w[indices[k]] += factor * values[k]


@kernel
def in_order(indices, values, n):
    """Make one row of the first n entries, in any order, in place: sorted, equal ones added up, zeros dropped.  Returns
    how many are left."""
    order = np.argsort(indices[:n], kind="mergesort")
    old_indices, old_values = indices[:n].copy(), values[:n].copy()
    filled = k = 0
    while k < n:
        index = old_indices[order[k]]
        total = 0.0
        while k < n and old_indices[order[k]] == index:
            total += old_values[order[k]]
            k += 1
        if total != 0.0:
            indices[filled], values[filled] = index, total
            filled += 1
    return filled


@kernel
def combined(indices, values, factor, more_indices, more_values, more_factor, out_indices, out_values):
    """factor row + more_factor more, into ``out``, which has room for both: returns how many entries it has.  Zeros are
    dropped."""
    n, m = indices.shape[0], more_indices.shape[0]
    filled = a = b = 0
    while a < n or b < m:
        index = min(indices[a] if a < n else LAST, more_indices[b] if b < m else LAST)
        value = 0.0
        if a < n and indices[a] == index:
            value = factor * values[a]
            a += 1
        if b < m and more_indices[b] == index:
            value += more_factor * more_values[b]
            b += 1
        if value != 0.0:
            out_indices[filled], out_values[filled] = index, value
            filled += 1
    return filled


@kernel
def products(indptr, indices, values, gram):
    """``gram`` (n, n): the inner products of all rows, one after the other in indices and values, row j from indptr[j]
    on (int64)."""
    for j in range(gram.shape[0]):
        for i in range(j + 1):
            a, a_end, b, b_end = indptr[j], indptr[j + 1], indptr[i], indptr[i + 1]
            total = 0.0
            while a < a_end and b < b_end:
                if indices[a] < indices[b]:
                    a += 1
                elif indices[b] < indices[a]:
                    b += 1
                else:
                    total += values[a] * values[b]
                    a += 1
                    b += 1
            gram[j, i] = gram[i, j] = total


@kernel
def row_products(indptr, indices, values, first, w, scores):
    """``scores`` (n,) float64: <row first + j, w> of rows one after the other, row j from indptr[j] on (int64)."""
    for j in range(scores.shape[0]):
        total = 0.0
        for k in range(indptr[first + j], indptr[first + j + 1]):
            total += values[k] * w[indices[k]]
        scores[j] = total


@kernel
def best_multipliers(gram, margins, groups, C, tol, most, a):
    """Write the multipliers a (n,) float64; gram (n, n), margins (n,) float64; groups (n,) int64, rising.

    Pairs: what is left of a group's C counts as one more multiplier, whose gradient is 0, so that the multipliers of a
    group sum to C; the one of the largest gradient takes from the one of the least that has something to give
    (sequential minimal optimisation; Platt, 1998).  Stops where no multiplier can rise or fall by a gradient above
    ``tol``, or after ``most`` steps; returns the largest such gradient.
    """
    n = gram.shape[0]
    a[:] = 0.0
    gradient = margins.copy()
    largest = np.inf
    steps = 0
    while largest > tol and steps < most:
        largest = 0.0
        start = 0
        while start < n:
            stop = start
            left = C
            while stop < n and groups[stop] == groups[start]:
                left -= a[stop]
                stop += 1
            taker = giver = -1  # the multiplier of what is left
            high = 0.0
            low = 0.0 if left > NOTHING * C else np.inf
            for j in range(start, stop):
                if gradient[j] > high:
                    high = gradient[j]
                    taker = j
                if a[j] > 0.0 and gradient[j] < low:
                    low = gradient[j]
                    giver = j
            start = stop
            steps += 1
            gain = high - low
            if not gain > 0.0:
                continue
            largest = max(largest, gain)
            curvature = 0.0
            if taker >= 0:
                curvature += gram[taker, taker]
            if giver >= 0:
                curvature += gram[giver, giver]
            if taker >= 0 and giver >= 0:
                curvature -= 2.0 * gram[taker, giver]
            there = a[giver] if giver >= 0 else left
            step = min(gain / curvature, there) if curvature > 0.0 else there
            if taker >= 0:
                a[taker] += step
                for k in range(n):
                    gradient[k] -= step * gram[taker, k]
            if giver >= 0:
                a[giver] = 0.0 if step == there else a[giver] - step
                for k in range(n):
                    gradient[k] += step * gram[giver, k]
    return largest
