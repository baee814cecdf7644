"""Closed forms of ``w -= a_s sign(w)``, the subgradient steps on l1 |w| in the rounds whose rows lack the feature.

|w| goes x -> |x - a_s| and the sign turns where x < a_s.  For a constant step x falls, then has two values in turn.
For a_s = c / sqrt(s) it falls until x < a_s; from there two rounds together take x -> |x - a'_s| with a'_s = a_s -
a_{s+1}, and turn the sign where x < a'_s: the same map with twice the stride.  So it goes on, level by level:

    a_{L+1}(s) = a_L(s) - a_L(s + 2^L),    x < a_L at level L, which x may leave for the next where x < a_{L+1}.

With T f(s) = f(s + 1) = e^D f(s), sums over rounds are operators on f(s) = 1 / sqrt(s):

    B   = (T - 1)^-1 f                        the rounds of the first fall: B(s + n) - B(s)
    E_L = (1 + T^m)^-1 a_L,  m = 2^L          a fall at level L + 1: E_L(s) - E_L(s + 2 m n); x reaches 0 iff x < E_L(s)
    V_L                                       w over the 2^L rounds of a step of level L adds up to 2^L x - V_L(s)
    H_L = (1 - T^2m)^-1 (2 m E_L - V_{L+1})   the same over a fall at level L + 1

each a power series in D, and D^k f(z) = (-1)^k (1/2)_k z^{-1/2 - k}, so a series in 1 / z at z = s - 1/2, where those
of B and E_L are even.  It is used from s = 64 strides on; earlier rounds are walked.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel

LEVELS = 5
TERMS = 13
FEW = 48  # rounds that are faster walked than summed
FAR = 64  # strides from the first round, from which on the series are exact up to rounding
NOTHING = 1e-15  # of a_s: below it rounding decides which way x goes


def _series() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients of z^{-k} in B / z^{1/2}, BB / z^{3/2} (TERMS,) and z^{1/2} E, V, H (LEVELS, TERMS)."""
    n = TERMS + 2
    one = np.eye(n)[0]
    derivatives = np.cumprod(np.append(4 / 3, 1.5 - np.arange(n + 1)))  # of f at 1: of order -2, -1, 0, ...

    def times(a, b):
        return np.convolve(a, b)[:n]

    def inverse(a):
        b = one / a[0]
        for k in range(1, n):
            b[k] = -(a[k:0:-1] @ b[:k]) / a[0]
        return b

    def shift(h):
        """T^h = e^{hD}"""
        return np.cumprod(np.append(1.0, h / np.arange(1, n)))

    def over_d(a):
        return np.append(a[1:], 0.0)

    def coefficients(operator, least):
        """Of an operator whose first term is D^least, in powers of 1 / z; s = z + 1/2."""
        return (times(shift(0.5), operator) * derivatives[least + 2 : least + 2 + n])[:TERMS]

    step = inverse(over_d(shift(1) - one))  # D / (T - 1)
    E, V, H = [], [], []
    a = v = one
    for level in range(LEVELS):
        m = 1 << level
        e = times(inverse(one + shift(m)), a)
        after = times(one - shift(m), v) + m * a
        h = times(over_d(2 * m * e - after), inverse(over_d(one - shift(2 * m))))
        for table, operator in ((E, e), (V, v), (H, h)):
            table.append(coefficients(operator, 0))
        a, v = times(one - shift(m), a), after
    return coefficients(step, -1), coefficients(times(step, step), -2), np.array(E), np.array(V), np.array(H)


FALL, FALL_SUM, END, STEP_SUM, END_SUM = _series()  # B, BB = (T - 1)^-1 B, E, V, H
# C(z) = BB(z + 1) = BB + B, coefficients of z^{3/2 - k}: sum_{k = 1}^n B(z + k) = C(z + n) - C(z)
FALL_AFTER = FALL_SUM + np.append(0.0, FALL[:-1])
FIRST_TERM = np.array([END[level, level] for level in range(LEVELS)])  # E_L is about this times z^{-1/2 - L}


@inlined
def polynomial(coefficients, y):
    total = 0.0
    for k in range(coefficients.shape[0] - 1, -1, -1):
        total = total * y + coefficients[k]
    return total


@inlined
def at(coefficients, s):
    z = s - 0.5
    return polynomial(coefficients, 1.0 / z) / np.sqrt(z)


@inlined
def walked(w, total, s, rounds, step, l1):
    """(w, sum) after rounds s, s + 1, ... one by one."""
    for _ in range(rounds):
        if w == 0.0:
            break
        a = step / np.sqrt(s) * l1
        w = w - a if w > 0.0 else w + a
        total += w
        s += 1.0
    return w, total


