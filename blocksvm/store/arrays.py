"""Long arrays in any of our HDF5 files: compressed in pieces, each under a checksum, written and read piecewise.

An array ``name`` is a 1-D dataset of Blosc chunks with the checksums of its pieces beside it in ``name.xxh3``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise

import h5py
import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import SETS, kind_of
from blocksvm.base.outputs.writing import system_number
from blocksvm.store import codec
from blocksvm.store.hdf5_files import DAMAGE, create_group, damage, first_line, group, has, is_group, member, read_table

BYTES, ENDS, NUMBERS, MEMBERS = (np.dtype(kind) for kind in ("u1", "i8", "f8", "i4"))
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


def read_arrays(parent, to: h5py.Group | None = None, deep: int = 0) -> None:
    """Read the arrays of a group, and of those in it, against their checksums, and write them into another group, where
    one is given; InputError names one that is damaged, ValueError is raised for groups that lie deeper than ours do."""
    for name in parent:
        if is_group(parent, name):
            if deep == DEEPEST:
                raise ValueError(f"{parent.name} lies too deep")
            read_arrays(group(parent, name), None if to is None else create_group(to, name), deep + 1)
        elif has(parent, name + SUMS):
            dtype, length = member(parent, name).dtype, require_length(parent, name, None)
            if to is not None:
                write_array(to, name, length, dtype, partial(read_range, parent, name, dtype))
                continue
            for _ in read_pieces(parent, name, dtype):
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
        raise _unsound(group, name, f"does not have {length} elements")
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


def write_strings(group: h5py.Group, name: str, ends_name: str, strings: Iterable[str]) -> None:
    """Strings one after the other, and where each ends."""
    encoded = [string.encode() for string in strings]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum([len(string) for string in encoded], dtype=np.int64)
    write_arrays(group, {name: text, ends_name: ends})


def write_names(group: h5py.Group, lengths: np.ndarray, text_at: Callable[[int, int], np.ndarray]) -> None:
    """Names of ``lengths`` (d,) bytes; ``text_at(first, last)`` gives those of features first..last-1 as bytes."""
    ends = np.cumsum(lengths, dtype=np.int64)

    def piece(start: int, stop: int) -> np.ndarray:
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left")) + 1
        begins = int(ends[first] - lengths[first])
        return text_at(first, last)[start - begins : stop - begins]

    write_array(group, "names", int(ends[-1]) if len(ends) else 0, BYTES, piece)
    write_arrays(group, {"name_ends": ends})


def read_text(group: h5py.Group, name: str, ends_name: str, first: int, last: int) -> tuple[bytes, np.ndarray]:
    """(the bytes of strings first..last-1, where each begins and the last ends); InputError where they are damaged."""
    bounds = read_range(group, ends_name, ENDS, max(0, first - 1), last)
    bounds = bounds if first else np.append(0, bounds)
    if bounds[0] < 0 or (np.diff(bounds) < 0).any():
        raise _unsound(group, ends_name, "does not rise")
    return read_range(group, name, BYTES, int(bounds[0]), int(bounds[-1])).tobytes(), bounds - bounds[0]


def read_strings(group: h5py.Group, name: str, ends_name: str, first: int, last: int) -> list[str]:
    """Strings first..last-1; InputError where they are damaged."""
    text, bounds = read_text(group, name, ends_name, first, last)
    try:
        return [text[begin:end].decode() for begin, end in pairwise(bounds.tolist())]
    except UnicodeDecodeError as error:
        raise _unsound(group, name, "is not UTF-8") from error


def write_labels(file: h5py.File, labels: tuple) -> None:
    """The distinct labels of a store, strings or sets, rising."""
    group = create_group(file, "labels")
    if not labels or kind_of(labels[0]) != SETS:
        write_strings(group, "text", "ends", labels)
        return
    members = sorted({member for label in labels for member in label})
    if members and not isinstance(members[0], str):
        write_arrays(group, {"numbers": np.array(members, NUMBERS)})
    else:
        write_strings(group, "text", "ends", members)
    place = {member: k for k, member in enumerate(members)}
    flat = np.array([place[member] for label in labels for member in label], MEMBERS)
    ends = np.cumsum([len(label) for label in labels], dtype=np.int64)
    write_arrays(group, {"members": flat, "set_ends": ends})


def read_labels(group: h5py.Group, n_labels: int, sets: bool) -> tuple:
    """The labels that ``write_labels`` wrote; InputError where it is damaged."""
    if not sets:
        require_length(group, "ends", n_labels)
        labels = tuple(read_strings(group, "text", "ends", 0, n_labels))
    else:
        ends = read_array(group, "set_ends", ENDS, n_labels)
        lengths = np.diff(ends, prepend=0)
        members = read_array(group, "members", MEMBERS, int(ends[-1]) if n_labels else 0)
        if (lengths < 0).any():
            raise _unsound(group, "set_ends", "does not rise")
        if has(group, "numbers"):
            known = read_array(group, "numbers", NUMBERS, None).tolist()
        else:
            known = read_strings(group, "text", "ends", 0, len(read_array(group, "ends", ENDS, None)))
        if len(members) and not (0 <= int(members.min()) and int(members.max()) < len(known)):
            raise _unsound(group, "members", "counts beyond the members")
        flat = [known[member] for member in members.tolist()]
        bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        labels = tuple(tuple(flat[begin:end]) for begin, end in bounds)
    if not all(a < b for a, b in zip(labels[:-1], labels[1:], strict=True)):
        raise _unsound(group, "", "does not rise")
    return labels


def read_factors(file: h5py.File, n_features: int) -> np.ndarray:
    """Factors (d,) float64 of the features of a store or model, in their order:
    /features/idf; InputError where they are damaged or missing."""
    factors = read_array(member(file, "features", h5py.Group), "idf", NUMBERS, n_features)
    if not (np.isfinite(factors) & (factors > 0.0)).all():
        raise _unsound(file, "features/idf", "holds what is no factor")
    return factors


def _unsound(group: h5py.Group, name: str, what: str) -> InputError:
    where = f"{group.file.filename}: {group.name.rstrip('/')}/{name}"
    return InputError(f"{where}: {what}; the file is damaged, make it again")
