"""Decimal text to float64, correctly rounded (Lemire, "Number parsing at a gigabyte per second", 2021, sec. 5-6).

The table holds the upper 128 bits of 5^q for -342 <= q <= 308, as the paper's appendix computes them.  What the
method cannot decide (more than 19 digits that matter, subnormal results) is reported, never guessed.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.text_bytes import float_of_bits

SMALLEST_POWER = -342
LARGEST_POWER = 308


def _powers_of_five() -> np.ndarray:
    """(651, 2) uint64: upper and lower half of the 128-bit significand of 5^q."""
    rows = []
    for q in range(SMALLEST_POWER, LARGEST_POWER + 1):
        if q < 0:
            power = 5**-q
            bits = (power - 1).bit_length()
            significand = 2 ** (bits + 127 if q >= -27 else 2 * bits + 128) // power + 1
        else:
            significand = 5**q << 127
        significand >>= max(0, significand.bit_length() - 128)
        rows.append((significand >> 64, significand & (2**64 - 1)))
    return np.array(rows, dtype=np.uint64)


POWERS_OF_FIVE = _powers_of_five()
POWERS_OF_TEN = 10.0 ** np.arange(23)  # all exact in float64
LARGEST_EXACT = np.uint64(2**53)  # all whole numbers up to it are exact in float64
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
LOW_HALF = np.uint64(0xFFFFFFFF)


@inlined
def multiply(a, b):
    """The 128-bit product of two uint64 as (upper, lower)."""
    half = np.uint64(32)
    a1, a0 = a >> half, a & LOW_HALF
    b1, b0 = b >> half, b & LOW_HALF
    low = a0 * b0
    middle = a1 * b0 + (low >> half)
    other = a0 * b1 + (middle & LOW_HALF)
    upper = a1 * b1 + (middle >> half) + (other >> half)
    return upper, (other << half) | (low & LOW_HALF)


@inlined
def leading_zeros(x):
    """Number of zero bits above the highest one of a uint64 > 0."""
    n = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if x >> np.uint64(64 - shift) == np.uint64(0):
            n += shift
            x = x << np.uint64(shift)
    return n


@inlined
def float_of(mantissa, exponent):
    """``mantissa * 10^exponent`` (uint64, int) as (ok, float64).

    ok is False where the result cannot be decided here: the caller parses the text in another way.
    """
    # both factors are exact, so the one operation rounds correctly (Clinger 1990)
    if mantissa <= LARGEST_EXACT and -22 <= exponent <= 22:
        if exponent < 0:
            return True, float(np.int64(mantissa)) / POWERS_OF_TEN[np.uint64(-exponent)]
        return True, float(np.int64(mantissa)) * POWERS_OF_TEN[np.uint64(exponent)]
    return long_product(mantissa, exponent)


@kernel
def long_product(mantissa, exponent):
    """The same by a product of 128 bits."""
    if mantissa == np.uint64(0):
        return True, 0.0
    if exponent < SMALLEST_POWER:
        return True, 0.0
    if exponent > LARGEST_POWER:
        return True, np.inf
    zeros = leading_zeros(mantissa)
    w = mantissa << np.uint64(zeros)
    row = exponent - SMALLEST_POWER
    upper, lower = multiply(w, POWERS_OF_FIVE[row, 0])
    mask = ALL_BITS >> np.uint64(55)
    if upper & mask == mask:
        second, _ = multiply(w, POWERS_OF_FIVE[row, 1])
        lower = lower + second
        if second > lower:
            upper = upper + np.uint64(1)
    if lower == ALL_BITS and not (-27 <= exponent <= 55):
        return False, 0.0
    top = np.int64(upper >> np.uint64(63))
    shift = np.uint64(top + 9)
    m = upper >> shift
    # floor(log2(10^q)) + 63, then the biased binary exponent
    power = ((217706 * exponent) >> 16) + 63 + top - zeros + 1023
    if power <= 0:
        return False, 0.0
    if lower <= np.uint64(1) and -4 <= exponent <= 23 and m & np.uint64(3) == np.uint64(1) and m << shift == upper:
        m = m & ~np.uint64(1)  # exactly half way: to even
    m = (m + (m & np.uint64(1))) >> np.uint64(1)
    if m >= np.uint64(1) << np.uint64(53):
        m = np.uint64(1) << np.uint64(52)
        power += 1
    if power >= 2047:
        return True, np.inf
    return True, float_of_bits((m & ~(np.uint64(1) << np.uint64(52))) | (np.uint64(power) << np.uint64(52)))
