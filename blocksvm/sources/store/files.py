"""Files as wholes: kinds and versions, opening with a sentence for every failure, writing under a temporary name."""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py
import numpy as np
from xxhash import xxh3_64_hexdigest

from blocksvm.errors import InputError, switched_on

FORMAT_VERSION = 1
LONGEST_NAME = 230  # bytes; file systems allow 255, and a file's temporary name is longer than its own
MAKERS = {
    "store": "python -m blocksvm.split",
    "model": "python -m blocksvm.train",
    "checkpoint": "python -m blocksvm.train --checkpoint",
}


def check_output(path: Path, overwrite: bool) -> None:
    """Refuse an output that exists (without ``overwrite``) or cannot be written, before any work is done."""
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise InputError(f"{path}: the name is too long; choose one of at most {LONGEST_NAME} bytes")
    if os.path.isdir(path):
        raise InputError(f"{path}: is a folder; give the name of a file to write")
    if os.path.exists(path) and not overwrite:
        raise InputError(f"{path}: exists already; choose another name or add {switched_on('overwrite')}")
    parent = path.parent
    if not parent.is_dir():
        raise InputError(f"{path}: the folder {parent} does not exist; make it first")
    if not os.access(parent, os.W_OK):
        raise InputError(f"{path}: no permission to write in {parent}; choose another place")


@contextmanager
def written_whole(path: Path):
    """A temporary path beside ``path`` that takes its name when the body ends well, and vanishes when it does not."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _new_file(path: Path) -> h5py.File:
    """An empty HDF5 file that does not note when it was written, as older releases of h5py let it."""
    creation, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    creation.set_obj_track_times(False)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    return h5py.File(h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, creation, access))


def create_group(file: h5py.File, name: str) -> h5py.Group:
    """A group that does not note when it was written."""
    creation = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    creation.set_obj_track_times(False)
    return h5py.Group(h5py.h5g.create(file.id, name.encode(), gcpl=creation))


@contextmanager
def create_hdf5(path: Path, kind: str):
    """A new HDF5 file of the given kind, under its final name only when it is whole."""
    with written_whole(path) as partial:
        file = _new_file(partial)
        try:
            write_text_attribute(file, "blocksvm", kind)
            file.attrs["format_version"] = FORMAT_VERSION
            yield file
            file.close()
        except BaseException as error:
            with suppress(OSError, RuntimeError):  # closing fails for the same reason, and the file goes anyway
                file.close()
            number = re.search(r"errno = (\d+)", str(error)) if isinstance(error, (OSError, RuntimeError)) else None
            if number:  # HDF5 tells a full disk in its own words
                raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
            raise


def write_text_attribute(file: h5py.File, name: str, text: str) -> None:
    """Of fixed length: such text lies under HDF5's own checksum, other text in a heap whose damage can hang HDF5."""
    file.attrs.create(name, text, dtype=h5py.string_dtype("ascii", len(text)))


def text_attribute(file: h5py.File, name: str) -> str:
    text = file.attrs[name]
    return text.decode("ascii") if isinstance(text, bytes) else str(text)


def open_hdf5(path: Path, *kinds: str) -> h5py.File:
    """Open an HDF5 file that must be of one of ``kinds``; InputError says what it is instead."""
    wanted = " or ".join(kinds)
    if not path.exists():
        raise InputError(f"{path}: no such file; expected a blocksvm {wanted}")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected a blocksvm {wanted}")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it")
    maker = MAKERS[kinds[0]]
    with open(path, "rb") as start:
        if start.read(8) != b"\x89HDF\r\n\x1a\n":
            raise InputError(f"{path}: is not a blocksvm {wanted} (not an HDF5 file); make one with {maker}")
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise InputError(f"{path}: is truncated or damaged ({first_line(error)}); make it again") from error
    try:
        kind = text_attribute(file, "blocksvm")
        version = int(file.attrs["format_version"])
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        file.close()
        raise InputError(f"{path}: is not a blocksvm {wanted}, or is damaged; make one with {maker}") from error
    if kind not in kinds:
        file.close()
        raise InputError(f"{path}: is a {kind}, but a {wanted} is wanted here; make one with {maker}")
    if version != FORMAT_VERSION:
        file.close()
        age = "newer" if version > FORMAT_VERSION else "older"
        raise InputError(
            f"{path}: has format version {version}, {age} than this program's {FORMAT_VERSION}; "
            f"{'install a newer blocksvm' if version > FORMAT_VERSION else 'make it again'}"
        )
    return file


@contextmanager
def damage_named(file: h5py.File):
    """Turn what h5py raises on damaged or missing parts of a file into one sentence."""
    try:
        yield file
    except InputError:
        raise
    except (KeyError, OSError, RuntimeError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{file.filename}: is damaged ({first_line(error)}); make it again") from error


def first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def write_meta(file: h5py.File, meta: dict) -> None:
    """Store a JSON object and its checksum in the root's attributes."""
    text = json.dumps(meta, sort_keys=True, allow_nan=False)
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    # a dataset, since attributes are limited to 64 kB
    file.create_dataset("meta", data=data)
    write_text_attribute(file, "meta_checksum", xxh3_64_hexdigest(text.encode()))


def read_meta(file: h5py.File) -> dict:
    """The JSON object of ``write_meta``; InputError where it is damaged."""
    try:
        text = file["meta"][()].tobytes()
        if xxh3_64_hexdigest(text) != text_attribute(file, "meta_checksum"):
            raise ValueError("checksum of the description does not match")
        return json.loads(text)
    except (KeyError, OSError, RuntimeError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{file.filename}: is damaged ({first_line(error)}); make it again") from error
