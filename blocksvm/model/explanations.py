"""The largest contributions w_j x_j to a row's decision value, and the largest weights of a model, by names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, option, printable
from blocksvm.base.memory import Budget
from blocksvm.files.paths import Location
from blocksvm.kernels.rows import Entries
from blocksvm.model.contribution_kernels import largest_terms
from blocksvm.model.model_file import load_model
from blocksvm.store.arrays import read_array, read_names, read_text, require_length
from blocksvm.store.descriptions import ModelMeta
from blocksvm.store.hdf5_files import MAKERS, group, has, opened

MOST = 10_000  # contributions of a row
BIAS = "(bias)"


class Contributions(NamedTuple):
    """The largest contributions of consecutive rows: features (m, n) int64 by their positions, -1 where there are
    fewer, values (m, n) float64; bias (m,) float64, that of the constant feature."""

    features: np.ndarray
    values: np.ndarray
    bias: np.ndarray

    @classmethod
    def empty(cls, m: int, n: int) -> Contributions:
        """Of m rows, n each, to be filled."""
        return cls(np.empty((m, n), np.int64), np.empty((m, n)), np.empty(m))


def contributions_wanted(n: int | None, description: ModelMeta, path: str | Location) -> int:
    """n, or 0 for None; InputError for a wrong number, and where decision values are no sums of contributions."""
    if n is None:
        return 0
    if not 1 <= n <= MOST:
        raise InputError(f"{option('explain', n)}: choose 1 to {MOST:,}")
    if description.kernel is None and description.sparse is None:
        return n
    why = "keeps its weights one by one, by class, and not by row"
    if description.kernel is not None:
        why = "has a kernel, so that its decision values are no sums over features"
    raise InputError(f"{path}: {why}; leave {option('explain')} out")


def largest_contributions(entries: Entries, w: np.ndarray, classes: np.ndarray, n: int) -> Contributions:
    """The n largest terms of each row (``largest_terms``); w (k, d + 1); classes (m,): which vector is a row's."""
    vectors = classes.astype(np.int64) if len(w) > 1 else np.zeros(len(classes), np.int64)
    found = Contributions.empty(len(classes), n)
    found.bias[:] = w[vectors, -1]
    largest_terms(entries, w, vectors, found.features, found.values)
    return found


class Explainer:
    """The names of the features of a model or store, in memory, and ids of those without; n: contributions of a row."""

    def __init__(self, n: int, path: str | Location, budget: Budget):
        self.n = n
        with opened(path, *MAKERS) as (file, meta):
            features, d = group(file, "features"), meta.n_features
            n_bytes = 2 * require_length(features, "names", None) + 16 * d if has(features, "names") else 0
            budget.reserve("the features' names", 8 * d + n_bytes)
            self.ids = read_array(features, "ids", np.dtype(np.int64), d)
            self.text, self.bounds = b"", None
            if n_bytes:
                require_length(features, "name_ends", d)
                self.text, self.bounds = read_text(features, 0, d)

    def columns(self, contributions: Contributions) -> Iterator[str]:
        """Of each row its contributions as 'name:contribution', the largest first, then the bias, between tabs."""
        for features, values, bias in zip(*(array.tolist() for array in contributions), strict=True):
            terms = [f"{self._name(j)}:{value!r}" for j, value in zip(features, values, strict=True) if j >= 0]
            yield "\t".join([*terms, f"{BIAS}:{bias!r}"])

    def _name(self, j: int) -> str:
        """A name on one line and without a tab, or the id."""
        text = b"" if self.bounds is None else self.text[self.bounds[j] : self.bounds[j + 1]]
        return printable(text.decode(errors="replace")).replace("\t", "\\t") if text else str(self.ids[j])


@dataclass(frozen=True)
class WeightedFeatures:
    """A feature with its weight; name: '' where there is none."""

    id: int
    name: str
    weight: float

    def __str__(self) -> str:
        return self.name or f"feature {self.id}"


def strongest(path: str | Location, n: int) -> list[tuple[object, list[WeightedFeatures]]]:
    """Of each of a model's vectors of weights its label (of two classes the larger one, of real targets None) and the n
    features of the largest weights but 0, the largest first, of equals the first.  InputError where there are none."""
    model = load_model(path)
    if model.support is not None:
        raise InputError(f"{path}: has a kernel, and no weights of features; leave the list of features out")
    each = model.labels if model.meta.n_vectors > 1 else model.labels[-1:] or (None,)
    found = []
    with opened(path, "model") as (file, _):
        features = group(file, "features")
        named = has(features, "names")
        for c, label in enumerate(each):
            if model.meta.sparse is not None:
                positions, w = model.weights[c].indices, model.weights[c].data
            else:
                positions, w = np.arange(len(model.feature_ids)), np.atleast_2d(model.weights)[c]
            largest = [k for k in np.argsort(-np.abs(w), kind="stable")[:n].tolist() if w[k] != 0.0]
            names = [read_names(features, j, j + 1)[0] if named else "" for j in positions[largest].tolist()]
            ids, weights = model.feature_ids[positions[largest]].tolist(), w[largest].tolist()
            found.append((label, [WeightedFeatures(*one) for one in zip(ids, names, weights, strict=True)]))
    return found
