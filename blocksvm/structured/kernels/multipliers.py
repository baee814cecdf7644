"""The multipliers of a small quadratic program: how far to move from each of some outputs.

    min 1/2 ||w' - w||^2 + slack   s.t.  <w' - w, d_j> >= margins_j - slack_j;    w' - w = sum_j a_j d_j
    max over a  margins^T a - 1/2 a^T gram a,    gram_jk = <d_j, d_k>

with 0 <= a_j <= C where each constraint has a slack of its own, and a_j >= 0, sum a <= C over each group where the
constraints of a group share one.  gram (n, n), margins (n,) and a (n,) float64; a is written, from 0.  Both stop where
no multiplier can rise or fall by a gradient above ``tol``, or after ``most`` steps; they return the largest such
gradient.
"""

import numpy as np

from blocksvm.kernels import kernel

NOTHING = 1e-12  # a share of C that the rounding of sums leaves over: no steps of this size are taken


@kernel
def separate_slacks(gram, margins, C, tol, most, a):
    """Coordinate ascent (Hildreth, 1957): each multiplier in turn takes its best value."""
    n = gram.shape[0]
    a[:] = 0.0
    gradient = margins.copy()
    largest = np.inf
    steps = 0
    while largest > tol and steps < most:
        largest = 0.0
        for j in range(n):
            g = gradient[j]
            if (a[j] <= 0.0 and g <= 0.0) or (a[j] >= C and g >= 0.0):
                continue
            largest = max(largest, abs(g))
            if gram[j, j] > 0.0:
                new = min(max(a[j] + g / gram[j, j], 0.0), C)
            else:
                new = C if g > 0.0 else 0.0
            step = new - a[j]
            if step != 0.0:
                a[j] = new
                for k in range(n):
                    gradient[k] -= step * gram[j, k]
            steps += 1
    return largest


@kernel
def shared_slacks(gram, margins, groups, C, tol, most, a):
    """Pairs: what is left of a group's C counts as one more multiplier, whose gradient is 0, so that the multipliers of
    a group sum to C; the one of the largest gradient takes from the one of the least that has something to give
    (sequential minimal optimisation; Platt, 1998).  groups (n,) int64, rising."""
    n = gram.shape[0]
    a[:] = 0.0
    gradient = margins.copy()
    largest = np.inf
    steps = 0
    while largest > tol and steps < most:
        largest = 0.0
        start = 0
        while start < n:
            stop = start
            left = C
            while stop < n and groups[stop] == groups[start]:
                left -= a[stop]
                stop += 1
            taker = giver = -1  # the multiplier of what is left
            high = 0.0
            low = 0.0 if left > NOTHING * C else np.inf
            for j in range(start, stop):
                if gradient[j] > high:
                    high = gradient[j]
                    taker = j
                if a[j] > 0.0 and gradient[j] < low:
                    low = gradient[j]
                    giver = j
            start = stop
            steps += 1
            gain = high - low
            if not gain > 0.0:
                continue
            largest = max(largest, gain)
            curvature = 0.0
            if taker >= 0:
                curvature += gram[taker, taker]
            if giver >= 0:
                curvature += gram[giver, giver]
            if taker >= 0 and giver >= 0:
                curvature -= 2.0 * gram[taker, giver]
            there = a[giver] if giver >= 0 else left
            step = min(gain / curvature, there) if curvature > 0.0 else there
            if taker >= 0:
                a[taker] += step
                for k in range(n):
                    gradient[k] -= step * gram[taker, k]
            if giver >= 0:
                a[giver] = 0.0 if step == there else a[giver] - step
                for k in range(n):
                    gradient[k] += step * gram[giver, k]
    return largest
