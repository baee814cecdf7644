"""Damaged, forged and hostile files: one sentence, no crash, no hang, no memory that was not promised."""

from __future__ import annotations

import numpy as np
import pytest
from training_cases import run_in_process

from blocksvm.predict import main as predict
from blocksvm.split import main as split

# ------------------------------------------------------------------------------------------------ Arrow and Parquet


def forged(path, old: np.ndarray, new: np.ndarray) -> None:
    """Replace bytes that a file has once."""
    data = path.read_bytes()
    assert data.count(old.tobytes()) == 1
    path.write_bytes(data.replace(old.tobytes(), new.tobytes()))


I4 = np.int32
ENDS = np.array([0, 3, 8, 12, 17], I4)  # of these words
WORDS = ["red", "green", "blue", "white"]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("string", ENDS, np.array([0, 3, 8, 12, 1 << 30], I4)),
        ("string", ENDS, np.array([0, 3, 1 << 30, 12, 17], I4)),
        ("string", ENDS, np.array([-(1 << 30), 3, 8, 12, 17], I4)),
        ("dictionary", ENDS, np.array([0, 3, 8, 12, 1 << 30], I4)),
        ("dictionary", ENDS, np.array([0, 1 << 30, 8, 12, 17], I4)),
        ("dictionary", np.array([3, 1, 2, 0], I4), np.array([3, 1, 1 << 30, 0], I4)),
        ("dictionary", np.array([3, 1, 2, 0], I4), np.array([3, 1, -(1 << 30), 0], I4)),
        ("list", ENDS, np.array([0, 3, 1 << 30, 12, 17], I4)),
        ("list", np.array([0, 1, 3, 3, 4], I4), np.array([0, 1, 1 << 30, 3, 4], I4)),
        ("list", np.array([0, 1, 3, 3, 4], I4), np.array([0, 1, 3, 3, 1 << 30], I4)),
        ("map", np.array([0, 1, 3, 3, 4], I4), np.array([0, -(1 << 30), 3, 3, 4], I4)),
        ("view", np.array([0, 3], I4), np.array([7, 1 << 30], I4)),
    ],
)
def test_forged_addresses_in_arrow_files_are_refused(kind, old, new, tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    column = {
        "string": lambda: pa.array(WORDS),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([3, 1, 2, 0], pa.int32()), pa.array(WORDS)),
        "list": lambda: pa.ListArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), pa.array(WORDS)),
        "map": lambda: pa.MapArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), pa.array(WORDS), np.arange(4.0)),
        "view": lambda: pa.array([*WORDS[:3], "a word that is longer than it says"], pa.string_view()),
    }[kind]()
    table = pa.table({"label": [1, 0, 1, 0], "x": column})
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)
    arguments = (path, tmp_path / "s.h5", "--label", "label")
    assert run_in_process(capsys, split, *arguments)[0] == 0
    forged(path, old, new)
    code, _, err = run_in_process(capsys, split, *arguments, "--overwrite")
    assert code == 2 and f"{path}: cannot be read (" in err, err
