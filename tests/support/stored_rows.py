"""Rows of a store, read with h5py alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401 (registers the filter)
import numpy as np


@dataclass(frozen=True)
class StoredRow:
    """A row of a store by the user's names: source number, label, ids ascending, values, ||x||^2."""

    source: int
    label: float
    ids: list[int]
    values: list[float]
    sq_norm: float

    def triple(self) -> tuple:
        return self.label, self.ids, self.values


def read_with_h5py(path: Path) -> tuple[list[StoredRow], np.ndarray]:
    """(rows in stored order, feature ids): the lines of schema.py's docstring, and nothing of blocksvm."""
    found = []
    with h5py.File(path) as file:
        ids = file["features/ids"][()]
        L = file["indices"].chunks[0]
        for k in range(len(file["chunks"])):
            chunk = file["chunks"][k]
            rows = file["rows"][chunk["first_row"] : chunk["first_row"] + chunk["n_rows"]]
            start = chunk["first_part"] * L
            indices = file["indices"][start : start + chunk["nnz"]]
            values = np.ones(len(indices))
            if "values" in file:
                values = file["values"][start : start + chunk["nnz"]]
            indptr = np.r_[0, rows["length"].cumsum()]
            assert indptr[-1] == chunk["nnz"]
            for i, row in enumerate(rows):
                entries = slice(indptr[i], indptr[i + 1])
                assert (np.diff(indices[entries]) > 0).all()
                order = np.argsort(ids[indices[entries]])
                found.append(
                    StoredRow(
                        int(row["source"]),
                        float(row["label"]),
                        ids[indices[entries]][order].tolist(),
                        values[entries][order].astype(float).tolist(),
                        float(row["sq_norm"]),
                    )
                )
    return found, ids


def in_source_order(path: Path) -> list[tuple]:
    """(label, ids, values) of each row, by its number in the text."""
    return [row.triple() for row in sorted(read_with_h5py(path)[0], key=lambda row: row.source)]
