"""Active outputs: of each example the outputs that its dual variables a_i(y) > 0 stand on, and these numbers.

In memory they are one dict {output's bytes: a_i(y)} an example.  Kept, those of a chunk are four arrays: counts (n,)
int32, how many outputs each example has; shares (total,) float64, the a_i(y); lengths (total,) int32 and outputs, int32,
one output behind the other: some bytes a token, where the sparse rows that they stand for take a hundred times as much.
"""

from __future__ import annotations

import numpy as np

from blocksvm.structured.protocol import Row, Structure

Active = dict[bytes, float]
OVERHEAD = 250  # bytes of an entry of the dict, beside the output
NOTHING = Row(np.empty(0, np.int64), np.empty(0))


def packed(active: list[Active]) -> dict[str, np.ndarray]:
    """The four arrays."""
    return {
        "counts": np.array([len(own) for own in active], np.int32),
        "shares": np.array([share for own in active for share in own.values()], np.float64),
        "lengths": np.array([len(output) // 4 for own in active for output in own], np.int32),
        "outputs": np.frombuffer(b"".join(output for own in active for output in own), np.int32),
    }


def unpacked(arrays: dict[str, np.ndarray]) -> list[Active]:
    """What ``packed`` was given."""
    bounds = np.append(0, np.cumsum(arrays["lengths"], dtype=np.int64)) * 4
    text = arrays["outputs"].tobytes()
    shares = arrays["shares"].tolist()
    found, first = [], 0
    for count in arrays["counts"].tolist():
        found.append({text[bounds[k] : bounds[k + 1]]: shares[k] for k in range(first, first + count)})
        first += count
    return found


def moved(active: Active, share: float, output: np.ndarray | None) -> None:
    """a <- (1 - share) a + share e_output, in place; output: None for the gold one, whose part is what lacks to 1."""
    if share >= 1.0:
        active.clear()
    else:
        for own in active:
            active[own] *= 1.0 - share
    if output is not None:
        own = output.astype(np.int32, copy=False).tobytes()
        active[own] = active.get(own, 0.0) + share


def direction(structure: Structure, i: int, active: Active, C: float) -> tuple[Row, float]:
    """(C sum_y a(y) d_i(y), C sum_y a(y) rho_i(y))"""
    if not active:
        return NOTHING, 0.0
    outputs = [np.frombuffer(own, np.int32) for own in active]
    lower = C * sum(share * structure.loss(i, y) for share, y in zip(active.values(), outputs, strict=True))
    return structure.mixture(i, outputs, C * np.array(list(active.values()))), lower
