"""Names of features and labels that are not numbers: strings and sets as arrays of a store, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import h5py
import numpy as np

from blocksvm.errors import InputError
from blocksvm.labels import SETS, kind_of
from blocksvm.sources.store.arrays import read_array, read_range, require_length, write_array
from blocksvm.sources.store.files import create_group, has

BYTES, ENDS, NUMBERS, MEMBERS = (np.dtype(kind) for kind in ("u1", "i8", "f8", "i4"))


def write_strings(group: h5py.Group, name: str, ends_name: str, strings: Iterable[str]) -> None:
    """Strings one behind the other, and where each ends."""
    encoded = [string.encode() for string in strings]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum([len(string) for string in encoded], dtype=np.int64)
    write_array(group, name, len(text), BYTES, lambda start, stop: text[start:stop])
    write_array(group, ends_name, len(ends), ENDS, lambda start, stop: ends[start:stop])


def write_names(group: h5py.Group, lengths: np.ndarray, text_at: Callable[[int, int], np.ndarray]) -> None:
    """Names of ``lengths`` (d,) bytes; ``text_at(first, last)`` gives those of features first..last-1 as bytes."""
    ends = np.cumsum(lengths, dtype=np.int64)

    def piece(start: int, stop: int) -> np.ndarray:
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left")) + 1
        begins = int(ends[first] - lengths[first])
        return text_at(first, last)[start - begins : stop - begins]

    write_array(group, "names", int(ends[-1]) if len(ends) else 0, BYTES, piece)
    write_array(group, "name_ends", len(ends), ENDS, lambda start, stop: ends[start:stop])


def read_strings(group: h5py.Group, name: str, ends_name: str, first: int, last: int) -> list[str]:
    """Strings first..last-1; InputError where they are damaged."""
    before = max(0, first - 1)
    ends = read_range(group, ends_name, ENDS, before, last)
    begin = int(ends[0]) if first else 0
    ends = ends[first - before :]
    lengths = np.diff(ends, prepend=begin)
    if begin < 0 or (lengths < 0).any():
        raise _damaged(group, ends_name, "does not rise")
    text = read_range(group, name, BYTES, begin, int(ends[-1]) if len(ends) else begin).tobytes()
    try:
        return [text[end - length - begin : end - begin].decode() for end, length in
                zip(ends.tolist(), lengths.tolist(), strict=True)]  # fmt: skip
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
        numbers = np.array(members, NUMBERS)
        write_array(group, "numbers", len(numbers), NUMBERS, lambda start, stop: numbers[start:stop])
    else:
        write_strings(group, "text", "ends", members)
    place = {member: k for k, member in enumerate(members)}
    flat = np.array([place[member] for label in labels for member in label], MEMBERS)
    ends = np.cumsum([len(label) for label in labels], dtype=np.int64)
    write_array(group, "members", len(flat), MEMBERS, lambda start, stop: flat[start:stop])
    write_array(group, "set_ends", len(ends), ENDS, lambda start, stop: ends[start:stop])


def read_labels(group: h5py.Group, n_labels: int, sets: bool) -> tuple:
    """What ``write_labels`` wrote; InputError where it is damaged."""
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


def _damaged(group: h5py.Group, name: str, what: str) -> InputError:
    return InputError(f"{group.file.filename}: {group.name}/{name}: {what}; the file is damaged, make it again")
