"""Numbers in text, correctly rounded (Lemire, "Number parsing at a gigabyte per second", 2021, sec. 5-6).

The table holds the upper 128 bits of 5^q for -342 <= q <= 308, as the paper's appendix computes them.  What the method
cannot decide (more than 19 digits that matter, subnormal results) is reported, never guessed.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.text_bytes import (
    DOT,
    MINUS,
    PLUS,
    ZERO,
    byte_at,
    c_number,
    eight_bytes,
    float_of_bits,
    is_blank,
    is_digit,
    trailing_zeros,
)

# What may come of a number.
FINE = 0
BAD_VALUE = 7
NOT_FINITE = 8
LETTER_E = 101

INTEGER_POWERS = np.array([10**k if k < 20 else 0 for k in range(23)], dtype=np.uint64)  # those that fit
# the mask of a word's last n bytes is at n + 8
LAST_BYTES = np.array([(1 << 64) - (1 << 8 * (8 - min(max(n, 0), 8))) for n in range(-8, 17)], np.uint64)
ZEROS = np.uint64(0x3030303030303030)  # eight times the character
DOTS, HIGH_BITS = np.uint64(0x2E2E2E2E2E2E2E2E), np.uint64(0x8080808080808080)
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
    """``mantissa * 10^exponent`` (uint64, int) as (ok, float64); not ok: it cannot be decided here."""
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


@inlined
def not_digits(word):
    """Of eight bytes from which ``ZEROS`` have been taken (by xor): the high bit of each that is above 9."""
    return ((word + np.uint64(0x7676767676767676)) | word) & HIGH_BITS


@inlined
def eight_digits(word):
    """The number of eight digits, the first in the lowest byte (Lemire, "Quickly parsing eight digits", 2018)."""
    word = ((word * np.uint64(2561)) >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    word = ((word * np.uint64(6553601)) >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    return (word * np.uint64(42949672960001)) >> np.uint64(32)


@inlined
def digits_before(text, p, n):
    """The ``n`` of eight bytes before ``p``, less the zero's character, and zeros before them."""
    return (eight_bytes(text, p - 8) ^ ZEROS) & LAST_BYTES[np.uint64(n + 8)]


@inlined
def some_digits(text, p, n):
    """(bits, none of which is set if all are digits; the number) of the ``n`` digits before position ``p``, 0 to 16;
    sixteen bytes before it must be readable."""
    low = digits_before(text, p, n)
    if n <= 8:  # most are, and the second word takes as long as the first
        return not_digits(low), eight_digits(low)
    high = digits_before(text, p - 8, n - 8)
    return not_digits(low) | not_digits(high), eight_digits(high) * INTEGER_POWERS[8] + eight_digits(low)


@inlined
def two_numbers(text, a, n, b, m):
    """(bits, the two numbers), as ``some_digits`` has them, of ``n`` digits before ``a`` and ``m`` before ``b``."""
    faults, first = some_digits(text, a, n)
    others, second = some_digits(text, b, m)
    return faults | others, first, second


