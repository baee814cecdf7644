"""Long arrays in any of our HDF5 files: 1-D datasets in HDF5 chunks, each under HDF5's own checksum (Fletcher's), text
deflated.  So any HDF5 reads them, and no part of one without its checksum; they are written and read piece by piece."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import h5py
import msgspec
import numpy as np
from xxhash import xxh3_128

from blocksvm.base.errors import InputError
from blocksvm.files.input import system_number
from blocksvm.store.hdf5_files import DAMAGE, damage, first_line, group, kind_of_member, member

BYTES, ENDS, NUMBERS = (np.dtype(kind) for kind in ("u1", "i8", "f8"))
PIECE = 1 << 17  # elements
DEEPEST = 3  # groups in which an array lies, the file itself not counted
FILTERS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_FLETCHER32)  # all that HDF5 may undo: others could be anyone's code
MORE = 1 << 10  # bytes that a checksum, and deflation of what does not shrink, may add to a chunk


@dataclass(frozen=True)
class Piecewise:
    """An array that is made piece by piece: ``length`` elements of ``dtype``, ``piece(start, stop)`` gives some."""

    length: int
    dtype: Any
    piece: Callable[[int, int], np.ndarray]


def in_pieces(array: np.ndarray) -> Piecewise:
    """An array in memory; of two dimensions as one row after the other, wherever they lie."""
    rows = array.reshape(1, -1) if array.flags.c_contiguous else np.atleast_2d(array)
    width = rows.shape[1]

    def piece(start: int, stop: int) -> np.ndarray:
        some = range(start // width, -(-stop // width))
        return np.concatenate([rows[r, max(0, start - r * width) : stop - r * width] for r in some])

    return Piecewise(array.size, array.dtype, piece)


def write_array(group, name: str, array: np.ndarray | Piecewise) -> bytes:
    """Write an array, asking for each piece in turn; returns an xxHash of it."""
    source = array if isinstance(array, Piecewise) else in_pieces(array)
    length, dtype = source.length, source.dtype
    chunk, digest = min(PIECE, max(1, length)), xxh3_128()
    deflated = {"compression": "gzip", "compression_opts": 1} if dtype == BYTES else {}
    # an array without entries has an HDF5 chunk longer than itself, which a fixed shape must not have
    dataset = group.create_dataset(
        name, (length,), dtype, chunks=(chunk,), maxshape=None if length else (None,), fletcher32=True, **deflated
    )
    for start in range(0, length, chunk):
        piece = np.ascontiguousarray(source.piece(start, min(start + chunk, length)), dtype)
        dataset[start : start + len(piece)] = piece
        digest.update(piece)
    return digest.digest()


def write_arrays(group: h5py.Group, arrays: Mapping[str, np.ndarray | Piecewise]) -> bytes:
    """Write several into a group; returns their xxHashes."""
    return b"".join([write_array(group, name, array) for name, array in arrays.items()])


def opened_array(group, name: str, dtype=None, length: int | None = None, whole: bool = True) -> h5py.Dataset:
    """An array, of which nothing is read; InputError where it is missing, of another type or length (None: any), not
    stored as we do, or not ``whole`` in the file: before memory is taken for it."""
    sizes: list[int] = []
    try:
        dataset = member(group, name)
        (n,), (chunk,), filters = dataset.shape, dataset.chunks or (0,), dataset.id.get_create_plist()
        used = [filters.get_filter(k)[0] for k in range(filters.get_nfilters())]
        if dtype not in (None, dataset.dtype) or used not in (list(FILTERS), [FILTERS[1]]) or chunk > PIECE:
            raise ValueError("is not stored as expected")
        if whole and length in (None, n):
            dataset.id.chunk_iter(lambda info: sizes.append(info.size))
            if len(sizes) != -(-n // chunk) or max(sizes, default=0) > chunk * dataset.dtype.itemsize + MORE:
                raise ValueError("claims more than the file has")
    except DAMAGE as error:
        raise damaged(group, name, error) from error
    if length not in (None, n):
        raise damaged(group, name, f"does not have {length} elements")
    return dataset


def _read(group, name: str, dataset: h5py.Dataset, begin: int, end: int | None) -> np.ndarray:
    try:
        return dataset[begin:end]
    except DAMAGE as error:  # HDF5 says that a filter failed
        why = "checksum does not match" if system_number(error) is None else error
        raise damaged(group, name, why) from error


def read_pieces(group, name: str, dtype) -> Iterator[tuple[int, np.ndarray]]:
    """(start, piece) for each HDF5 chunk of an array; InputError where it is damaged or missing."""
    dataset = opened_array(group, name, dtype)
    (n,), (chunk,) = dataset.shape, dataset.chunks
    for start in range(0, n, chunk):
        yield start, _read(group, name, dataset, start, min(start + chunk, n))


def read_array(group, name: str, dtype, length: int | None) -> np.ndarray:
    """The whole array, which must have ``length`` elements (None: as many as it has)."""
    return _read(group, name, opened_array(group, name, dtype, length), 0, None)


def read_range(group, name: str, dtype, begin: int, end: int) -> np.ndarray:
    """Elements begin..end-1 of an array, which must have them."""
    dataset = opened_array(group, name, dtype)
    if end > len(dataset):
        raise damaged(group, name, f"does not have {end} elements")
    return _read(group, name, dataset, begin, max(begin, end))


def require_length(group, name: str, length: int | None) -> int:
    """The elements of the array; InputError where these are not ``length``: before memory is taken for them."""
    return len(opened_array(group, name, length=length, whole=False))


def verify_arrays(parent, deep: int = 0) -> None:
    """Read the arrays of a group, and of those in it; InputError names one that is damaged, ValueError is raised for
    groups that lie deeper than ours do."""
    for name in parent:
        if kind_of_member(parent, name) is h5py.Group:
            if deep == DEEPEST:
                raise ValueError(f"{parent.name} lies too deep")
            verify_arrays(group(parent, name), deep + 1)
        elif name != "meta":
            for _ in read_pieces(parent, name, None):
                pass


def damaged(group, name: str, why: BaseException | str) -> Exception:
    """The exception for an array that cannot be read, or does not hold what it should."""
    if isinstance(why, BaseException):
        if system_number(why) is not None:
            return damage(group.file.filename, why)
        why = f"is missing or damaged ({first_line(why)})"
    return InputError(f"{group.file.filename}: {group.name.rstrip('/')}/{name}: {why}; make the file again")


def write_names(group: h5py.Group, lengths: np.ndarray, text_at: Callable[[int, int], np.ndarray]) -> None:
    """Names of ``lengths`` (d,) bytes; ``text_at(first, last)`` gives those of features first..last-1 as bytes."""
    ends = np.cumsum(lengths, dtype=np.int64)

    def piece(start: int, stop: int) -> np.ndarray:
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left")) + 1
        begins = int(ends[first] - lengths[first])
        return text_at(first, last)[start - begins : stop - begins]

    names = Piecewise(int(ends[-1]) if len(ends) else 0, BYTES, piece)
    write_arrays(group, {"names": names, "name_ends": ends})


def read_text(group: h5py.Group, first: int, last: int) -> tuple[bytes, np.ndarray]:
    """(the bytes of names first..last-1, where each begins and the last ends); InputError where they are damaged."""
    bounds = read_range(group, "name_ends", ENDS, max(0, first - 1), last)
    bounds = bounds if first else np.append(0, bounds)
    if bounds[0] < 0 or (np.diff(bounds) < 0).any():
        raise damaged(group, "name_ends", "does not rise")
    return read_range(group, "names", BYTES, int(bounds[0]), int(bounds[-1])).tobytes(), bounds - bounds[0]


def read_names(group: h5py.Group, first: int, last: int) -> list[str]:
    """Names first..last-1; InputError where they are damaged."""
    text, bounds = read_text(group, first, last)
    try:
        return [text[begin:end].decode() for begin, end in pairwise(bounds.tolist())]
    except UnicodeDecodeError as error:
        raise damaged(group, "names", "is not UTF-8") from error


def write_labels(file: h5py.File, labels: tuple) -> bytes:
    """The distinct labels of a store, strings or sets, rising; returns an xxHash of them."""
    return write_arrays(file, {"labels": np.frombuffer(json.dumps(labels, ensure_ascii=False).encode(), BYTES)})


def read_labels(file: h5py.File, n_labels: int, sets: bool) -> tuple:
    """The labels that ``write_labels`` wrote; InputError where it is damaged."""
    text, kind = read_array(file, "labels", BYTES, None), tuple[float | str, ...] if sets else str
    try:
        labels = msgspec.json.decode(text, type=tuple[kind, ...])  # type: ignore[valid-type]
        sound = len(labels) == n_labels and all(a < b for a, b in pairwise(labels))
    except (ValueError, TypeError):  # no such text, or members of two kinds
        sound = False
    if not sound:
        raise damaged(file, "labels", f"are not {n_labels} labels that rise")
    return labels


def read_factors(file: h5py.File, n_features: int) -> np.ndarray:
    """/features/idf of a store or model: factors (d,) float64; InputError where they are damaged or missing."""
    factors = read_array(group(file, "features"), "idf", NUMBERS, n_features)
    if not (np.isfinite(factors) & (factors > 0.0)).all():
        raise damaged(file, "features/idf", "holds what is no factor")
    return factors
