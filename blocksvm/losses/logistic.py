"""The logistic loss c log(1 + exp(-y z)): logistic regression, by its dual (Yu, Huang, Lin, Machine Learning 85, 2011).

    D(a) = -sum_i [a_i log a_i + (c_i - a_i) log(c_i - a_i) - c_i log c_i] - ...,     0 <= a_i <= c_i

The terms are 0 at both ends, where their slopes are infinite.  So no row stays at a bound, and the first step leaves
a = 0, the start of every run.
"""

from typing import NamedTuple

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.losses.loss import Loss

EPSILON = 2.0**-52
NEAR = 1e-4  # of c: where c - a is below it, the rounding of a matters
REDUCED = 1e-3  # of the derivative at the start: Newton's method stops there, since later passes go on
EXACT = 1e-13  # of the derivative: below it there is only rounding
MOST_STEPS = 100


@inlined
def log_one_plus_exp(x):
    """log(1 + exp(x)) without overflow."""
    return x + np.log1p(np.exp(-x)) if x > 0.0 else np.log1p(np.exp(x))


@inlined
def advance(m, amount):
    """How far the margin m rises by a step of amount h q: d > 0 with d + e^m (e^d - 1) = amount.

    By Newton's method from above, where it falls towards the root; for a large m divided by e^m, so that nothing
    overflows.
    """
    e = np.exp(-abs(m))
    if m > 0.0:
        d = min(amount * e / (1.0 + e), np.log1p(amount * e))
    else:
        d = min(amount / (1.0 + e), np.log1p(amount / e) if e > 0.0 else np.inf)
    for _ in range(60):
        if m > 0.0:
            excess, slope = e * (d - amount) + np.expm1(d), e + np.exp(d)
        else:
            excess, slope = d - amount + e * np.expm1(d), 1.0 + e * np.exp(d)
        step = excess / slope
        d = max(0.0, d - step)
        if abs(step) <= 1e-15 * d:
            break
    return d


@inlined
def first(part, c):
    """The start of Newton's method for a part of c, which may be 0 (Yu, Huang, Lin)."""
    return part if part > 0.0 else min(1e-3 * c, 1e-8)


class Logistic(NamedTuple):
    """It has no numbers."""

    def value(self, z, y, c):
        return c * log_one_plus_exp(-y * z)

    def derivative(self, z, y, c):
        m = y * z
        return -c * y * np.exp(-m) / (1.0 + np.exp(-m)) if m > 0.0 else -c * y / (1.0 + np.exp(m))

    def second_derivative(self, z, y, c):
        e = np.exp(-abs(z))
        return c * e / ((1.0 + e) * (1.0 + e))

    def aware_step(self, z, y, q, h):
        """(m' - m) / q with m' + e^m' = m + e^m + h q (m' is log of Lambert's W at e^(m + e^m + h q))."""
        return y * (advance(y * z, h * q) / q)

    def conjugate(self, a, y, c):
        """c times minus the entropy of a / c; where a is far below c, log(1 - a / c) is what c - a has rounded off."""
        lower, upper = a / c, (c - a) / c
        total = 0.0
        if lower > 0.0:
            total += lower * np.log(lower)
        if upper > 0.0:
            total += upper * (np.log1p(-lower) if lower < 0.5 else np.log(upper))
        return c * total

    def direction(self, y):
        """w gains a y x."""
        return y

    def stationarity(self, a, z, y, c):
        """(gradient y z + log(a / (c - a)), 0).

        Near c, where c - a is a few roundings of a, the logarithm jumps with each of them.  There the gradient is that
        after a move of a by one rounding against its sign, or 0 if the sign changes.
        """
        start, gap, m = first(a, c), c - a, y * z
        gradient = m + np.log(start / max(gap, 0.5 * EPSILON * c))
        if gap > NEAR * c:
            return gradient, 0.0
        if gradient > 0.0:
            return max(m + np.log(start / (gap + EPSILON * c)), 0.0), 0.0
        if gap <= EPSILON * c:
            return 0.0, 0.0
        return min(m + np.log(start / (gap - EPSILON * c)), 0.0), 0.0

    def step(self, a, z, q, y, c):
        """Yu, Huang, Lin 2011, Alg. 5: the minimum over t in (0, c) of

            q (t - a)^2 / 2 + y z (t - a) + t log t + (c - t) log(c - t)

        by Newton's method on t or on c - t, whichever is smaller there; a step below 0 is replaced by a tenth of the
        last t. Without entries the minimum is c / 2.
        """
        if q == 0.0:
            return 0.5 * c
        m = y * z
        lower = q * (0.5 * c - a) + m >= 0.0  # the derivative at c / 2
        sign = 1.0 if lower else -1.0
        old = a if lower else c - a
        t = first(old, c)
        if t > 0.5 * c:
            t *= 0.1
        slope = q * (t - old) + sign * m + np.log(t / (c - t))
        enough = max(REDUCED * abs(slope), EXACT * (1.0 + abs(m)))
        for _ in range(MOST_STEPS):
            if abs(slope) <= enough:
                break
            moved = t - slope / (q + c / ((c - t) * t))
            t = 0.1 * t if moved <= 0.0 else moved
            slope = q * (t - old) + sign * m + np.log(t / (c - t))
        return t if lower else c - t

    def feasible(self, a, y, c):
        return min(max(a, 0.0), c)


def link(values: np.ndarray) -> np.ndarray:
    """P(larger label) = 1 / (1 + exp(-z)), without overflow."""
    small = np.exp(-np.abs(values))
    larger = np.where(values >= 0.0, 1.0, small) / (1.0 + small)
    other = np.where(values >= 0.0, small, 1.0) / (1.0 + small)
    return np.stack([other, larger], axis=-1)


LOGISTIC = Loss(
    "logistic", "C log(1 + exp(-m)): logistic regression", Logistic, link=link, slope_bound=1.0,
    known_as={"LIBLINEAR": ("L2R_LR_DUAL", "L2R_LR", "L1R_LR"),
              "scikit-learn": {"LogisticRegression": None, "SGDClassifier": "log_loss"}},
)  # fmt: skip
