"""Our HDF5 files as wholes: kinds and versions, descriptions, opening with a sentence for every failure, and new ones,
which HDF5 writes into a ``NewFile``, which sees every error."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from xxhash import xxh3_64_hexdigest

from blocksvm.base.errors import InputError
from blocksvm.files.input import open_input, system_number
from blocksvm.files.output import NewFile, new_files
from blocksvm.files.paths import Location, ObjectUrl, location, require_same
from blocksvm.store.descriptions import Description, as_json, parse

# of each kind of file; no other one is read
VERSIONS = {"store": 4, "model": 3, "checkpoint": 3, "structure": 2}
MAKERS = {"store": "blocksvm split", "model": "blocksvm train", "checkpoint": "blocksvm train --checkpoint",
          "structure": "blocksvm structure train"}  # fmt: skip
NAMES = {kind: kind for kind in VERSIONS} | {"structure": "structured model"}
# words of HDF5 on a sound file that someone has open -> ours
HELD_OPEN = {
    "already open for write": "is open for writing in another program, or was when that was killed; close it there, or "
    "make it again where none has it open",
    "locking flag values": "is open in this program by h5py; close it there, or open it with locking=False",
}


def write_text_attribute(file: h5py.File, name: str, text: str) -> None:
    """Of fixed length: such text lies under HDF5's own checksum, other text in a heap whose damage can hang HDF5."""
    file.attrs.create(name, text, dtype=h5py.string_dtype("ascii", len(text)))


def text_attribute(file: h5py.File, name: str) -> str:
    """ValueError where it is of a type that h5py does not know."""
    try:
        text = file.attrs[name]
    except TypeError as error:
        raise ValueError(f"the attribute {name} is of an unknown type") from error
    return text.decode("ascii") if isinstance(text, bytes) else str(text)


class OpenHdf5(h5py.File):
    """A file of a known kind that is read: where closing it fails nothing is lost."""

    kind = ""

    def close(self) -> None:
        with suppress(OSError, RuntimeError):
            super().close()


def open_hdf5(path: str | Location, *kinds: str) -> OpenHdf5:
    """Open an HDF5 file or object, which must be of one of ``kinds``; InputError says what it is instead."""
    path = location(path)
    wanted = "store, model or checkpoint" if len(kinds) == len(MAKERS) else " or ".join([NAMES[k] for k in kinds])
    maker = MAKERS[kinds[0]]
    if not path.exists() or path.is_dir():
        what = "is a folder" if path.exists() else "no such file"
        raise InputError(f"{path}: {what}; expected a blocksvm {wanted}")
    if isinstance(path, ObjectUrl):
        from blocksvm.files.remote import ObjectFile

        reading = partial(ObjectFile, path.remote)
    elif os.access(path, os.R_OK):
        reading = partial(open_input, path)
    else:
        raise InputError(f"{path}: no permission to read it")
    with reading() as start:
        first = start.read(12)
        if first == b"solver_type " and "model" in wanted:
            raise InputError(f"{path}: is a model of LIBLINEAR; make one of ours by blocksvm import {path} MODEL.h5")
        if first[:8] != b"\x89HDF\r\n\x1a\n":
            raise InputError(f"{path}: is not a blocksvm {wanted} (not an HDF5 file); make one with {maker}")
    try:
        file = OpenHdf5(reading(), "r") if isinstance(path, ObjectUrl) else OpenHdf5(path, "r", locking=False)
    except OSError as error:
        for words, sentence in HELD_OPEN.items():
            if words in str(error):
                raise InputError(f"{path}: {sentence}") from error
        raise damage(path, error, "is truncated or damaged") from error
    try:
        if not isinstance(path, ObjectUrl):
            require_same(path, os.fstat(file.id.get_vfd_handle()))
        try:
            file.kind = kind = text_attribute(file, "blocksvm")
            version = int(text_attribute(file, "format_version"))
        except DAMAGE as error:
            if system_number(error) is not None:
                raise damage(path, error) from error
            raise InputError(f"{path}: is not a blocksvm {wanted}, or is damaged; make one with {maker}") from error
        if kind not in kinds:
            kind = NAMES.get(kind, kind)
            raise InputError(f"{path}: is a {kind}, but a {wanted} is needed here; make one with {maker}")
        if version != (ours := VERSIONS[kind]):
            age, advice = ("newer", "install a newer blocksvm") if version > ours else ("older", "make it again")
            raise InputError(f"{path}: has format version {version}, {age} than this program's {ours}; {advice}")
    except BaseException:
        file.close()
        raise
    return file


# What h5py, numpy and we raise on damaged or missing parts of a file.  AttributeError, TypeError and the like are
# faults of a program: where a file can cause one, what it has is looked at before.
DAMAGE = (LookupError, OSError, RuntimeError, ValueError, ArithmeticError)


def has(group, name: str) -> bool:
    """Whether a group has something of this name, a link included, which is not followed: it could lead anywhere."""
    return "/" not in name and group.id.links.exists(name.encode())


def kind_of_member(group, name: str) -> type | None:
    """h5py.Group or h5py.Dataset, None where there is none of this name; ValueError for a link to somewhere else."""
    if not has(group, name):
        return None
    if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        raise ValueError(f"{name} is a link to somewhere else")
    kinds = {h5py.h5o.TYPE_GROUP: h5py.Group, h5py.h5o.TYPE_DATASET: h5py.Dataset}
    return kinds.get(h5py.h5o.get_info(group.id, name.encode()).type, h5py.Datatype)


