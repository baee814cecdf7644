"""The functions of a loss as kernels call them: ``value(loss, z, y, c)`` is ``loss.value(z, y, c)``, in Python and in
machine code.  loss: a NamedTuple of numbers with these methods, which losses/loss.py describes.  Also the cost of a
row, its share of the duality gap, and its rest."""

import numpy as np

from blocksvm.kernels import by_type, inlined

# A row at a bound whose gradient lies farther than this beyond it is not expected to move soon.
NEAR = 0.2
AT_REST = -1.0  # in the place of such a row's share of the gap
# A projected gradient below this changes nothing that float64 could show (LIBLINEAR's constant).
NEGLIGIBLE = 1.0e-12
UNIT_ROUNDOFF = 2.0**-53  # of double precision: the largest relative error of one operation
FREE = 1.0e-290  # a row between its bounds comes before one at a bound, where the gap has nothing of either


value, derivative, second_derivative = by_type("value"), by_type("derivative"), by_type("second_derivative")
aware_step, conjugate, direction = by_type("aware_step"), by_type("conjugate"), by_type("direction")
step, stationarity, feasible = by_type("step"), by_type("stationarity"), by_type("feasible")


@inlined
def importance_of(weights, i):
    """The weight of row i; weights None: 1."""
    return 1.0 if weights is None else weights[i]


@inlined
def side_of(sides, codes, reals, i, c):
    """On which side of problem c row i lies, -1 or +1, or 0 where it is no part of it: sides (m, k) by code; None: of
    two classes the code is the side, and rows of real targets lie on +1."""
    if sides is not None:
        return np.int64(sides[codes[i], c])
    if reals is not None:
        return 1
    return np.int64(codes[i])


@inlined
def cost_of(costs, side, c):
    """The cost of a row that lies on this side of problem c, without the row's weight; costs (k, 2)."""
    if side == 0:
        return 0.0
    return costs[c, 1] if side > 0 else costs[c, 0]


@inlined
def target_of(side, reals, i):
    """The target of row i, which lies on this side of a problem."""
    if reals is None:
        return np.float64(side)
    return reals[i]


SUMS = 9  # numbers that ``terms_of_gap`` has of a row


@inlined
def terms_of_gap(loss, a, z, within, y, c):
    """Of a row whose decision value is known to be z +- within: the loss at z; the row's term of P(w) - D(a), value +
    conjugate + a direction z; a direction z; the magnitude of what the term is added up from; by how much the loss, the
    term and a direction z may be larger at the true decision value; |a direction z|; and the loss at a decision value
    of 0.  Loss and term are convex, so that they are largest at an end."""
    coefficient = a * direction(loss, y)
    suffered = value(loss, z, y, c)
    conjugated = conjugate(loss, a, y, c)
    product = coefficient * z
    moved = abs(coefficient) * within
    rounded = 3.0 * UNIT_ROUNDOFF * (abs(z) + abs(y))  # of the distance from the target
    within += rounded
    below = value(loss, z - within, y, c) - suffered
    above = value(loss, z + within, y, c) - suffered
    slope = coefficient * within
    return (
        suffered,
        suffered + (conjugated + product),
        product,
        suffered + abs(conjugated) + abs(product),
        max(below, above, 0.0),
        max(below - slope, above + slope, 0.0) + abs(coefficient) * rounded,
        moved,
        abs(product),
        value(loss, 0.0, y, c),
    )


@inlined
def share_of_gap(loss, a, z, y, c):
    """value + conjugate + a direction z >= 0, the row's term of P(w) - D(a) at w = w(a) (losses/loss.py); AT_REST for
    a row at a bound whose gradient lies farther than NEAR beyond it."""
    projected, excess = stationarity(loss, a, z, y, c)
    if abs(excess) > NEAR:
        return AT_REST
    share = max(value(loss, z, y, c) + (conjugate(loss, a, y, c) + a * direction(loss, y) * z), 0.0)
    return max(share, FREE) if excess == 0.0 else share


@inlined
def next_rest(excess, stays, with_set, rest_beyond, rest_visits, pauses, i, c):
    """What a reading leaves in the rest of row i for problem c (solvers/dual_cd_kernels.py): 1 + r where it is to be
    left out of the next r readings, as its gradient lies beyond its bound by more than ``rest_beyond``; 1 where it
    ``stays``, so that passes over a working set leave it out; 0.  With a set each rest is 3 readings more than twice as
    long as the last one, which pauses[i, c] has."""
    if abs(excess) > rest_beyond:
        if with_set:
            pauses[i, c] = min(2 * pauses[i, c] + 3, rest_visits)
            return 1 + np.int64(pauses[i, c])
        return 1 + rest_visits
    if with_set and rest_beyond < np.inf:
        pauses[i, c] = 0
    return 1 if stays else 0
