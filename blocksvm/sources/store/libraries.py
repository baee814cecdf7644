"""Where the C functions lie that read, verify and decode a part, for a kernel that does all of it without Python.

They are those that ``codec`` uses by way of Python: the libraries of numcodecs and xxhash let them be seen.
"""

from __future__ import annotations

import ctypes
import time
from functools import cache

import numpy as np

from blocksvm.kernels.c_functions import COMPILED
from blocksvm.kernels.decoding import CLOCK, COPY, HASH, MONOTONIC, READ, UNPACK


@cache
def functions() -> np.ndarray | None:
    """Their addresses (5,) uint64, by the places that kernels/decoding.py gives them; None where one is not found, or
    where kernels are plain Python."""
    import numcodecs.blosc
    import xxhash._xxhash

    if not COMPILED or getattr(time, "CLOCK_MONOTONIC", None) != MONOTONIC:
        return None
    try:
        system = ctypes.CDLL(None)
        hashing = ctypes.CDLL(xxhash._xxhash.__file__)
        packing = ctypes.CDLL(numcodecs.blosc.__file__)
        # the one that looks at the processor first, where there is one
        hashed = getattr(hashing, "XXH3_64bits_dispatch", None) or hashing.XXH3_64bits
        found = {READ: system.preadv2, COPY: system.memmove, CLOCK: system.clock_gettime, HASH: hashed,
                 UNPACK: packing.blosc_decompress_ctx}  # fmt: skip
    except (OSError, AttributeError):
        return None
    return np.array([ctypes.cast(found[k], ctypes.c_void_p).value for k in range(len(found))], np.uint64)
