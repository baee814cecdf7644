"""Rows of a store, read with h5py alone; and all that the package tells of a store."""

import json
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


def entries_of_row(words: np.ndarray, values: str) -> tuple[np.ndarray, np.ndarray, int]:
    """(features, values, how many words) of the row that begins these words (m,) uint64, as the docstring of
    kernels/rows.py tells; values: as the description of a store names them."""
    raw = words.astype("<u8").tobytes()
    n_hot, n_cold = np.frombuffer(raw, "<u4", 2).tolist()
    count = 0
    if n_hot >= 1 << 31:
        n_hot, n_cold, count = n_hot - (1 << 31), n_cold % (1 << 24), (n_cold >> 24) + 1
    n, at = n_hot + n_cold, 8 + 4 * n_cold + 2 * n_hot
    cold, hot = np.frombuffer(raw, "<u4", n_cold, 8), np.frombuffer(raw, "<u2", n_hot, 8 + 4 * n_cold)
    features = np.concatenate([hot.astype(np.int32), cold.astype(np.int32)])
    if values == "ones":
        assert count == 0
        return features, np.ones(n), -(-at // 8)
    dtype, codes = np.dtype(values), np.zeros(n, int) if count else np.arange(n)
    if count > 1:
        codes, at = np.frombuffer(raw, "u1", n, at), at + n
    at = -(-at // dtype.itemsize) * dtype.itemsize
    own = np.frombuffer(raw, dtype, count or n, at) if n else np.empty(0, dtype)
    return features, own[codes], -(-(at + own.nbytes) // 8)


def entries_of_chunk(file: h5py.File, chunk) -> list[tuple[np.ndarray, np.ndarray]]:
    """(features, values) of each row of a chunk, a record of /chunks, as HDF5 and its own filters give them."""
    values = json.loads(file["meta"][()].tobytes())["values"]
    start, found, at = int(chunk["first_part"]) * file["words"].chunks[0], [], 0
    words = file["words"][start : start + int(chunk["words"])]
    for _ in range(chunk["n_rows"]):
        *entries, n_words = entries_of_row(words[at:], values)
        found.append(tuple(entries))
        at += n_words
    assert at == len(words) and sum(len(features) for features, _ in found) == chunk["nnz"]
    return found


def read_with_h5py(path: Path) -> tuple[list[StoredRow], np.ndarray]:
    """(rows in stored order, feature ids): the lines of descriptions.py's docstring, and nothing of blocksvm."""
    found = []
    with h5py.File(path) as file:
        ids = file["features/ids"][()]
        for chunk in file["chunks"]:
            rows = file["rows"][chunk["first_row"] : chunk["first_row"] + chunk["n_rows"]]
            assert xxh3_64_intdigest(rows.tobytes()) == int(chunk["rows_checksum"])
            for row, (features, values) in zip(rows, entries_of_chunk(file, chunk), strict=True):
                assert (np.diff(features) > 0).all()
                order = np.argsort(ids[features])
                own = ids[features][order].tolist(), values[order].astype(float).tolist()
                weight = float(row["weight"]) if "weight" in rows.dtype.names else 1.0
                found.append(StoredRow(int(row["source"]), float(row["label"]), *own, float(row["sq_norm"]), weight))
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
            arrays += [store.chunks.first_row, store.chunks.n_rows, store.chunks.nnz, store.chunks.words]
            told = [None if array is None else array.tobytes() for array in arrays]
            labels = [store.read_labels(k).tolist() for k in chunks]
            return repr((told, labels, store.feature_names(0, store.n_features), store.meta, store.fingerprint))
    except InputError as error:
        return error
