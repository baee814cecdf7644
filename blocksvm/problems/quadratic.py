"""What the duals share that are quadratic in an interval, those of box.py (two classes) and of tube.py (real numbers):
a loss and its square differ in two numbers, the bound of |a| and the diagonal (Hsieh et al., ICML 2008, Table 1; Ho,
Lin, JMLR 13, 2012, eq. 6)."""

from __future__ import annotations

import numpy as np

from blocksvm.kernels import inlined, inlined_with


def upper(c):
    """The bound of |a|: ``with_bounds`` puts a loss's own in its place."""
    raise NotImplementedError


def diagonal(c):
    """The dual's quadratic term: ``with_bounds`` puts a loss's own in its place."""
    raise NotImplementedError


@inlined
def linear_upper(c):
    return c


@inlined
def linear_diagonal(c):
    return 0.0


@inlined
def squared_upper(c):
    return np.inf


@inlined
def squared_diagonal(c):
    return 1.0 / (2.0 * c)


LINEAR = {"upper": linear_upper, "diagonal": linear_diagonal}  # of c times a distance
SQUARED = {"upper": squared_upper, "diagonal": squared_diagonal}  # of c times its square


def with_bounds(name: str, upper, diagonal, stationarity, step, feasible) -> dict:
    """These functions of a row with a bound and a diagonal, inlined functions of c, in the place of those above; by the
    names that ``Loss`` has."""
    both = {"upper": upper, "diagonal": diagonal}
    return {
        "stationarity": inlined_with(stationarity, f"{name}_stationarity", **both),
        "step": inlined_with(step, f"{name}_step", **both),
        "feasible": inlined_with(feasible, f"{name}_feasible", upper=upper),
    }
