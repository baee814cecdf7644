"""Chunks of named arrays by number: in memory as far as that goes, then compressed in a file; each may be replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from blocksvm.base.outputs.writing import named_errors
from blocksvm.store.arrays import SUMS, read_array, write_arrays
from blocksvm.store.creation import NewHdf5, Sink
from blocksvm.store.hdf5_files import damage_named

Arrays = Mapping[str, np.ndarray]


class Chunks:
    """Chunks by number, from 0 on.

    Up to ``memory`` bytes of them are held in memory (None: all), the others lie in the file ``name`` of ``folder``,
    which is made when it is needed; the maker of the folder removes it.  In the file the arrays of one type are one, a
    chunk's one after the other: opening an array there takes longer than reading a short one.
    """

    def __init__(self, folder: Path | None, name: str, memory: int | None):
        self.path = None if folder is None else folder / name
        self.memory = memory if folder is not None else None
        self.held: dict[int, dict[str, np.ndarray]] = {}
        self.held_bytes = 0
        self.sizes: dict[int, int] = {}  # bytes of each chunk, as it is in memory
        self.layouts: dict[int, dict[str, list[tuple[str, int]]]] = {}  # of those in the file: type -> (name, length)
        self.file: NewHdf5 | None = None

    def put(self, number: int, arrays: Arrays) -> None:
        """Keep a chunk, in place of one that has this number; takes the arrays over."""
        n_bytes = sum(array.nbytes for array in arrays.values())
        self._drop(number)
        self.sizes[number] = n_bytes
        if self.memory is None or self.held_bytes + n_bytes <= self.memory:
            self.held[number] = dict(arrays)
            self.held_bytes += n_bytes
        else:
            self._write(number, arrays)

    def _write(self, number: int, arrays: Arrays) -> None:
        layout: dict[str, list[tuple[str, int]]] = {}
        for name, array in arrays.items():
            layout.setdefault(array.dtype.str, []).append((name, len(array)))
        with named_errors(self.path):
            if self.file is None:
                self.file = NewHdf5(Sink(self.path, True))
            for kind, fields in layout.items():
                whole = np.concatenate([arrays[name] for name, _ in fields])
                write_arrays(self.file, {f"{number}{kind}": whole})
            self.file.sink.check()
        self.layouts[number] = layout

    def get(self, number: int) -> dict[str, np.ndarray]:
        """The arrays of a chunk, which must not be written to."""
        if number in self.held:
            return self.held[number]
        arrays = {}
        with damage_named(self.file):
            for kind, fields in self.layouts[number].items():
                ends = np.cumsum([length for _, length in fields])
                whole = read_array(self.file, f"{number}{kind}", np.dtype(kind), int(ends[-1]))
                arrays |= {name: part for (name, _), part in zip(fields, np.split(whole, ends[:-1]), strict=True)}
        return arrays

    def spill(self) -> None:
        """From now on hold nothing in memory."""
        self.memory = 0
        for number in list(self.held):
            self._write(number, self.held.pop(number))
        self.held_bytes = 0

    def _drop(self, number: int) -> None:
        if number in self.held:
            del self.held[number]
            self.held_bytes -= self.sizes[number]
        elif number in self.sizes:
            for kind in self.layouts.pop(number):  # HDF5 writes into the place that becomes free
                del self.file[f"{number}{kind}"], self.file[f"{number}{kind}{SUMS}"]

    def close(self) -> None:
        """Give everything back."""
        if self.file is not None:
            self.file.close()
            self.file.sink.discard()
            self.file = None
        self.held, self.held_bytes = {}, 0
