"""The factors of a model's features, by which its rows were multiplied, and those of text that it reads are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.formats.weighing import FeatureFactors
from blocksvm.store.arrays import read_factors
from blocksvm.store.hdf5_files import damage_named, open_hdf5, read_meta
from blocksvm.store.recipe import recipe_of

BYTES = 8  # a feature


def factors_of_source(source, n_features: int) -> np.ndarray | None:
    """Factors (n_features,) of the features of a source, of a store from its file, which it may have closed; those
    of an initial model alone have 1.  None where its values were not multiplied.  InputError where the file
    is gone or is another one."""
    factor = recipe_of(source).factor
    if not factor:
        return None
    if source.is_open:
        factors = read_factors(source.file, source.n_features)
    else:
        with open_hdf5(source.path, "store") as file, damage_named(file):
            if read_meta(file).fingerprint != source.fingerprint:
                raise InputError(f"{source.path}: was changed, and with it the {factor} of the model; train again")
            factors = read_factors(file, source.n_features)
    return np.append(factors, np.ones(n_features - len(factors)))


def factors_of_model(path: str | Path, find: Callable[[np.ndarray], np.ndarray]) -> FeatureFactors:
    """That of a model's features, whose positions ``find`` gives; InputError where it is damaged."""
    with open_hdf5(path, "model") as file, damage_named(file):
        meta = read_meta(file)
        return FeatureFactors(find, read_factors(file, meta.n_features), meta.idf_fingerprint or "")
