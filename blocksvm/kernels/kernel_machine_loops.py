"""Kernel values between sparse rows, and the dual over some rows whose kernel matrix is in memory.

Rows are held by their features ("columns"): feature j has entries first[j] .. first[j + 1] - 1 of (owner, value), so
that the products of one row with all of them cost what they have in common.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.rows import value_at

LINEAR, POLYNOMIAL, RBF = range(3)
FLAT = 1e-12  # the least curvature that a pair of rows is given (as in LIBSVM)


@inlined
def kernel_value(product, sq_norm, other_sq_norm, kind, gamma, coef0, degree):
    """K(x, z) of rows with this inner product and these squared norms."""
    if kind == RBF:
        return np.exp(-gamma * max(sq_norm + other_sq_norm - 2.0 * product, 0.0))
    if kind == POLYNOMIAL:
        return (gamma * product + coef0) ** degree
    return product


@kernel
def columns_of(indptr, indices, values, first, owner, held):
    """Fill the columns of n rows: first (d + 2,) int64 of zeros, owner (nnz,) int32, held (nnz,) float64; afterwards
    feature j's entries are first[j] .. first[j + 1] - 1, by rising owner."""
    for k in range(indptr[len(indptr) - 1]):
        first[indices[k] + 2] += 1
    for j in range(2, len(first)):
        first[j] += first[j - 1]
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            position = first[indices[k] + 1]
            owner[position] = i
            held[position] = value_at(values, k)
            first[indices[k] + 1] = position + 1


@inlined
def products_with(indptr, indices, values, i, first, owner, held, out):
    """``out`` (m,) = the inner products of row i with the rows in columns."""
    out[:] = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        j = indices[k]
        value = value_at(values, k)
        for e in range(first[j], first[j + 1]):
            out[owner[e]] += value * held[e]


@kernel
def kernel_sums(entries, sq_norms, columns, norms, coefficients, function, products, scores):
    """``scores[i] += sum_m coefficients[m] K(z_m, x_i)`` for plain rows; z_m: the rows in columns, norms (m,) their
    squared norms; function: (kind, gamma, coef0, degree); products (m,) is working space."""
    kind, gamma, coef0, degree = function
    first, owner, held = columns
    for i in range(len(entries.indptr) - 1):
        products_with(entries.indptr, entries.indices, entries.values, i, first, owner, held, products)
        total = 0.0
        for m in range(len(coefficients)):
            total += coefficients[m] * kernel_value(products[m], sq_norms[i], norms[m], kind, gamma, coef0, degree)
        scores[i] += total


@kernel
def kernel_rows(entries, sq_norms, new, columns, function, constant, products, matrix):
    """Fill the rows and columns ``new`` (m,) of the kernel matrix (q, q) of q rows, which are also in columns;
    constant: is added to each value."""
    kind, gamma, coef0, degree = function
    first, owner, held = columns
    n = len(entries.indptr) - 1
    for r in range(len(new)):
        i = new[r]
        products_with(entries.indptr, entries.indices, entries.values, i, first, owner, held, products)
        for j in range(n):
            value = kernel_value(products[j], sq_norms[i], sq_norms[j], kind, gamma, coef0, degree) + constant
            matrix[i, j] = value
            matrix[j, i] = value


@kernel
def pairs(matrix, n, sides, beta, scores, within, most):
    """Maximise the dual over beta_i = a_i y_i of n rows with sum beta fixed: sequential minimal optimisation, the pair
    chosen by second order (Fan, Chen, Lin, JMLR 6, 2005, WSS 2).  sides (n,) float64: y_i C_i, so that beta_i lies
    between 0 and sides_i; scores (n,) float64: sum_j beta_j K_ij, kept; within: of y_i - score_i over the rows that may
    rise, and those that may fall, the largest and the smallest may lie so far apart; most: pairs.  Returns (pairs
    moved, how far they lie apart)."""
    moved = 0
    apart = np.inf
    while True:
        i = -1
        high = -np.inf
        low = np.inf
        for k in range(n):
            slope = (1.0 if sides[k] > 0.0 else -1.0) - scores[k]
            if beta[k] < max(sides[k], 0.0) and slope > high:
                high = slope
                i = k
            if beta[k] > min(sides[k], 0.0) and slope < low:
                low = slope
        apart = high - low
        if i < 0 or apart <= within or moved == most:
            break
        j = -1
        best = -1.0
        for k in range(n):
            if beta[k] > min(sides[k], 0.0):
                fall = high - ((1.0 if sides[k] > 0.0 else -1.0) - scores[k])
                if fall > 0.0:
                    gain = fall * fall / max(matrix[i, i] + matrix[k, k] - 2.0 * matrix[i, k], FLAT)
                    if gain > best:
                        best = gain
                        j = k
        if j < 0:
            break
        fall = high - ((1.0 if sides[j] > 0.0 else -1.0) - scores[j])
        step = fall / max(matrix[i, i] + matrix[j, j] - 2.0 * matrix[i, j], FLAT)
        top = max(sides[i], 0.0)
        bottom = min(sides[j], 0.0)
        step = min(step, top - beta[i], beta[j] - bottom)
        # exactly onto a bound that is reached
        beta[i] = top if step == top - beta[i] else beta[i] + step
        beta[j] = bottom if step == beta[j] - bottom else beta[j] - step
        for k in range(n):
            scores[k] += step * (matrix[i, k] - matrix[j, k])
        moved += 1
    return moved, apart


@kernel
def singles(matrix, n, sides, beta, scores, within, most):
    """The same without a bias, so that sum beta is free: one row at a time, by the largest gain."""
    moved = 0
    apart = np.inf
    while True:
        i = -1
        best = apart = 0.0
        for k in range(n):
            slope = (1.0 if sides[k] > 0.0 else -1.0) - scores[k]
            if (slope > 0.0 and beta[k] < max(sides[k], 0.0)) or (slope < 0.0 and beta[k] > min(sides[k], 0.0)):
                apart = max(apart, abs(slope))
                gain = slope * slope / max(matrix[k, k], FLAT)
                if gain > best:
                    best = gain
                    i = k
        if i < 0 or apart <= within or moved == most:
            break
        slope = (1.0 if sides[i] > 0.0 else -1.0) - scores[i]
        new = beta[i] + slope / max(matrix[i, i], FLAT)
        new = min(max(new, min(sides[i], 0.0)), max(sides[i], 0.0))
        step = new - beta[i]
        beta[i] = new
        for k in range(n):
            scores[k] += step * matrix[i, k]
        moved += 1
    return moved, apart
