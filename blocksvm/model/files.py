"""Checkpoint and model files: named arrays with their description, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xxhash import xxh3_128_hexdigest

from blocksvm.conversion.ids import IdIndex
from blocksvm.errors import InputError
from blocksvm.formats import FORMATS
from blocksvm.formats.recipe import Recipe
from blocksvm.kernels.table import hash_ids
from blocksvm.sources.store.arrays import read_array, read_pieces, write_array
from blocksvm.sources.store.files import create_hdf5, damage_named, open_hdf5, read_meta, write_meta

INT64 = np.dtype(np.int64)
FLOAT64 = np.dtype(np.float64)


def whole(array: np.ndarray) -> tuple:
    """An array in memory as (length, dtype, function of (start, stop) that gives a piece)."""
    return len(array), array.dtype, lambda start, stop: array[start:stop]


def write_state(file, state: dict[str, tuple]) -> None:
    """Write named arrays, each as ``whole`` gives it."""
    group = file.create_group("state")
    for name, (length, dtype, piece_at) in state.items():
        write_array(group, name, length, dtype, piece_at)


def save_checkpoint(path: Path, arrays: dict[str, np.ndarray], meta: dict) -> None:
    """Write a run's whole state; the file of before stays until the new one is whole."""
    with create_hdf5(path, "checkpoint") as file:
        write_state(file, {name: whole(array) for name, array in arrays.items()})
        write_meta(file, meta | {"arrays": {name: [a.dtype.str, len(a)] for name, a in arrays.items()}})


def describe_checkpoint(path: Path) -> dict:
    """A checkpoint's description; InputError where the file is not one or is damaged."""
    with open_hdf5(path, "checkpoint") as file, damage_named(file):
        return read_meta(file)


def load_checkpoint(path: Path, into: dict[str, np.ndarray]) -> dict:
    """Fill ``into`` with the arrays of the same names; returns the description."""
    with open_hdf5(path, "checkpoint") as file, damage_named(file):
        meta = read_meta(file)
        for name, array in into.items():
            dtype, length = meta["arrays"].get(name, [None, None])
            if dtype != array.dtype.str or length != len(array):
                raise InputError(f"{path}: holds no {name} of {len(array)} entries; it belongs to another run")
            fill_array(file["state"], name, array)
        return meta


def fill_array(group, name: str, out: np.ndarray) -> None:
    """Read an array piece by piece into ``out``, which must have its length."""
    for start, piece in read_pieces(group, name, out.dtype):
        if start + len(piece) > len(out):
            raise InputError(f"{group.file.filename}: {name} is longer than described; the file is damaged")
        out[start : start + len(piece)] = piece


def saved_state(path: Path) -> tuple[dict, dict[str, int]]:
    """(description, lengths of the state's arrays) of a model or a checkpoint, for a warm start."""
    with open_hdf5(path, "model", "checkpoint") as file, damage_named(file):
        meta = read_meta(file)
        return meta, {name: file["state"][name].shape[0] for name in file["state"] if not name.endswith(".xxh3")}


def load_state(path: Path, name: str, out: np.ndarray) -> None:
    """One array of a model's or checkpoint's state."""
    with open_hdf5(path, "model", "checkpoint") as file, damage_named(file):
        if name == "weights":
            fill_array(file, "weights", out)
        else:
            fill_array(file["state"], name, out)


def state_pieces(path: Path, name: str, dtype) -> Iterator[tuple[int, np.ndarray]]:
    """(start, piece) of one array of a model's state, or of its "ids", one after the other."""
    with open_hdf5(path, "model") as file, damage_named(file):
        yield from read_pieces(file["features"] if name == "ids" else file["state"], name, dtype)


def verify_state(path: Path) -> None:
    """Read all arrays of a model or checkpoint against their checksums; InputError names what is damaged."""
    with open_hdf5(path, "model", "checkpoint") as file, damage_named(file):
        read_meta(file)
        for group in (file, file.get("state"), file.get("features")):
            for name in [] if group is None else group:
                if name + ".xxh3" in group:
                    for _ in read_pieces(group, name, group[name].dtype):
                        pass


def save_model(path: Path, feature_ids, w: np.ndarray, arrays: dict[str, np.ndarray], meta: dict) -> None:
    """Write a model: ids (``feature_ids(start, stop)``) and weights of all features in the source's order, the constant
    feature's weight last; of more than two classes one such vector behind the other.

    arrays: what a later run can start from (the dual variables, a learner's memory).  Everything is written piecewise.
    """
    save_model_pieces(path, feature_ids, whole(w), {name: whole(array) for name, array in arrays.items()}, meta)


def save_model_pieces(path: Path, feature_ids, weights: tuple, state: dict[str, tuple], meta: dict) -> None:
    """The same from arrays that are made piece by piece: each is (length, dtype, function), as ``whole`` gives it."""
    with create_hdf5(path, "model") as file:
        features = file.create_group("features")
        write_array(features, "ids", meta["n_features"], INT64, feature_ids)
        write_array(file, "weights", *weights)
        write_state(file, state)
        write_meta(file, meta)


