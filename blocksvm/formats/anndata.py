"""``h5ad``: the matrix X of an AnnData file, the names of its variables, and a column of obs (``label``) as labels.

A feature's id is the hash of its name, as of a column of a table, so that files meet by names, whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from blocksvm.errors import InputError
from blocksvm.formats.by_row import ENTRY, by_row
from blocksvm.formats.choices import chosen
from blocksvm.formats.files import ENTRY_BYTES, Features, FileReader, RowRoom, SparseRows, finite, labels_as_kept
from blocksvm.formats.protocol import Reading
from blocksvm.kernels.names import hash_of
from blocksvm.sources.store.anndata import AnnData


class H5ad:
    """The format."""

    lines = "an AnnData file"
    sample = None  # nothing of its own is compiled

    def score(self, head: bytes, name: str) -> float:
        """It is told by its first bytes and its name before text is read."""
        return 0.0

    def settled(self, given: Mapping, head: bytes, name: str) -> dict:
        return chosen("h5ad", given)

    def pieces(self, name: str, options: Mapping, n_bytes: int) -> Iterator[tuple[SparseRows, float]]:
        with AnnData(name) as file:
            encoded = [one.encode() for one in file.names]
            ids = np.array([hash_of(one, np.uint64(0)) >> np.uint64(1) for one in encoded], np.int64)
            ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
            begins = np.append(0, ends[:-1])[: len(ends)]
            rising = np.argsort(ids, kind="stable")
            again = rising[1:][np.diff(ids[rising]) == 0]
            if len(again):
                raise InputError(f"{name}: var names {file.names[again[0]]} twice; rename one (var_names_make_unique)")
            text = np.frombuffer(b"".join(encoded), np.uint8)
            features = Features(text, ids[rising], begins[rising], ends[rising])
            places = np.empty(len(ids), np.int64)
            places[rising] = np.arange(len(ids))
            label = options.get("label")
            wanted = None if label is None else file.labels(label)
            for first, own in rows_in(file, n_bytes):
                last = first + len(own.lengths)
                labels = np.full(last - first, np.nan)
                if wanted is not None:
                    found = wanted(first, last)
                    labels = found if isinstance(found, list) else labels_as_kept(found, f"{name}: obs {label}")
                rows = SparseRows(own.lengths, places[own.ids], own.values, labels, features)
                yield rows, last / file.n_rows

    def reader(self, reading: Reading) -> FileReader:
        return FileReader(reading, rows_of)


def rows_in(file: AnnData, n_bytes: int) -> Iterator[tuple[int, SparseRows]]:
    """(first row, rows whose ids are columns, without labels) of runs of X."""
    if file.by_columns:

        def entries() -> Iterator[np.ndarray]:
            for rows, columns, values in file.triples(max(1, n_bytes // ENTRY.itemsize)):
                found = np.empty(len(rows), ENTRY)
                found["row"], found["column"], found["value"] = rows, columns, values
                yield found

        yield from by_row(entries(), file.n_rows, file.n_entries, n_bytes)
        return
    for first, _, lengths, columns, values in file.entries(max(1, n_bytes // (2 * ENTRY_BYTES))):
        yield first, SparseRows(lengths, columns, values, np.empty(0))


def rows_of(payload: SparseRows, reading: Reading, room: RowRoom) -> SparseRows:
    return finite(payload, payload.name_at)


H5AD = H5ad()
