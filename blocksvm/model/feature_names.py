"""Names of a model's features, where its rows have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import h5py
import numpy as np

from blocksvm.files.paths import Location, location
from blocksvm.store.arrays import ENDS, read_names, read_range, require_length, write_array
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


def names_in(path: str | Location) -> list[str] | None:
    """The names of a model file's features in its order, '' for one without; None where it has none."""
    with open_hdf5(path, "model") as file, damage_named(file):
        features = group(file, "features")
        return read_names(features, 0, read_meta(file).n_features) if has(features, "names") else None
