"""The loop over rows of a learner with a kernel, which predicts by the support vectors; and their Cholesky factor.

w = sum_p coefficients[p] phi(z_p), <phi(x), phi(z)> = K(x, z) + constant.  A step is w += tau y phi(x), with

    on mistakes     y z <= 0:  tau = most                               (z = <w, phi(x)>)
    else            l = 1 - y z > 0:  tau = min(most, l / (q + slack)),  q = ||phi(x)||^2

most and 1 / slack times the row's importance.  The rule at a full budget: kernel.py.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.kernel_machine_loops import kernel_value, products_with
from blocksvm.kernels.rows import value_at
from blocksvm.online.loops import importance_of, note

HELD, IN_COLUMNS = range(2)  # entries of sizes: support vectors; how many of them are in columns
# A row is in the span of the support vectors if its squared distance to it is at most this fraction of its squared
# length: the distance is below the square root of the rounding of its projection.
IN_SPAN = 1e-10


@inlined
def products_with_others(indptr, indices, values, i, ends, sv_indices, sv_values, begin, end, dense, out):
    """``out[p]`` = the inner product of row i with support vector p, begin <= p < end, which are in no columns; dense
    (d,) zeros, and zeros again at the end."""
    if begin == end:
        return
    for k in range(indptr[i], indptr[i + 1]):
        dense[indices[k]] = value_at(values, k)
    for p in range(begin, end):
        # the same bits as products_with: its terms in their order, and zeros
        total = 0.0
        for k in range(ends[p], ends[p + 1]):
            total += dense[sv_indices[k]] * sv_values[k]
        out[p] = total
    for k in range(indptr[i], indptr[i + 1]):
        dense[indices[k]] = 0.0


@inlined
def into_span(factor, n, values, out):
    """Solves L out = values, of the first n rows of the kernel matrix's Cholesky factor L; returns ||out||^2, which is
    the squared length of the projection of a row with these kernel values on their span."""
    total = 0.0
    for p in range(n):
        residual = values[p]
        for m in range(p):
            residual -= factor[p, m] * out[m]
        out[p] = residual / factor[p, p]
        total += out[p] * out[p]
    return total


@inlined
def add_projection(factor, n, step, solved, coefficients):
    """``coefficients += step d`` with L'd = solved: sum_p d_p phi(z_p) is the projection; overwrites ``solved``."""
    for p in range(n - 1, -1, -1):
        d = solved[p] / factor[p, p]
        coefficients[p] += step * d
        for m in range(p):
            solved[m] -= factor[p, m] * d


@inlined
def extend_factor(factor, n, solved, sq_distance):
    """Append the factor's row n: of a row with ``solved`` from ``into_span``, at this squared distance to the span."""
    for m in range(n):
        factor[n, m] = solved[m]
    factor[n, n] = np.sqrt(sq_distance)


@kernel
def learn_by_support(
    indptr, indices, values, sq_norms, rows, y, weights, order, ends, sv_indices, sv_values, norms, coefficients,
    sv_rows, first, owner, held, sizes, positions, factor, kind, gamma, coef0, degree, constant, on_mistakes, most, slack,
    budget, most_loose, dense, products, solved, tally,
):  # fmt: skip
    """Predict each row of ``order``, then learn from it.  Returns how many rows were, fewer than all if the arrays of
    the support vectors are full, or those in no columns have more than ``most_loose`` entries.

    Support vector p < sizes[HELD] is row sv_rows[p] of the source; its entries are ends[p] .. ends[p + 1] - 1 of
    (sv_indices, sv_values), its squared norm norms[p].  The first sizes[IN_COLUMNS] are in columns
    (first, owner, held), too, see kernels/kernel_machine_loops.py.  positions (n_samples,) int32: 1 + p of each row of the
    source, 0 for no support vector.  factor (budget, budget): the Cholesky factor of the kernel matrix of the support
    vectors, if rows are projected on their span, else (0, 0).  dense (d,) zeros; products, solved: scratch.
    """
    for r in range(order.shape[0]):
        i = order[r]
        n = sizes[HELD]
        start, stop = indptr[i], indptr[i + 1]
        position = positions[rows[i]] - 1
        projects = factor.shape[0] > 0
        full = projects and n == budget
        if position < 0 and not full and (n == len(norms) or ends[n] + stop - start > len(sv_values)):
            return r
        if ends[n] - ends[sizes[IN_COLUMNS]] > most_loose:
            return r
        products_with(indptr, indices, values, i, first, owner, held, products[: sizes[IN_COLUMNS]])
        products_with_others(
            indptr, indices, values, i, ends, sv_indices, sv_values, sizes[IN_COLUMNS], n, dense, products
        )
        z = 0.0
        for p in range(n):
            products[p] = kernel_value(products[p], sq_norms[i], norms[p], kind, gamma, coef0, degree) + constant
            z += coefficients[p] * products[p]
        label = float(y[i])
        loss = 1.0 - label * z
        if loss < 0.0:  # not max(0, .), which hides that z is no number
            loss = 0.0
        importance = importance_of(weights, i)
        mistake = label * z <= 0.0
        note(tally, importance * loss, 1.0 if mistake else 0.0, mistake, True, z, label, stop - start)
        if importance <= 0.0 or not (mistake if on_mistakes else loss > 0.0):
            continue
        q = kernel_value(sq_norms[i], sq_norms[i], sq_norms[i], kind, gamma, coef0, degree) + constant
        sq_distance = q
        if projects and position < 0:
            span = into_span(factor, n, products, solved)
            sq_distance = q - span
            if full or sq_distance <= IN_SPAN * q:
                q = span
                sq_distance = 0.0
        if q <= 0.0:
            continue
        step = most * importance
        if not on_mistakes:
            step = min(step, loss / (q + slack / importance))
        step *= label
        if position >= 0:
            coefficients[position] += step
        elif sq_distance == 0.0:
            add_projection(factor, n, step, solved, coefficients)
        else:
            if projects:
                extend_factor(factor, n, solved, sq_distance)
            for k in range(start, stop):
                sv_indices[ends[n] + k - start] = indices[k]
                sv_values[ends[n] + k - start] = value_at(values, k)
            ends[n + 1] = ends[n] + stop - start
            norms[n] = sq_norms[i]
            coefficients[n] = step
            sv_rows[n] = rows[i]
            positions[rows[i]] = n + 1
            sizes[HELD] = n + 1
    return order.shape[0]


@kernel
def factorise(ends, sv_indices, sv_values, norms, n, first, owner, held, kind, gamma, coef0, degree, constant,
                products, solved, factor):  # fmt: skip
    """Compute the Cholesky factor of n support vectors, all in columns: the same bits as when it grew row by row."""
    for p in range(n):
        products_with(ends, sv_indices, sv_values, p, first, owner, held, products[:n])
        for m in range(p):
            products[m] = kernel_value(products[m], norms[p], norms[m], kind, gamma, coef0, degree) + constant
        q = kernel_value(norms[p], norms[p], norms[p], kind, gamma, coef0, degree) + constant
        extend_factor(factor, p, solved, q - into_span(factor, p, products, solved))
