"""Margins at one fixed w: what certificates, held-out accuracy and predictions are made of."""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss_functions import SUMS, row_cost, terms_of_gap
from blocksvm.kernels.prefetch import WEIGHTS_AHEAD, add_row, dot, hot_run, prefetch_weights, products, value_at


@kernel
def decision_values(indptr, indices, values, w, bias, out):
    """``out[i] = <w, x_i> + bias * w[-1]`` for all rows of a block; w (d + 1,), bias: value of the constant feature."""
    n = indptr.shape[0] - 1
    constant = bias * w[w.shape[0] - 1]
    run = hot_run(indptr, indices)
    for i in range(n):
        if i + WEIGHTS_AHEAD < n:
            prefetch_weights(indptr, indices, w, i + WEIGHTS_AHEAD, run)
        out[i] = dot(indices, values, indptr[i], indptr[i + 1], w) + constant


@kernel
def certificate_sums(scores, within, y, weights, alpha, cost, loss):
    """The sums over a block's rows that a certificate needs, given scores <w, x_i> that are known to +- within (n,).

    y (n,) int16 or float64; weights (n,) float64 or None; alpha (n,) float64, or None for a primal method, which is as
    0; cost (3,) float64 by the sign of y; loss: NamedTuple with its functions.  Returns the sums of what ``terms_of_gap`` has of
    each row (SUMS,).
    """
    sums = np.zeros(SUMS)
    for i in range(scores.shape[0]):
        c = row_cost(cost, weights, y, i)
        if c == 0.0:
            continue
        a = 0.0 if alpha is None else alpha[i]
        terms = terms_of_gap(loss, a, scores[i], within[i], float(y[i]), c)
        for t in range(SUMS):
            sums[t] += terms[t]
    return sums


@kernel
def sizes_of_products(indptr, indices, values, w, width, bias, out):
    """``out[i, c] = sum_j |w_jc x_ij|`` with the constant feature, for w (d + 1, width) one row after the other; out
    (n, k).  The rounding of a decision value is proportional to it."""
    last = w.shape[0] - width
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = abs(w[last + c] * bias)
        for e in range(indptr[i], indptr[i + 1]):
            size = abs(value_at(values, e))
            for c in range(out.shape[1]):
                out[i, c] += size * abs(w[indices[e] * width + c])


@kernel
def add_rows(indptr, indices, values, coefficients, bias, w):
    """``w += sum_i coefficients[i] * x_i`` (and the constant feature): rebuilds w from alpha."""
    last = w.shape[0] - 1
    for i in range(indptr.shape[0] - 1):
        c = coefficients[i]
        if c != 0.0:
            add_row(indices, values, indptr[i], indptr[i + 1], c, w)
            w[last] += c * bias


@inlined
def sum_of_difference_products(a, b, c, squared):
    """Sum of (b - c)^2 if squared, else of a (b - c), in two partial sums whose order is fixed."""
    s0 = s1 = 0.0
    n = b.shape[0]
    for k in range(0, n - 1, 2):
        d0 = b[k] - c[k]
        d1 = b[k + 1] - c[k + 1]
        s0 += (d0 if squared else a[k]) * d0
        s1 += (d1 if squared else a[k + 1]) * d1
    if n % 2:
        d0 = b[n - 1] - c[n - 1]
        s0 += (d0 if squared else a[n - 1]) * d0
    return s0 + s1


@kernel
def sum_of_squares(x):
    """||x||^2, in a fixed order (a library's sum depends on the machine's width)."""
    return products(x, np.uint64(0), np.uint64(0), np.uint64(x.shape[0]))


@kernel
def squared_distance(a, b):
    """||a - b||^2, in a fixed order."""
    return sum_of_difference_products(a, a, b, True)


@kernel
def inner_with_difference(a, b, c):
    """<a, b - c>, in a fixed order: where b and c agree nothing is added, however large they are."""
    return sum_of_difference_products(a, b, c, False)


@kernel
def row_sq_norms(indptr, indices, values, out):
    """``out[i] = ||x_i||^2`` in float64."""
    for i in range(indptr.shape[0] - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += value_at(values, k) ** 2
        out[i] = total
