"""Tables of a store as arrays, and back: names of features and their factors, labels that are not numbers, and the
lines of the rows in the text that they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import h5py
import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import SETS, kind_of
from blocksvm.store.arrays import read_array, read_range, require_length, write_array, write_arrays
from blocksvm.store.hdf5_files import create_group, has, member

BYTES, ENDS, NUMBERS, MEMBERS = (np.dtype(kind) for kind in ("u1", "i8", "f8", "i4"))


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
        raise _damaged(group, ends_name, "does not rise")
    return read_range(group, name, BYTES, int(bounds[0]), int(bounds[-1])).tobytes(), bounds - bounds[0]


def read_strings(group: h5py.Group, name: str, ends_name: str, first: int, last: int) -> list[str]:
    """Strings first..last-1; InputError where they are damaged."""
    text, bounds = read_text(group, name, ends_name, first, last)
    try:
        return [text[begin:end].decode() for begin, end in pairwise(bounds.tolist())]
    except UnicodeDecodeError as error:
        raise _damaged(group, name, "is not UTF-8") from error


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
            raise _damaged(group, "set_ends", "does not rise")
        if has(group, "numbers"):
            known = read_array(group, "numbers", NUMBERS, None).tolist()
        else:
            known = read_strings(group, "text", "ends", 0, len(read_array(group, "ends", ENDS, None)))
        if len(members) and not (0 <= int(members.min()) and int(members.max()) < len(known)):
            raise _damaged(group, "members", "counts beyond the members")
        flat = [known[member] for member in members.tolist()]
        bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        labels = tuple(tuple(flat[begin:end]) for begin, end in bounds)
    if not all(a < b for a, b in zip(labels[:-1], labels[1:], strict=True)):
        raise _damaged(group, "", "does not rise")
    return labels


def read_factors(file: h5py.File, n_features: int) -> np.ndarray:
    """Factors (d,) float64 of the features of a store or model, in their order:
    /features/idf; InputError where they are damaged or missing."""
    factors = read_array(member(file, "features", h5py.Group), "idf", NUMBERS, n_features)
    if not (np.isfinite(factors) & (factors > 0.0)).all():
        raise _damaged(file, "features/idf", "holds what is no factor")
    return factors


def _damaged(group: h5py.Group, name: str, what: str) -> InputError:
    where = f"{group.file.filename}: {group.name.rstrip('/')}/{name}"
    return InputError(f"{where}: {what}; the file is damaged, make it again")
