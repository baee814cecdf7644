"""Bytes of text: what a byte is, and eight or sixty-four of them at a time."""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from blocksvm.kernels import inlined, kernel

SPARE = 64  # this many bytes after a text must be readable

NEWLINE, SPACE, TAB, RETURN, HASH, COLON, PLUS, MINUS, DOT, ZERO, NINE = 10, 32, 9, 13, 35, 58, 43, 45, 46, 48, 57
LAST_BYTES = np.array([0] * 16 + [255] * 16, np.uint8)  # the mask of n bytes' end begins at n
BLANKS = np.uint64(1 << SPACE | 1 << NEWLINE | 1 << TAB | 1 << RETURN | 1 << 11 | 1 << 12)


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
def is_blank_or_newline(c):
    """The same of a separator (a colon, or a space or less): its bit among 64."""
    return (BLANKS >> np.uint64(c)) & np.uint64(1) != np.uint64(0)


@inlined
def byte_at(text, p):
    """``text[p]``, without the test for a position that counts from the end."""
    return int(text[np.uint64(p)])


def load_at(context, builder, array_type, array, position, kind):
    """Code that reads a ``kind`` from an array's element on, at any address, without a check."""
    view = context.make_array(array_type)(context, builder, array)
    pointer = cgutils.get_item_pointer(context, builder, array_type, view, [position], wraparound=False)
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)


def lanes(bits, *values, count):
    """A constant vector of ``count`` numbers of ``bits`` each, ``values`` over and over."""
    return ir.Constant(ir.VectorType(ir.IntType(bits), count), list(values) * (count // len(values)))


if config.DISABLE_JIT:

    def eight_bytes(text, p):
        """``text[p : p + 8]`` as a little-endian uint64."""
        return text[p : p + 8].view(np.uint64)[0]

    def separators(text, p):
        """uint64: bit i is set where byte ``p + i`` is a colon, or a space or less."""
        bytes_ = text[p : p + 64]
        return np.packbits((bytes_ <= SPACE) | (bytes_ == COLON), bitorder="little").view(np.uint64)[0]

    def two_numbers(text, a, n, b, m, masks):
        """(bits, none of which is set if all are digits; the numbers) of the ``n`` digits before position ``a`` and the
        ``m`` before ``b``, 0 to 16 each; sixteen bytes before both must be readable.  masks: ``LAST_BYTES``."""
        tokens = bytes(text[a - n : a]), bytes(text[b - m : b])
        faults = np.uint64(not all(byte in b"0123456789" for token in tokens for byte in token))
        return faults, *(np.uint64(0 if faults or not token else int(token)) for token in tokens)

    def trailing_zeros(x):
        """Number of zero bits below the lowest one of a uint64; 64 of 0."""
        return (int(x) & -int(x)).bit_length() - 1 if x else 64

    def ones(x):
        """Number of bits that are set in a uint64."""
        return int(x).bit_count()

    def float_of_bits(x):
        """The float64 that has the bits of a uint64."""
        return np.uint64(x).view(np.float64)

else:

    @intrinsic
    def eight_bytes(typingctx, text, p):
        """``text[p : p + 8]`` as a little-endian uint64, at any address."""

        def codegen(context, builder, signature, args):
            return load_at(context, builder, signature.args[0], args[0], args[1], ir.IntType(64))

        return types.uint64(text, types.int64), codegen

    @intrinsic
    def separators(typingctx, text, p):
        """uint64: bit i is set where byte ``p + i`` is a colon, or a space or less."""

        def codegen(context, builder, signature, args):
            characters = load_at(context, builder, signature.args[0], args[0], args[1], ir.VectorType(ir.IntType(8), 64))
            blank = builder.icmp_unsigned("<=", characters, lanes(8, SPACE, count=64))
            colon = builder.icmp_unsigned("==", characters, lanes(8, COLON, count=64))
            return builder.bitcast(builder.or_(blank, colon), ir.IntType(64))

        return types.uint64(text, types.int64), codegen

    @intrinsic
    def two_numbers(typingctx, text, a, n, b, m, masks):
        """(bits, none of which is set if all are digits; the numbers) of the ``n`` digits before position ``a`` and the
        ``m`` before ``b``, 0 to 16 each; sixteen bytes before both must be readable.  masks: ``LAST_BYTES``."""

        def codegen(context, builder, signature, args):
            half = ir.VectorType(ir.IntType(8), 16)
            sixteen = ir.Constant(ir.IntType(64), 16)

            def both(array, first, second):
                parts = [load_at(context, builder, signature.args[array], args[array], at, half) for at in (first, second)]
                return builder.shuffle_vector(*parts, ir.Constant(ir.VectorType(ir.IntType(32), 32), list(range(32))))

            def joined(digits, bits, count, place):
                """Each two neighbours, the first of which is worth ``place``, as one number of twice the bits."""
                wide = builder.bitcast(digits, ir.VectorType(ir.IntType(2 * bits), count // 2))
                first = builder.and_(wide, lanes(2 * bits, 2**bits - 1, count=count // 2))
                worth = builder.mul(first, lanes(2 * bits, place, count=count // 2))
                return builder.add(worth, builder.lshr(wide, lanes(2 * bits, bits, count=count // 2)))

            digits = builder.xor(both(0, builder.sub(args[1], sixteen), builder.sub(args[3], sixteen)), lanes(8, ZERO, count=32))
            digits = builder.and_(digits, both(5, args[2], args[4]))
            faults = builder.icmp_unsigned(">", digits, lanes(8, 9, count=32))
            faults = builder.zext(builder.bitcast(faults, ir.IntType(32)), ir.IntType(64))
            # 16 digits as 8 numbers of two, 4 of four, 2 of eight: no product is too long for its lane
            eights = joined(joined(joined(digits, 8, 32, 10), 16, 16, 100), 32, 8, 10**4)
            parts = builder.mul(eights, lanes(64, 10**8, 1, count=4))
            part = [builder.extract_element(parts, ir.Constant(ir.IntType(32), j)) for j in range(4)]
            numbers = [builder.add(part[0], part[1]), builder.add(part[2], part[3])]
            return context.make_tuple(builder, signature.return_type, [faults, *numbers])

        return types.UniTuple(types.uint64, 3)(text, types.int64, types.int64, types.int64, types.int64, masks), codegen

    def instruction(signature, build):
        """A function of one number that is an instruction of the processor."""

        def function(typingctx, x):
            return signature, lambda context, builder, signature, args: build(builder, args[0])

        return intrinsic(function)

    one = ir.IntType(1)
    trailing_zeros = instruction(types.int64(types.uint64), lambda builder, x: builder.cttz(x, one(0)))
    ones = instruction(types.int64(types.uint64), lambda builder, x: builder.ctpop(x))
    float_of_bits = instruction(types.float64(types.uint64), lambda builder, x: builder.bitcast(x, ir.DoubleType()))


@inlined
def find_separators(text, begin, end, positions, n):
    """Append to ``positions[:n]`` (int64) the positions of separators from ``begin`` on: (the position to go on at, n).

    Stops at ``end``, or where fewer than 128 places are left.
    """
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
