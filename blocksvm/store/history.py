"""The changes of a store's rows, so that the dual variables of a previous run find their rows.

    /history/dropped-K   of step K, as gaps: the places of the rows that were left out, rising; absent where none were

Step K of meta["history"] names the fingerprint and the rows that the store had before.  Rows that stay keep their
order; those that are added come after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import h5py
import numpy as np

from blocksvm.sources.source import Step
from blocksvm.store.arrays import PIECE, read_pieces, require_length, write_array
from blocksvm.store.hdf5_files import create_group, damage_named, member

PLACES = np.dtype("i8")


def write_steps(file: h5py.File, steps: Iterable[Step]) -> list[dict]:
    """Write the steps, first to last, one after the other; returns what the description says of them."""
    group, described = None, []
    for k, step in enumerate(steps):
        entry = {"fingerprint": step.fingerprint, "n_samples": step.n_samples, "n_dropped": step.n_dropped}
        described.append(entry)
        if step.n_dropped:
            group = create_group(file, "history") if group is None else group
            gaps = _gaps(step.dropped())
            # both in pieces of the same length
            write_array(group, f"dropped-{k}", step.n_dropped, PLACES, lambda start, stop, gaps=gaps: next(gaps))
    return described


def _gaps(pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    last = 0
    for piece in pieces:
        yield np.diff(piece, prepend=last)
        last = int(piece[-1])


def pieces_of(places: np.ndarray) -> Iterator[np.ndarray]:
    """Places (m,) in the pieces in which they are written and read."""
    for start in range(0, len(places), PIECE):
        yield places[start : start + PIECE]


def read_steps(file: h5py.File, meta: dict) -> Iterator[Step]:
    """The steps of a store, first to last; their places are read on demand."""
    for k, entry in enumerate(meta.get("history", ())):
        size = entry["n_samples"], entry["n_dropped"]
        yield Step(entry["fingerprint"], *size, lambda k=k, size=size: _dropped(file, k, *size))


def _dropped(file: h5py.File, k: int, n_samples: int, n_dropped: int) -> Iterator[np.ndarray]:
    """The places of step k, piece by piece; InputError where they are damaged."""
    if not n_dropped:
        return
    with damage_named(file):
        group = member(file, "history", h5py.Group)
        require_length(group, f"dropped-{k}", n_dropped)
        last = -1
        for start, gaps in read_pieces(group, f"dropped-{k}", PLACES):
            places = np.cumsum(gaps) + (last if start else 0)
            if places[0] <= last or (gaps[1:] <= 0).any() or places[-1] >= n_samples:
                raise ValueError(f"/history/dropped-{k} does not rise")
            last = int(places[-1])
            yield places


class Shift:
    """The places of rows after a change, in rising order, holding a piece of the places left out."""

    def __init__(self, dropped: Iterator[np.ndarray]):
        self.pieces = dropped
        self.window = np.empty(0, PLACES)
        self.before = 0  # places left out below the window

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """places (m,) int64 before the change, rising, none below those of the last call but -1, for rows that were
        left out earlier; returns those after it, -1 for rows left out now."""
        now = places.copy()
        there = np.flatnonzero(places >= 0)
        if not len(there):
            return now
        places = places[there]
        while not len(self.window) or self.window[-1] < places[-1]:
            piece = next(self.pieces, None)
            if piece is None:
                break
            self.window = np.concatenate([self.window, piece])
        k = np.searchsorted(self.window, places)
        gone = np.append(self.window, -1)[np.minimum(k, len(self.window))] == places
        now[there] = np.where(gone, -1, places - k - self.before)
        done = int(k[-1])
        self.before += done
        self.window = self.window[done:]
        return now
