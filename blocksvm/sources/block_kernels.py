"""Rows between their layouts (kernels/rows.py), and the checks of a block before any other kernel may see it."""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.rows import CODED, COLD_BITS, HEADER, HOT, counts_of, offsets_of, offsets_of_values, unpack
from blocksvm.kernels.shuffle import GOLDEN
from blocksvm.kernels.text_bytes import eight_bytes, float_of_bits

SOUND, INDEX_OUT_OF_RANGE, VALUE_NOT_FINITE, NORM_NOT_FINITE = range(4)
LENGTHS_DISAGREE, INDICES_DO_NOT_RISE, WORDS_DISAGREE = range(4, 7)

MOST_CODES = 256  # different values of a row that is coded
SLOTS = 4 * MOST_CODES  # of the table of these
LOOKED_AT = 16  # values of a row

INFINITY_BITS = np.uint64(0x7FF0000000000000)  # of a float64; a number with more, or with a sign, is not a norm


@kernel
def check_entries(indices, values, n_features):
    """SOUND, or the first kind of fault among plain entries: a negative index is a large one."""
    fault = largest = np.int64(0)
    for k in range(np.uint64(indices.shape[0])):
        largest = max(largest, np.int64(np.uint32(indices[k])))
        if values is not None:
            fault |= np.int64(not np.isfinite(values[k]))
    if indices.shape[0] > 0 and largest >= n_features:
        return INDEX_OUT_OF_RANGE
    return VALUE_NOT_FINITE if fault else SOUND


@kernel
def fill_rows(raw, record_bytes, first_row, labels, norm_bits, rows, y):
    """The records of a run of rows to their place in a block, in one sweep: SOUND or the kind of the fault.  raw uint8:
    records of ``record_bytes`` with the label at 0 and ||x||^2 at 8, float64 both.  labels (k,) float64, rising: y is
    -1 and +1 for two, the label's position for more, 0 for none; a label that is not among them is 0 of two, -1 of
    more.  Writes norm_bits (n,) uint64, the bits of sq_norms; rows (n,) int64 from ``first_row``; y (n,) int16."""
    k = labels.shape[0]
    largest = np.uint64(0)
    for i in range(rows.shape[0]):
        at = i * record_bytes
        bits = eight_bytes(raw, at + 8)
        largest = max(largest, bits)
        norm_bits[i] = bits
        rows[i] = first_row + i
        label = float_of_bits(eight_bytes(raw, at))
        code = 0
        if k == 2:
            code = np.int64(label == labels[1]) - np.int64(label == labels[0])
        elif k > 2:
            low, high = 0, k - 1
            while low < high:
                middle = (low + high) // 2
                if labels[middle] < label:
                    low = middle + 1
                else:
                    high = middle
            code = low if labels[low] == label else -1
        y[i] = code
    return NORM_NOT_FINITE if largest >= INFINITY_BITS else SOUND


