"""Active outputs: the outputs of an example whose dual variables a_i(y) are above 0, with these numbers.

In memory an example has one dict {output's bytes: a_i(y)}.  Stored, a chunk has four arrays: counts (n,) int32, the
outputs of each example; shares (total,) float64, the a_i(y); lengths (total,) int32 and outputs int32, one output after
the other.  They take a small part of the memory of the sparse rows that they stand for.
"""

from __future__ import annotations

import numpy as np

from blocksvm.structured.example_blocks import ExampleBlock
from blocksvm.structured.output_structure import Row, Structure

Active = dict[bytes, float]
OVERHEAD = 250  # bytes of an entry of the dict, beside the output
NOTHING = Row(np.empty(0, np.int64), np.empty(0))


def pack(active: list[Active]) -> dict[str, np.ndarray]:
    """The four arrays."""
    return {
        "counts": np.array([len(duals) for duals in active], np.int32),
        "shares": np.array([share for duals in active for share in duals.values()], np.float64),
        "lengths": np.array([len(output) // 4 for duals in active for output in duals], np.int32),
        "outputs": np.frombuffer(b"".join(output for duals in active for output in duals), np.int32),
    }


def unpack(arrays: dict[str, np.ndarray]) -> list[Active]:
    """The inverse of ``pack``."""
    bounds = np.append(0, np.cumsum(arrays["lengths"], dtype=np.int64)) * 4
    text = arrays["outputs"].tobytes()
    shares = arrays["shares"].tolist()
    active, first = [], 0
    for count in arrays["counts"].tolist():
        active.append({text[bounds[k] : bounds[k + 1]]: shares[k] for k in range(first, first + count)})
        first += count
    return active


def move(active: Active, share: float, output: np.ndarray | None) -> None:
    """a <- (1 - share) a + share e_output, in place; output: None for the gold one, which has 1 minus the sum of a."""
    if share >= 1.0:
        active.clear()
    else:
        for key in active:
            active[key] *= 1.0 - share
    if output is not None:
        key = output.astype(np.int32, copy=False).tobytes()
        active[key] = active.get(key, 0.0) + share


def direction(structure: Structure, i: int, active: Active, C: float) -> tuple[Row, float]:
    """(C sum_y a(y) d_i(y), C sum_y a(y) rho_i(y))"""
    if not active:
        return NOTHING, 0.0
    outputs = [np.frombuffer(key, np.int32) for key in active]
    lower = C * sum(share * structure.loss(i, y) for share, y in zip(active.values(), outputs, strict=True))
    return structure.mixture(i, outputs, C * np.array(list(active.values()))), lower


def check(arrays: dict[str, np.ndarray], block: ExampleBlock) -> None:
    """ValueError (KeyError, IndexError) unless ``pack`` could have given these arrays for the block's examples."""
    shares = arrays["shares"]
    if len(arrays["counts"]) != len(block.examples):
        raise ValueError("is of another number of examples")
    if not ((shares > 0.0) & (shares <= 1.0)).all():
        raise ValueError("has a dual variable that is not from 0 to 1")
    for i, duals in zip(block.examples, unpack(arrays), strict=True):
        if not all(block.structure.fits(i, np.frombuffer(output, np.int32)) for output in duals):
            raise ValueError("has an output that its example has not")


def pack_rows(rows: list[Row], lower: np.ndarray) -> dict[str, np.ndarray]:
    """The sparse rows w_i and numbers l_i of a chunk's examples as arrays."""
    return {
        "lengths": np.array([len(row.indices) for row in rows], np.int32),
        "indices": np.concatenate([row.indices for row in rows]),
        "values": np.concatenate([row.values for row in rows]),
        "lower": lower,
    }


def unpack_rows(arrays: dict[str, np.ndarray]) -> tuple[list[Row], np.ndarray]:
    """The inverse of ``pack_rows``."""
    ends = np.cumsum(arrays["lengths"])[:-1]
    parts = zip(np.split(arrays["indices"], ends), np.split(arrays["values"], ends), strict=True)
    return [Row(indices.copy(), values.copy()) for indices, values in parts], arrays["lower"]


def check_rows(arrays: dict[str, np.ndarray], block: ExampleBlock, n_weights: int) -> None:
    """ValueError (KeyError) unless ``pack_rows`` could have given these arrays for the block's examples."""
    lengths, indices, values = (arrays[name] for name in ("lengths", "indices", "values"))
    fit = len(lengths) == len(arrays["lower"]) == len(block.examples) and len(indices) == len(values) == lengths.sum()
    if not fit or indices.dtype != np.int64 or values.dtype != np.float64 or lengths.min() < 0:
        raise ValueError("has rows of another number or length")
    if len(indices) and (indices.min() < 0 or indices.max() >= n_weights):
        raise ValueError("has a feature that there is not")
