"""A bias that is not regularised: min over w and b of 1/2 ||w - w0||^2 + sum_i value(<w, x_i> + b, y_i, C_i).

Its dual is that without a bias, for dual variables with sum_i a_i direction_i = 0.  It is solved by the method of
multipliers (Hestenes, Powell, 1969; Rockafellar, Math. Oper. Res. 1, 1976): a constant feature of value B whose weight
is regularised towards c, 1/2 (b / B - c)^2, where c moves to b / B before each outer iteration.

The certificate's dual variables are the current ones, repaired: on the side where |a direction| has the larger sum they
are multiplied by a factor f <= 1 that makes both sums equal.  Since the conjugates are convex and 0 at a = 0,
conjugate(f a) <= f conjugate(a), and the gap of the repaired a is at most

    sum_i [value_i + f_i (conjugate(a_i) + a_i direction_i z_i)] + 1/2 (1 - f)^2 (sum of |a_i| ||x_i|| of that side)^2

where w = w0 + sum_i a_i direction_i x_i for the current a: their difference is (1 - f) times that side's sum.
"""

from __future__ import annotations

import math

import numpy as np

from blocksvm.sources.source import Source, first_chunk

# Of the rows' norms, the constant feature's value: measured 0.3, 1 and 3 on a9a, phishing and splice; the smallest
# needs as few passes as a regularised bias or fewer, the largest ten times as many.
OF_NORMS = 0.3


def constant_value(source: Source) -> float:
    """The value B of the constant feature: by the root mean square of the norms of a source's first chunk."""
    typical = math.sqrt(float(first_chunk(source).sq_norms.mean()))
    return OF_NORMS * typical if typical > 0.0 else 1.0


def net(sides: np.ndarray) -> float:
    """sum_i a_i direction_i, by the ``sums_by_side`` (2, 3) of all rows."""
    below, above = sides[:, 1].tolist()
    return above - below


def factors(sides: np.ndarray) -> tuple[float, float]:
    """By which the a with a direction < 0 and above 0 are to be multiplied."""
    below, above = sides[:, 1].tolist()
    return min(1.0, above / below if below else 1.0), min(1.0, below / above if above else 1.0)


def cost_of_repair(sides: np.ndarray, drift: float, off: float) -> float:
    """By how much the repair widens the gap, at most; drift: ||w - w(a)||; off: by how much the factors may be less."""
    cost = 0.0
    for factor, (shares, _, lengths) in zip(factors(sides), sides.tolist(), strict=True):
        part = min(1.0, 1.0 - factor + off)
        moved = part * lengths
        cost += max(-(1.0 - factor) * shares, -part * shares) + moved * float(np.max(drift)) + 0.5 * moved**2
    return max(cost, 0.0)
