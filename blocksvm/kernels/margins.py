"""Margins at one fixed w: what certificates, held-out accuracy and predictions are made of."""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss_placeholders import conjugate, direction, row_cost, value
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


def certificate_sums(scores, y, weights, alpha, cost, p):
    """The sums over a block's rows that a certificate needs, given scores <w, x_i>; compiled once for each loss.

    y (n,) int16 or float64; weights (n,) float64 or None; alpha (n,) float64, or None for a primal method; cost (3,)
    float64 by the sign of y; p: the loss's own settings.  Returns the sums of value; of the row's share of the gap,
    value + conjugate + a direction z, which is never negative but by rounding; of a direction z; and of the three
    terms' magnitudes, to which the rounding of the gap is proportional.
    """
    loss = gap = inner = magnitude = 0.0
    for i in range(scores.shape[0]):
        c = row_cost(cost, weights, y, i)
        if c == 0.0:
            continue
        target = float(y[i])
        z = scores[i]
        suffered = value(z, target, c, p)
        loss += suffered
        if alpha is not None:
            a = alpha[i]
            conjugated = conjugate(a, target, c, p)
            product = a * direction(target, p) * z
            gap += suffered + (conjugated + product)
            inner += product
            magnitude += suffered + abs(conjugated) + abs(product)
    return loss, gap, inner, magnitude


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
