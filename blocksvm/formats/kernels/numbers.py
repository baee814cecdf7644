"""Numbers in text: runs of digits, and decimals of any form, correctly rounded."""

import numpy as np

from blocksvm.formats.kernels.decimal import float_of
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.text_bytes import DOT, MINUS, PLUS, ZERO, byte_at, eight_bytes, is_digit, trailing_zeros

# What may come of a number.
FINE = 0
BAD_VALUE = 7
NOT_FINITE = 8
UNDECIDED = -1  # Python's float() must parse it

INTEGER_POWERS = np.array([10**k if k < 20 else 0 for k in range(23)], dtype=np.uint64)  # those that fit
# the mask of a word's last n bytes is at n + 8
LAST_BYTES = np.array([(1 << 64) - (1 << 8 * (8 - min(max(n, 0), 8))) for n in range(-8, 17)], np.uint64)
ZEROS = np.uint64(0x3030303030303030)  # eight times the character


@inlined
def not_digits(word):
    """Of eight bytes from which ``ZEROS`` have been taken (by xor): the high bit of each that is above 9."""
    return ((word + np.uint64(0x7676767676767676)) | word) & np.uint64(0x8080808080808080)


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
def digit_run(text, p):
    """The digits at ``p``, however many: (next position, their number modulo 2^64).

    Eight bytes at a time: a branch for each digit would be mispredicted at the end of most numbers.
    """
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
def number(text, p):
    """Parse a number at ``p``: (next position, code, value).  The text ends with a newline."""
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
    if c == 69 or c == 101:  # e
        p += 1
        c = byte_at(text, p)
        minus = c == MINUS
        if minus or c == PLUS:
            p += 1
            c = byte_at(text, p)
        if not is_digit(c):
            return p, BAD_VALUE, 0.0
        shown = 0
        while is_digit(c):
            if shown < 1_000_000_000_000:  # more than any text has digits
                shown = shown * 10 + (c - ZERO)
            p += 1
            c = byte_at(text, p)
        exponent += -shown if minus else shown
    ok, value = float_of(mantissa, exponent)
    if ok and cut:
        # the true number lies between these two; where they agree, so does it
        ok, above = float_of(mantissa + np.uint64(1), exponent)
        ok = ok and above == value
    if not ok:
        return p, UNDECIDED, 0.0
    return p, FINE, -value if negative else value


@kernel
def numbers_at(text, spans, numbers):
    """The number in ``text[spans[r, 0]:spans[r, 1]]``, nan where that is empty, for r from 0 on: how many there are
    before the first that Python must parse, or that is none or not finite.  The text after each is readable."""
    for r in range(spans.shape[0]):
        numbers[r] = np.nan
        if spans[r, 0] < spans[r, 1]:
            p, code, value = number(text, spans[r, 0])
            if code != FINE or p != spans[r, 1] or not np.isfinite(value):
                return r
            numbers[r] = value + 0.0  # -0 is 0
    return spans.shape[0]
