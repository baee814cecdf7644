"""svmlight text to rows: one sweep over the bytes, every number correctly rounded, every fault located.

    line = [label] {"qid:" digits} {id ":" value} ["#" anything]

Rows come out with ascending, unique ids and without zeros.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.decimal import float_of

# What may be wrong with a line.  The sentences for them are in ingest/svmlight.py.
FINE = 0
BAD_LABEL = 1
NO_LABEL = 2
BAD_PAIR = 3
BAD_ID = 4
NEGATIVE_ID = 5
BIG_ID = 6
BAD_VALUE = 7
NOT_FINITE = 8
BIG_VALUE = 9
DUPLICATE = 10
BIG_NORM = 11

# The kernels read words of eight bytes: this many bytes behind the text must be readable.
SPARE = 8

INTEGER_POWERS = np.array([10**k for k in range(20)], dtype=np.uint64)
UNDECIDED = -1  # a number that Python's float() must parse

NEWLINE, SPACE, TAB, RETURN, HASH, COLON, PLUS, MINUS, DOT = 10, 32, 9, 13, 35, 58, 43, 45, 46
ZERO = 48


@inlined
def is_digit(c):
    return np.uint64(c - ZERO) < np.uint64(10)


@inlined
def is_blank(c):
    return c == SPACE or c == TAB or c == RETURN or c == 11 or c == 12


@inlined
def ends_token(c):
    return c == SPACE or c == NEWLINE or c == TAB or c == RETURN or c == HASH or c == 11 or c == 12


@inlined
def byte_at(text, p):
    """``text[p]``, without the test for a position that counts from the end."""
    return text[np.uint64(p)]


if config.DISABLE_JIT:

    def eight_bytes(text, p):
        """``text[p : p + 8]`` as a little-endian uint64."""
        return text[p : p + 8].view(np.uint64)[0]

    def trailing_zeros(x):
        """Number of zero bits below the lowest one of a uint64 > 0."""
        return (int(x) & -int(x)).bit_length() - 1

else:

    @intrinsic
    def eight_bytes(typingctx, text, p):
        """``text[p : p + 8]`` as a little-endian uint64, at any address."""

        def codegen(context, builder, signature, args):
            array_type = signature.args[0]
            view = context.make_array(array_type)(context, builder, args[0])
            pointer = cgutils.get_item_pointer(context, builder, array_type, view, [args[1]], wraparound=False)
            word = builder.bitcast(pointer, ir.IntType(64).as_pointer())
            return builder.load(word, align=1)

        return types.uint64(text, types.int64), codegen

    @intrinsic
    def trailing_zeros(typingctx, x):
        """Number of zero bits below the lowest one of a uint64 > 0."""

        def codegen(context, builder, signature, args):
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), codegen


@inlined
def digit_run(text, p):
    """The digits at ``p``: (next position, their number modulo 2^64).

    Eight bytes at a time, without a branch for each digit: numbers of changing length cost mispredictions, which are
    most of the time of a plain loop.  Bytes that are not digits get their high bit set; the digits before the first of
    them are moved to the word's end and summed in three multiplications (Lemire, "Quickly parsing eight digits", 2018).
    Reads up to eight bytes beyond the digits.
    """
    total = np.uint64(0)
    while True:
        word = eight_bytes(text, p) ^ np.uint64(0x3030303030303030)
        other = ((word + np.uint64(0x7676767676767676)) | word) & np.uint64(0x8080808080808080)
        n = trailing_zeros(other) >> 3 if other != np.uint64(0) else 8
        if n == 0:
            return p, total
        word = word << np.uint64(64 - 8 * n)
        word = ((word * np.uint64(2561)) >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
        word = ((word * np.uint64(6553601)) >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
        word = (word * np.uint64(42949672960001)) >> np.uint64(32)
        total = total * INTEGER_POWERS[n] + word
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
    cut = False
    point = False
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


@inlined
def number(text, p, scratch):
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
        # most values: a guess that the processor makes for us, where counting the digits would be waited for
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
    ok, value = float_of(mantissa, exponent, scratch)
    if ok and cut:
        # the true number lies between these two; where they agree, so does it
        ok, above = float_of(mantissa + np.uint64(1), exponent, scratch)
        ok = ok and above == value
    if not ok:
        return p, UNDECIDED, 0.0
    return p, FINE, -value if negative else value


@inlined
def close_row(ids, values, start, stop, sum_duplicates, l2, single):
    """Put one row in order: (code, new stop, ||x||^2).  Sorts, joins or refuses duplicates, scales, rounds, drops zeros."""
    ascending = True
    for k in range(start + 1, stop):
        if ids[k] <= ids[k - 1]:
            ascending = False
            break
    if not ascending:
        order = np.argsort(ids[start:stop], kind="mergesort")
        old_ids = ids[start:stop].copy()
        old_values = values[start:stop].copy()
        last = start - 1
        for k in range(order.shape[0]):
            i = old_ids[order[k]]
            v = old_values[order[k]]
            if last >= start and ids[last] == i:
                if not sum_duplicates:
                    return DUPLICATE, stop, 0.0
                values[last] += v
            else:
                last += 1
                ids[last] = i
                values[last] = v
        stop = last + 1
    largest = 1.0
    norm = 1.0
    if l2:
        largest = 0.0
        for k in range(start, stop):
            largest = max(largest, abs(values[k]))
        norm = 0.0
        if largest > 0.0:
            for k in range(start, stop):
                norm += (values[k] / largest) ** 2
            norm = np.sqrt(norm)
    kept = start
    total = 0.0
    for k in range(start, stop):
        v = values[k]
        if l2 and v != 0.0:
            v = v / largest / norm  # their product may overflow
        if single:
            v = float(np.float32(v))
        if not np.isfinite(v):
            return BIG_VALUE, stop, 0.0
        if v != 0.0:
            ids[kept] = ids[k]
            values[kept] = v
            kept += 1
            total += v * v
    if np.isinf(total):
        return BIG_NORM, stop, 0.0
    return FINE, kept, total


@inlined
def id_is_big(text, p, stop):
    """Whether the digits from ``p`` to ``stop`` make a number above 2^63 - 1."""
    i = np.uint64(0)
    while p < stop:
        digit = np.uint64(byte_at(text, p) - ZERO)
        if i > (np.uint64(9223372036854775807) - digit) // np.uint64(10):
            return True
        i = i * np.uint64(10) + digit
        p += 1
    return False


@kernel
def parse_rows(text, end, labelled, labels, indptr, ids, values, lines, undecided):
    """Parse ``text[:end]`` (uint8, whole lines, the last byte a newline, ``SPARE`` more bytes behind it).

    labelled: a row must begin with its label (else a row may lack it and gets nan).  Outputs: labels (rows,)
    float64, indptr (rows + 1,) int64, ids int64, values float64, lines (rows,) int64 the line of each row (0-based).
    undecided (m, 3) int64: (-1 - row for a label or else k for a value, start, stop) of numbers for Python to parse.
    Rows are as read: ``close_rows`` puts them in order.
    Returns (rows, lines read, code, position of the fault, numbers undecided).
    """
    scratch = np.empty(1, np.uint64)
    p = 0
    rows = 0
    k = 0
    line = 0
    open_numbers = 0
    indptr[0] = 0
    while p < end:
        while is_blank(byte_at(text, p)):
            p += 1
        c = byte_at(text, p)
        if c == NEWLINE:
            p += 1
            line += 1
            continue
        if c == HASH:
            while byte_at(text, p) != NEWLINE:
                p += 1
            continue
        # the label
        lines[rows] = line
        token = p
        p, code, value = number(text, p, scratch)
        if byte_at(text, p) == COLON or (c == 113 and byte_at(text, token + 1) == 105 and byte_at(text, token + 2) == 100):
            if labelled:
                return rows, line, NO_LABEL, token, open_numbers
            labels[rows] = np.nan
            p = token
        else:
            if code == BAD_VALUE or (code != NOT_FINITE and not ends_token(byte_at(text, p))):
                return rows, line, BAD_LABEL, token, open_numbers
            if code == NOT_FINITE or np.isinf(value):
                return rows, line, NOT_FINITE, token, open_numbers
            if code == UNDECIDED:
                if open_numbers < undecided.shape[0]:
                    undecided[open_numbers, 0] = -1 - rows
                    undecided[open_numbers, 1] = token
                    undecided[open_numbers, 2] = p
                open_numbers += 1
            labels[rows] = value + 0.0  # -0 is 0
        # the pairs
        while True:
            while is_blank(byte_at(text, p)):
                p += 1
            c = byte_at(text, p)
            if c == NEWLINE:
                p += 1
                line += 1
                break
            if c == HASH:
                while byte_at(text, p) != NEWLINE:
                    p += 1
                continue
            token = p
            if not is_digit(c):
                if c == 113 and byte_at(text, p + 1) == 105 and byte_at(text, p + 2) == 100 and byte_at(text, p + 3) == COLON:
                    p += 4
                    while is_digit(byte_at(text, p)):
                        p += 1
                    if p == token + 4 or not ends_token(byte_at(text, p)):
                        return rows, line, BAD_PAIR, token, open_numbers
                    continue
                if c == MINUS:
                    q = p + 1
                    while is_digit(byte_at(text, q)):
                        q += 1
                    if q > p + 1 and byte_at(text, q) == COLON:
                        return rows, line, NEGATIVE_ID, token, open_numbers
                return rows, line, BAD_PAIR, token, open_numbers
            p, i = digit_run(text, p)
            c = byte_at(text, p)
            big = p - token > 18 and id_is_big(text, token, p)
            if c != COLON:
                return rows, line, (BAD_PAIR if ends_token(c) else BAD_ID), token, open_numbers
            if big:
                return rows, line, BIG_ID, token, open_numbers
            start = p + 1
            p, code, value = number(text, start, scratch)
            if code == NOT_FINITE:
                return rows, line, NOT_FINITE, token, open_numbers
            if code == BAD_VALUE or not ends_token(byte_at(text, p)):
                return rows, line, BAD_VALUE, token, open_numbers
            if code == UNDECIDED:
                if open_numbers < undecided.shape[0]:
                    undecided[open_numbers, 0] = k
                    undecided[open_numbers, 1] = start
                    undecided[open_numbers, 2] = p
                open_numbers += 1
            elif np.isinf(value):
                return rows, line, BIG_VALUE, token, open_numbers
            ids[k] = np.int64(i)
            values[k] = value
            k += 1
        rows += 1
        indptr[rows] = k
    return rows, line, FINE, -1, open_numbers


@kernel
def close_rows(indptr, rows, ids, values, sum_duplicates, l2, single):
    """Put all parsed rows in order, in place; ``indptr`` shrinks with them.  Returns (row, code) of the first fault, and
    the largest ||x||^2.

    l2: divide a row by its Euclidean norm; single: round to float32 (values stay in a float64 array).
    """
    filled = 0
    start = 0
    largest = 0.0
    for r in range(rows):
        stop = indptr[r + 1]
        if filled < start:
            for k in range(start, stop):
                ids[filled + k - start] = ids[k]
                values[filled + k - start] = values[k]
        code, after, square = close_row(ids, values, filled, filled + stop - start, sum_duplicates, l2, single)
        if code != FINE:
            return r, code, largest
        largest = max(largest, square)
        start = stop
        filled = after
        indptr[r + 1] = filled
    return rows, FINE, largest
