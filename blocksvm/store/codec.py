"""Compression and checksums: the bytes of one HDF5 chunk, made and undone outside HDF5's lock and Python's.

A chunk's bytes are one C-Blosc 1 buffer, which HDF5's registered Blosc filter (32001, hdf5plugin) reads too.
numcodecs releases the GIL while it works, but only with Blosc's own threads switched off, which also write a buffer's
blocks in the order in which they end.  So they are off during our calls, and only then: the switch is the process's.
"""

import struct
import threading
from contextlib import contextmanager

import numpy as np
from numcodecs import blosc
from xxhash import xxh3_64_intdigest

_switching = threading.Lock()
_under_way = 0  # calls of ours
_theirs = None  # the switch as other users of numcodecs have set it

# Chosen by measurement (word and character n-grams, clicks, dense rows): lz4 decodes 1,100 to 4,400 million entries of
# packed rows a second, zstd 190 to 500 million, with the bytes of so many neighbours apart as saves most, seen on a
# part of them: 2 where most are hot features and codes, 4 where values or rare features are, 1 (as they lie) of dense
# rows.  What hardly shrinks is stored as it is, and read straight to its place.
CODEC, NONE = CODECS = "lz4", "none"
LEVEL = 9
SHUFFLED = (2, 4, 1)
SAMPLED = 8  # a part of the words
WORTHWHILE = 0.9  # compressed to more than this share of its size, data is stored as it is

HEADER = 16  # bytes of a buffer of Blosc 1 before its data
SIZES = struct.Struct("<4xIII")  # in it: of the data unpacked, of a block, and of the buffer
STORED = 1  # HDF5's mask for "the first filter was not applied to this chunk"
checksum = xxh3_64_intdigest  # of bytes: an int


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


def encode(words: np.ndarray, name: str = CODEC) -> tuple[bytes, int, int]:
    """(bytes, HDF5's filter mask, checksum) of words (m,) uint64: compressed, as a buffer itself says how, or as they
    are, where the codec of this ``name`` is NONE or saves little."""

    def compressed(some: np.ndarray, item: int) -> bytes:
        shuffle = blosc.SHUFFLE if item > 1 else blosc.NOSHUFFLE
        return blosc.compress(some.view(f"u{item}"), CODEC.encode(), LEVEL, shuffle)

    if name != NONE:
        with one_thread():
            sample = words[: max(1, len(words) // SAMPLED)]
            packed = compressed(words, min(SHUFFLED, key=lambda item: len(compressed(sample, item))))
        if len(packed) <= WORTHWHILE * words.nbytes:
            return packed, 0, checksum(packed)
    return (raw := words.tobytes()), STORED, checksum(raw)


def decode(raw, out: np.ndarray) -> None:
    """Decompress ``raw``, within ``one_thread``, into ``out``; ValueError where that does not hold it exactly."""
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
