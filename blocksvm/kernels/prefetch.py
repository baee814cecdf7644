"""Reading a row's memory well: software prefetch, and values that may not be stored.

A row visited in random order misses every cache: first its indices and values, then the weights that it names.
The processor cannot guess either, so the loops ask for both ahead of time.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.compile import INLINED

# How many rows ahead a row's own memory, and the weights it names, are asked for.  Measured on zipf data of 64 M
# nonzeros: 8-12 and 2-4 are within 5 % of each other.
ROW_AHEAD = 10
WEIGHTS_AHEAD = 3

# Features are numbered by falling frequency: the weights below this index (256 kB) stay in the second-level cache by
# themselves, and asking for them only costs instructions (10 % at 4,096).
HOT_WEIGHTS = 32_768
UNSORTED_RUN = 12  # of a row whose entries lie anywhere: a pass then takes a sixth to a third less than with 1
SAMPLED = 64  # entries, of no more rows, to tell whether they are sorted


def prefetch(array, index):
    """Ask for the cache line of ``array[index]``, of a matrix the row's first; no effect but on time, and never a fault.
    In plain Python nothing."""


@intrinsic
def ask_for(typingctx, array, index):
    signature = types.void(array, index)

    def codegen(context, builder, signature, args):
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, args[0])
        index = context.cast(builder, args[1], signature.args[1], types.intp)
        place = [index] + [ir.Constant(index.type, 0)] * (array_type.ndim - 1)
        pointer = cgutils.get_item_pointer(context, builder, array_type, view, place, wraparound=False)
        byte_pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        # for reading, into the second-level cache (the first has too few lines for all that is under way: 30 %
        # slower), data cache
        builder.call(function, [builder.bitcast(pointer, byte_pointer), word(0), word(2), word(1)])
        return context.get_dummy_value()

    return signature, codegen


@overload(prefetch, jit_options=INLINED)
def prefetch_compiled(array, index):
    return lambda array, index: ask_for(array, index)


@inlined
def value_at(values, k):
    """``values[k]`` as float64, or 1 where the block stores no values (the branch is resolved at compile time)."""
    if values is None:
        return 1.0
    return float(values[k])


@inlined
def prefetch_row(indptr, indices, values, row):
    """Ask for the indices and values of ``row``."""
    for k in range(indptr[row], indptr[row + 1], 16):
        prefetch(indices, k)
        if values is not None:
            prefetch(values, k)


@kernel
def hot_run(indptr, indices):
    """How many weights that are surely in the cache end ``prefetch_weights``, where they stand one after the other: 1
    where a row's entries lie by their numbers, as in stores; more where they lie anywhere, as in matrices whose columns
    are renumbered (a row's first entries show it)."""
    seen = 0
    for i in range(min(indptr.shape[0] - 1, SAMPLED)):
        for k in range(indptr[i] + 1, indptr[i + 1]):
            if indices[k] < indices[k - 1]:
                return UNSORTED_RUN
            seen += 1
            if seen == SAMPLED:
                return 1
    return 1


@inlined
def prefetch_weights(indptr, indices, w, row, run):
    """Ask for the weights that ``row`` names, from its end, rarest first where they are sorted, until ``run`` of them
    one after the other are surely in the cache (``hot_run``)."""
    start = indptr[row]
    k = indptr[row + 1] - 1
    if run == 1:
        while k >= start and indices[k] >= HOT_WEIGHTS:
            prefetch(w, indices[k])
            k -= 1
    else:
        hot = 0
        while k >= start and hot < run:
            prefetch(w, indices[k])
            hot = hot + 1 if indices[k] < HOT_WEIGHTS else 0
            k -= 1


@inlined
def strided_dot(indices, values, start, stop, F, W):
    """``sum_k values[k] * F[W * indices[k]]`` over ``start <= k < stop`` in float64.

    Four partial sums: one would wait for each addition in turn.  Their order depends on the row alone.  Unsigned
    positions spare the test for an index that counts from the end (20 % of the time).
    """
    k = np.uint64(start)
    end = np.uint64(stop)
    width = np.uint64(W)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    s0 = s1 = s2 = s3 = 0.0
    while k + three < end:
        s0 += value_at(values, k) * F[np.uint64(indices[k]) * width]
        s1 += value_at(values, k + one) * F[np.uint64(indices[k + one]) * width]
        s2 += value_at(values, k + two) * F[np.uint64(indices[k + two]) * width]
        s3 += value_at(values, k + three) * F[np.uint64(indices[k + three]) * width]
        k += np.uint64(4)
    while k < end:
        s0 += value_at(values, k) * F[np.uint64(indices[k]) * width]
        k += one
    return (s0 + s1) + (s2 + s3)


@inlined
def products(numbers, first, others, n):
    """``sum_k numbers[k] * numbers[others + k]`` of ``first <= k < first + n``, from unsigned positions; four partial sums
    as there."""
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    k, end = first, first + n
    while k + three < end:
        s0 += numbers[k] * numbers[others + k]
        s1 += numbers[k + one] * numbers[others + k + one]
        s2 += numbers[k + two] * numbers[others + k + two]
        s3 += numbers[k + three] * numbers[others + k + three]
        k += np.uint64(4)
    while k < end:
        s0 += numbers[k] * numbers[others + k]
        k += one
    return (s0 + s1) + (s2 + s3)


@inlined
def dot(indices, values, start, stop, w):
    """``sum_k values[k] * w[indices[k]]``: the stride of 1 is known when it is compiled."""
    return strided_dot(indices, values, start, stop, w, 1)


@inlined
def add_row(indices, values, start, stop, step, w):
    """``w += step * x`` for the row at ``start <= k < stop``."""
    for k in range(np.uint64(start), np.uint64(stop)):
        w[np.uint32(indices[k])] += step * value_at(values, k)
