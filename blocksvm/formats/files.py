"""Rows from files that are no text: each format reads runs of rows in its own way, and all of them are closed in one.

A format of files is a ``Format`` that also has ``pieces(name, options, n_bytes)``, the runs of rows of a file that take
about so many bytes each, as (payload, fraction of the file), and whose reader turns a payload into rows.  Which one it
is the first bytes of a file tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xxhash import xxh3_128

from blocksvm.errors import InputError
from blocksvm.formats import AUTO, format_named
from blocksvm.formats.protocol import EXPANSION, Reading, Room
from blocksvm.formats.text import TextInputs, TextSource
from blocksvm.kernels.numbers import FINE
from blocksvm.kernels.text import BIG_NORM, DUPLICATE, close_rows
from blocksvm.rows import Origin, RowBatch, runs

DIGESTED = 1 << 22  # bytes of a file that are hashed at a time
ENTRY_BYTES = 16  # of a row under way


@dataclass(frozen=True)
class RowPiece:
    """A run of rows of one file, not yet in our form; ``fraction`` of all input read so far."""

    source: TextSource
    payload: object
    fraction: float


@dataclass(frozen=True)
class SparseRows:
    """Rows as they were read: lengths (n,) int64 >= 0, ids (nnz,) int64, values (nnz,) float64, labels (n,) float64
    with nan or a list with None.

    names: of features that have some (bytes, ids (d,) int64 rising, first (d,), last (d,) int64): that of ids[j] is
    bytes[first[j]:last[j]].
    """

    lengths: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    labels: np.ndarray | list
    names: tuple | None = None

    def name_of(self, feature_id: int) -> str:
        """The name of a feature that has one."""
        text, ids, first, last = self.names
        j = int(np.searchsorted(ids, feature_id))
        return text[first[j] : last[j]].tobytes().decode()

    def name_at(self, entry: int) -> str:
        """The name of an entry's feature."""
        return self.name_of(int(self.ids[entry]))


class FileInputs:
    """Files of rows, one behind the other, as ``TextInputs`` are of text."""

    def __init__(self, names: list[str], format_: str, options: Mapping):
        self.names = names
        self.format = format_
        self.options = options

    def __enter__(self) -> FileInputs:
        return self

    def __exit__(self, *error) -> None:
        pass

    def head(self, lines: int = 1) -> bytes:
        return b""

    def pieces(self, piece_bytes: int, limit, eager: bool = False, digested: bool = True, spare=None):
        """``RowPiece``s of about ``piece_bytes``."""
        format_ = format_named(self.format)
        for k, name in enumerate(self.names):
            source = TextSource(name, self._size(name))
            source.text_bytes = source.stored_bytes
            for payload, done in format_.pieces(name, self.options, piece_bytes):
                yield RowPiece(source, payload, (k + done) / len(self.names))
            if digested:
                source.fingerprint = fingerprint_of(name)

    @staticmethod
    def _size(name: str) -> int:
        if not os.path.isfile(name):
            raise InputError(f"{name}: is no file; such rows are read from files alone")
        return os.path.getsize(name)


def inputs_of(names: list[str], recipe, stop=lambda: False) -> TextInputs | FileInputs:
    """What is read of the inputs: text, or rows of files whose format the recipe names, or the first bytes tell."""
    name = magic_of(names[0]) if recipe.format == AUTO else recipe.format
    if name is None or not hasattr(format_named(name), "pieces"):
        return TextInputs(names, stop)
    return FileInputs(names, name, recipe.options)


