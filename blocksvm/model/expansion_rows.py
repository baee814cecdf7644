"""The rows that a model with a kernel stands on, in a model file.

    /support   indptr int64, indices int32 (the model's features), values, norms, coefficients float64

problems/support_rows.py says what these are; the kernel is in the description.
"""

from __future__ import annotations

import numpy as np

from blocksvm.problems.support_rows import Support
from blocksvm.store.arrays import read_array, write_arrays
from blocksvm.store.descriptions import KernelMeta, ModelMeta
from blocksvm.store.hdf5_files import create_group, group

DTYPES = {"indptr": "i8", "indices": "i4", "values": "f8", "norms": "f8", "coefficients": "f8"}


def write_support(file, support: Support) -> bytes:
    """Write the arrays into a model file; returns their xxHashes."""
    arrays = {name: getattr(support, name).astype(dtype, copy=False) for name, dtype in DTYPES.items()}
    return write_arrays(create_group(file, "support"), arrays)


def read_support(file, meta: ModelMeta) -> Support | None:
    """Read them, verified; None where the model has weights.  ValueError where they are damaged."""
    kernel = meta.kernel
    if kernel is None:
        return None
    arrays, loaded = group(file, "support"), {}
    for name, dtype in DTYPES.items():
        lengths = {"indptr": kernel.n_support + 1, "indices": kernel.n_nonzeros, "values": kernel.n_nonzeros}
        loaded[name] = read_array(arrays, name, np.dtype(dtype), lengths.get(name, kernel.n_support))
    support = Support(**loaded, kernel={name: getattr(kernel, name) for name in ("name", "gamma", "coef0", "degree")})
    sound = (
        support.indptr[0] == 0
        and support.indptr[-1] == len(support.indices)
        and (np.diff(support.indptr) >= 0).all()
        and (not len(support.indices) or (support.indices.min() >= 0 and support.indices.max() < meta.n_features))
        and all(np.isfinite(loaded[name]).all() for name in ("values", "norms", "coefficients"))
    )
    if not sound:
        raise ValueError("its support vectors contradict each other")
    return support


def describe_support(support: Support) -> dict:
    """Their part of the model's description."""
    return support.kernel | {"n_support": len(support.norms), "n_nonzeros": len(support.indices)}


def support_bytes(kernel: KernelMeta | None, n_columns: int) -> int:
    """Memory for a model's support vectors, read and in columns of so many features."""
    if kernel is None:
        return 0
    return 40 * kernel.n_nonzeros + 48 * kernel.n_support + 8 * (n_columns + 2)
