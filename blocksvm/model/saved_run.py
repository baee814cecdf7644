"""The end of a previous run for a warm start: of the same rows, or of the rows before some were added (incremental
training: Tsai, Lin, Lin, KDD 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import listed
from blocksvm.model.solver_state import SavedState, open_state
from blocksvm.solvers.solver import SavedRun
from blocksvm.sources.source import Source


def load_saved_run(path: Path, source: Source, axes: Mapping[str, str], labels: list) -> SavedRun:
    """The run of the model or checkpoint at ``path``, in the rows and features that the source has now.

    axes: array -> 'row', 'feature' or 'scalar', of the solver that begins; labels: those that it learns.  InputError
    where the run was on other rows than the source ever had, or with other labels.
    """
    saved = open_state(path)
    name, before = str(path), saved.meta.fingerprint
    if before == source.fingerprint:
        return SavedRun(name, saved.meta.cost, saved.lengths, saved.load, saved.meta)
    steps = list(source.history())
    known = [k for k, step in enumerate(steps) if step.fingerprint == before]
    if not known:
        raise InputError(f"{name}: belongs to another store than {source.name}; name its own store")
    theirs = getattr(saved.meta, "labels", labels)
    if theirs != labels:
        raise InputError(
            f"{name}: has the labels {listed(theirs)}, and {source.name} has others since its rows were changed; start "
            f"without {option('warm_start')}"
        )
    rows = _RowsBefore(saved, source, axes, steps[known[-1]].n_samples)
    return SavedRun(name, saved.meta.cost, rows.lengths(), rows.load, saved.meta)


class _RowsBefore:
    """New rows begin with dual variables of 0, and new features likewise."""

    def __init__(self, saved: SavedState, source: Source, axes: Mapping[str, str], n_before: int):
        self.saved = saved
        self.axes = axes
        self.n_samples, self.n_features = source.n_samples, source.n_features
        self.n_before, self.d_before = n_before, saved.meta.n_features

    def lengths(self) -> dict[str, dict[str, int]]:
        return {
            solver: {name: self._length(name, length) for name, length in arrays.items()}
            for solver, arrays in self.saved.lengths.items()
        }

    def _length(self, name: str, length: int) -> int:
        axis = self.axes.get(name, "feature")
        if axis == "scalar":
            return length
        before, now = (
            (self.n_before, self.n_samples) if axis == "row" else (self.d_before + 1, self.n_features + 1)
        )  # fmt: skip
        return length // before * now

    def load(self, solver: str, name: str, out: np.ndarray) -> None:
        """Fill ``out`` with an array as it is in today's rows and features."""
        axis = self.axes.get(name, "feature")
        if axis == "scalar":
            self.saved.load(solver, name, out)
            return
        flat = out.reshape(-1)
        flat[:] = 0.0
        columns = flat.size // (self.n_samples if axis == "row" else self.n_features + 1)
        constant = self.d_before * columns if axis == "feature" else flat.size  # which comes last
        for start, piece in self.saved.pieces(solver, name, flat.dtype):
            split = min(max(constant - start, 0), len(piece))
            flat[start : start + split] = piece[:split]
            flat[flat.size - columns + start + split - constant :][: len(piece) - split] = piece[split:]
