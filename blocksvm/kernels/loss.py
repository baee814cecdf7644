"""What stands for a loss's own functions in the loops that are shared by all losses, until ``Loss.compiled`` puts the
loss's in their place (problems/loss.py says what each of them is); and what a row costs.
"""

from blocksvm.kernels import inlined


def value(z, y, c, p):
    """The loss of a row with decision value z."""
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
def row_cost(cost, weights, y, i):
    """c_i: C times class weight, cost (2,) for y <= 0 and y > 0, times the row's weight (weights None: 1)."""
    c = cost[1 if y[i] > 0 else 0]
    if weights is not None:
        c *= weights[i]
    return c
