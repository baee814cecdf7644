"""Long arrays in any of our HDF5 files: compressed in pieces, each under a checksum, written and read piecewise.

An array ``name`` is a 1-D dataset of Blosc chunks with the checksums of its pieces beside it in ``name.xxh3``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import h5py
import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.outputs.writing import system_number
from blocksvm.store import codec
from blocksvm.store.hdf5_files import DAMAGE, create_group, damage, first_line, group, has, is_group, member, read_table

PIECE = 1 << 17  # elements
SUMS = ".xxh3"  # ends the names of arrays of checksums
DEEPEST = 3  # groups in which an array lies, the file itself not counted


def blosc_dataset(group, name: str, shape, dtype, chunk: int, maxshape=None) -> h5py.Dataset:
    """An empty 1-D dataset whose chunks hold what ``codec.encode`` makes, readable by any HDF5 with hdf5plugin."""
    import hdf5plugin

    options = hdf5plugin.Blosc(cname=codec.CODEC, clevel=codec.LEVEL, shuffle=hdf5plugin.Blosc.SHUFFLE)
    return group.create_dataset(
        name, shape=shape, maxshape=maxshape, dtype=dtype, chunks=(chunk,), fillvalue=0, **dict(options)
    )


def write_array(group, name: str, length: int, dtype, piece_at: Callable[[int, int], np.ndarray]) -> None:
    """Write ``length`` elements, asking ``piece_at(start, stop)`` for each piece in turn."""
    chunk = min(PIECE, max(1, length))
    # an array without entries has an HDF5 chunk longer than itself, which a fixed shape must not have
    dataset = blosc_dataset(group, name, (length,), dtype, chunk, maxshape=None if length else (None,))
    checksums = []
    for start in range(0, length, chunk):
        stop = min(start + chunk, length)
        piece = np.zeros(chunk, dtype=dtype)
        piece[: stop - start] = piece_at(start, stop)
        raw = codec.encode(piece)
        dataset.id.write_direct_chunk((start,), raw)
        checksums.append(codec.checksum(raw))
    group.create_dataset(name + SUMS, data=np.array(checksums, dtype=np.uint64))


def write_arrays(group: h5py.Group, arrays: Mapping[str, np.ndarray]) -> None:
    """Write 1-D arrays into a group."""
    for name, array in arrays.items():
        write_array(group, name, len(array), array.dtype, lambda start, stop, array=array: array[start:stop])


def read_pieces(group, name: str, dtype, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
    """(start, piece) for each piece of an array that has entries from ``begin`` to ``end``, verified; InputError where
    it is damaged or missing."""
    try:
        dataset, chunk = _array(group, name)
        checksums = read_table(group, name + SUMS, np.dtype(np.uint64))
        length = dataset.shape[0]
        if dataset.dtype != dtype or len(checksums) != -(-length // chunk):
            raise ValueError("not of the expected type or length")
    except DAMAGE as error:
        raise damaged(group, name, error) from error
    piece = np.empty(chunk, dtype=dtype)
    end = length if end is None else min(end, length)
    for k in range(begin // chunk, -(-end // chunk)):
        start = k * chunk
        try:
            _, raw = dataset.id.read_direct_chunk((start,))
            if codec.checksum(raw) != int(checksums[k]):
                raise ValueError("checksum does not match")
            with codec.one_thread():
                codec.decode(raw, piece)
        except DAMAGE as error:
            raise damaged(group, f"{name}, piece {k}", error, "is damaged") from error
        yield start, piece[: min(chunk, length - start)]


def copy_arrays(parent: h5py.Group, to: h5py.Group, deep: int = 0) -> None:
    """Write the arrays of a group, and of those in it, into another one; InputError names one that is damaged,
    ValueError is raised for groups that lie deeper than ours do."""
    for name in parent:
        if is_group(parent, name):
            if deep == DEEPEST:
                raise ValueError(f"{parent.name} lies too deep")
            copy_arrays(group(parent, name), create_group(to, name), deep + 1)
        elif has(parent, name + SUMS):
            dtype, length = member(parent, name).dtype, require_length(parent, name, None)
            write_array(to, name, length, dtype, partial(read_range, parent, name, dtype))


def verify_arrays(parent, deep: int = 0) -> None:
    """Read the arrays of a group, and of those in it, against their checksums; InputError names one that is damaged,
    ValueError is raised for groups that lie deeper than ours do."""
    for name in parent:
        if is_group(parent, name):
            if deep == DEEPEST:
                raise ValueError(f"{parent.name} lies too deep")
            verify_arrays(group(parent, name), deep + 1)
        elif has(parent, name + SUMS):
            for _ in read_pieces(parent, name, member(parent, name).dtype):
                pass


def read_array(group, name: str, dtype, length: int | None) -> np.ndarray:
    """The whole array, which must have ``length`` elements (None: as many as it has)."""
    return read_range(group, name, dtype, 0, require_length(group, name, length))


def read_range(group, name: str, dtype, begin: int, end: int) -> np.ndarray:
    """Elements begin..end-1 of an array, which must have them."""
    if end > require_length(group, name, None):  # before memory is taken for them
        raise damaged(group, name, ValueError(f"does not have {end} elements"))
    out = np.empty(max(0, end - begin), dtype=dtype)
    for start, piece in read_pieces(group, name, dtype, begin, end):
        low, high = max(begin, start), min(end, start + len(piece))
        out[low - begin : high - begin] = piece[low - start : high - start]
    return out


def require_length(group, name: str, length: int | None) -> int:
    """The elements of the array; InputError where these are not ``length``: before memory is taken for them."""
    try:
        shape = _array(group, name)[0].shape
    except DAMAGE as error:
        raise damaged(group, name, error) from error
    if length not in (None, shape[0]):
        raise InputError(
            f"{group.file.filename}: {group.name.rstrip('/')}/{name}: does not have {length} elements; "
            "the file is damaged, make it again"
        )
    return shape[0]


def _array(group, name: str) -> tuple[h5py.Dataset, int]:
    """(dataset, elements of a piece) of an array; ValueError where it claims more pieces than it has checksums."""
    dataset = member(group, name)
    (length,), (chunk,) = dataset.shape, dataset.chunks
    if chunk > PIECE or member(group, name + SUMS).shape != (-(-length // chunk),):
        raise ValueError("not of the expected length")
    return dataset, chunk


def damaged(group, name: str, error: BaseException, what: str = "is missing or damaged") -> Exception:
    """The exception for an array that cannot be read."""
    if system_number(error) is not None:
        return damage(group.file.filename, error)
    where = f"{group.file.filename}: {group.name.rstrip('/')}/{name}"
    return InputError(f"{where}: {what} ({first_line(error)}); make the file again")
