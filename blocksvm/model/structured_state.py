"""Checkpoints of structured learners: arrays, chunks of arrays, and a description.

/arrays/NAME              one array, in pieces under checksums
/chunks/KIND/NUMBER/NAME  of each chunk of examples its arrays
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.store.arrays import read_arrays, write_arrays
from blocksvm.store.creation import create_hdf5
from blocksvm.store.hdf5_files import create_group, damage_named, group, open_hdf5, read_meta, write_meta

KIND = "structure-checkpoint"


def save_structured_checkpoint(
    path: Path, meta: dict, arrays: Mapping[str, np.ndarray], chunks: Iterable[tuple[str, int, Mapping]]
) -> None:
    """Write a state; the file of before stays until the new one is whole.  chunks: (kind, number, arrays)."""
    with create_hdf5(path, KIND) as file:
        write_arrays(create_group(file, "arrays"), arrays)
        kinds = create_group(file, "chunks")
        for kind, number, own in chunks:
            if kind not in kinds:
                create_group(file, f"chunks/{kind}")
            write_arrays(create_group(file, f"chunks/{kind}/{number}"), own)
        write_meta(file, meta)


class SavedStructured:
    """A checkpoint; InputError where it is none, or is damaged.  meta: its description."""

    def __init__(self, path: Path):
        self.path = path
        with open_hdf5(path, KIND) as file, damage_named(file):
            self.meta = read_meta(file)

    def arrays(self) -> dict[str, np.ndarray]:
        with open_hdf5(self.path, KIND) as file, damage_named(file):
            return read_arrays(group(file, "arrays"))

    def chunks(self) -> Iterator[tuple[str, int, dict[str, np.ndarray]]]:
        """(kind, number, arrays), one after the other."""
        with open_hdf5(self.path, KIND) as file, damage_named(file):
            chunks = group(file, "chunks")
            for kind in chunks:
                own = group(chunks, kind)
                for number in own:
                    if not number.isdecimal():
                        raise InputError(f"{self.path}: is damaged ({number} is no chunk); start afresh")
                    yield kind, int(number), read_arrays(group(own, number))


def verify_structured_checkpoint(path: Path) -> None:
    """Read everything against its checksums; InputError names what is damaged."""
    saved = SavedStructured(path)
    saved.arrays()
    for _ in saved.chunks():
        pass
