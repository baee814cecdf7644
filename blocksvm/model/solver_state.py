"""The state of a solver in a file, in models and checkpoints alike: named arrays under the solver's name.

/state/NAMESPACE/ARRAY     NAMESPACE is a solver's name, or "learner:" and an online learner's
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import h5py
import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import listed
from blocksvm.files.paths import Location, location
from blocksvm.solvers.solver import SavedRun
from blocksvm.sources.source import Source
from blocksvm.store.arrays import read_pieces, require_length, verify_arrays, write_array
from blocksvm.store.descriptions import CheckpointMeta, ModelMeta, typed
from blocksvm.store.hdf5_files import create_hdf5, damage_named, group, kind_of_member, open_hdf5, read_meta, write_meta


@dataclass(frozen=True)
class Piecewise:
    """An array that is made piece by piece: ``length`` elements of ``dtype``, ``piece(start, stop)`` gives some."""

    length: int
    dtype: np.dtype
    piece: Callable[[int, int], np.ndarray]


def whole(array: np.ndarray) -> Piecewise:
    """An array in memory; of two dimensions as one row after the other, wherever they lie."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        return Piecewise(len(flat), flat.dtype, lambda start, stop: flat[start:stop])
    width = array.shape[1]

    def piece(start: int, stop: int) -> np.ndarray:
        rows = range(start // width, -(-stop // width))
        return np.concatenate([array[r, max(0, start - r * width) : stop - r * width] for r in rows])

    return Piecewise(array.size, array.dtype, piece)


def namespace(name: str, learner: bool) -> str:
    """Under which the state of a solver lies: pegasos the solver keeps other arrays than pegasos the learner."""
    return f"learner:{name}" if learner else name


def write_state(file, spaces: Mapping[str, Mapping[str, Piecewise]]) -> None:
    """Write {name space: {array: its pieces}}."""
    file.create_group("state")
    for space, arrays in spaces.items():
        arrays_group = file.create_group(f"state/{space}")
        for name, array in arrays.items():
            write_array(arrays_group, name, array.length, array.dtype, array.piece)


@dataclass(frozen=True)
class SavedState:
    """A model or checkpoint opened for its state: its description ``meta``, and {name space: {array: entries}}; the
    name space '' has a model's 'weights' and the 'ids' of its features."""

    path: Location
    meta: ModelMeta | CheckpointMeta
    lengths: dict[str, dict[str, int]]

    @property
    def namespace(self) -> str:
        """Of the solver whose run this was."""
        return namespace(self.meta.method.name, self.meta.method.learner)

    def load(self, space: str, name: str, out: np.ndarray) -> None:
        """Fill ``out``; InputError where the array is missing, damaged, or of another length or type."""
        flat = out.reshape(-1)
        for start, piece in self.pieces(space, name, flat.dtype, len(flat)):
            flat[start : start + len(piece)] = piece

    def pieces(self, space: str, name: str, dtype, length: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(start, piece) of one array, one after the other, which must have that length; space '' has 'weights', and
        'ids' of the features."""
        if not space and getattr(self.meta, "sparse", None) is not None and name == "weights":
            raise InputError(f"{self.path}: keeps its weights one by one, and no run begins with them; start afresh")
        with _opened(self.path) as file:
            if space:
                holder = group(group(file, "state"), space)
            else:
                holder = group(file, "features") if name == "ids" else file
            require_length(holder, name, length)
            yield from read_pieces(holder, name, np.dtype(dtype))


@contextmanager
def _opened(path: Location):
    with open_hdf5(path, "model", "checkpoint") as file, damage_named(file):
        yield file


def open_state(path: str | Location) -> SavedState:
    """A model's or checkpoint's description and the arrays that it has; InputError where it is neither, or damaged."""
    path = location(path)
    with _opened(path) as file:
        meta = read_meta(file)
        lengths: dict[str, dict[str, int]] = {}
        if isinstance(meta, ModelMeta):
            ids = require_length(group(file, "features"), "ids", None)
            lengths[""] = {"ids": ids}
            if meta.sparse is None:
                lengths[""]["weights"] = require_length(file, "weights", None)
            if ids != meta.n_features or lengths[""].get("weights") not in (None, meta.n_vectors * (ids + 1)):
                raise ValueError("its weights are not as many as its description says")
        state = group(file, "state")
        for space in state:
            if kind_of_member(state, space) is h5py.Group:
                held = group(state, space)
                lengths[space] = {name: require_length(held, name, None) for name in held}
        return SavedState(path, meta, lengths)


def verify_state(path: str | Location) -> None:
    """Read all arrays of a model or checkpoint against their checksums; InputError names what is damaged."""
    with _opened(location(path)) as file:
        read_meta(file)
        verify_arrays(file)


def save_checkpoint(path: Location, spaces: Mapping[str, Mapping[str, np.ndarray]], meta: dict) -> None:
    """Write a run's whole state; the file of before stays until the new one is whole."""
    described = {space: {name: [a.dtype.str, int(a.size)] for name, a in own.items()} for space, own in spaces.items()}
    with create_hdf5(path, "checkpoint") as file:
        write_state(file, {s: {n: whole(a) for n, a in arrays.items()} for s, arrays in spaces.items()})
        write_meta(file, typed(meta | {"arrays": described}, CheckpointMeta))


def describe_checkpoint(path: str | Location) -> CheckpointMeta:
    """A checkpoint's description; InputError where the file is not one, or is damaged."""
    with open_hdf5(path, "checkpoint") as file, damage_named(file):
        return read_meta(file)


def load_saved_run(path: Location, source: Source, axes: Mapping[str, str], labels: list) -> SavedRun:
    """The run of the model or checkpoint at ``path``, in the rows and features that the source has now, to which rows
    may have been added (incremental training: Tsai, Lin, Lin, KDD 2014).

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
            f"without {option('start_from')}"
        )
    rows = _RowsBefore(saved, source, axes, steps[known[-1]].n_samples)
    return SavedRun(name, saved.meta.cost, rows.lengths(), rows.load, saved.meta)


class _RowsBefore:
    """New rows begin with dual variables of 0, and new features likewise."""

    def __init__(self, saved: SavedState, source: Source, axes: Mapping[str, str], n_before: int):
        self.saved, self.axes = saved, axes
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
        before, now = (self.n_before, self.n_samples) if axis == "row" else (self.d_before + 1, self.n_features + 1)
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
