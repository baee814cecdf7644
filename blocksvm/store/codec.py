"""Compression and checksums: the bytes of one HDF5 chunk, made and undone outside HDF5's lock and Python's.

A chunk's bytes are one C-Blosc 1 buffer, which HDF5's registered Blosc filter (32001, hdf5plugin) reads too.
numcodecs releases the GIL while it works, but only with Blosc's own threads switched off, which also write a buffer's
blocks in the order in which they end.  So they are off during our calls, and only then: the switch is the process's.
"""

from __future__ import annotations

import struct
import threading
from contextlib import contextmanager

import numpy as np
from numcodecs import blosc
from xxhash import xxh3_64, xxh3_64_intdigest

_switching = threading.Lock()
_under_way = 0  # calls of ours
_theirs = None  # the switch as other users of numcodecs have set it

# Chosen by measurement (zipf data and word n-grams): the indices' upper bytes are nearly constant within a chunk, so
# byte shuffle and lz4 bring 4 bytes to about 1.9 at three times the decoding speed of zstd, and the trainer, not the
# decoder, stays the slower side.  Values of real data repeat; random ones hardly compress, and are stored as they are:
# then they are read straight to their place.
CODEC = "lz4"
LEVEL = 5
WORTHWHILE = 0.9  # compressed to more than this share of its size, data is stored as it is

# Bytes left as they are: lz4's middle way between its fast and its high compression (its library's levels 1 and 2)
# finds longer repetitions in the same time, which are decoded in two thirds of it.
UNSHUFFLED_CODEC = "lz4hc"
UNSHUFFLED_LEVEL = 2
SAMPLED = 8  # a part of the elements, by which it is seen whether leaving the bytes as they are may save more

HEADER = 16  # bytes of a buffer of Blosc 1 before its data
SIZES = struct.Struct("<4xIII")  # in it: of the data unpacked, of a block, and of the buffer
STORED = 1  # HDF5's mask for "the first filter was not applied to this chunk"


@contextmanager
def one_thread():
    """Blosc uses the calling thread alone, as long as anybody asks for that; then whatever others have set."""
    global _under_way, _theirs
    with _switching:
        if not _under_way:
            _theirs, blosc.use_threads = blosc.use_threads, False
        _under_way += 1
    try:
        yield
    finally:
        with _switching:
            _under_way -= 1
            if not _under_way:
                blosc.use_threads = _theirs


def encode(array: np.ndarray) -> bytes:
    """Compress a contiguous 1-D array (byte shuffle over its item size)."""
    with one_thread():
        return blosc.compress(array, CODEC.encode(), LEVEL, blosc.SHUFFLE)


def _unshuffled(array: np.ndarray) -> bytes:
    with one_thread():
        return blosc.compress(array, UNSHUFFLED_CODEC.encode(), UNSHUFFLED_LEVEL, blosc.NOSHUFFLE)


def encode_or_store(array: np.ndarray) -> tuple[bytes, int]:
    """(bytes, HDF5's filter mask): compressed, with the bytes shuffled or not (a buffer says itself which), or as they
    are where that saves little.

    Counts over their row's norm are a few different numbers a row, which lz4 finds as they stand: on character n-grams
    0.85 bytes in place of 1.58, and twice as fast to decode.
    """
    raw = encode(array)
    sample = array[: len(array) // SAMPLED]
    if len(_unshuffled(sample)) * len(array) < len(raw) * len(sample):
        raw = min(_unshuffled(array), raw, key=len)
    if len(raw) <= WORTHWHILE * array.nbytes:
        return raw, 0
    return array.tobytes(), STORED


def decode(raw, out: np.ndarray) -> None:
    """Decompress ``raw`` into ``out``, which must hold exactly what was compressed, within ``one_thread``; ValueError
    where it does not."""
    if len(raw) < HEADER:
        raise ValueError(f"compressed data of {len(raw)} bytes, which are no header")
    n_bytes, _, n_packed = SIZES.unpack_from(raw)
    if n_bytes != out.nbytes:
        raise ValueError(f"compressed data of {n_bytes} bytes where {out.nbytes} were expected")
    if n_packed != len(raw):  # Blosc trusts it, and would read beyond the end
        raise ValueError(f"compressed data that claims {n_packed} bytes and has {len(raw)}")
    try:
        blosc.decompress(raw, out)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def checksum(*parts) -> int:
    """xxh3-64 over the parts, one after the other."""
    if len(parts) == 1:
        return xxh3_64_intdigest(parts[0])
    state = xxh3_64()
    for part in parts:
        state.update(part)
    return state.intdigest()
