"""Names of a model's features, where its rows have them, and the features of the largest weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import h5py
import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.files.paths import Location, location
from blocksvm.model.solver_state import open_state
from blocksvm.model.sparse_weights import kept_vectors
from blocksvm.store.arrays import ENDS, read_names, read_range, require_length, write_array
from blocksvm.store.descriptions import ModelMeta
from blocksvm.store.hdf5_files import damage_named, group, has, open_hdf5, read_meta


@dataclass(frozen=True)
class NamedRows:
    """What ``names_of`` needs of a source, so that it is not held."""

    path: str | Location
    fingerprint: str
    n_features: int
    named = True

    @classmethod
    def of(cls, source) -> NamedRows | None:
        """None where its features have no names."""
        return cls(source.path, source.fingerprint, source.n_features) if source.named else None


@contextmanager
def names_of(source) -> Iterator[h5py.Group | None]:
    """The group of a store's file, which it may have closed, that has the names of a source's features; None where it
    has no names, or no longer."""
    if not source.named or not location(source.path).is_file():
        yield None
        return
    with open_hdf5(source.path, "store") as file, damage_named(file):
        yield group(file, "features") if read_meta(file).fingerprint == source.fingerprint else None


def write_feature_names(features: h5py.Group, n_features: int, theirs: h5py.Group) -> None:
    """Write a store's names into a model's group of features, as stores have them; further features have none."""
    d, n_bytes = require_length(theirs, "name_ends", None), require_length(theirs, "names", None)

    def ends_at(start: int, stop: int) -> np.ndarray:
        ends = read_range(theirs, "name_ends", ENDS, min(start, d), min(stop, d))
        return np.append(ends, np.full(stop - start - len(ends), n_bytes))

    theirs.copy("names", features)
    write_array(features, "name_ends", n_features, ENDS, ends_at)


def all_names(features: h5py.Group, n_features: int) -> list[str]:
    """Those of a store's features, then '' for each further one."""
    d = require_length(features, "name_ends", None)
    return read_names(features, 0, d) + [""] * (n_features - d)


@dataclass(frozen=True)
class WeightedFeatures:
    """A feature with its weight; name: '' where there is none."""

    id: int
    name: str
    weight: float

    def __str__(self) -> str:
        return self.name or f"feature {self.id}"


def strongest(path: str | Location, n: int) -> list[tuple[object, list[WeightedFeatures]]]:
    """Of each of a model's vectors of weights its label (of two classes the larger one, of targets that are numbers
    None) and the n features of the largest weights, the largest first (of equals the one that comes first).

    Takes memory for n features a class.  Raises InputError where the model has no weights of features.
    """
    saved = open_state(path)
    meta = saved.meta
    assert isinstance(meta, ModelMeta)
    if meta.kernel is not None:
        raise InputError(f"{path}: has a kernel, and no weights of features; leave the list of features out")
    d, n_vectors = meta.n_features, meta.n_vectors
    places = [np.empty(0, np.int64) for _ in range(n_vectors)]
    weights = [np.empty(0) for _ in range(n_vectors)]
    if meta.sparse is not None:
        with open_hdf5(path, "model") as file, damage_named(file):
            for c, (own, of_own) in enumerate(kept_vectors(file, d)):
                largest = np.lexsort((own, -np.abs(of_own)))[:n]
                places[c], weights[c] = own[largest], of_own[largest]
    for start, piece in saved.pieces("", "weights", np.float64) if meta.sparse is None else ():
        for c in range(start // (d + 1), (start + len(piece) - 1) // (d + 1) + 1):
            first, last = max(start, c * (d + 1)), min(start + len(piece), (c + 1) * (d + 1) - 1)
            part = piece[first - start : max(first, last) - start]
            places[c] = np.append(places[c], np.arange(first, first + len(part)) - c * (d + 1))
            weights[c] = np.append(weights[c], part)
            largest = np.lexsort((places[c], -np.abs(weights[c])))[:n]
            places[c], weights[c] = places[c][largest], weights[c][largest]
    labels = meta.labels
    each = labels if n_vectors > 1 else [labels[-1]] if labels else [None]
    return [(label, _named(path, at.tolist(), w.tolist())) for label, at, w in zip(each, places, weights, strict=True)]


def names_in(path: str | Location) -> list[str] | None:
    """The names of a model file's features in its order, '' for one without; None where it has none."""
    with open_hdf5(path, "model") as file, damage_named(file):
        features = group(file, "features")
        return read_names(features, 0, read_meta(file).n_features) if has(features, "names") else None


def _named(path: str | Location, places: list[int], weights: list[float]) -> list[WeightedFeatures]:
    """Features by their places; those of weight 0 are left out."""
    weighted = []
    with open_hdf5(path, "model") as file, damage_named(file):
        features = group(file, "features")
        for place, weight in zip(places, weights, strict=True):
            if weight == 0.0:
                break
            (feature_id,) = read_range(features, "ids", np.dtype(np.int64), place, place + 1).tolist()
            name = ""
            if has(features, "names"):
                (name,) = read_names(features, place, place + 1)
            weighted.append(WeightedFeatures(feature_id, name, weight))
    return weighted
