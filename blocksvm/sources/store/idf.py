"""Factors of features (their inverse document frequencies) in stores and models, beside the ids: /features/idf."""

from __future__ import annotations

import h5py
import numpy as np

from blocksvm.errors import InputError
from blocksvm.sources.store.arrays import read_array, write_array
from blocksvm.sources.store.files import group

FLOAT64 = np.dtype(np.float64)


def write_idf(features: h5py.Group, factors: np.ndarray) -> None:
    """Write factors (d,) float64 into the group of features."""
    write_array(features, "idf", len(factors), FLOAT64, lambda start, stop: factors[start:stop])


def read_idf(file: h5py.File, n_features: int) -> np.ndarray:
    """The factors (d,) float64 of a file's features, in their order; InputError where they are damaged or missing."""
    factors = read_array(group(file, "features"), "idf", FLOAT64, n_features)
    if not (np.isfinite(factors) & (factors > 0.0)).all():
        raise InputError(f"{file.filename}: /features/idf holds what is no idf; make the file again")
    return factors