@inlined
def first_dot(text, p):
    """How many of eight bytes come before the first point among them; 8 where there is none."""
    word = eight_bytes(text, p) ^ DOTS
    return trailing_zeros((word - (DOTS // np.uint64(DOT))) & ~word & HIGH_BITS) >> 3


@inlined
def plain_number(text, start, stop):
    """(whether ``text[start:stop]`` is a number of at most 15 digits, with a point in it or without, that number)"""
    n = stop - start
    if n <= 8:
        digits = digits_before(text, stop, n)
        if not_digits(digits) == np.uint64(0):
            return True, float(eight_digits(digits))
    negative = byte_at(text, start) == MINUS
    p = start + negative
    n = stop - p
    if n > 16:
        return False, 0.0
    whole = first_dot(text, p)
    if whole == 8 and n > 8:
        whole += first_dot(text, p + 8)
    whole = min(whole, n)
    fraction = max(0, n - whole - 1)
    faults, upper, lower = two_numbers(text, p + whole, whole, stop, fraction)
    if faults != np.uint64(0) or whole + fraction == 0 or whole + fraction > 15:
        return False, 0.0
    value = float(upper * INTEGER_POWERS[fraction] + lower) / POWERS_OF_TEN[fraction]
    return True, -value if negative else value


@inlined
def digit_run(text, p):
    """The digits at ``p``, however many: (next position, their number modulo 2^64).  Eight bytes at a time: a branch
    for each digit would be mispredicted at the end of most numbers."""
    total = np.uint64(0)
    while True:
        word = eight_bytes(text, p) ^ ZEROS
        n = trailing_zeros(not_digits(word)) >> 3
        if n == 0:
            return p, total
        total = total * INTEGER_POWERS[np.uint64(n)] + eight_digits(word << np.uint64(64 - 8 * n))
        p += n
        if n < 8:
            return p, total


@inlined
def long_number(text, p):
    """The digits and point at ``p``, of any length: (next position, mantissa of the first 19 digits that matter,
    exponent, whether others than zeros were left out)."""
    mantissa = np.uint64(0)
    digits = 0  # that matter: leading zeros do not
    exponent = 0
    cut = point = False
    while True:
        c = byte_at(text, p)
        if is_digit(c):
            if digits < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(c - ZERO)
                exponent -= point
                digits += mantissa != np.uint64(0)
            else:
                exponent += not point
                cut = cut or c != ZERO
        elif c == DOT and not point:
            point = True
        else:
            return p, mantissa, exponent, cut
        p += 1


@kernel
def long_number_of(text, p, stop, exponent):
    """The digits and point ``text[p:stop]``, of any length, times 10^exponent."""
    plain = np.empty(stop - p + 16, np.uint8)
    n = 0
    point = False
    while p < stop:
        c = byte_at(text, p)
        p += 1
        if c == DOT:
            point = True
        else:
            plain[n] = c
            n += 1
            exponent -= point
    plain[n] = LETTER_E
    plain[n + 1] = MINUS if exponent < 0 else PLUS
    exponent = abs(exponent)
    for k in range(n + 14, n + 1, -1):
        plain[k] = ZERO + exponent % 10
        exponent //= 10
    plain[n + 15] = 0
    return c_number(plain)


@kernel
def number(text, p):
    """The number at ``p``, before a newline: (next position, code, value), inf where float64 does not hold it."""
    c = byte_at(text, p)
    negative = c == MINUS
    if negative or c == PLUS:
        p += 1
        c = byte_at(text, p)
    begin = p
    exponent = 0
    cut = False
    if c == ZERO and byte_at(text, p + 1) == DOT:
        # a guess that the processor makes for us, where counting the digits would be waited for
        p, mantissa = digit_run(text, begin + 2)
        exponent = begin + 2 - p
        digits = 1 - exponent
        c = byte_at(text, p)
    else:
        p, mantissa = digit_run(text, p)
        digits = p - begin
        c = byte_at(text, p)
        if c == DOT:
            point = p + 1
            p, fraction = digit_run(text, point)
            c = byte_at(text, p)
            exponent = point - p
            digits -= exponent
            mantissa = mantissa * INTEGER_POWERS[min(-exponent, 19)] + fraction
    if digits == 0:
        c |= 32
        if c == 105 or c == 110:  # i(nf), n(an)
            return p, NOT_FINITE, 0.0
        return p, BAD_VALUE, 0.0
    if digits > 19:  # the mantissa may have run over
        p, mantissa, exponent, cut = long_number(text, begin)
    stop = p
    shown = 0
    if c | 32 == LETTER_E:
        p += 1
        c = byte_at(text, p)
        minus = c == MINUS
        if minus or c == PLUS:
            p += 1
            c = byte_at(text, p)
        if not is_digit(c):
            return p, BAD_VALUE, 0.0
        while is_digit(c):
            if shown < 1_000_000_000_000:  # more than any text has digits
                shown = shown * 10 + (c - ZERO)
            p += 1
            c = byte_at(text, p)
        shown = -shown if minus else shown
    ok, value = float_of(mantissa, exponent + shown)
    if ok and cut:
        # the true number lies between these two; where they agree, so does it
        ok, above = float_of(mantissa + np.uint64(1), exponent + shown)
        ok = ok and above == value
    if not ok:
        value = long_number_of(text, begin, stop, shown)
    return p, FINE, -value if negative else value


@kernel
def numbers_at(text, spans, numbers):
    """The number in ``text[spans[r, 0]:spans[r, 1]]``, blanks around it or none, nan where there is nothing else, for r
    from 0 on: how many rows come before the first of which it is none or not finite.  The text goes on."""
    for r in range(spans.shape[0]):
        p, stop = spans[r, 0], spans[r, 1]
        while p < stop and is_blank(byte_at(text, p)):
            p += 1
        numbers[r] = np.nan
        if p < stop:
            p, code, value = number(text, p)
            while p < stop and is_blank(byte_at(text, p)):
                p += 1
            if code != FINE or p != stop or not np.isfinite(value):
                return r
            numbers[r] = value + 0.0  # -0 is 0
    return spans.shape[0]
