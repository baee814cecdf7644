"""L-BFGS (Nocedal, Wright, Numerical Optimization, 2nd ed., Alg. 7.4) with its inner products in a matrix.

The direction is a combination of the gradient and of m pairs s, y, differences of points and of gradients.  All that
the two loops need are the inner products of these 2m + 1 vectors (Chen, Wang, Zhou, NIPS 2014).  So one pass over the
features stores a pair and multiplies it with the others, and another one adds the direction up.

All this is done in the variables r_j w_j (Nocedal, Wright, sec. 2.2, on scaling): there the pair is r s, y / r, and the
gradient g / r.  r_j = (1 + sum_i second derivative_i x_ij^2)^(1/4) at the first point: its square is the root of the
Hessian's diagonal.

pairs (d + 1, 2m k): of each feature the numbers of k problems lie side by side, of each its m s and then its m y;
points, gradients and r, the scale, (d + 1, width) as base/vectors.py has them.
"""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.loss_functions import derivative, direction, feasible, second_derivative, terms_of_gap
from blocksvm.kernels.prefetch import value_at

TERMS = 7  # of a row, which are added up


@kernel
def dual_of_derivative(scores, within, lengths, targets, costs, loss, alpha, coefficients, terms):
    """The dual variables alpha (n,) that belong to the scores <w, x_i>, a = -derivative / direction, at which the loss
    and its conjugate have no gap.

    within, lengths, targets, costs (n,) float64: the scores are known to +- within; ||x_i||; a row of cost 0 is no part
    of the problem.  coefficients (n,): a direction, by which w(a) is added up; terms (7, n): the row's loss, its share
    of the gap, the magnitude of what that is added up from, by how much loss and share may be larger, as
    ``terms_of_gap`` has them, |a direction| ||x||, and (z - y)^2.
    """
    for i in range(scores.shape[0]):
        c = costs[i]
        alpha[i] = coefficients[i] = 0.0
        terms[:, i] = 0.0
        if c == 0.0:
            continue
        z, target = scores[i], targets[i]
        side = direction(loss, target)
        a = feasible(loss, -derivative(loss, z, target, c) / side, target, c)
        suffered, share, _, magnitude, more, wider, _, _, _ = terms_of_gap(loss, a, z, within[i], target, c)
        alpha[i] = a
        coefficients[i] = a * side
        terms[0, i] = suffered
        terms[1, i] = share
        terms[2, i] = magnitude
        terms[3, i] = more
        terms[4, i] = wider
        terms[5, i] = abs(a * side) * lengths[i]
        terms[6, i] = (z - target) * (z - target)


@kernel
def curvatures_of(scores, targets, costs, loss, out):
    """``out`` (n,): the second derivatives of the loss, 0 of rows of cost 0."""
    for i in range(scores.shape[0]):
        out[i] = second_derivative(loss, scores[i], targets[i], costs[i]) if costs[i] > 0.0 else 0.0


@kernel
def add_squares(indptr, indices, values, coefficients, bias, diagonal):
    """``diagonal[j, c] += sum_i coefficients[i, c] x_ij^2`` (and of the constant feature); coefficients (n, k)."""
    last = diagonal.shape[0] - 1
    for i in range(coefficients.shape[0]):
        for c in range(coefficients.shape[1]):
            diagonal[last, c] += coefficients[i, c] * bias * bias
        for e in range(indptr[i], indptr[i + 1]):
            square = value_at(values, e) ** 2
            for c in range(coefficients.shape[1]):
                diagonal[indices[e], c] += coefficients[i, c] * square


@kernel
def scale_by(diagonal, c, start, stop):
    """The scale of problem c, (1 + diagonal)^(1/4), in place, for the features start .. stop - 1."""
    for j in range(start, stop):
        diagonal[j, c] = np.sqrt(np.sqrt(1.0 + diagonal[j, c]))


@kernel
def add_up(terms, sums, lost):
    """``sums[t] += terms[t, i]`` row after row; lost (t,): what the additions have rounded off, to be added at the end
    (Neumaier, ZAMM 54, 1974)."""
    for t in range(terms.shape[0]):
        total, rest = sums[t], lost[t]
        for i in range(terms.shape[1]):
            x = terms[t, i]
            new = total + x
            rest += (total - new) + x if abs(total) >= abs(x) else (x - new) + total
            total = new
        sums[t], lost[t] = total, rest


