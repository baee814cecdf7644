"""Rows as kernels read them: their layouts, inner products and sums over them, and software prefetch.

A row visited in random order misses every cache: first its entries, then the weights that they name.  The processor
cannot guess either, so the loops ask for both ahead of time.

*Plain* rows are compressed sparse rows, as users have them.  *Packed* ones, which stores have, take half the bytes:
features are numbered by falling frequency, so that most of a row's are *hot*, below 65,536, and text has few different
values in a row.  Row i is the words (uint64) from indptr[i] to indptr[i + 1]:

    uint32   how many hot features it has; the upper bit is set where its values are coded
    uint32   how many others; coded: in the upper byte how many different values less 1
    uint32   the others, ascending
    uint16   the hot ones, ascending
             coded, of several values: uint8 for each entry, which of them it has
             from the next multiple of their size on: the different values where they are coded, else a value for each
             entry; nothing where every value of a store is 1

Entries are in the order of their features: the hot ones come first.  Only the functions here know the layout.  Which
arrays are None is known when a function is compiled where they are its arguments, not where they are fields of one:
hence pairs such as ``length_of`` and ``length``.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from blocksvm.kernels import inlined
from blocksvm.kernels.compile import INLINED

HOT = 1 << 16
CODED = np.uint32(1 << 31)
COLD_BITS = np.uint32(24)  # of the second number where values are coded
HEADER = 8  # bytes

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
    """Ask for the cache line of ``array[index]``, of a matrix the row's first; no effect but on time, and never a
    fault.  In plain Python nothing."""


@intrinsic
def ask_for(typingctx, array, index):
    signature = types.void(array, index)

    def codegen(context, builder, signature, args):
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, args[0])
        index = context.cast(builder, args[1], signature.args[1], types.intp)
        position = [index] + [ir.Constant(index.type, 0)] * (array_type.ndim - 1)
        pointer = cgutils.get_item_pointer(context, builder, array_type, view, position, wraparound=False)
        byte_pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        # for reading, into the second-level cache (the first has too few lines for all that is under way: 30 % slower)
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


class Entries(NamedTuple):
    """The entries of n rows.  indptr (n + 1,) int64: where rows begin and the last one ends, among the entries or the
    words.  Plain: indices (nnz,) int32, ascending in a row; values (nnz,) float32 or float64; the others are None.
    Packed: longs, shorts, codes and values are the words as uint32, uint16, uint8 and as the values' type; indices is
    None.  values None: all are 1."""

    indptr: np.ndarray
    indices: np.ndarray | None
    values: np.ndarray | None
    longs: np.ndarray | None = None
    shorts: np.ndarray | None = None
    codes: np.ndarray | None = None

    def of_rows(self, rows: slice) -> "Entries":
        """Those of consecutive rows, by views."""
        return self._replace(indptr=self.indptr[rows.start : rows.stop + 1])

    def __reduce__(self):
        """With the words of packed rows once."""
        if self.longs is None:
            return Entries, tuple(self[:3])
        dtype = None if self.values is None else self.values.dtype
        return packed_entries, (self.indptr, self.longs.view(np.uint64), dtype)


def packed_entries(indptr: np.ndarray, words: np.ndarray, value_dtype) -> Entries:
    """The entries of packed rows; value_dtype: of their values, None where all are 1."""
    values: np.ndarray | None = None if value_dtype is None else words.view(value_dtype)
    return Entries(indptr, None, values, words.view(np.uint32), words.view(np.uint16), words.view(np.uint8))


@inlined
def counts_of(longs, at):
    """(n_hot, n_cold, count) of the packed row that begins at word ``at``: its features, and how many different values
    are coded, 0 where they are not."""
    head = np.uint64(2) * at
    first, second = longs[head], longs[head + np.uint64(1)]
    if first < CODED:
        return np.uint64(first), np.uint64(second), np.uint64(0)
    n_cold = second & np.uint32((1 << COLD_BITS) - 1)
    return np.uint64(first & ~CODED), np.uint64(n_cold), np.uint64(second >> COLD_BITS) + np.uint64(1)


@inlined
def offsets_of_values(at, n_hot, n_cold, count, size):
    """(codes, numbers): where the codes and the values, of ``size`` bytes (4, 8; 0: none), of the row at word ``at``
    begin, in their elements."""
    codes = np.uint64(HEADER) * (at + np.uint64(1)) + np.uint64(4) * n_cold + np.uint64(2) * n_hot
    end = codes + (n_hot + n_cold if count > 1 else np.uint64(0))
    # a division of numbers that are known only then takes as long as the products of some entries
    return codes, (end + size - np.uint64(1)) >> np.uint64(3 if size == 8 else 2)


@inlined
def offsets_of(indptr, longs, values, i):
    """(n_hot, n_cold, count, cold, hot, codes, numbers): of packed row i what ``counts_of`` has, and where the arrays
    of it begin, each in elements of its own type."""
    at = np.uint64(indptr[i])
    n_hot, n_cold, count = counts_of(longs, at)
    cold = np.uint64(2) * (at + np.uint64(1))
    hot = np.uint64(2) * (cold + n_cold)
    codes = numbers = np.uint64(0)
    if values is not None:
        codes, numbers = offsets_of_values(at, n_hot, n_cold, count, np.uint64(values.itemsize))
    return n_hot, n_cold, count, cold, hot, codes, numbers


@inlined
def length_of(entries, i):
    """How many entries row i has."""
    return length(entries.indptr, entries.longs, i)


@inlined
def length(indptr, longs, i):
    n = indptr[i + 1] - indptr[i]
    if longs is not None:
        n_hot, n_cold, _ = counts_of(longs, np.uint64(indptr[i]))
        n = np.int64(n_hot + n_cold)
    return n


@inlined
def prefetch_row(entries, row):
    """Ask for what a row consists of."""
    prefetch_entries(entries.indptr, entries.indices, entries.values, entries.longs, row)


@inlined
def prefetch_entries(indptr, indices, values, longs, row):
    if longs is not None:
        for k in range(np.uint64(2) * np.uint64(indptr[row]), np.uint64(2) * np.uint64(indptr[row + 1]), 16):
            prefetch(longs, k)
        prefetch(longs, np.uint64(2) * np.uint64(indptr[row + 1]) - np.uint64(1))  # it may begin within a line
    if indices is not None:
        for k in range(indptr[row], indptr[row + 1], 16):
            prefetch(indices, k)
            if values is not None:
                prefetch(values, k)


@inlined
def hot_run(entries):
    """How many weights that are surely in the cache end ``prefetch_weights``, where they stand one after the other: 1
    where a row's entries lie by their numbers, as in stores; more where they lie anywhere, as in matrices whose columns
    are renumbered (a row's first entries show it)."""
    return run_of_hot(entries.indptr, entries.indices)


@inlined
def run_of_hot(indptr, indices):
    if indices is None:
        return 1
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
def prefetch_weights(entries, w, row, run):
    """Ask for the weights that ``row`` names, from its end, rarest first where they are sorted, until ``run`` of them
    one after the other are surely in the cache (``hot_run``)."""
    ask_for_weights(
        entries.indptr, entries.indices, entries.longs, entries.shorts, w, np.int64(row), run, 1, 0, HOT_WEIGHTS
    )


@inlined
def ask_for_weights(indptr, indices, longs, shorts, w, row, run, width, first, limit):
    """``prefetch_weights`` for those at ``width`` times a feature + ``first``; features below ``limit`` are hot."""
    if longs is not None:
        n_hot, n_cold, _, cold, hot, _, _ = offsets_of(indptr, longs, None, row)
        for k in range(cold, cold + n_cold):
            prefetch(w, np.int64(longs[k]) * width + first)
        k = hot + n_hot
        while k > hot and shorts[k - np.uint64(1)] >= limit:
            k -= np.uint64(1)
            prefetch(w, np.int64(shorts[k]) * width + first)
    if indices is not None:
        at = indptr[row + 1] - 1
        seen = 0
        while at >= indptr[row] and seen < run:
            prefetch(w, np.int64(indices[at]) * width + first)
            seen = seen + 1 if indices[at] < limit else 0
            at -= 1


@inlined
def value_in(values, codes, numbers, k, at):
    """The value of the k-th entry of a run: of the values from ``numbers`` on the one that its codes, from ``at`` on,
    tell; codes None: of the values from ``at`` on every ``numbers``-th, 1, or 0 where they are the same; values None:
    1.  What of this holds is known when it is compiled."""
    if values is None:
        return 1.0
    if codes is None:
        return float(values[at + k * numbers])
    return float(values[numbers + np.uint64(codes[at + k])])


@inlined
def over_runs(entries, i, act, z, others):
    """``z = act(features, first, n, values, codes, numbers, at, z, others)`` for each run of entries of row i: its n
    features begin at ``first``, its values are as ``value_in`` has them."""
    indptr, indices, values, longs, shorts, codes = entries
    return over_runs_of(indptr, indices, values, longs, shorts, codes, i, act, z, others)


@inlined
def over_runs_of(indptr, indices, values, longs, shorts, codes, i, act, z, others):
    if indices is not None:
        start = np.uint64(indptr[i])
        z = act(indices, start, np.uint64(indptr[i + 1]) - start, values, None, np.uint64(1), start, z, others)
    if longs is not None:
        n_hot, n_cold, count, cold, hot, at, numbers = offsets_of(indptr, longs, values, i)
        if count > 1:
            z = act(shorts, hot, n_hot, values, codes, numbers, at, z, others)
            z = act(longs, cold, n_cold, values, codes, numbers, at + n_hot, z, others)
        else:
            step = np.uint64(1) - count
            z = act(shorts, hot, n_hot, values, None, step, numbers, z, others)
            z = act(longs, cold, n_cold, values, None, step, numbers + n_hot * step, z, others)
    return z


@inlined
def term_of(features, first, values, codes, numbers, at, F, width, k):
    return value_in(values, codes, numbers, k, at) * F[np.uint64(features[first + k]) * width]


@inlined
def sum_of_run(features, first, n, values, codes, numbers, at, z, others):
    """``z + sum_k value_k F[W feature_k]`` in float64; others: (F, W).  Four partial sums: one would wait for each
    addition in turn.  Their order depends on the row alone.  Unsigned positions spare the test for an index that counts
    from the end (20 % of the time)."""
    F, W = others
    k = np.uint64(0)
    width = np.uint64(W)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    s0 = s1 = s2 = s3 = 0.0
    while k + three < n:
        s0 += term_of(features, first, values, codes, numbers, at, F, width, k)
        s1 += term_of(features, first, values, codes, numbers, at, F, width, k + one)
        s2 += term_of(features, first, values, codes, numbers, at, F, width, k + two)
        s3 += term_of(features, first, values, codes, numbers, at, F, width, k + three)
        k += np.uint64(4)
    while k < n:
        s0 += term_of(features, first, values, codes, numbers, at, F, width, k)
        k += one
    return z + ((s0 + s1) + (s2 + s3))


@inlined
def strided_dot(indices, values, start, stop, F, W):
    """``sum_k values[k] * F[W * indices[k]]`` over ``start <= k < stop`` in float64."""
    begin, n = np.uint64(start), np.uint64(stop - start)
    return sum_of_run(indices, begin, n, values, None, np.uint64(1), begin, 0.0, (F, W))


@inlined
def dot(entries, i, w):
    """<w, x_i>."""
    return over_runs(entries, i, sum_of_run, 0.0, (w, 1))


@inlined
def add_run(features, first, n, values, codes, numbers, at, step, w):
    """``w += step x`` for a run."""
    for k in range(n):
        w[np.uint64(features[first + k])] += step * value_in(values, codes, numbers, k, at)
    return step


@inlined
def add_row(entries, i, step, w):
    """``w += step * x_i``."""
    over_runs(entries, i, add_run, step, w)


@inlined
def unpack_run(features, first, n, values, codes, numbers, at, to, others):
    """The entries of a run to positions from ``to`` on; returns the one after them.  others: (features, values)."""
    out_features, out_values = others
    for k in range(n):
        out_features[to + k] = features[first + k]
    put_values(values, codes, numbers, at, n, to, out_values)
    return to + n


@inlined
def put_values(values, codes, numbers, at, n, to, out):
    if out is not None:
        for k in range(n):
            out[to + k] = value_in(values, codes, numbers, k, at)


@inlined
def unpack(entries, i, to, features, values):
    """The entries of row i to ``features`` and ``values`` (None: not wanted) from ``to`` on; returns their end."""
    return over_runs(entries, i, unpack_run, np.uint64(to), (features, values))


@inlined
def products(numbers, first, others, n):
    """``sum_k numbers[k] * numbers[others + k]`` of ``first <= k < first + n``, by four sums as in ``sum_of_run``."""
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
