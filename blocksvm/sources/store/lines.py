"""Where the rows of a store stand in the text they came from.

    /lines/rows, /lines/lines   row number rows[k] of the source (from 0) is line lines[k] (from 1) of its input, and
                                the rows behind it, up to number rows[k + 1], are the lines behind that one

An input begins at the number that its entry in meta["sources"] has as first_row.  Stores of rows that were no text, and
those of before there was this table, have none of it.
"""

from __future__ import annotations

import h5py
import numpy as np

from blocksvm.errors import InputError
from blocksvm.sources.store.arrays import read_array, write_array
from blocksvm.sources.store.files import create_group, has, member

NUMBERS = np.dtype("i8")


def write_lines(file: h5py.File, rows: np.ndarray, lines: np.ndarray) -> None:
    """rows, lines (m,) int64 of the table; rows rising."""
    group = create_group(file, "lines")
    for name, array in (("rows", rows), ("lines", lines)):
        write_array(group, name, len(array), NUMBERS, lambda start, stop, array=array: array[start:stop])


def read_lines(file: h5py.File) -> tuple[np.ndarray, np.ndarray]:
    """(rows, lines), both empty where the store has none; InputError where they are damaged."""
    if not has(file, "lines"):
        return np.empty(0, NUMBERS), np.empty(0, NUMBERS)
    group = member(file, "lines", h5py.Group)
    rows = read_array(group, "rows", NUMBERS, None)
    lines = read_array(group, "lines", NUMBERS, len(rows))
    if (np.diff(rows) <= 0).any() or (len(lines) and int(lines.min()) < 1):
        raise InputError(f"{file.filename}: /lines: does not rise; the file is damaged, make it again")
    return rows, lines


def lines_of(table: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> np.ndarray:
    """The lines (m,) int64 of the rows with these source numbers (m,), 0 where the table does not know."""
    rows, lines = table
    if not len(rows):
        return np.zeros(len(numbers), np.int64)
    numbers = numbers.astype(np.int64)
    k = np.searchsorted(rows, numbers, side="right") - 1
    return np.where(k < 0, 0, lines[k] + numbers - rows[k])


def origins(sources: list[dict], table: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> list[str]:
    """File and line of the rows with these source numbers (m,) int64, or 'row 17' where the table does not know; from a
    store's meta["sources"]."""
    first = np.array([source.get("first_row", 0) for source in sources], np.int64)
    which = np.searchsorted(first, numbers, side="right") - 1
    places = zip(numbers.tolist(), lines_of(table, numbers).tolist(), which.tolist(), strict=True)
    return [f"{sources[k]['name']}:{line}" if line and k >= 0 else f"row {number + 1}" for number, line, k in places]
