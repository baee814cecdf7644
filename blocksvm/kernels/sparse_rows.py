"""Sparse rows of their own: products, sums, and several of them against each other.

A row is indices (n,) int64, rising, none twice, and values (n,) float64.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel


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
    filled = 0
    k = 0
    while k < n:
        own = old_indices[order[k]]
        total = 0.0
        while k < n and old_indices[order[k]] == own:
            total += old_values[order[k]]
            k += 1
        if total != 0.0:
            indices[filled], values[filled] = own, total
            filled += 1
    return filled


@kernel
def combined(indices, values, factor, more_indices, more_values, more_factor, out_indices, out_values):
    """factor row + more_factor more, into ``out``, which has room for both: returns how many entries it has.  Zeros are
    dropped."""
    n, m = indices.shape[0], more_indices.shape[0]
    filled = a = b = 0
    while a < n or b < m:
        if b == m or (a < n and indices[a] < more_indices[b]):
            own, value = indices[a], factor * values[a]
            a += 1
        elif a == n or more_indices[b] < indices[a]:
            own, value = more_indices[b], more_factor * more_values[b]
            b += 1
        else:
            own, value = indices[a], factor * values[a] + more_factor * more_values[b]
            a += 1
            b += 1
        if value != 0.0:
            out_indices[filled], out_values[filled] = own, value
            filled += 1
    return filled


@inlined
def product(indices, values, a, a_end, b, b_end):
    """<row, row> of the entries a..a_end-1 and b..b_end-1"""
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
    return total


@kernel
def products(indptr, indices, values, gram):
    """``gram`` (n, n): the inner products of all rows, one behind the other in indices and values, row j from indptr[j]
    on (int64)."""
    for j in range(gram.shape[0]):
        for i in range(j + 1):
            gram[j, i] = product(indices, values, indptr[j], indptr[j + 1], indptr[i], indptr[i + 1])
            gram[i, j] = gram[j, i]


@kernel
def row_entries(table, rows, indices, values):
    """The features of some rows of ``table`` (int32, -1: none), as they come, each 1: returns how many there are."""
    n = 0
    for r in rows:
        for j in range(table.shape[1]):
            if table[r, j] >= 0:
                indices[n] = table[r, j]
                values[n] = 1.0
                n += 1
    return n


@kernel
def row_products(indptr, indices, values, first, w, scores):
    """``scores`` (n,) float64: <row first + j, w> of rows one behind the other, row j from indptr[j] on (int64)."""
    for j in range(scores.shape[0]):
        total = 0.0
        for k in range(indptr[first + j], indptr[first + j + 1]):
            total += values[k] * w[indices[k]]
        scores[j] = total