@kernel
def place_rows(longs, size, n_nonzeros, indptr, lengths):
    """Where packed rows lie among the words (2 m,) uint32, which they must fill: SOUND or the kind of the fault.  size:
    bytes of a value, 0 where all are 1; writes indptr (n + 1,) and lengths (n,), how many entries each row has, which
    must be ``n_nonzeros`` together."""
    n_words = np.uint64(longs.shape[0] // 2)
    at = total = np.uint64(0)
    for i in range(lengths.shape[0]):
        if at >= n_words:
            return WORDS_DISAGREE
        indptr[i] = at
        n_hot, n_cold, count = counts_of(longs, at)
        n = n_hot + n_cold
        lengths[i] = n
        total += n
        codes, numbers = offsets_of_values(at, n_hot, n_cold, count if size > 0 else np.uint64(0), size)
        end = codes if size == 0 else size * (numbers + (count if count > 0 else n))
        at = (end + np.uint64(HEADER - 1)) // np.uint64(HEADER)
    indptr[lengths.shape[0]] = at
    if at != n_words:
        return WORDS_DISAGREE
    return SOUND if total == np.uint64(n_nonzeros) else LENGTHS_DISAGREE


@inlined
def code_row(bits, first, n, most, codes, slots, owners, found):
    """The codes (uint8) of the n values whose bits begin at ``first``, by their first occurrence, and in ``found``
    where each different one is first; returns how many these are, or -1 where they are more than ``most``, or no two of
    the first ones are equal.  slots and owners (SLOTS,) int64 are working space: a slot is this row's where its owner
    is ``first``; before the first row all owners are -1."""
    repeated = False  # rows of measurements have hardly a value twice, which a few of them tell
    for k in range(min(n, np.uint64(LOOKED_AT))):
        for other in range(k):
            repeated |= bits[first + k] == bits[first + other]
    if not repeated:
        return -1
    count = 0
    for k in range(n):
        value = np.uint64(bits[first + k])
        slot = (value * GOLDEN) >> np.uint64(54)  # Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4)
        while owners[slot] == np.int64(first) and bits[first + np.uint64(found[slots[slot]])] != bits[first + k]:
            slot = (slot + np.uint64(1)) & np.uint64(SLOTS - 1)
        if owners[slot] != np.int64(first):
            if count == most:
                return -1
            owners[slot] = first
            slots[slot] = count
            found[count] = k
            count += 1
        codes[k] = slots[slot]
    return count


@inlined
def clear(codes, first, stop):
    for k in range(first, stop):
        codes[k] = 0


@kernel
def pack_rows(lengths, indices, hot, values, bits, longs, shorts, codes, numbers, sizes):
    """Pack rows of these lengths (n,), one after the other: indices (nnz,) int32, those below ``hot`` before the others
    of a row, values (nnz,) or None, bits their bits; longs, shorts, codes and numbers: room for the words, as
    ``Entries`` has it; sizes (n,) uint32: the words of each row.  Values are coded where that takes fewer bytes and
    some of the first ones are equal.  Returns the words written."""
    slots, owners = np.empty(SLOTS, np.int64), np.full(SLOTS, -1, np.int64)
    found = np.empty(MOST_CODES, np.int64)
    longest = 0
    for i in range(lengths.shape[0]):
        longest = max(longest, lengths[i])
    row_codes = np.empty(longest, np.uint8)
    first = at = np.uint64(0)
    one = np.uint64(1)
    for i in range(lengths.shape[0]):
        n = np.uint64(lengths[i])
        n_hot = np.uint64(0)
        for k in range(first, first + n):
            n_hot += np.uint64(indices[k] < hot)
        count = np.int64(-1)
        if values is not None and n > 0 and (n - n_hot) >> np.uint64(COLD_BITS) == 0:
            size = np.uint64(values.itemsize)
            most = min(np.uint64(MOST_CODES), (n * (size - one) - one) // size)
            count = code_row(bits, first, n, np.int64(most), row_codes, slots, owners, found)
        head = np.uint64(2) * at
        longs[head] = np.uint32(n_hot) | (CODED if count > 0 else np.uint32(0))
        longs[head + one] = np.uint32(n - n_hot) | (np.uint32(count - 1) << COLD_BITS if count > 0 else np.uint32(0))
        position = head + np.uint64(2)
        for k in range(n - n_hot):
            longs[position + k] = indices[first + n_hot + k]
        position = np.uint64(2) * (position + n - n_hot)
        for k in range(n_hot):
            shorts[position + k] = indices[first + k]
        position = np.uint64(2) * (position + n_hot)
        if values is not None and n > 0:
            size = np.uint64(values.itemsize)
            if count > 1:
                for k in range(n):
                    codes[position + k] = row_codes[k]
                position += n
            stop = (position + size - one) // size
            clear(codes, position, size * stop)
            if count > 0:
                for k in range(np.uint64(count)):
                    numbers[stop + k] = values[first + np.uint64(found[k])]
            else:
                for k in range(n):
                    numbers[stop + k] = values[first + k]
            position = size * (stop + (np.uint64(count) if count > 0 else n))
        end = (position + np.uint64(HEADER - 1)) // np.uint64(HEADER)
        clear(codes, position, np.uint64(HEADER) * end)
        sizes[i] = end - at
        at = end
        first += n
    return np.int64(at)


@inlined
def rises(features, first, n, below):
    """Whether the n features from ``first`` on rise and end below ``below``."""
    falls = np.int64(0)
    for k in range(first + np.uint64(1), first + n):
        falls += np.int64(features[k] <= features[k - np.uint64(1)])
    return falls == 0 and (n == 0 or np.int64(features[first + n - np.uint64(1)]) < below)


@inlined
def check_values(values, codes, n, count, first, numbers):
    """SOUND, or the fault of a packed row's values."""
    if values is None:
        return WORDS_DISAGREE if count > 0 else SOUND
    largest = np.uint64(0)
    if count > 1:
        for k in range(first, first + n):
            largest = max(largest, np.uint64(codes[k]))
    fault = False
    for k in range(numbers, numbers + (count if count > 0 else n)):
        fault |= not np.isfinite(values[k])
    return WORDS_DISAGREE if largest > 0 and largest >= count else VALUE_NOT_FINITE if fault else SOUND


@kernel
def check_words(entries, n_features):
    """SOUND, or the first fault of packed rows that ``place_rows`` has placed: features must rise, codes be of values
    that are there, and values be finite."""
    longs, values = entries.longs, entries.values
    for i in range(entries.indptr.shape[0] - 1):
        n_hot, n_cold, count, cold, hot, codes, numbers = offsets_of(entries.indptr, longs, values, i)
        if not rises(entries.shorts, hot, n_hot, n_features):
            return INDICES_DO_NOT_RISE
        if not rises(longs, cold, n_cold, n_features) or (n_cold > 0 and longs[cold] < HOT):
            return INDICES_DO_NOT_RISE
        code = check_values(values, entries.codes, n_hot + n_cold, count, codes, numbers)
        if code != SOUND:
            return code
    return SOUND


@kernel
def unpack_rows(entries, to, indices, values):
    """The packed rows one after the other, from entry ``to`` of plain rows on; values None: not wanted."""
    for i in range(entries.indptr.shape[0] - 1):
        to = np.int64(unpack(entries, i, to, indices, values))


@inlined
def copy_run(source, start, n, target, at):
    """``target[at : at + n] = source[start : start + n]``, where there are such arrays.  Unsigned positions need no
    test for one that counts from the end, so that the copying is done in vectors."""
    if target is not None:
        for k in range(n):
            target[at + k] = source[start + k]


@inlined
def copy_elements(indices, values, longs, start, n, to_indices, to_values, to_longs, at):
    """Entries of plain rows, or words of packed ones."""
    copy_run(longs, np.uint64(2) * start, np.uint64(2) * n, to_longs, np.uint64(2) * at)
    if indices is not None:
        copy_run(indices, start, n, to_indices, at)
        copy_run(values, start, n, to_values, at)


@inlined
def copy_row(block, row, copies, slot, capacity):
    """A row of a block to a slot of another one, after the slot before it; False where its elements do not fit within
    ``capacity``.  The blocks may be the same where the slot does not lie after the row."""
    old, new, one = block.entries, copies.entries, np.uint64(1)
    start, at = np.uint64(old.indptr[row]), np.uint64(new.indptr[slot])
    n = np.uint64(old.indptr[row + 1]) - start
    if at + n > np.uint64(capacity):
        return False
    copy_elements(old.indices, old.values, old.longs, start, n, new.indices, new.values, new.longs, at)
    new.indptr[slot + 1] = at + n
    copies.y[slot] = block.y[row]
    copies.sq_norms[slot] = block.sq_norms[row]
    copies.rows[slot] = block.rows[row]
    copy_run(block.weights, np.uint64(row), one, copies.weights, np.uint64(slot))
    copy_run(block.stored_lengths, np.uint64(row), one, copies.stored_lengths, np.uint64(slot))
    return True


@kernel
def copy_rows(block, chosen, copies, capacity):
    """The ``chosen`` (m,) rows of a block to the first slots of ``copies``, as far as their elements fit."""
    for t in range(chosen.shape[0]):
        copy_row(block, np.int64(chosen[t]), copies, t, capacity)
