"""The multipliers of a small quadratic program: how far to move from each of some outputs.

    min 1/2 ||w' - w||^2 + C sum slack   s.t.  <w' - w, d_j> >= margins_j - slack;    w' - w = sum_j a_j d_j
    max over a >= 0  margins^T a - 1/2 a^T gram a   s.t.  sum a <= C over each group,    gram_jk = <d_j, d_k>

A group is the constraints that share a slack: those of an example, or each alone.
"""

import numpy as np

from blocksvm.kernels import kernel

NOTHING = 1e-12  # a share of C that the rounding of sums leaves over: no steps of this size are taken


@kernel
def best_multipliers(gram, margins, groups, C, tol, most, a):
    """Write the multipliers a (n,) float64; gram (n, n), margins (n,) float64; groups (n,) int64, rising.

    Pairs: what is left of a group's C counts as one more multiplier, whose gradient is 0, so that the multipliers of a
    group sum to C; the one of the largest gradient takes from the one of the least that has something to give
    (sequential minimal optimisation; Platt, 1998).  Stops where no multiplier can rise or fall by a gradient above
    ``tol``, or after ``most`` steps; returns the largest such gradient."""
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
