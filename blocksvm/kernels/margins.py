"""Margins at one fixed w: what certificates, held-out accuracy and predictions are made of."""


from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.memory import WEIGHTS_AHEAD, dot, prefetch_weights


@kernel
def decision_values(indptr, indices, values, w, bias, out):
    """``out[i] = <w, x_i> + bias * w[-1]`` for all rows of a block; w (d + 1,), bias: value of the constant feature."""
    n = indptr.shape[0] - 1
    constant = bias * w[w.shape[0] - 1]
    for i in range(n):
        if i + WEIGHTS_AHEAD < n:
            prefetch_weights(indptr, indices, w, i + WEIGHTS_AHEAD)
        out[i] = dot(indices, values, indptr[i], indptr[i + 1], w) + constant


@kernel
def certificate_sums(margins, y, alpha, cost, power, diagonal):
    """The sums over a block's rows that a certificate needs, given margins y_i <w, x_i>.

    cost, diagonal (2,) float64 by class; the loss is cost * max(0, 1 - m)^power.  alpha (n,) float64, or None for
    a primal method.  Returns (loss, sum a, sum a m, sum diagonal a^2, rows with m > 0).
    """
    loss = 0.0
    total = 0.0
    inner = 0.0
    squares = 0.0
    correct = 0
    for i in range(margins.shape[0]):
        side = 1 if y[i] > 0 else 0
        m = margins[i]
        correct += m > 0.0
        excess = max(0.0, 1.0 - m)
        loss += cost[side] * (excess if power == 1 else excess * excess)
        if alpha is not None:
            a = alpha[i]
            total += a
            inner += a * m
            squares += diagonal[side] * a * a
    return loss, total, inner, squares, correct


@kernel
def add_rows(indptr, indices, values, coefficients, bias, w):
    """``w += sum_i coefficients[i] * x_i`` (and the constant feature): rebuilds w from alpha."""
    last = w.shape[0] - 1
    for i in range(indptr.shape[0] - 1):
        c = coefficients[i]
        if c != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k]] += c * (1.0 if values is None else values[k])
            w[last] += c * bias


@inlined
def sum_of_products(a, b):
    """Sum of a * b in four partial sums whose order is fixed (a library's sum depends on the machine's width)."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    n = a.shape[0]
    for k in range(0, n - 3, 4):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
    for k in range(n - n % 4, n):
        s0 += a[k] * b[k]
    return (s0 + s1) + (s2 + s3)


@kernel
def sum_of_squares(x):
    """||x||^2, in a fixed order."""
    return sum_of_products(x, x)


@kernel
def inner_product(a, b):
    """<a, b>, in a fixed order."""
    return sum_of_products(a, b)


@kernel
def row_sq_norms(indptr, indices, values, out):
    """``out[i] = ||x_i||^2`` in float64."""
    for i in range(indptr.shape[0] - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            v = 1.0 if values is None else float(values[k])
            total += v * v
        out[i] = total
