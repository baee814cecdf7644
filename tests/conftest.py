"""Shared by the tests of text, split and store: running commands, reading a store with h5py alone."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401 (registers the filter)
import numpy as np
import pytest

from blocksvm.cli import console


@dataclass(frozen=True)
class Outcome:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.err.rstrip("\n").rsplit("\n", 1)[-1]


@pytest.fixture
def run_in_process(capsys):
    """run_in_process(main, *arguments) runs a command as ``python -m`` does, in this process; gives an Outcome."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(main, *arguments) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            console.run(main, [str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return Outcome(ended.value.code, shown.out, shown.err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@dataclass(frozen=True)
class StoredRow:
    """A row of a store by the user's names: source number, label, ids ascending, values, ||x||^2."""

    source: int
    label: float
    ids: list[int]
    values: list[float]
    sq_norm: float

    def triple(self) -> tuple:
        return self.label, self.ids, self.values


def read_with_h5py(path: Path) -> tuple[list[StoredRow], np.ndarray]:
    """(rows in stored order, feature ids): the lines of schema.py's docstring, and nothing of blocksvm."""
    found = []
    with h5py.File(path) as file:
        ids = file["features/ids"][()]
        L = file["indices"].chunks[0]
        for k in range(len(file["chunks"])):
            chunk = file["chunks"][k]
            rows = file["rows"][chunk["first_row"] : chunk["first_row"] + chunk["n_rows"]]
            start = chunk["first_part"] * L
            indices = file["indices"][start : start + chunk["nnz"]]
            values = np.ones(len(indices))
            if "values" in file:
                values = file["values"][start : start + chunk["nnz"]]
            indptr = np.r_[0, rows["length"].cumsum()]
            assert indptr[-1] == chunk["nnz"]
            for i, row in enumerate(rows):
                entries = slice(indptr[i], indptr[i + 1])
                assert (np.diff(indices[entries]) > 0).all()
                order = np.argsort(ids[indices[entries]])
                found.append(
                    StoredRow(
                        int(row["source"]),
                        float(row["label"]),
                        ids[indices[entries]][order].tolist(),
                        values[entries][order].astype(float).tolist(),
                        float(row["sq_norm"]),
                    )
                )
    return found, ids


def in_source_order(path: Path) -> list[tuple]:
    """(label, ids, values) of each row, by its number in the text."""
    return [row.triple() for row in sorted(read_with_h5py(path)[0], key=lambda row: row.source)]
