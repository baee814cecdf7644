"""Names of a model's features, where its rows have them, and the features of the largest weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.objects.remote_path import place
from blocksvm.model.solver_state import open_state
from blocksvm.store.arrays import BYTES, ENDS, read_range, read_strings, write_array
from blocksvm.store.hdf5_files import damage_named, group, has, open_hdf5, read_meta


@dataclass(frozen=True)
class NamePieces:
    """The names of features in their order, one after the other: n_bytes of UTF-8, ``text_at(start, stop)`` of them,
    and where each name ends, ``ends_at(start, stop)``."""

    n_bytes: int
    text_at: Callable[[int, int], np.ndarray]
    ends_at: Callable[[int, int], np.ndarray]

    def listed(self, n: int) -> list[str]:
        """Those of the first n features."""
        text, ends = self.text_at(0, self.n_bytes).tobytes(), self.ends_at(0, n).tolist()
        return [text[start:stop].decode() for start, stop in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True)
class NamedRows:
    """What ``names_of`` needs of a source, so that it is not held."""

    path: str | Path
    fingerprint: str
    n_features: int
    named = True

    @classmethod
    def of(cls, source) -> NamedRows | None:
        """None where its features have no names."""
        return cls(source.path, source.fingerprint, source.n_features) if source.named else None


@contextmanager
def names_of(source) -> Iterator[NamePieces | None]:
    """The names of a source's features, of a store from its file, which it may have closed; features beyond its own
    have none.  None where it has no names, or no longer."""
    if not source.named or not place(source.path).is_file():
        yield None
        return
    with open_hdf5(source.path, "store") as file, damage_named(file):
        if read_meta(file).fingerprint != source.fingerprint:
            yield None
            return
        features, d = group(file, "features"), source.n_features
        n_bytes = int(read_range(features, "name_ends", ENDS, d - 1, d)[0]) if d else 0

        def ends_at(start: int, stop: int) -> np.ndarray:
            ends = read_range(features, "name_ends", ENDS, min(start, d), min(stop, d))
            return np.append(ends, np.full(stop - start - len(ends), n_bytes))

        yield NamePieces(n_bytes, lambda start, stop: read_range(features, "names", BYTES, start, stop), ends_at)


def write_feature_names(features, n_features: int, names: NamePieces) -> None:
    """Write the names into a model's group of features, as stores have them."""
    write_array(features, "names", names.n_bytes, BYTES, names.text_at)
    write_array(features, "name_ends", n_features, ENDS, names.ends_at)


@dataclass(frozen=True)
class WeightedFeatures:
    """A feature with its weight; name: '' where there is none."""

    id: int
    name: str
    weight: float

    def __str__(self) -> str:
        return self.name or f"feature {self.id}"


def strongest(path: str | Path, n: int) -> list[tuple[object, list[WeightedFeatures]]]:
    """Of each of a model's vectors of weights its label (of two classes the larger one, of targets that are numbers
    None) and the n features of the largest weights, the largest first (of equals the one that comes first).

    Takes memory for n features a class.  Raises InputError where the model has no weights of features.
    """
    saved = open_state(path)
    meta = saved.meta
    if meta.get("kernel") is not None:
        raise InputError(f"{path}: has a kernel, and no weights of features; leave the list of features out")
    d, n_vectors = meta["n_features"], meta["n_vectors"]
    places = [np.empty(0, np.int64) for _ in range(n_vectors)]
    weights = [np.empty(0) for _ in range(n_vectors)]
    for start, piece in saved.pieces("", "weights", np.float64):
        for c in range(start // (d + 1), (start + len(piece) - 1) // (d + 1) + 1):
            first, last = max(start, c * (d + 1)), min(start + len(piece), (c + 1) * (d + 1) - 1)
            part = piece[first - start : max(first, last) - start]
            places[c] = np.append(places[c], np.arange(first, first + len(part)) - c * (d + 1))
            weights[c] = np.append(weights[c], part)
            largest = np.lexsort((places[c], -np.abs(weights[c])))[:n]
            places[c], weights[c] = places[c][largest], weights[c][largest]
    labels = meta["labels"]
    each = labels if n_vectors > 1 else [labels[-1]] if labels else [None]
    return [
        (label, _named(path, positions.tolist(), w.tolist()))
        for label, positions, w in zip(each, places, weights, strict=True)
    ]


def names_in(path: str | Path) -> list[str] | None:
    """The names of a model file's features in its order, '' for one without; None where it has none."""
    with open_hdf5(path, "model") as file, damage_named(file):
        features = group(file, "features")
        return (
            read_strings(features, "names", "name_ends", 0, read_meta(file).n_features)
            if has(features, "names")
            else None
        )


def _named(path: str | Path, places: list[int], weights: list[float]) -> list[WeightedFeatures]:
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
                (name,) = read_strings(features, "names", "name_ends", place, place + 1)
            weighted.append(WeightedFeatures(feature_id, name, weight))
    return weighted
