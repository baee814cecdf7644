"""Hashes of rows, by which equal rows are recognised."""

from __future__ import annotations

import numpy as np

from blocksvm.kernels import kernel


@kernel
def row_digests(indptr, indices, value_bits, out):
    """``out[i]``, equal for rows with equal features and values, and for others hardly ever: 64 bits, mixed as in
    splitmix64 (Steele, Lea, Flood, OOPSLA 2014).  value_bits (nnz,) unsigned, or (0,) where every value is 1."""
    for i in range(len(indptr) - 1):
        digest = np.uint64(indptr[i + 1] - indptr[i])
        for k in range(indptr[i], indptr[i + 1]):
            digest = (digest ^ np.uint64(indices[k])) * np.uint64(0x9E3779B97F4A7C15)
            digest ^= digest >> np.uint64(29)
            if len(value_bits) > 0:
                digest = (digest ^ np.uint64(value_bits[k])) * np.uint64(0xBF58476D1CE4E5B9)
                digest ^= digest >> np.uint64(32)
        out[i] = digest
