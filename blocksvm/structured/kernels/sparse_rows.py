"""Sparse rows of their own: products, sums, and several of them against each other.

A row is indices (n,) int64, rising, none twice, and values (n,) float64.
"""

import numpy as np

from blocksvm.kernels import kernel

LAST = np.int64(2**63 - 1)  # above all indices


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