def member(group, name: str, kind: type = h5py.Dataset):
    """A dataset (or group) of a file; ValueError unless it lies in this very file, under a plain name.

    Links, virtual datasets and data in other files are not followed: another's file could lead anywhere.
    """
    there = kind_of_member(group, name)
    if there is not kind:
        raise ValueError(f"{name} is missing" if there is None else f"{name} is not a {kind.__name__.lower()}")
    entry = group[name]
    if kind is h5py.Dataset:
        if entry.is_virtual or entry.external:
            raise ValueError(f"{name} lies in other files")
        try:
            known = entry.shape is not None and entry.dtype is not None
        except TypeError:
            known = False
        if not known:
            raise ValueError(f"{name} is of an unknown type, or empty")
    return entry


group = partial(member, kind=h5py.Group)  # group(file, name)


def read_table(group, name: str, dtype, length: int | None = None) -> np.ndarray:
    """A whole 1-D dataset, stored as it is; ValueError: of another type or length, or larger than the file."""
    dataset = member(group, name)
    if dataset.dtype != dtype or dataset.ndim != 1 or length not in (None, dataset.shape[0]):
        raise ValueError(f"{dataset.name} is not of the expected type or length")
    n_bytes = dataset.shape[0] * dataset.dtype.itemsize
    if dataset.chunks is not None or (n_bytes and dataset.id.get_offset() is None):
        raise ValueError(f"{dataset.name} is not stored as expected")
    if n_bytes > group.file.id.get_filesize():
        raise ValueError(f"{dataset.name} claims to be larger than the file")
    return dataset[()]


@contextmanager
def damage_named(file: h5py.File) -> Iterator[None]:
    """Turn what h5py raises on damaged or missing parts of a file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except DAMAGE as error:
        raise damage(file.filename, error) from error


def damage(path: str | Location, error: BaseException, what: str = "is damaged") -> Exception:
    """The exception for a file of ours that cannot be read: OSError where the system refused, else InputError."""
    number = system_number(error)
    if number is not None:
        return OSError(number, os.strerror(number), str(path))
    return InputError(f"{path}: {what} ({first_line(error)}); make it again")


def first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def write_meta(file: h5py.File, meta: Description) -> None:
    """Store the description of a file of this kind as JSON, and its checksum in the root's attributes."""
    text = json.dumps(as_json(meta), sort_keys=True, allow_nan=False)
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    # a dataset, since attributes are limited to 64 kB
    file.create_dataset("meta", data=data)
    write_text_attribute(file, "meta_checksum", xxh3_64_hexdigest(text.encode()))


def read_meta(file: h5py.File) -> Any:
    """The ``Description`` of a file of its kind; InputError where it is damaged or lacks what it must have."""
    try:
        text = read_table(file, "meta", np.dtype(np.uint8)).tobytes()
        if xxh3_64_hexdigest(text) != text_attribute(file, "meta_checksum"):
            raise ValueError("checksum of the description does not match")
        return parse(text, text_attribute(file, "blocksvm"))
    except DAMAGE as error:
        raise damage(file.filename, error) from error


@contextmanager
def opened(path: str | Location, *kinds: str) -> Iterator[tuple[h5py.File, Any]]:
    """A file as ``open_hdf5`` has it, and its description; while it is open its damage is named."""
    with open_hdf5(path, *kinds) as file, damage_named(file):
        yield file, read_meta(file)


class NewHdf5(h5py.File):
    """A file that is being written; ``sink`` is what its bytes go to."""

    def __init__(self, sink: NewFile):
        creation, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        creation.set_obj_track_times(False)  # equal contents are equal files
        access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
        access.set_fileobj_driver(h5py.h5fd.fileobj_driver, sink)
        super().__init__(h5py.h5f.create(os.fsencode(sink.partial), h5py.h5f.ACC_TRUNC, creation, access))
        self.sink = sink

    def create_group(self, name: str) -> h5py.Group:
        """A group that does not note when it was written."""
        creation = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
        creation.set_obj_track_times(False)
        return h5py.Group(h5py.h5g.create(self.id, name.encode(), gcpl=creation))


@contextmanager
def create_hdf5(
    paths: Sequence[Location], kind: str, overwrite: bool = True, temp: Path | None = None
) -> Iterator[list[NewHdf5]]:
    """New HDF5 files of the given kind, of which none takes its name before all are whole; without ``overwrite``
    InputError where there is a file of a name by then; temp: where objects are made."""
    with new_files(paths, overwrite, temp) as sinks:
        files: list[NewHdf5] = []
        try:
            for sink in sinks:
                files.append(NewHdf5(sink))
                write_text_attribute(files[-1], "blocksvm", kind)
                files[-1].attrs["format_version"] = VERSIONS[kind]
            yield files
            for file in files:
                file.close()
        except BaseException as error:
            failed = [sink.error for sink in sinks if sink.error is not None]
            for sink in sinks:
                sink.error = sink.error or error  # from now on nothing is written
            for file in files:
                with suppress(OSError, RuntimeError, ValueError):
                    file.close()
            if failed and error is not failed[0]:  # HDF5 stumbled over what was not written
                raise failed[0] from error
            raise
