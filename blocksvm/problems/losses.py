"""Losses as data: two numbers a class for the dual, one exponent for the primal.

``cost * max(0, 1 - m)^power`` for margin m = y <w, x> and cost C_i = C * class weight has the dual box
0 <= a_i <= upper_i and the dual's quadratic term 1/2 * diagonal_i * a_i^2
(Hsieh et al., ICML 2008, Table 1: hinge U = C, D = 0; squared hinge U = inf, D = 1/(2C)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Loss:
    """``box(cost)`` gives (upper, diagonal), each with the shape of ``cost``."""

    name: str
    power: int

    def box(self, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.power == 1:
            return cost.copy(), np.zeros_like(cost)
        return np.full_like(cost, np.inf), 1.0 / (2.0 * cost)


LOSSES = {loss.name: loss for loss in (Loss("hinge", 1), Loss("squared-hinge", 2))}
