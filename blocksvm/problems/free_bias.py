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
from collections.abc import Sequence

import numpy as np

from blocksvm.sources.source import Source, first_chunk

# Of the rows' norms, the constant feature's value: measured 0.3, 1 and 3 on a9a, phishing and splice; the smallest
# needs as few passes as a regularised bias or fewer, the largest ten times as many.
OF_NORMS = 0.3


def constant_value(source: Source) -> float:
    """The value B of the constant feature: by the root mean square of the norms of a source's first chunk."""
    typical = math.sqrt(float(first_chunk(source).sq_norms.mean()))
    return OF_NORMS * typical if typical > 0.0 else 1.0


class Repair:
    """Adds up ``kernels.free_bias_loops.sums_by_side`` over the blocks of a certificate."""

    def __init__(self, parts: Sequence[np.ndarray] = ()):
        self.parts = list(parts)

    def __add__(self, other: Repair) -> Repair:
        return Repair(self.parts + other.parts)

    def add(self, sums: np.ndarray) -> None:
        self.parts.append(sums)

    def _totals(self) -> np.ndarray:
        return np.array([[math.fsum(part[s, k] for part in self.parts) for k in range(3)] for s in range(2)])

    def net(self) -> float:
        """sum_i a_i direction_i."""
        below, above = self._totals()[:, 1].tolist()
        return above - below

    def factors(self) -> tuple[float, float]:
        """By which the a with a direction < 0 and above 0 are to be multiplied."""
        below, above = self._totals()[:, 1].tolist()
        return min(1.0, above / below if below else 1.0), min(1.0, below / above if above else 1.0)

    def total(self) -> float:
        """sum_i |a_i direction_i|."""
        return float(self._totals()[:, 1].sum())

    def cost(self, off: float = 0.0) -> float:
        """By how much the repair widens the gap, at most, by factors that may be smaller by ``off``."""
        total = 0.0
        for factor, (shares, _, lengths) in zip(self.factors(), self._totals().tolist(), strict=True):
            part = min(1.0, 1.0 - factor + off)
            total += max(-(1.0 - factor) * shares, -part * shares) + 0.5 * (part * lengths) ** 2
        return max(total, 0.0)
