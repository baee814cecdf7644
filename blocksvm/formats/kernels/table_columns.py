"""Columns to rows."""

import numpy as np

from blocksvm.formats.kernels.name_hashes import name_hash
from blocksvm.kernels import kernel

MOST_COUNTED = 256  # entries of a row that counting puts in order
MOST_ALIKE = 64  # ids whose upper bits are the same, which insertion puts in order


@kernel
def named_values(data, begins, ends, prefix, seed, text, hashes):
    """Features 'prefix value' of the strings ``data[begins[k]:ends[k]]``: ``name_hash`` of the strings alone, from
    ``seed`` on, and in text their names, one after the other.  Eight bytes after each string are readable."""
    at = 0
    for k in range(begins.shape[0]):
        hashes[k] = name_hash(data, begins[k], ends[k], seed)
        for j in range(prefix.shape[0]):
            text[at + j] = prefix[j]
        at += prefix.shape[0]
        for j in range(begins[k], ends[k]):
            text[at] = data[j]
            at += 1


@kernel
def order_ids(ids, bits, starts, order):
    """``order`` (n,) int64: positions of ids (n,), 63 bits of a hash each, as they rise; equal ones as they come.

    By their upper ``bits``, then within those that share them.  starts (2^bits + 1,) int64 is working space.  Returns
    whether it was done: not where too many share their upper bits.
    """
    shift = np.uint64(63 - bits)
    starts[:] = 0
    for k in range(ids.shape[0]):
        starts[(np.uint64(ids[k]) >> shift) + np.uint64(1)] += 1
    most = 0
    for b in range(starts.shape[0] - 1):
        most = max(most, starts[b + 1])
        starts[b + 1] += starts[b]
    if most > MOST_ALIKE:
        return False
    for k in range(ids.shape[0]):
        b = np.uint64(ids[k]) >> shift
        order[starts[b]] = k
        starts[b] += 1
    begin = 0
    for b in range(starts.shape[0] - 1):
        end = starts[b]
        for k in range(begin + 1, end):
            current = order[k]
            j = k - 1
            while j >= begin and ids[order[j]] > ids[current]:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = current
        begin = end
    return True


@kernel
def put_in_rows(rows, ids, values, places, row_ids, row_values):
    """Put a column's entries after those that its rows have: ``places`` (n,) is where the next one of a row goes."""
    for k in range(rows.shape[0]):
        at = places[rows[k]]
        row_ids[at] = ids[k]
        row_values[at] = values[k]
        places[rows[k]] = at + 1


@kernel
def fill_rows(numbers, features, categories, begins, more_ids, more_values, lengths, ids, values, filled):
    """The rows of columns that lie side by side, one row after the other from ``filled`` on.

    numbers (m, width) float64: column j has the values of the feature ``features[j]``, which rise; nan and 0 are no
    entries.  categories (c, width) int64: column j has the feature of each row, whose value is 1, or -1 for none.  To
    row r come ``more_ids[begins[r]:begins[r + 1]]`` with their values.  Rows of up to ``MOST_COUNTED`` entries, none of
    which has a feature twice, are put in order.  One entry more than there are has room.
    Returns (where the next entry goes, whether all numbers are finite); writes lengths (n,) of the rows.
    """
    keys = np.empty(MOST_COUNTED, np.int32)
    places = np.empty(MOST_COUNTED, np.int32)
    owners = np.empty(MOST_COUNTED, np.int32)
    old_values = np.empty(MOST_COUNTED, np.float64)
    finite = True
    for r in range(lengths.shape[0]):
        start = filled
        for j in range(numbers.shape[0]):
            v = numbers[j, r]
            ids[filled] = features[j]
            values[filled] = v
            finite &= np.abs(v) != np.inf
            filled += (v == v) & (v != 0.0)
        alone = filled
        for j in range(categories.shape[0]):
            i = categories[j, r]
            ids[filled] = i
            values[filled] = 1.0
            filled += i >= 0
        for k in range(begins[r], begins[r + 1]):
            ids[filled] = more_ids[k]
            values[filled] = more_values[k]
            filled += 1
        n = filled - start
        lengths[r] = n
        if filled == alone or n > MOST_COUNTED:
            continue
        # an entry's place is the number of those with a smaller feature: comparisons that no branch waits for, several
        # in one instruction
        for k in range(n):
            keys[k] = np.int32(ids[start + k])
            owners[k] = -1
        for k in range(n):
            key = keys[k]
            place = np.int32(0)
            for j in range(n):
                place += np.int32(keys[j] < key)
            places[k] = place
        for k in range(n):
            owners[places[k]] = k
        distinct = True
        for k in range(n):
            distinct &= owners[k] >= 0
        if distinct:
            for k in range(n):
                old_values[k] = values[start + k]
            for k in range(n):
                ids[start + k] = keys[owners[k]]
                values[start + k] = old_values[owners[k]]
    return filled, finite
