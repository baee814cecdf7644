"""Placeholders for a loss's functions (losses/loss.py) in the loops that all losses share; ``Loss.compiled`` replaces them
before compilation.  Also the cost of a row.
"""

from blocksvm.kernels import inlined

# A row at a bound whose gradient lies farther than this beyond it is not expected to move soon.
NEAR = 0.2
AT_REST = -1.0  # in the place of such a row's share of the gap
UNIT_ROUNDOFF = 2.0**-53  # of double precision: the largest relative error of one operation
FREE = 1.0e-290  # a row between its bounds comes before one at a bound, where the gap has nothing of either


def value(z, y, c, p):
    """The loss of a row with decision value z."""
    raise NotImplementedError


def derivative(z, y, c, p):
    """The loss's derivative by z."""
    raise NotImplementedError


def second_derivative(z, y, c, p):
    """The loss's second derivative by z."""
    raise NotImplementedError


def aware_step(z, y, q, h, p):
    """The importance-aware step: what a gradient of 1 is multiplied with."""
    raise NotImplementedError


def conjugate(a, y, c, p):
    """The conjugate of the loss at -a * direction(y)."""
    raise NotImplementedError


def direction(y, p):
    """w gains a * direction(y) * x."""
    raise NotImplementedError


def step(a, z, q, y, c, p):
    """The a that maximises the dual along this coordinate."""
    raise NotImplementedError


def stationarity(a, z, y, c, p):
    """(projected gradient, excess)."""
    raise NotImplementedError


def feasible(a, y, c, p):
    """The nearest dual variable that the loss allows."""
    raise NotImplementedError


@inlined
def importance_of(weights, i):
    """The weight of row i; weights None: 1."""
    return 1.0 if weights is None else weights[i]


@inlined
def row_cost(cost, weights, y, i):
    """c_i: cost (3,) of rows with y < 0, y = 0 and y > 0, times the row's weight (weights None: 1).  A row of cost 0 is
    no part of the problem: one of weight 0, or of two classes one without a label."""
    c = cost[1 + (y[i] > 0) - (y[i] < 0)]
    if weights is not None:
        c *= weights[i]
    return c


SUMS = 8  # numbers that ``terms_of_gap`` has of a row


def terms_of_gap(a, z, within, y, c, p):
    """Of a row whose decision value is known to be z +- within: the loss at z; the row's term of P(w) - D(a), value +
    conjugate + a direction z; a direction z; the magnitude of what the term is added up from; by how much the loss, the
    term and a direction z may be larger at the true decision value; and |a direction z|.  Loss and term are convex, so
    that they are largest at an end."""
    coefficient = a * direction(y, p)
    suffered = value(z, y, c, p)
    conjugated = conjugate(a, y, c, p)
    product = coefficient * z
    moved = abs(coefficient) * within
    rounded = 3.0 * UNIT_ROUNDOFF * (abs(z) + abs(y))  # of the distance from the target
    within += rounded
    below = value(z - within, y, c, p) - suffered
    above = value(z + within, y, c, p) - suffered
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
    )


def share_of_gap(a, z, y, c, p):
    """value + conjugate + a direction z >= 0, the row's term of P(w) - D(a) at w = w(a) (losses/loss.py); AT_REST for
    a row at a bound whose gradient lies farther than NEAR beyond it."""
    projected, excess = stationarity(a, z, y, c, p)
    if abs(excess) > NEAR:
        return AT_REST
    share = max(value(z, y, c, p) + (conjugate(a, y, c, p) + a * direction(y, p) * z), 0.0)
    return max(share, FREE) if excess == 0.0 else share
