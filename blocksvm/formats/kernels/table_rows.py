"""Rows of columns that have an entry a row at most, in order, scaled and rounded, in one sweep.

Some rows at a time stand side by side in a tile, one column of numbers after the other, so that each step takes several
rows in one instruction, and the sums of a row are formed in the order of its features all the same.
"""

from typing import NamedTuple

import numpy as np

from blocksvm.formats.kernels.foreign_memory import memory
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.hash_table import close_joined
from blocksvm.kernels.text_bytes import trailing_zeros

FLOAT64, FLOAT32, INT64, INT32 = range(4)  # what the items of a column are; each takes a quarter of a second to compile
# what came of it
SOUND, UNSOUND, BAD_CODE = range(3)


@inlined
def spread(source, stride, missing, out):
    """``out[r] = source[stride r]`` of a few rows, ``missing`` for nan."""
    for r in range(out.shape[0]):
        v = np.float64(source[np.uint64(r * stride)])
        out[r] = v if v == v else missing


@kernel
def read_column(address, kind, stride, bitmap, first, missing, out):
    """The items from ``first`` on of a column as float64, ``missing`` for nan and for what is not valid.

    address, bitmap: where its items lie, ``stride`` apart, and the bits that tell which are valid (0: all are)."""
    n = out.shape[0]
    span = (n - 1) * stride + 1
    if kind == FLOAT64:
        spread(memory(address + 8 * first * stride, span, np.float64), stride, missing, out)
    elif kind == FLOAT32:
        spread(memory(address + 4 * first * stride, span, np.float32), stride, missing, out)
    elif kind == INT64:
        spread(memory(address + 8 * first * stride, span, np.int64), stride, missing, out)
    else:
        spread(memory(address + 4 * first * stride, span, np.int32), stride, missing, out)
    if bitmap == 0:
        return
    bits = memory(bitmap + first // 8, (first % 8 + n + 7) // 8, np.uint8)
    for begin in range(0, n, 64):
        m = min(64, n - begin)
        shift, i = (first + begin) % 8, (first % 8 + begin) // 8
        valid = np.uint64(bits[i]) >> np.uint64(shift)
        for at in range(8 - shift, m, 8):
            i += 1
            valid |= np.uint64(bits[i]) << np.uint64(at)
        gone = ~valid & (~np.uint64(0) >> np.uint64(64 - m))
        while gone != np.uint64(0):
            out[begin + np.int64(trailing_zeros(gone))] = missing
            gone &= gone - np.uint64(1)


@inlined
def scale_tile(tile, n, l2, single, largest, norms, squares, counts):
    """Scale the rows that stand side by side in tile (k, n), 0 where there is no entry, each by its Euclidean norm (l2),
    and round them to float32 (single): whether all is finite.  squares, counts (n,): ||x||^2 of each, and how many
    entries it has."""
    for r in range(n):
        largest[r] = 1.0
        norms[r] = 1.0
        squares[r] = 0.0
        counts[r] = 0
    if l2:
        for r in range(n):
            largest[r] = 0.0
            norms[r] = 0.0
        for j in range(tile.shape[0]):
            for r in range(n):
                v = abs(tile[j, r])
                largest[r] = v if v > largest[r] else largest[r]
        for r in range(n):
            largest[r] = largest[r] if largest[r] > 0.0 else 1.0
        for j in range(tile.shape[0]):
            for r in range(n):
                v = tile[j, r] / largest[r]
                tile[j, r] = v
                norms[r] += v * v
        for r in range(n):
            norms[r] = np.sqrt(norms[r]) if norms[r] > 0.0 else 1.0
    for j in range(tile.shape[0]):
        for r in range(n):
            v = tile[j, r] / norms[r]  # by 1: as it was
            if single:
                v = np.float64(np.float32(v))
            tile[j, r] = v
            squares[r] += v * v
            counts[r] += v != 0.0
    sound = True
    for r in range(n):
        sound &= squares[r] < np.inf
    return sound


@inlined
def sort_side_by_side(keys, n, pairs):
    """Sort each of the rows that stand side by side in keys (k, n), by the comparisons of a sorting network: pairs (., 2)
    of positions, of which the lesser key goes to the first."""
    for i in range(pairs.shape[0]):
        low, high = keys[np.uint64(pairs[i, 0])], keys[np.uint64(pairs[i, 1])]
        for r in range(n):
            a, b = low[r], high[r]
            low[r] = a if a < b else b
            high[r] = b if a < b else a


@inlined
def join_meeting(ids, values, start, stop, features, meets, meeting, l2, single):
    """Add up the entries of one row that are hashed to the same place, where the first stands, as ``hash_rows`` does.

    features: those of the row's entries; meets: which are hashed to the place of another; meeting (stop - start,) is
    working space.  Returns (new stop, ||x||^2), or (stop, -1) where no two of them are in the row.
    """
    n = 0
    joined = False
    for k in range(start, stop):
        if meets[features[k - start]]:
            meeting[n] = k
            n += 1
            for i in range(n - 1):
                if ids[meeting[i]] == ids[k]:
                    values[meeting[i]] += values[k]
                    ids[k] = -1
                    joined = True
                    n -= 1
                    break
    if not joined:
        return stop, -1.0
    filled = start
    for k in range(start, stop):
        if ids[k] >= 0:
            ids[filled] = ids[k]
            values[filled] = values[k]
            filled += 1
    return close_joined(ids, values, start, filled, l2, single)


class ColumnArrays(NamedTuple):
    """Columns that lie side by side.

    The first m are numbers, values of features (m,) int32, which rise; nan and 0 are no entries.  The c after them are
    categories: an item is a code below ``sizes[j]``, whose feature, of value 1, is ``codes_to_features[begins[j] +
    code]``, int32.  d is no feature.  pairs: of a network that sorts m + c keys, none where there are no categories;
    owners (d + 1,) int32: which of the columns of numbers a feature has, m of categories, m + 1 of d.
    """

    features: np.ndarray
    begins: np.ndarray
    sizes: np.ndarray
    codes_to_features: np.ndarray
    pairs: np.ndarray
    owners: np.ndarray


@kernel
def close_columns(
    where,
    columns,
    width,
    final,
    meets,
    first_of_name,
    last_of_name,
    l2,
    single,
    indptr,
    ids,
    values,
    firsts,
    lasts,
):
    """The rows of columns, from their first item on, in the order of their features, scaled (l2) and rounded to float32
    (single): the status (``SOUND``; ``UNSOUND``: some value or square is not finite; ``BAD_CODE``) and the largest ||x||^2.

    where (5, m + c) int64: of each column where it lies, as ``read_column`` takes it; columns: ``ColumnArrays``; width: rows
    side by side.
    final (d,): what the rows have in the place of a feature, rising or hashed; meets (d,) bool: of those that are
    hashed to the place of another; none where there are none.  Names of features (d,): none where they are not wanted.
    Outputs: indptr (n + 1,), ids, values, and where they are wanted firsts and lasts (int64), with room for each item.
    """
    addresses, kinds, strides, bitmaps, offsets = where[0], where[1], where[2], where[3], where[4]
    features, begins, sizes, codes_to_features, pairs, owners = columns
    n_rows = indptr.shape[0] - 1
    m = features.shape[0]
    k = addresses.shape[0]
    n_features = np.int32(final.shape[0])
    # neighbours in a tile lie some cache lines apart, but no power of two of them, which would be in each other's way
    stride = width + 8
    numbers = np.zeros((m + 2, stride), np.float64)
    numbers[m] = 1.0
    in_order = numbers if k == m else np.zeros((k, stride), np.float64)
    keys = np.empty((k if k > m else 0, stride), np.int32)
    codes = np.empty(width, np.float64)
    largest = np.empty(width, np.float64)
    norms = np.empty(width, np.float64)
    squares = np.empty(width, np.float64)
    counts = np.empty(width, np.int64)
    targets = np.empty(k + 1, np.int32)
    meeting = np.empty(k, np.int64)
    named = firsts.shape[0] > 0
    most = 0.0
    filled = 0
    indptr[0] = 0
    for begin in range(0, n_rows, width):
        n = min(width, n_rows - begin)
        for j in range(k):
            items, missing = (numbers[j, :n], 0.0) if j < m else (codes[:n], np.nan)
            read_column(addresses[j], kinds[j], strides[j], bitmaps[j], offsets[j] + begin, missing, items)
            if j >= m:
                first, size = begins[j - m], float(sizes[j - m])
                for r in range(n):
                    code = codes[r]
                    if code >= 0.0 and code < size:
                        keys[j, r] = codes_to_features[np.uint64(first + np.int64(code))]
                    elif code == code:
                        return BAD_CODE, most
                    else:
                        keys[j, r] = n_features
            elif k > m:
                feature = features[j]
                for r in range(n):
                    keys[j, r] = feature if items[r] != 0.0 else n_features
        if k > m:
            sort_side_by_side(keys, n, pairs)
            for j in range(k):
                for r in range(n):
                    in_order[j, r] = numbers[np.uint64(owners[np.uint64(keys[j, r])]), np.uint64(r)]
        if not scale_tile(in_order[:k], n, l2, single, largest, norms, squares, counts):
            return UNSOUND, most
        for r in range(n):
            start = filled
            if k == m and counts[r] == m:
                for j in range(m):
                    targets[j] = features[j]
                    values[np.uint64(start + j)] = in_order[np.uint64(j), np.uint64(r)]
                filled += m
            else:  # what is no entry is written over by the next one, without a branch
                at = np.uint64(0)
                for j in range(k):
                    v = in_order[np.uint64(j), np.uint64(r)]
                    targets[at] = keys[np.uint64(j), np.uint64(r)] if k > m else features[np.uint64(j)]
                    values[np.uint64(start) + at] = v
                    at += np.uint64(v != 0.0)
                filled += np.int64(at)
            for j in range(filled - start):
                ids[np.uint64(start + j)] = final[np.uint64(targets[j])]
            if named:
                for j in range(filled - start):
                    firsts[np.uint64(start + j)] = first_of_name[np.uint64(targets[j])]
                    lasts[np.uint64(start + j)] = last_of_name[np.uint64(targets[j])]
            most = max(most, squares[r])
            if meets.shape[0] > 0:
                filled, square = join_meeting(ids, values, start, filled, targets, meets, meeting, l2, single)
                if not square < np.inf:
                    return UNSOUND, most
                most = max(most, square)
            indptr[begin + r + 1] = filled
    return SOUND, most
