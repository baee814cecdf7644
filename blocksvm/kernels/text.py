"""svmlight text to rows: one sweep over the bytes, every number correctly rounded, every fault located.

    line = [label] {"qid:" digits} {id ":" value} ["#" anything]

Rows come out with ascending, unique ids and without zeros.
"""

import numpy as np

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

UNDECIDED = -1  # a number that Python's float() must parse

NEWLINE, SPACE, TAB, RETURN, HASH, COLON, PLUS, MINUS, DOT = 10, 32, 9, 13, 35, 58, 43, 45, 46
ZERO, NINE = 48, 57


@inlined
def is_digit(c):
    return ZERO <= c <= NINE


@inlined
def is_blank(c):
    return c == SPACE or c == TAB or c == RETURN or c == 11 or c == 12


@inlined
def ends_token(c):
    return c == SPACE or c == NEWLINE or c == TAB or c == RETURN or c == HASH or c == 11 or c == 12


@inlined
def number(text, p, end, scratch):
    """Parse a number at ``p``: (next position, code, value).  ``text[end - 1]`` is a newline."""
    negative = False
    c = text[p]
    if c == MINUS or c == PLUS:
        negative = c == MINUS
        p += 1
        c = text[p]
    mantissa = np.uint64(0)
    digits = 0  # that matter: leading zeros do not
    seen = False
    exponent = 0
    cut = False  # digits beyond the 19th were left out
    while is_digit(c):
        seen = True
        if digits < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(c - ZERO)
            if mantissa != np.uint64(0):
                digits += 1
        else:
            exponent += 1
            cut = cut or c != ZERO
        p += 1
        c = text[p]
    if c == DOT:
        p += 1
        c = text[p]
        while is_digit(c):
            seen = True
            if digits < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(c - ZERO)
                exponent -= 1
                if mantissa != np.uint64(0):
                    digits += 1
            else:
                cut = cut or c != ZERO
            p += 1
            c = text[p]
    if not seen:
        c |= 32
        if c == 105 or c == 110:  # i(nf), n(an)
            return p, NOT_FINITE, 0.0
        return p, BAD_VALUE, 0.0
    if c == 69 or c == 101:  # e
        p += 1
        c = text[p]
        minus = c == MINUS
        if c == MINUS or c == PLUS:
            p += 1
            c = text[p]
        if not is_digit(c):
            return p, BAD_VALUE, 0.0
        shown = 0
        while is_digit(c):
            if shown < 1_000_000_000_000:  # more than any text has digits
                shown = shown * 10 + (c - ZERO)
            p += 1
            c = text[p]
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
    """Put one row in order: (code, new stop).  Sorts, joins or refuses duplicates, scales, rounds, drops zeros."""
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
                    return DUPLICATE, stop
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
            return BIG_VALUE, stop
        if v != 0.0:
            ids[kept] = ids[k]
            values[kept] = v
            kept += 1
            total += v * v
    if np.isinf(total):
        return BIG_NORM, stop
    return FINE, kept


@kernel
def parse_rows(text, end, labelled, labels, indptr, ids, values, lines, undecided):
    """Parse ``text[:end]`` (uint8, whole lines, the last byte a newline).

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
        while is_blank(text[p]):
            p += 1
        c = text[p]
        if c == NEWLINE:
            p += 1
            line += 1
            continue
        if c == HASH:
            while text[p] != NEWLINE:
                p += 1
            continue
        # the label
        lines[rows] = line
        token = p
        p, code, value = number(text, p, end, scratch)
        if text[p] == COLON or (c == 113 and text[token + 1] == 105 and text[token + 2] == 100):
            if labelled:
                return rows, line, NO_LABEL, token, open_numbers
            labels[rows] = np.nan
            p = token
        else:
            if code == BAD_VALUE or (code != NOT_FINITE and not ends_token(text[p])):
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
            while is_blank(text[p]):
                p += 1
            c = text[p]
            if c == NEWLINE:
                p += 1
                line += 1
                break
            if c == HASH:
                while text[p] != NEWLINE:
                    p += 1
                continue
            token = p
            if not is_digit(c):
                if c == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == COLON:
                    p += 4
                    while is_digit(text[p]):
                        p += 1
                    if p == token + 4 or not ends_token(text[p]):
                        return rows, line, BAD_PAIR, token, open_numbers
                    continue
                if c == MINUS:
                    q = p + 1
                    while is_digit(text[q]):
                        q += 1
                    if q > p + 1 and text[q] == COLON:
                        return rows, line, NEGATIVE_ID, token, open_numbers
                return rows, line, BAD_PAIR, token, open_numbers
            i = np.uint64(0)
            big = False
            while is_digit(c):
                if i > np.uint64(922337203685477580):
                    big = True
                i = i * np.uint64(10) + np.uint64(c - ZERO)
                if i > np.uint64(9223372036854775807):
                    big = True
                p += 1
                c = text[p]
            if c != COLON:
                return rows, line, (BAD_PAIR if ends_token(c) else BAD_ID), token, open_numbers
            if big:
                return rows, line, BIG_ID, token, open_numbers
            start = p + 1
            p, code, value = number(text, start, end, scratch)
            if code == NOT_FINITE:
                return rows, line, NOT_FINITE, token, open_numbers
            if code == BAD_VALUE or not ends_token(text[p]):
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
    """Put all parsed rows in order, in place; ``indptr`` shrinks with them.  Returns (row, code) of the first fault.

    l2: divide a row by its Euclidean norm; single: round to float32 (values stay in a float64 array).
    """
    filled = 0
    start = 0
    for r in range(rows):
        stop = indptr[r + 1]
        if filled < start:
            for k in range(start, stop):
                ids[filled + k - start] = ids[k]
                values[filled + k - start] = values[k]
        code, after = close_row(ids, values, filled, filled + stop - start, sum_duplicates, l2, single)
        if code != FINE:
            return r, code
        start = stop
        filled = after
        indptr[r + 1] = filled
    return rows, FINE
