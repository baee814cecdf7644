"""Evidence that no plane separates the rows of two classes: rows that are the same but for their label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blocksvm.kernels.duplicates import row_digests
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source

MOST_SHOWN = 5
MOST_COMPARED = 50
MOST_WRONG = 1_000_000  # rows on the wrong side whose doubles are looked for


@dataclass(frozen=True)
class Contradiction:
    """Two rows with the same features and values: where each came from, and its label."""

    first: str
    first_label: object
    second: str
    second_label: object


def contradictions(source: Source, plane) -> list[Contradiction]:
    """Up to ``MOST_SHOWN`` pairs of rows with equal features and other labels, in three readings.

    Of such a pair one row has a margin of at most 0 under any plane.  The first reading collects digests of those rows,
    the second finds the digests that rows of both classes have, and the third compares some of these rows.  plane: a
    ``margin_search.Plane``.
    """
    wanted = np.empty(0, np.uint64)
    for _, block, side, scores, _, _ in plane.chunks():
        wrong = np.where(side > 0, 1.0, -1.0) * (scores + plane.offset) <= 0.0
        wanted = np.union1d(wanted, digests_of(block)[wrong])
        if len(wanted) > MOST_WRONG:
            break
    digests_of_class = [np.empty(0, np.uint64), np.empty(0, np.uint64)]
    for _, block, side, _, _, _ in plane.chunks():
        digests = digests_of(block)
        # by sorting: a table of 64-bit numbers overflows in numpy 2.0
        known = np.isin(digests, wanted, kind="sort")
        for k in range(2):
            digests_of_class[k] = np.union1d(digests_of_class[k], digests[known & (side == k)])
    both = np.intersect1d(*digests_of_class)[:MOST_COMPARED]
    rows: list[dict[int, tuple]] = [{}, {}]  # of each class, by their digests, the first
    for chunk, block, side, _, _, _ in plane.chunks() if len(both) else ():
        digests = digests_of(block)
        for row in np.flatnonzero(np.isin(digests, both, kind="sort")).tolist():
            rows[int(side[row])].setdefault(int(digests[row]), (chunk, row, content(block, row)))
    pairs = []
    for digest in both.tolist():
        pair = [rows[k][digest] for k in range(2)]
        if pair[0][2] == pair[1][2]:
            origins = [source.origins(chunk, np.array([row]))[0] for chunk, row, _ in pair]
            negative, positive = source.labels.values
            pairs.append(Contradiction(origins[0], negative, origins[1], positive))
    return pairs[:MOST_SHOWN]


def digests_of(block: Block) -> np.ndarray:
    out = np.empty(block.n_samples, np.uint64)
    bits = np.empty(0, np.uint64) if block.values is None else block.values.view(f"u{block.values.itemsize}")
    row_digests(block.indptr, block.indices, bits, out)
    return out


def content(block: Block, row: int) -> tuple[bytes, bytes]:
    entries = slice(int(block.indptr[row]), int(block.indptr[row + 1]))
    values = b"" if block.values is None else block.values[entries].tobytes()
    return block.indices[entries].tobytes(), values
