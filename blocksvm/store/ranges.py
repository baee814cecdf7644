"""Which ranges of bytes are asked for: neighbours together, as far as that costs little and is not too long.

Without input or output; after the ``coalesce_ranges`` of zarr.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = tuple[int, int]  # from a byte to the one behind the last

GAP = 1 << 16  # bytes that nobody wants, for which two ranges are one: HDF5 writes its own tables between chunks


def coalesce(spans: Iterable[Span], gap: int = GAP) -> list[Span]:
    """Ranges that hold all spans, rising; two are one where at most ``gap`` bytes lie between them."""
    ranges: list[list[int]] = []
    for start, stop in sorted(span for span in spans if span[0] < span[1]):
        if ranges and start <= ranges[-1][1] + gap:
            ranges[-1][1] = max(ranges[-1][1], stop)
        else:
            ranges.append([start, stop])
    return [(start, stop) for start, stop in ranges]


@dataclass(frozen=True)
class ChunkRun:
    """Chunks that follow each other in a block and in the store, and the ranges of bytes that hold them."""

    chunks: tuple[int, ...]
    ranges: tuple[Span, ...]

    @property
    def n_bytes(self) -> int:
        return sum(stop - start for start, stop in self.ranges)


def runs_of(chunks: Sequence[int], sizes: Sequence[int], most_bytes: int) -> list[tuple[int, ...]]:
    """Chunks in runs of those that follow each other in the store and begin within ``most_bytes``.

    sizes: the bytes of each of ``chunks``.
    """
    runs: list[list[int]] = []
    n_bytes = 0
    for chunk, size in zip(chunks, sizes, strict=True):
        if runs and chunk == runs[-1][-1] + 1 and n_bytes < most_bytes:
            runs[-1].append(chunk)
            n_bytes += size
        else:
            runs.append([chunk])
            n_bytes = size
    return [tuple(run) for run in runs]
