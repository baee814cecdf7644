"""Evidence that no plane separates the rows of two classes: rows that are the same but for their label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blocksvm.kernels.duplicates import row_digests
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source

MOST_SHOWN = 5
MOST_LOOKED_AT = 1_000_000  # rows on the wrong side whose doubles are looked for


@dataclass(frozen=True)
class Contradiction:
    """Two rows with the same features and values: where each came from, and its label."""

    first: str
    first_label: object
    second: str
    second_label: object


def contradictions(source: Source, plane) -> list[Contradiction]:
    """Up to ``MOST_SHOWN`` pairs of rows with equal features and other labels, in two readings.

    Of such a pair one row has a margin not above 0, whatever the plane is: the first reading collects numbers of those,
    the second finds their doubles, which are then compared.  plane: an ``analysis.margin.Plane``.
    """
    wanted: list[np.ndarray] = [[], []]
    n = 0
    for _, block, side, scores, _, _ in plane.chunks():
        wrong = np.where(side > 0, 1.0, -1.0) * (scores + plane.offset) <= 0.0
        n += int(wrong.sum())
        if n > MOST_LOOKED_AT:
            break
        digests = digests_of(block)
        for k in range(2):
            wanted[k].append(digests[wrong & (side == k)])
    known = [np.unique(np.concatenate(parts)) if parts else np.empty(0, np.uint64) for parts in wanted]
    # rows of each digest that stands for a row of the other class
    met: dict[int, list[tuple]] = {}
    for chunk, block, side, _, _, _ in plane.chunks():
        digests = digests_of(block)
        for k in range(2):
            # by sorting: a table of 64-bit numbers overflows in numpy 2.0
            of_both = np.isin(digests, known[1 - k], kind="sort") | np.isin(digests, known[k], kind="sort")
            doubles = np.flatnonzero((side == k) & of_both)
            for row in doubles.tolist():
                kept = met.setdefault(int(digests[row]), [])
                if len(kept) < 2 and not any(side_of == k for _, _, side_of, _ in kept):
                    kept.append((chunk, row, k, content(block, row)))
    found = []
    for pair in met.values():
        if len(pair) == 2 and pair[0][3] == pair[1][3]:
            (one, row, a, _), (two, other, b, _) = pair
            labels = source.labels.values
            origins = [source.origins(c, np.array([r]))[0] for c, r in ((one, row), (two, other))]
            found.append(Contradiction(origins[0], labels[a], origins[1], labels[b]))
            if len(found) == MOST_SHOWN:
                break
    return found


def digests_of(block: Block) -> np.ndarray:
    out = np.empty(block.n_samples, np.uint64)
    bits = np.empty(0, np.uint64) if block.values is None else block.values.view(f"u{block.values.itemsize}")
    row_digests(block.indptr, block.indices, bits, out)
    return out


def content(block: Block, row: int) -> tuple[bytes, bytes]:
    entries = slice(int(block.indptr[row]), int(block.indptr[row + 1]))
    values = b"" if block.values is None else block.values[entries].tobytes()
    return block.indices[entries].tobytes(), values
