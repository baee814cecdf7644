"""``h5ad``: the matrix X of an AnnData file, the names of its variables, and a column of obs (``label``) as labels.

A feature's id is the hash of its name, as of a column of a table, so that files meet by names, whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.formats.file_reader import ENTRY_BYTES, Features, FileFormat, SparseRows, require_fit
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.kernels.name_hashes import hash_of
from blocksvm.formats.text.text_source import LineLimit
from blocksvm.store.anndata_file import AnnData, Fault, opened

SPARED = 48 << 20  # bytes for HDF5's chunks, of the 300 MB that a command may take beside its budget


class H5ad(FileFormat):
    name = "h5ad"
    lines = "an AnnData file"

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        n_entries = max(1, n_bytes // (2 * ENTRY_BYTES))
        with opened(name, SPARED + 8 * (n_bytes if limit is None else max(n_bytes, limit.n_bytes)), n_entries) as table:
            labels = None if options.get("label") is None else table.labels(options["label"])
            features, positions = features_of(table, name)
            first = 0
            for lengths, columns, values in table.rows(n_entries):
                require_fit(int(lengths.max()), limit, name)
                last = first + len(lengths)
                own = np.full(last - first, np.nan) if labels is None else labels(first, last)
                own = own if isinstance(own, list) else own + 0.0  # -0 is 0
                yield SparseRows(lengths, positions[columns], values, own, features), last / table.n_rows
                first = last

    @staticmethod
    def rows_of(payload: SparseRows, reading: ReaderOptions) -> SparseRows:
        return payload


def features_of(table: AnnData, name: str) -> tuple[Features, np.ndarray]:
    """The columns of X, and the position of each among them."""
    words: list[bytes] = []
    for first, last in table.pieces(table.n_columns):
        names = table.names(first, last)
        if not isinstance(names, list) or None in names:
            raise Fault("the names of var are no text, or one is missing; give each variable a name")
        words += [name.encode() for name in names]
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    begins = np.append(0, ends[:-1])[: len(ends)]
    ids = np.array([hash_of(word, np.uint64(0)) >> np.uint64(1) for word in words], np.int64)
    rising = np.argsort(ids, kind="stable")
    text = np.frombuffer(b"".join(words), np.uint8)
    features = Features(text, ids[rising], begins[rising], ends[rising])
    again = np.flatnonzero(np.diff(features.ids) == 0)
    if len(again):
        raise InputError(f"{name}: var names {features.name(again[0])} twice; rename one (var_names_make_unique)")
    positions = np.empty(table.n_columns, np.int64)
    positions[rising] = np.arange(table.n_columns)
    return features, positions


H5AD = H5ad()
