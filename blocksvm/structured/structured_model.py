"""The file of a structured model: weights, the ids of their features, and how text becomes these."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.store.arrays import read_array, write_arrays
from blocksvm.store.creation import create_hdf5
from blocksvm.store.hdf5_files import damage_named, open_hdf5, read_meta, write_meta

INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


@dataclass(frozen=True)
class StructuredModel:
    """meta: task, learner, settings, labels, template, certificate.

    feature_ids (n_features,), pair_ids (n_pairs,) int64, distinct: of features, and of those of pairs of answers; words
    (n_words,) int64: a task's dictionary; weights (n_weights,) float64.
    """

    path: str
    meta: dict
    feature_ids: np.ndarray
    words: np.ndarray
    weights: np.ndarray
    pair_ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def groups(self, n: int) -> list[np.ndarray]:
        """The ids of the first n groups of templates."""
        return [self.feature_ids, self.pair_ids][:n]


def save_structured(path: Path, model: StructuredModel, overwrite: bool) -> None:
    """Write a model; InputError where there is a file of that name and ``overwrite`` does not allow to replace it."""
    with create_hdf5(path, "structure", overwrite) as file:
        pairs = {"pair_ids": model.pair_ids} if len(model.pair_ids) else {}
        write_arrays(file, {"ids": model.feature_ids, "words": model.words, "weights": model.weights, **pairs})
        write_meta(file, model.meta)


def load_structured(path: str | Path) -> StructuredModel:
    """Open a model made by ``blocksvm structure``; InputError where it is not one or is damaged."""
    with open_hdf5(path, "structure") as file, damage_named(file):
        meta = read_meta(file)
        ids = read_array(file, "ids", INT64, meta["n_features"])
        words = read_array(file, "words", INT64, meta["n_words"])
        n_pairs = meta.get("n_pairs", 0)
        pair_ids = read_array(file, "pair_ids", INT64, n_pairs) if n_pairs else np.empty(0, np.int64)
        weights = read_array(file, "weights", FLOAT64, meta["n_weights"])
    if not np.isfinite(weights).all():
        raise InputError(f"{path}: a weight is not a number; train the model again")
    return StructuredModel(os.fspath(path), meta, ids, words, weights, pair_ids)