@inlined
def alternating(w, rounds, c):
    """(w, sum) after ``rounds`` rounds of a constant step."""
    sign = 1.0 if w > 0.0 else -1.0
    x = abs(w)
    n = np.int64(min(float(rounds), np.floor(x / c)))
    total = sign * (n * x - c * n * (n + 1.0) / 2.0)
    x = max(0.0, x - n * c)
    rounds -= n
    if x > 0.0 and rounds > 0:
        total += sign * (rounds // 2) * (2.0 * x - c)
        if rounds % 2 == 1:
            x, sign = c - x, -sign
            total += sign * x
    return sign * x, total


@inlined
def fallen(s, n):
    """B(s + n) - B(s), whose largest term is 2 sqrt(z), without cancellation."""
    z = s - 0.5
    after = z + n
    smaller = polynomial(FALL[1:], 1.0 / after) / np.sqrt(after) - polynomial(FALL[1:], 1.0 / z) / np.sqrt(z)
    return FALL[0] * n / (np.sqrt(after) + np.sqrt(z)) + smaller


@inlined
def fallen_sum(s, n):
    """sum_{k = 1}^n (B(s + k) - B(s)), whose largest terms are 4/3 ((z + n)^{3/2} - z^{3/2}) - 2 n z^{1/2}, without
    cancellation."""
    z = s - 0.5
    after = z + n
    q, r = np.sqrt(z), np.sqrt(after)
    d = n / (r + q)  # r - q
    total = d * d * (2.0 * r + q) * (2.0 / 3.0) + FALL_AFTER[1] * d
    total += polynomial(FALL_AFTER[2:], 1.0 / after) / r - polynomial(FALL_AFTER[2:], 1.0 / z) / q
    return total - n * polynomial(FALL[1:], 1.0 / z) / q


@inlined
def first_fall(x, s, rounds, c):
    """(number of rounds, x, sum of x) as long as x stays above 0."""
    z = s - 0.5
    ahead = x / (c * FALL[0])  # of the root of z
    n = np.int64(min(float(rounds), max(0.0, ahead * (2.0 * np.sqrt(z) + ahead))))
    while n < rounds and c * fallen(s, n + 1.0) <= x:
        n += 1
    while n > 0 and c * fallen(s, n) > x:
        n -= 1
    return n, max(0.0, x - c * fallen(s, n)), n * x - c * fallen_sum(s, float(n))


@inlined
def level_fall(x, s, most, level, c):
    """(steps of level + 1, x, sum of w for w > 0), for x < E_level, while x stays above 0; at most ``most`` steps."""
    stride = np.int64(2) << level
    end = c * at(END[level], s)
    left = end - x
    n = most
    if left > 0.0:
        reached = (c * FIRST_TERM[level] / left) ** (1.0 / (level + 0.5))
        n = np.int64(min(float(most), max(0.0, (reached - (s - 0.5)) / stride)))
        while n < most and c * at(END[level], s + stride * (n + 1)) >= left:
            n += 1
        while n > 0 and c * at(END[level], s + stride * n) < left:
            n -= 1
    stop = s + stride * n
    total = c * (at(END_SUM[level], s) - at(END_SUM[level], stop)) - stride * n * left
    return n, max(0.0, c * at(END[level], stop) - left), total


@kernel
def falling_sum(w, since, rounds, step, l1, falling):
    """The sum of w over ``rounds`` rounds after ``since`` of ``w = sign(w) max(0, |w| - a_s)``, with the a_s of
    ``idle_rounds``."""
    x = abs(w)
    c = step * l1
    total = 0.0
    s = since + 1.0
    if c == 0.0:
        total = rounds * x
    elif falling:
        while rounds > 0 and x > 0.0 and (rounds <= FEW or s < FAR):
            x = max(0.0, x - step / np.sqrt(s) * l1)
            total += x
            s += 1.0
            rounds -= 1
        if rounds > 0 and x > 0.0:
            _, _, summed = first_fall(x, s, rounds, c)
            total += summed
    else:
        n = min(float(rounds), np.floor(x / c))
        total = n * x - c * n * (n + 1.0) / 2.0
    return total if w > 0.0 else -total


@kernel
def idle_rounds(w, since, now, step, l1, falling):
    """(w, sum of it over the rounds) after rounds since + 1, ..., now of ``w -= a_s sign(w)`` with a_s = l1 step,
    divided by sqrt(s) where steps are ``falling``.

    Equal to the rounds one by one, up to rounding.  A weight whose sign rounding would decide becomes 0.
    """
    rounds = np.int64(now - since)
    c = step * l1
    if w == 0.0 or rounds == 0 or c == 0.0:
        return w, rounds * w
    if not falling:
        return alternating(w, rounds, c)
    total = 0.0
    s = since + 1.0
    while rounds > 0 and w != 0.0:
        if rounds <= FEW or s < 2.0 * FAR:
            n = min(rounds, max(FEW, np.int64(2.0 * FAR - s)))
            w, total = walked(w, total, s, n, step, l1)
            rounds -= n
            s += n
            continue
        sign = 1.0 if w > 0.0 else -1.0
        x = abs(w)
        if x >= c / np.sqrt(s):
            n, x, summed = first_fall(x, s, rounds, c)
            total += sign * summed
            rounds -= n
            s += n
        level = 0
        while rounds > 0 and x > 0.0:
            m = np.int64(1) << level
            if rounds < 2 * m or s < 2.0 * m * FAR or level == LEVELS:
                # too few rounds for the stride, or too near to the first one: walk some, then start again
                n = min(rounds, max(2 * m, np.int64(2.0 * m * FAR - s)))
                signed, total = walked(sign * x, total, s, n, step, l1)
                x, sign = abs(signed), (1.0 if signed > 0.0 else -1.0)
                rounds -= n
                s += n
                break
            end = c * at(END[level], s)
            if end < NOTHING * c / np.sqrt(s):
                x = 0.0
            elif x >= end:
                # not this value but the next one will reach 0
                total += sign * (m * x - c * at(STEP_SUM[level], s))
                x = max(0.0, end + c * at(END[level], s + m) - x)
                sign = -sign
                rounds -= m
                s += m
            else:
                n, x, summed = level_fall(x, s, rounds // (2 * m), level, c)
                total += sign * summed
                rounds -= 2 * m * n
                s += 2 * m * n
                level += 1
        w = sign * x
    return w, total
