"""What a store was before rows were left out of it and added to it, so that an earlier run's dual variables find their
rows.

    /history/dropped-K   of step K, as gaps: the places of the rows that were left out, rising; absent where none were

Step K of meta["history"] names the fingerprint and the rows that the store had before.  Rows that stay keep their
order; those that are added come behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import h5py
import numpy as np

from blocksvm.errors import InputError
from blocksvm.sources.source import Step
from blocksvm.sources.store.arrays import read_array, write_array
from blocksvm.sources.store.files import create_group, member

PLACES = np.dtype("i8")


def write_steps(file: h5py.File, steps: Iterable[Step]) -> list[dict]:
    """Write the steps, first to last, one after the other; returns what the description says of them."""
    group, described = None, []
    for k, step in enumerate(steps):
        described.append(
            {"fingerprint": step.fingerprint, "n_samples": step.n_samples, "n_dropped": step.n_dropped}
        )  # fmt: skip
        if step.n_dropped:
            group = create_group(file, "history") if group is None else group
            gaps = np.diff(step.dropped(), prepend=0)
            write_array(group, f"dropped-{k}", len(gaps), PLACES, lambda start, stop, gaps=gaps: gaps[start:stop])
    return described


def read_steps(file: h5py.File, meta: dict) -> Iterator[Step]:
    """The steps of a store, first to last; their places are read when they are asked for."""
    for k, entry in enumerate(meta.get("history", ())):
        size = entry["n_samples"], entry["n_dropped"]
        yield Step(entry["fingerprint"], *size, lambda k=k, size=size: _dropped(file, k, *size))


def _dropped(file: h5py.File, k: int, n_samples: int, n_dropped: int) -> np.ndarray:
    """The places of step k; InputError where they are damaged."""
    if not n_dropped:
        return np.empty(0, PLACES)
    gaps = read_array(member(file, "history", h5py.Group), f"dropped-{k}", PLACES, n_dropped)
    dropped = np.cumsum(gaps)
    if gaps[0] < 0 or (gaps[1:] <= 0).any() or dropped[-1] >= n_samples:
        raise InputError(f"{file.filename}: /history/dropped-{k}: does not rise; the file is damaged, make it again")
    return dropped


def places_now(places: np.ndarray, dropped: Iterable[np.ndarray]) -> np.ndarray:
    """Where rows (m,) int64 that were at ``places`` are after some changes: (m,), -1 for those that were left out.
    dropped: of each change, first to last, the places of the rows left out."""
    now = places.copy()
    for gone in dropped:
        there = np.flatnonzero(now >= 0)
        before = np.searchsorted(gone, now[there])
        left_out = np.zeros(len(there), bool)
        inside = before < len(gone)
        left_out[inside] = gone[before[inside]] == now[there[inside]]
        now[there] = np.where(left_out, -1, now[there] - before)
    return now