MAGIC = {b"PK\x03\x04": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet", b"ARROW1": "arrow"}
HDF5 = b"\x89HDF\r\n\x1a\n"


def magic_of(name: str) -> str | None:
    """The format of files that a file's first bytes tell; None where they tell none."""
    if not Path(name).is_file():
        return None
    with open(name, "rb") as file:
        head = file.read(8)
    if head == HDF5 and name.lower().endswith(".h5ad"):
        return "h5ad"
    return next((format_ for start, format_ in MAGIC.items() if head.startswith(start)), None)


def fingerprint_of(name: str) -> str:
    """Equal only for equal files."""
    digest = xxh3_128()
    with open(name, "rb") as file:
        while piece := file.read(DIGESTED):
            digest.update(piece)
    return digest.hexdigest()


class FileReader:
    """Payloads to rows; ``rows_of(payload, reading)`` gives ``SparseRows``, or raises ``RowFault``."""

    expansion = EXPANSION

    def __init__(self, reading: Reading, rows_of):
        self.reading = reading
        self.rows_of = rows_of

    def room(self, n_bytes: int) -> Room:
        return Room(0, 0)

    def parse(self, piece: RowPiece, room: Room | None = None) -> RowBatch:
        recipe = self.reading.recipe
        fault = None
        try:
            rows = self.rows_of(piece.payload, self.reading)
        except RowFault as wrong:
            rows, fault = wrong.before, (len(wrong.before.lengths), str(wrong))
        n = len(rows.lengths)
        indptr = np.append(0, np.cumsum(rows.lengths, dtype=np.int64))
        ids, values, labels, names = rows.ids, rows.values, rows.labels, rows.names
        done, code, entry, largest = close_rows(
            indptr, 0, n, ids, values, recipe.sums, recipe.l2, recipe.single
        )  # fmt: skip
        if code != FINE:
            fault = done, self._row_fault(code, rows, ids[entry])
        nnz = indptr[done]
        ids = ids[:nnz]
        if names is not None and self.reading.named:
            places = np.searchsorted(names[1], ids)
            names = (names[0], names[2][places], names[3][places])
        else:
            names = None
        origin = Origin(piece.source, piece.fraction, n, np.arange(done))
        return RowBatch(
            labels[:done], indptr[: done + 1], ids, values[:nnz], origin, names=names, fault=fault, largest=largest
        )

    def _row_fault(self, code: int, rows: SparseRows, feature_id: int) -> str:
        """The sentence for what ``close_rows`` found."""
        if code == BIG_NORM:
            return "the squares of the row's values add up to more than float64 holds; scale the features"
        feature = f"feature id {feature_id}" if rows.names is None else rows.name_of(feature_id)
        return self.reading.twice(feature) if code == DUPLICATE else self.reading.too_large(feature)


class RowFault(InputError):
    """What is wrong with a row; before: those that come before it in the payload."""

    def __init__(self, sentence: str, before: SparseRows):
        super().__init__(sentence)
        self.before = before


def finite(rows: SparseRows, told) -> SparseRows:
    """The rows, if all of their values are finite; else RowFault, told(entry) names the feature of the first."""
    wrong = np.flatnonzero(~np.isfinite(rows.values))
    if not len(wrong):
        return rows
    entry = int(wrong[0])
    ends = np.cumsum(rows.lengths)
    row = int(np.searchsorted(ends, entry, side="right"))
    begin = int(ends[row] - rows.lengths[row])
    before = SparseRows(rows.lengths[:row], rows.ids[:begin], rows.values[:begin], rows.labels[:row], rows.names)
    raise RowFault(f"the value of {told(entry)} is not a finite number; leave it out or give it one", before)


def labels_as_kept(found: np.ndarray, where: str) -> np.ndarray | list:
    """Labels of a file: (n,) float64 of numbers, a list of strings; InputError for what is neither."""
    if found.dtype.kind in "biuf":
        return found.astype(np.float64) + 0.0  # -0 is 0
    if found.dtype.kind in "US":
        return [one.decode() if isinstance(one, bytes) else one for one in found.tolist()]
    raise InputError(f"{where}: its labels are of the type {found.dtype}; give numbers or strings")


def runs_of(indptr: np.ndarray, n_bytes: int) -> Iterator[tuple[int, int]]:
    """(first, last) of runs of rows, one after the other, whose entries take about so many bytes; a row at least."""
    return runs(indptr, n_bytes // ENTRY_BYTES, max(1, n_bytes // ENTRY_BYTES))
