"""Bytes of text: what a byte is, and eight or sixty-four of them at a time."""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from blocksvm.kernels import inlined, kernel

SPARE = 64  # this many bytes after a text must be readable

NEWLINE, SPACE, TAB, RETURN, HASH, COLON, PLUS, MINUS, DOT, ZERO, NINE = 10, 32, 9, 13, 35, 58, 43, 45, 46, 48, 57
QUESTION = 63
BLANKS = np.uint64(1 << SPACE | 1 << NEWLINE | 1 << TAB | 1 << RETURN | 1 << 11 | 1 << 12)


@inlined
def is_digit(c):
    return ZERO <= c <= NINE


@inlined
def is_gap(c):
    return c == SPACE or c == TAB or c == RETURN


@inlined
def is_blank(c):
    return c == SPACE or c == TAB or c == RETURN or c == 11 or c == 12


@inlined
def ends_token(c):
    return c == SPACE or c == NEWLINE or c == TAB or c == RETURN or c == HASH or c == 11 or c == 12


@inlined
def is_blank_or_newline(c):
    """The same of a separator (a colon, or a space or less): its bit among 64."""
    return (BLANKS >> np.uint64(c)) & np.uint64(1) != np.uint64(0)


@inlined
def byte_at(text, p):
    """``text[p]``, without the test for a position that counts from the end."""
    return int(text[np.uint64(p)])


@inlined
def eight_bytes(text, p):
    """``text[p : p + 8]`` as a little-endian uint64, at any address: one load, into which the compiler turns this."""
    word = np.uint64(0)
    for j in range(8):
        word |= np.uint64(text[np.uint64(p + j)]) << np.uint64(8 * j)
    return word


if config.DISABLE_JIT:

    def separators(text, p):
        """uint64: bit i is set where byte ``p + i`` is a colon, or a space or less."""
        return np.uint64(sum(1 << j for j, c in enumerate(text[p : p + 64].tolist()) if c <= SPACE or c == COLON))

    def trailing_zeros(x):
        """Number of zero bits below the lowest one of a uint64; 64 of 0."""
        return (int(x) & -int(x)).bit_length() - 1 if x else 64

    def ones(x):
        """Number of bits that are set in a uint64."""
        return int(x).bit_count()

    def float_of_bits(x):
        """The float64 that has the bits of a uint64."""
        return np.uint64(x).view(np.float64)

    def c_number(text):
        """The number that a text (uint8) of digits and an exponent is, up to a byte 0, correctly rounded."""
        return float(text.tobytes().partition(b"\0")[0])

else:

    def instruction(signature, build):
        """A function of one number that is an instruction of the processor."""

        def function(typingctx, x):
            return signature, lambda context, builder, signature, args: build(builder, args[0])

        return intrinsic(function)

    @intrinsic
    def separators(typingctx, text, p):
        """As above: two comparisons of 64 bytes, where a loop over them is compiled to some ninety instructions."""

        def build(context, builder, signature, args):
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            vector = ir.VectorType(ir.IntType(8), 64)
            loaded = builder.load(builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer()), align=1)
            colon = builder.icmp_unsigned("==", loaded, ir.Constant(vector, [COLON] * 64))
            blank = builder.icmp_unsigned("<=", loaded, ir.Constant(vector, [SPACE] * 64))
            return builder.bitcast(builder.or_(colon, blank), ir.IntType(64))

        return types.uint64(text, types.int64), build

    @intrinsic
    def c_number(typingctx, text):
        """As above, by C's strtod, whose decimal point, which a locale may change, there is none of."""

        def build(context, builder, signature, args):
            begin = context.make_array(signature.args[0])(context, builder, args[0]).data
            end = begin.type.as_pointer()
            strtod = ir.FunctionType(ir.DoubleType(), [begin.type, end])
            strtod = cgutils.get_or_insert_function(builder.module, strtod, "strtod")
            return builder.call(strtod, [begin, ir.Constant(end, None)])

        return types.float64(text), build

    one = ir.IntType(1)
    trailing_zeros = instruction(types.int64(types.uint64), lambda builder, x: builder.cttz(x, one(0)))
    ones = instruction(types.int64(types.uint64), lambda builder, x: builder.ctpop(x))
    float_of_bits = instruction(types.float64(types.uint64), lambda builder, x: builder.bitcast(x, ir.DoubleType()))


@inlined
def find_separators(text, begin, end, positions, n):
    """Append to ``positions[:n]`` (int64) the positions of separators from ``begin`` on: (the position to go on at, n).
    Stops at ``end``, or where fewer than 128 positions are left."""
    most = positions.shape[0] - 128
    p = begin
    while p < end and n < most:
        bits = separators(text, p)
        after = n + ones(bits)
        # Twelve at once, wanted or not: a loop of changing length costs a misprediction for each word.
        for j in range(12):
            positions[np.uint64(n + j)] = p + trailing_zeros(bits)
            bits &= bits - np.uint64(1)
        n += 12
        while bits != np.uint64(0):
            positions[np.uint64(n)] = p + trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            n += 1
        n = after
        p += 64
    return p, n


@inlined
def next_separators(text, p, searched, end, positions, first, n):
    """Drop separators before ``p`` from ``positions[first:n]`` and see to it that two are there: (position up to which
    ``text[:end]`` was searched, first, n).  Behind the last one ``end`` stands twice."""
    while first < n and positions[np.uint64(first)] < p:
        first += 1
    if first + 2 <= n:
        return searched, first, n
    return more_separators(text, p, searched, end, positions, first, n)


@kernel
def more_separators(text, p, searched, end, positions, first, n):
    """The same, where fewer than two are there."""
    while True:
        while first < n and positions[np.uint64(first)] < p:
            first += 1
        if first + 2 <= n:
            return searched, first, n
        for j in range(first, n):
            positions[j - first] = positions[j]
        if first == n:
            searched = max(searched, p)
        searched, n = find_separators(text, searched, end, positions, n - first)
        first = 0
        if searched >= end:
            positions[n] = end
            positions[n + 1] = end
            n += 2
