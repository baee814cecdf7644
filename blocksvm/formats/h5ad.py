"""``h5ad``: the matrix X of an AnnData file (of anndata 0.7 and later), the names of its variables, and a column of obs
(``label``) as labels.  A feature's id is the hash of its name, as of a table's column: files meet by names."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

import h5py
import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.formats.file_reader import FileFormat, damage_named
from blocksvm.formats.matrices import ARRAYS, Features, MatrixReader, Take, csr_rows, dense_rows, sliced, with_labels
from blocksvm.formats.text.text_source import LineLimit
from blocksvm.kernels.hash_table import hash_of
from blocksvm.store.hdf5_files import has, kind_of_member, member

SPARED = 48 << 20  # bytes for HDF5's chunks, of the 300 MB that a command may take beside its budget
SHOWN_COLUMNS = 12  # columns of obs in a sentence


class H5ad(FileFormat):
    name = "h5ad"
    lines = "an AnnData file"
    reader = MatrixReader

    def pieces(self, name: str, options: Mapping, n_bytes: int, limit: LineLimit | None = None) -> Iterator[tuple]:
        import hdf5plugin  # noqa: F401 - the filters that anndata's users choose

        memory = SPARED + 8 * (n_bytes if limit is None else max(n_bytes, limit.n_bytes))
        how = {"locking": False, "rdcc_nbytes": memory // 8}
        with damage_named(name, f"{name}: is damaged"), h5py.File(name, "r", **how) as file:
            table = AnnData(name, file, memory)
            labels = None if options.get("label") is None else table.column("obs", options["label"])
            features, positions = features_of(table.column("var", None)(0, table.shape[1]), name)
            first, *others = table.arrays
            if others:
                takes = [sliced(array) for array in table.arrays]
                rows = csr_rows(name, table.shape, len(others[1]), takes, n_bytes, limit)
            else:
                rows = dense_rows(name, first, n_bytes, limit)
            for part, done in with_labels(rows, table.shape[0], labels):
                yield replace(part, ids=positions[part.ids], features=features), done


def features_of(names: np.ndarray, name: str) -> tuple[Features, np.ndarray]:
    """The columns of X by their names, and the position of each among them."""
    listed = names.tolist()
    if names.dtype != object or None in listed:
        raise InputError(f"{name}: the names of var are no text, or one is missing; give each variable a name")
    words = [one.encode() for one in listed]
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    begins = np.append(0, ends[:-1])[: len(ends)]
    ids = np.array([hash_of(word, np.uint64(0)) >> np.uint64(1) for word in words], np.int64)
    rising = np.argsort(ids, kind="stable")
    text = np.frombuffer(b"".join(words), np.uint8)
    features = Features(text, ids[rising], begins[rising], ends[rising])
    again = np.flatnonzero(np.diff(features.ids) == 0)
    if len(again):
        raise InputError(f"{name}: var names {features.name(again[0])} twice; rename one (var_names_make_unique)")
    positions = np.empty(len(ids), np.int64)
    positions[rising] = np.arange(len(ids))
    return features, positions


class AnnData:
    """An open file whose parts are checked before they are read: as much as they claim, in chunks that fit in memory.
    InputError, ValueError or what h5py raises for what is wrong.  shape: of X; arrays: X, or those of ``ARRAYS``."""

    def __init__(self, name: str, file: h5py.File, memory: int):
        self.name, self.file, self.memory = name, file, memory
        there = kind_of_member(file, "X")
        if there is None:
            raise InputError(f"{name}: has no X{_elsewhere(file)}")
        X = member(file, "X", there)
        kind = "array" if there is h5py.Dataset else _text(X.attrs.get("encoding-type", "a group"))
        if kind not in ("csr_matrix", "array"):
            raise InputError(f"{name}: its X is stored as {kind}, which is not read; write adata with X.tocsr()")
        dense = kind == "array"
        self.arrays = [X] if dense else [member(X, key) for key in ARRAYS]
        shape = X.shape if dense else X.attrs["shape"]
        if len(shape) != 2:
            raise InputError(f"{name}: its X has {len(shape)} dimensions; give a matrix")
        self.shape = int(shape[0]), int(shape[1])
        lengths = [None] if dense else [self.shape[0] + 1, *2 * self.arrays[2].shape]
        for array, length, kinds in zip(self.arrays, lengths, ["biuf"] if dense else ARRAYS.values(), strict=True):
            self._check(array, length)
            if array.dtype.kind not in kinds:
                raise InputError(f"{name}: its {array.name} is of the type {array.dtype}; give numbers")

    def _check(self, dataset: h5py.Dataset, length: int | None = None) -> h5py.Dataset:
        """InputError or ValueError unless it has the length, and the file all of it."""
        if length is not None and dataset.shape != (length,):
            wrong = f"{self.name}: its {dataset.name} has {dataset.shape[0]} entries for the {length} of X; mend it"
            raise InputError(wrong)
        if dataset.chunks is not None:
            one = prod(dataset.chunks) * dataset.dtype.itemsize
            if 2 * one > self.memory:
                cure = f"raise {option('memory')}, or write smaller ones"
                raise InputError(f"{self.name}: its {dataset.name} is stored in chunks of {one / 1e6:,.0f} MB; {cure}")
            wanted = prod(-(-n // chunk) for n, chunk in zip(dataset.shape, dataset.chunks, strict=True))
            whole = dataset.id.get_num_chunks() >= wanted
        else:
            whole = dataset.size * dataset.dtype.itemsize <= os.path.getsize(self.name)
        if not whole:
            raise ValueError(f"{dataset.name} claims more than the file holds")
        return dataset

    def column(self, where: str, name: str | None) -> Take:
        """A column of obs or var by its name, or its index: numbers float64 with nan, or objects: strings and None."""
        length = self.shape[where == "var"]
        if kind_of_member(self.file, where) is h5py.Dataset:
            wrong = f"{self.name}: its {where} is stored as anndata before 0.7 did; write it anew with a later one"
            raise InputError(wrong)
        table = member(self.file, where, h5py.Group)
        index = _text(table.attrs["_index"])
        wanted = index if name is None else name
        there = kind_of_member(table, wanted)
        if there is None or wanted == "__categories":
            columns = ", ".join([one for one in table if one not in (index, "__categories")][:SHOWN_COLUMNS])
            raise InputError(f"{self.name}: {where} has no column {wanted}; its columns are {columns}")
        if there is h5py.Group:
            column = member(table, wanted, h5py.Group)
            if has(column, "values") and has(column, "mask"):
                values, missing = self._plain(member(column, "values"), length), missing_of(column["values"])
                mask = self._check(member(column, "mask"), length)
                return lambda first, last: np.where(mask[first:last].astype(bool), missing, values(first, last))
            if not (has(column, "codes") and has(column, "categories")):
                wrong = f"{self.name}: the column {wanted} of {where} is neither an array, categorical nor nullable"
                raise InputError(wrong)
            codes, known = member(column, "codes"), self._categories(column, "categories")
        else:
            codes = member(table, wanted)
            if "categories" not in codes.attrs:
                return self._plain(codes, length)
            known = self._categories(member(table, "__categories", h5py.Group), wanted)  # as anndata 0.7 wrote them
        self._check(codes, length)
        if codes.dtype.kind not in "iu":
            raise ValueError(f"{codes.name} holds no codes")

        def taken(first: int, last: int) -> np.ndarray:
            own = np.maximum(codes[first:last].astype(np.int64), -1)
            if own.size and own.max() >= len(known) - 1:
                raise ValueError(f"a code lies beyond the categories of {codes.name}")
            return known[own]

        return taken

    def _categories(self, group: h5py.Group, name: str) -> np.ndarray:
        """What the codes of a column mean, that of -1, which is none, at the end."""
        if kind_of_member(group, name) is h5py.Group:  # pandas' strings, none of which is missing here
            group, name = member(group, name, h5py.Group), "values"
        dataset = member(group, name)
        return np.append(self._plain(dataset, len(dataset))(0, len(dataset)), missing_of(dataset))

    def _plain(self, dataset: h5py.Dataset, length: int) -> Take:
        self._check(dataset, length)
        if missing_of(dataset) is None:
            return lambda first, last: dataset.asstr()[first:last]
        if dataset.dtype.kind not in "biuf":
            raise InputError(f"{self.name}: its {dataset.name} is of the type {dataset.dtype}; give numbers or strings")
        return lambda first, last: dataset[first:last].astype(np.float64) + 0.0  # -0 is 0


def _text(value) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _elsewhere(file: h5py.File) -> str:
    """The advice where there is no X."""
    layers = list(member(file, "layers", h5py.Group))[:SHOWN_COLUMNS] if has(file, "layers") else []
    if layers:
        return f" (its layers: {', '.join(layers)}); set adata.X to the one that is meant, and write it anew"
    return " (it has raw); write adata.raw.to_adata()" if has(file, "raw") else "; give it a matrix"


def missing_of(dataset: h5py.Dataset) -> float | None:
    """What stands for a missing string, or a missing number."""
    return None if h5py.check_string_dtype(dataset.dtype) is not None else np.nan


H5AD = H5ad()
