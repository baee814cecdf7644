"""Chunks of a store to their place in a block in one call: read, verified, decoded and checked without Python.

What is out of the ordinary ends it: bytes that the system would have to wait for, that are too few, that fail their
checksum or do not decode.  Whoever called it has that chunk read in the plain way, which waits, or says what is wrong.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.c_functions import address_of, clock_into, copy_bytes, hash_of_bytes, read_from, unpack
from blocksvm.kernels.check import SOUND, check_rows, fill_rows
from blocksvm.kernels.words import eight_bytes

READ, HASH, UNPACK, COPY, CLOCK = range(5)  # places in the table of functions
FIRST_ROW, N_ROWS, NNZ, FIRST_PART, N_PARTS, ROWS_CHECKSUM = range(6)  # columns of the table of chunks
INDICES, INDICES_SIZE, VALUES, VALUES_SIZE, CHECKSUM = range(5)  # of the table of parts: offsets in the file, bytes
MONOTONIC = 1  # Linux's clock for durations
HEADER = 16  # bytes of a buffer of Blosc 1: its size unpacked at 4, packed at 12


@inlined
def now(functions, moment):
    """Seconds of a clock that only goes forward; moment (2,) int64 is working space."""
    clock_into(functions[CLOCK], MONOTONIC, address_of(moment, 0))
    return moment[0] + 1e-9 * moment[1]


@inlined
def filled(functions, file, flags, target, length, offset, vector):
    """Whether ``length`` bytes of a file were read to the address ``target``; vector (2,) int64 is working space."""
    vector[0] = target
    vector[1] = length
    return read_from(functions[READ], file, address_of(vector, 0), offset, flags) == length


@inlined
def unpacked(functions, raw, begin, size, target, n_bytes):
    """Whether ``size`` bytes of raw from ``begin`` on are a buffer of ``n_bytes``, which it is unpacked to."""
    if size < HEADER:
        return False
    says, packed = eight_bytes(raw, begin) >> np.uint64(32), eight_bytes(raw, begin + 8) >> np.uint64(32)
    if says != np.uint64(n_bytes) or packed != np.uint64(size):
        return False
    return unpack(functions[UNPACK], address_of(raw, begin), target, n_bytes) == n_bytes


@inlined
def decode_part(functions, file, flags, part, indices, index_bytes, values, value_bytes, raw, vector):
    """A part read, verified and decoded to the addresses indices and values, so many bytes each (none: there are no
    values): the seconds that reading took, below 0 where that was not done."""
    middle = np.int64(part[INDICES_SIZE])
    size = middle + (np.int64(part[VALUES_SIZE]) if value_bytes > 0 else 0)
    if middle < HEADER or size > raw.shape[0] - 8:  # eight more are looked at
        return -1.0
    began = now(functions, vector)
    offset = np.int64(part[INDICES])
    target = address_of(raw, 0)
    done = np.int64(0)
    while done < size:  # at once, where the values lie behind the indices
        more = middle if done == 0 and np.int64(part[VALUES]) != offset + middle else size - done
        if not filled(functions, file, flags, target + done, more, offset if done == 0 else part[VALUES], vector):
            return -1.0
        done += more
    seconds = now(functions, vector) - began
    if hash_of_bytes(functions[HASH], target, size) != part[CHECKSUM]:
        return -1.0
    if not unpacked(functions, raw, 0, middle, indices, index_bytes):
        return -1.0
    if size - middle == value_bytes:  # none, or stored as they are
        copy_bytes(functions[COPY], values, address_of(raw, middle), value_bytes)
    elif not unpacked(functions, raw, middle, size - middle, values, value_bytes):
        return -1.0
    return seconds


@inlined
def some(values, start, stop):
    """``values[start:stop]``, or None of none."""
    if values is None:
        return None
    return values[start:stop]


@kernel
def decode_chunks(functions, file, flags, chunks, parts, chosen, rows_offset, record_bytes, labels, n_features, row, entry,
                  end, indptr, indices, values, norm_bits, rows, y, records, raw, spare_indices, spare_values, vector,
                  spent):  # fmt: skip
    """The ``chosen`` (m,) int64 chunks of a store into a block from position (row, entry) on, nothing at or behind entry
    ``end``; returns how many, the first m of them.

    functions (5,) uint64: addresses; file: its descriptor; flags: of reading; chunks (., 6) and parts (., 5) uint64: the
    store's tables; rows_offset: where the file has the rows' records, of ``record_bytes`` each; labels: as ``fill_rows``
    has it, and indptr, norm_bits, rows and y, the block's; records uint8: room for all records of the chosen chunks;
    raw uint8: room for a part as it is in the file, and eight bytes; spare_indices, spare_values (L,): a part whose
    padding has no room in the block; vector (2,) int64: working space; spent (2,) float64: bytes read and seconds that
    it took are added.
    """
    length = spare_indices.shape[0]
    item = 0
    if values is not None:
        item = values.itemsize
    seen = 0
    for t in range(chosen.shape[0]):
        chunk = chunks[chosen[t]]
        n = np.int64(chunk[N_ROWS])
        first_row = np.int64(chunk[FIRST_ROW])
        size = n * record_bytes
        began = now(functions, vector)
        own = records[seen * record_bytes : (seen + n) * record_bytes]
        if not filled(functions, file, flags, address_of(own, 0), size, rows_offset + first_row * record_bytes, vector):
            return t
        seconds = now(functions, vector) - began
        if hash_of_bytes(functions[HASH], address_of(own, 0), size) != chunk[ROWS_CHECKSUM]:
            return t
        stop = entry + np.int64(chunk[NNZ])
        for k in range(np.int64(chunk[N_PARTS])):
            part = parts[np.int64(chunk[FIRST_PART]) + k]
            start = entry + k * length
            direct = start + length <= end
            into = address_of(indices, start) if direct else address_of(spare_indices, 0)
            into_values = 0
            if values is not None:
                into_values = address_of(values, start) if direct else address_of(spare_values, 0)
            took = decode_part(
                functions, file, flags, part, into, 4 * length, into_values, item * length, raw, vector
            )
            if took < 0.0:
                return t
            if not direct:
                for e in range(min(stop, start + length) - start):
                    indices[start + e] = spare_indices[e]
                    if values is not None:
                        values[start + e] = spare_values[e]
            seconds += took
            size += np.int64(part[INDICES_SIZE]) + (np.int64(part[VALUES_SIZE]) if item > 0 else 0)
        there = slice(row, row + n)
        if fill_rows(
            own, record_bytes, entry, stop, first_row, labels, indptr[row : row + n + 1], norm_bits[there],
            rows[there], y[seen : seen + n],
        ) != SOUND:  # fmt: skip
            return t
        entries = some(values, entry, stop)
        if check_rows(indices[entry:stop], entries, n_features, indptr[row : row + n + 1]) != SOUND:
            return t
        spent[0] += size
        spent[1] += seconds
        row += n
        entry = stop
        seen += n
    return chosen.shape[0]