@kernel
def gradient_of(trial, point, prior, gradient, c, start, stop, out):
    """``gradient`` of problem c, which is w(a) - w0 before, becomes that of P at ``trial``: (trial - w0) - (w(a) - w0),
    for the features start .. stop - 1.  out (3,) gains ||trial - w0||^2, ||gradient||^2, <gradient, trial - point>."""
    distance = square = along = 0.0
    with_prior = prior.shape[0] > 0
    for j in range(start, stop):
        moved = trial[j, c] - prior[j, c] if with_prior else trial[j, c]
        g = moved - gradient[j, c]
        gradient[j, c] = g
        distance += moved * moved
        square += g * g
        along += g * (trial[j, c] - point[j, c])
    out[0] += distance
    out[1] += square
    out[2] += along


@kernel
def accept(trial, gradient, point, before, scale, pairs, c, slot, start, stop, out):
    """``point`` and ``before`` become the trial and its gradient for problem c, and what they have moved by the pair
    ``slot`` (-1: none), for the features start .. stop - 1.  out (3, 2m) gains the products of s, y and the gradient
    with all vectors of the pairs."""
    two_m = out.shape[1]
    m = two_m // 2
    first = c * two_m
    for j in range(start, stop):
        r = scale[j, c]
        s = r * (trial[j, c] - point[j, c])
        y = (gradient[j, c] - before[j, c]) / r
        g = gradient[j, c] / r
        point[j, c] = trial[j, c]
        before[j, c] = gradient[j, c]
        if slot >= 0:
            pairs[j, first + slot] = s
            pairs[j, first + m + slot] = y
            for k in range(two_m):
                other = pairs[j, first + k]
                out[0, k] += s * other
                out[1, k] += y * other
                out[2, k] += g * other


@kernel
def two_loops(gram, of_gradient, newest, n_pairs, out):
    """The two loops: ``out`` (2m + 1,), the coefficients of the pairs and of the gradient in the direction -H gradient.

    gram (2m, 2m): inner products of the pairs; of_gradient (2m,): theirs with the gradient; newest: slot of the newest
    of the ``n_pairs`` pairs, before which lie the older ones."""
    two_m = gram.shape[0]
    m = two_m // 2
    alpha = np.zeros(m)
    out[:] = 0.0
    out[two_m] = -1.0
    for age in range(n_pairs):
        s = (newest - age) % m
        product = out[two_m] * of_gradient[s]
        for k in range(two_m):
            product += out[k] * gram[k, s]
        alpha[s] = product / gram[s, m + s]
        out[m + s] -= alpha[s]
    if n_pairs:
        y = m + newest
        scale = gram[newest, y] / gram[y, y]
        for k in range(two_m + 1):
            out[k] *= scale
    for age in range(n_pairs - 1, -1, -1):
        s = (newest - age) % m
        product = out[two_m] * of_gradient[m + s]
        for k in range(two_m):
            product += out[k] * gram[k, m + s]
        out[s] += alpha[s] - product / gram[s, m + s]


@kernel
def step_along(pairs, coefficients, point, gradient, scale, trial, c, start, stop, out):
    """``trial`` = point + direction for problem c, where the direction is the combination of the pairs and the
    gradient by the coefficients (2m + 1,), for the features start .. stop - 1.  out (1,) gains <gradient, direction>."""
    two_m = coefficients.shape[0] - 1
    first = c * two_m
    along = 0.0
    for j in range(start, stop):
        g, r = gradient[j, c], scale[j, c]
        p = coefficients[two_m] * g / r
        for k in range(two_m):
            p += coefficients[k] * pairs[j, first + k]
        p /= r
        trial[j, c] = point[j, c] + p
        along += g * p
    out[0] += along


@kernel
def step_back(point, factor, trial, c, start, stop):
    """``trial`` = point + factor * (trial - point) for problem c, for the features start .. stop - 1."""
    for j in range(start, stop):
        trial[j, c] = point[j, c] + factor * (trial[j, c] - point[j, c])
