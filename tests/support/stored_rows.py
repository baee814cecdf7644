"""Rows of a store, read with h5py alone; and all that the package tells of a store."""

from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401 (registers the filter)
import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError
from blocksvm.store.reader import Store


@dataclass(frozen=True)
class StoredRow:
    """A row of a store by the user's names: source number, label, ids ascending, values, ||x||^2, weight."""

    source: int
    label: float
    ids: list[int]
    values: list[float]
    sq_norm: float
    weight: float = 1.0

    def triple(self) -> tuple:
        return self.label, self.ids, self.values


def read_with_h5py(path: Path) -> tuple[list[StoredRow], np.ndarray]:
    """(rows in stored order, feature ids): the lines of descriptions.py's docstring, and nothing of blocksvm."""
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
            assert xxh3_64_intdigest(rows.tobytes()) == int(chunk["rows_checksum"])
            indptr = np.r_[0, rows["length"].cumsum()]
            assert indptr[-1] == chunk["nnz"]
            for i, row in enumerate(rows):
                entries = slice(indptr[i], indptr[i + 1])
                assert (np.diff(indices[entries]) > 0).all()
                order = np.argsort(ids[indices[entries]])
                found.append(
                    StoredRow(int(row["source"]), float(row["label"]), ids[indices[entries]][order].tolist(),
                              values[entries][order].astype(float).tolist(), float(row["sq_norm"]),
                              float(row["weight"]) if "weight" in rows.dtype.names else 1.0),
                )  # fmt: skip
    return found, ids


def in_source_order(path: Path) -> list[tuple]:
    """(label, ids, values) of each row, by its number in the text."""
    return [row.triple() for row in sorted(read_with_h5py(path)[0], key=lambda row: row.source)]


def by_name(path: Path) -> list[tuple]:
    """(label, {name: value}) of each row, by its number in the text."""
    with Store(path) as store:
        ids, names = store.feature_ids(0, store.n_features), store.feature_names(0, store.n_features)
    known = dict(zip(ids.tolist(), names, strict=True))
    rows = in_source_order(path)
    return [(label, dict(zip([known[i] for i in own], values, strict=True))) for label, own, values in rows]


def content(path: Path) -> str | InputError:
    """Everything that a store tells, read and verified in every way that it can be, or how it is refused."""
    try:
        with Store(path) as store:
            store.verify()
            chunks = range(len(store.chunks))
            block = store.read_block(np.arange(len(store.chunks)), None)
            arrays = [block.indptr, block.indices, block.values, block.y, block.sq_norms, block.rows, block.weights]
            arrays += [store.feature_ids(0, store.n_features), *(store.read_rows(k) for k in chunks)]
            arrays += [store.chunks.first_row, store.chunks.n_rows, store.chunks.nnz]
            told = [None if array is None else array.tobytes() for array in arrays]
            labels = [store.read_labels(k).tolist() for k in chunks]
            return repr((told, labels, store.feature_names(0, store.n_features), store.meta, store.fingerprint))
    except InputError as error:
        return error