def hashed(ids: np.ndarray, bits: int | None) -> np.ndarray:
    """Ids (int64) as a model's features are named: their hashes, or (bits None) the ids themselves."""
    if bits is None:
        return ids
    places = np.empty(len(ids), np.int32)
    hash_ids(np.ascontiguousarray(ids, dtype=np.int64), bits, places)
    return places.astype(np.int64)


def recipe_of(meta: dict, path: str | Path) -> Recipe:
    """How text becomes the features of a model, from its description."""
    text = meta["text"] if meta.get("bits") is None else {**meta["text"], "bits": meta["bits"]}
    return Recipe.restored(text, path)


def own_format(name: str, path: str | Path) -> str:
    """The format that a model's recipe names; InputError where it is one outside the package, whose code would run
    because a file says so."""
    if name in FORMATS:
        return name
    raise InputError(f"{path}: was trained on text of the format {name}; if you trust that, say --format {name}")


def labels_predicted(values: np.ndarray, labels: tuple[float, ...]) -> np.ndarray:
    """Labels (n,) float64 for decision values (n,) of two classes or (n, k) of more."""
    chosen = values.argmax(axis=1) if values.ndim == 2 else (values > 0.0).astype(np.int64)
    return np.array(labels)[chosen]


@dataclass(frozen=True)
class Model:
    """A trained linear model.

    feature_ids (d,) int64 in no particular order; weights (d,) float64; intercept: value times weight of the constant
    feature; labels (negative, positive); meta: settings, certificate, schedule chosen, versions.  Of k > 2 classes:
    weights (k, d), intercept (k,), labels the k classes, rising.
    """

    path: str
    feature_ids: np.ndarray
    weights: np.ndarray
    intercept: float | np.ndarray
    labels: tuple[float, ...]
    meta: dict

    @property
    def bits(self) -> int | None:
        """Where the model's features are hashes of ids: their bits; feature_ids are then the hashes."""
        return self.recipe.bits

    @property
    def recipe(self) -> Recipe:
        """How text becomes the model's features."""
        return recipe_of(self.meta, self.path)

    def decision_function(self, X) -> np.ndarray:
        """<w, x> + intercept for the rows of a scipy sparse matrix whose columns are feature ids; (n,) float64, or
        (n, k) of k > 2 classes."""
        columns = np.zeros((X.shape[1], *self.weights.shape[:-1]))
        if self.bits is not None:
            index = IdIndex(len(self.feature_ids)).fill([(0, self.feature_ids)])
            positions = index.find(hashed(np.arange(X.shape[1]), self.bits))
            columns[positions >= 0] = self.weights[..., positions[positions >= 0]].T
        else:
            known = self.feature_ids < X.shape[1]
            columns[self.feature_ids[known]] = self.weights[..., known].T
        return np.asarray(X @ columns, dtype=np.float64) + self.intercept

    def predict(self, X) -> np.ndarray:
        """The label of each row (n,) float64, in the user's own numbers; a decision value of 0 is the negative one, of
        more classes' equal ones the smallest label's counts."""
        return labels_predicted(self.decision_function(X), self.labels)


def describe_model(path: str | Path) -> dict:
    """A model's description, without its weights."""
    with open_hdf5(Path(path), "model") as file, damage_named(file):
        return read_meta(file)


def model_fingerprint(path: str | Path) -> str:
    """Equal only for models with equal weights of equal features."""
    with open_hdf5(Path(path), "model") as file, damage_named(file):
        return xxh3_128_hexdigest(file["weights.xxh3"][()].tobytes() + file["features"]["ids.xxh3"][()].tobytes())


def model_feature_ids(path: str | Path) -> np.ndarray:
    """The ids (d,) int64 of a model's features, in the order of its state."""
    with open_hdf5(Path(path), "model") as file, damage_named(file):
        return read_array(file["features"], "ids", INT64, read_meta(file)["n_features"])


def load_model(path: str | Path) -> Model:
    """Open a model made by ``python -m blocksvm.train``; InputError where it is not one or is damaged."""
    with open_hdf5(Path(path), "model") as file, damage_named(file):
        meta = read_meta(file)
        d = meta["n_features"]
        ids = read_array(file["features"], "ids", INT64, d)
        weights = read_array(file, "weights", FLOAT64, meta["copies"] * (d + 1))
    if not np.isfinite(weights).all():
        raise InputError(f"{path}: a weight is not a number; train the model again")
    return make_model(os.fspath(path), ids, weights, meta)


def make_model(path: str, ids: np.ndarray, w: np.ndarray, meta: dict) -> Model:
    """From weights (copies * (d + 1),) as a run has them."""
    by_class = w.reshape(meta["copies"], -1)
    intercepts = by_class[:, -1] * meta["bias"]
    labels = tuple(meta["labels"])
    if len(by_class) == 1:
        return Model(path, ids, by_class[0, :-1], float(intercepts[0]), labels, meta)
    return Model(path, ids, by_class[:, :-1], intercepts, labels, meta)
