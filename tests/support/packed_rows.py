"""Rows of every kind, plain and packed."""

import numpy as np

from blocksvm.kernels.rows import HOT, Entries, packed_entries
from blocksvm.sources.block import Block
from blocksvm.store.writer import PackedRows, packed

N_FEATURES = 200_000
LENGTHS = np.array([0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 256, 257, 258, 600, 1100, 0, 0, 12, 1])
FEATURES = ("hot", "cold", "both")
VALUES = ("same", "few", "256", "257", "random")
DTYPES = (None, np.float32, np.float64)


def plain_rows(features: str, values: str, dtype, lengths=LENGTHS) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(lengths, indices, values) of rows whose features are below 65,536, not, or both; values: of a row all the same,
    a few, almost as many different ones as it has entries but no more than 256 or 257, or random ones."""
    rng = np.random.default_rng(7)
    low, high = {"hot": (0, HOT), "cold": (HOT, N_FEATURES), "both": (HOT - 3_000, HOT + 3_000)}[features]
    indices = [np.sort(rng.choice(high - low, n, replace=False)) + low for n in lengths]
    if "both" in features:
        indices[-2][[0, -1]] = 0, N_FEATURES - 1
    made = {
        "same": lambda n: np.full(n, rng.normal()),
        "few": lambda n: rng.choice([1.0, -0.5, 0.1, 2.0, 1e-30], n),
        "256": lambda n: np.append(0, np.arange(n))[:n] % 256 + 0.1,
        "257": lambda n: np.append(0, np.arange(n))[:n] % 257 + 0.1,
        "random": rng.standard_normal,
    }[values]
    numbers = None if dtype is None else np.concatenate([made(n) for n in lengths]).astype(dtype)
    return np.asarray(lengths, np.int64), np.concatenate(indices).astype(np.int32), numbers


def blocks_of(lengths, indices, values) -> tuple[Block, Block, PackedRows]:
    """The rows as a plain block, as a packed one, and their words."""
    n = len(lengths)
    known = np.arange(n, dtype=np.int16), np.zeros(n), np.arange(n), N_FEATURES
    plain = Block(Entries(np.append(0, np.cumsum(lengths)), indices, values), *known)
    rows = packed(lengths, indices, values)
    indptr, stored_lengths = np.append(0, np.cumsum(rows.sizes, dtype=np.int64)), lengths.astype(np.int32)
    dtype = None if values is None else values.dtype.type
    words = Block(packed_entries(indptr, rows.words, dtype), *known, None, stored_lengths)
    return plain, words, rows
