"""svmlight text to rows: one sweep over the bytes, every number correctly rounded, every fault located.

    line = [label] {"qid:" digits} {["+"] id ":" [blanks] value} ["#" anything]

Rows come out with ascending, unique ids and without zeros.

The usual pair, "123:0.456" or the like, is read from separators that were found before, sixty-four bytes at a time:
where each number ends is known, so that no number waits for the one before it (Langdale and Lemire, "Parsing gigabytes
of JSON per second", 2019, take JSON apart in the same two steps).  All else is read byte by byte.
"""

import numpy as np

from blocksvm.formats.kernels.closing import BIG_VALUE, close_plain_row
from blocksvm.formats.kernels.numbers import (
    BAD_VALUE,
    FINE,
    INTEGER_POWERS,
    LARGEST_EXACT,
    NOT_FINITE,
    POWERS_OF_TEN,
    ZEROS,
    digit_run,
    eight_digits,
    long_product,
    not_digits,
    number,
    two_numbers,
)
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.text_bytes import (
    COLON,
    DOT,
    HASH,
    MINUS,
    NEWLINE,
    PLUS,
    QUESTION,
    RETURN,
    SPACE,
    TAB,
    ZERO,
    byte_at,
    eight_bytes,
    ends_token,
    is_blank,
    is_blank_or_newline,
    is_digit,
    next_separators,
)

# What may be wrong with a line, besides a number's own faults.  The sentences for them are in formats/text/svmlight.py.
BAD_LABEL, NO_LABEL, BAD_PAIR, BAD_ID, NEGATIVE_ID, BIG_ID = range(1, 7)

SEPARATORS = 1024  # found ahead; they stay in the first-level cache
# Where unusual pairs are many, looking for usual ones between them takes longer than it saves: the rest of a row is
# read byte by byte once fewer than WORTH came together, and so are rows after one of mostly such, but one in TRIED.
WORTH, TRIED = 8, 64


@inlined
def is_group(text, p):
    """Whether "qid" is at ``p``."""
    return byte_at(text, p) == 113 and byte_at(text, p + 1) == 105 and byte_at(text, p + 2) == 100


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
def usual_pairs(text, p, ends, e, n_ends, ids, values, k):
    """Read pairs from ``p`` on as long as they are usual ones, at most up to the end of the line.  Usual: an id of 1 to
    16 digits; a colon; perhaps a minus; 1 to 16 digits, or one digit, a point and 1 to 18 digits, or up to 22 where the
    first are zeros.  Sixteen bytes before ``p`` are read.  ends[e:n_ends]: the separators.  Returns (p, where the next
    pair begins or the line ends, e, k)."""
    while e + 2 <= n_ends:
        stop, end = ends[np.uint64(e)], ends[np.uint64(e + 1)]
        n = stop - p
        first = stop + 1
        negative = np.int64(byte_at(text, first) == MINUS)
        first += negative
        m = end - first
        whole = decimals = 0
        if byte_at(text, first + 1) == DOT:
            whole = byte_at(text, first) - ZERO
            m -= 2
            decimals = m
        c = byte_at(text, end)
        if not 0 < n <= 16 or byte_at(text, stop) != COLON or not is_blank_or_newline(c):
            break
        head = np.uint64(0)
        if not 0 < m <= 16:
            if not 0 < m - 16 <= decimals - 16 <= 6:
                break
            word = (eight_bytes(text, end - m) ^ ZEROS) << np.uint64(64 - 8 * (m - 16))
            head = eight_digits(word)
            if not_digits(word) != np.uint64(0) or head > np.uint64(99) or (m > 18 and whole != 0):
                break
            head *= INTEGER_POWERS[16]
            m = 16
        faults, i, mantissa = two_numbers(text, stop, n, end, m)
        if faults != np.uint64(0) or not 0 <= whole <= 9:
            break
        mantissa += head + np.uint64(whole) * INTEGER_POWERS[np.uint64(decimals)]
        if mantissa > LARGEST_EXACT:
            decided, value = long_product(mantissa, -decimals)
            if not decided:
                break
            values[np.uint64(k)] = -value if negative else value
        else:
            signed = (np.int64(mantissa) ^ -negative) + negative
            # both are exact, so the one operation rounds correctly (Clinger 1990)
            values[np.uint64(k)] = float(signed) / POWERS_OF_TEN[np.uint64(decimals)]
        ids[np.uint64(k)] = np.int64(i)
        k += 1
        e += 2
        if c == NEWLINE:
            p = end
            break
        p = end + 1
    return p, e, k


@kernel
def parse_rows(text, end, labelled, closing, single, labels, words, indptr, ids, values, lines):
    """Parse ``text[:end]`` (uint8, whole lines, the last byte a newline, ``SPARE`` more bytes after it).

    labelled: a row must begin with its label, or with ? where there is none (else it may lack it): then it is nan.
    words (rows, 2) or (0, 2) int64: where it has rows, labels are any words without a colon at the very beginnings of
    lines, and lie where these say.  closing: rows stay as they are where ids ascend and no value is 0; single: and are
    rounded to float32.  Outputs: labels (rows,) float64, indptr (rows + 1,) int64, ids int64, values float64, lines
    (rows,) int64 the line of each row (0-based).  Returns (rows, lines read, code, position of the fault, rows closed,
    largest ||x||^2 of these): ``close_rows`` puts the rows that come after those in order.
    """
    ends = np.empty(SEPARATORS, np.int64)
    # these come back from kernels, which would be compiled once for the constant 0 and once for numbers
    searched = n_ends = e = np.int64(0)  # text[:searched] was searched; ends[e:n_ends] are to come
    trusted = True  # the row before had mostly usual pairs
    closed = 0
    largest = 0.0
    p = k = np.int64(0)
    rows = line = 0
    indptr[0] = 0
    while p < end:
        begin = p
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
        p, code, value = number(text, p)
        if words.shape[0]:
            labels[rows] = np.nan
            words[rows, 0] = words[rows, 1] = p = token
            stop = token
            while c != COLON and c != SPACE and c != TAB and c != RETURN and c != NEWLINE:
                stop += 1
                c = byte_at(text, stop)
            if begin == token and c != COLON:
                words[rows, 1] = p = stop
            elif labelled:
                return rows, line, NO_LABEL, token, closed, largest
        elif c == QUESTION and ends_token(byte_at(text, token + 1)):
            labels[rows] = np.nan
            p = token + 1
        elif byte_at(text, p) == COLON or is_group(text, token):
            if labelled:
                return rows, line, NO_LABEL, token, closed, largest
            labels[rows] = np.nan
            p = token
        else:
            if code == BAD_VALUE or (code != NOT_FINITE and not ends_token(byte_at(text, p))):
                return rows, line, BAD_LABEL, token, closed, largest
            if code == NOT_FINITE or np.isinf(value):
                return rows, line, NOT_FINITE, token, closed, largest
            labels[rows] = value + 0.0  # -0 is 0
        # the pairs
        p += byte_at(text, p) == SPACE
        tried = trusted or rows % TRIED == 0
        read = -1  # so many usual pairs; not tried yet
        while True:
            if tried and p >= 16:
                searched, e, n_ends = next_separators(text, p, searched, end, ends, e, n_ends)
                first = k
                p, e, k = usual_pairs(text, p, ends, e, n_ends, ids, values, k)
                read = max(read, 0) + k - first
                if e + 2 > n_ends:
                    continue
                tried = k - first >= WORTH
            while is_blank(byte_at(text, p)):
                p += 1
            c = byte_at(text, p)
            if c == HASH:
                while c != NEWLINE:
                    p += 1
                    c = byte_at(text, p)
            if c == NEWLINE:
                break
            token = p
            if not is_digit(c):
                if is_group(text, p) and byte_at(text, p + 3) == COLON:
                    p += 4
                    while is_digit(byte_at(text, p)):
                        p += 1
                    if p == token + 4 or not ends_token(byte_at(text, p)):
                        return rows, line, BAD_PAIR, token, closed, largest
                    p += byte_at(text, p) == SPACE
                    continue
                if c == MINUS:
                    q = p + 1
                    while is_digit(byte_at(text, q)):
                        q += 1
                    if q > p + 1 and byte_at(text, q) == COLON:
                        return rows, line, NEGATIVE_ID, token, closed, largest
                if c != PLUS or not is_digit(byte_at(text, p + 1)):
                    return rows, line, BAD_PAIR, token, closed, largest
                p += 1
            p, i = digit_run(text, p)
            c = byte_at(text, p)
            if c != COLON:
                return rows, line, (BAD_PAIR if ends_token(c) else BAD_ID), token, closed, largest
            if p - token > 18 and id_is_big(text, token + (byte_at(text, token) == PLUS), p):
                return rows, line, BIG_ID, token, closed, largest
            start = p + 1
            while byte_at(text, start) == SPACE or byte_at(text, start) == TAB:  # as LIBLINEAR reads it
                start += 1
            p, code, value = number(text, start)
            if code == NOT_FINITE:
                return rows, line, NOT_FINITE, token, closed, largest
            if code == BAD_VALUE or not ends_token(byte_at(text, p)):
                return rows, line, BAD_VALUE, token, closed, largest
            if np.isinf(value):
                return rows, line, BIG_VALUE, token, closed, largest
            ids[k] = np.int64(i)
            values[k] = value
            k += 1
            p += byte_at(text, p) == SPACE
        p += 1
        line += 1
        if read >= 0:
            trusted = 2 * read >= k - indptr[rows]
        if closing and closed == rows:
            in_order, square = close_plain_row(ids, values, indptr[rows], k, single)
            if in_order:
                closed += 1
                largest = max(largest, square)
        rows += 1
        indptr[rows] = k
    return rows, line, FINE, -1, closed, largest


