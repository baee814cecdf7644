"""A log that cannot be written any more: a training and a stream go on, and what stands in the log are whole lines."""

import os
from pathlib import Path

import pytest
from support.stream_cases import text_of
from support.training_cases import make_store, random_rows

from blocksvm.files.output import JsonLines
from blocksvm.model.model_file import load_model

FULL = Path("/dev/full")  # a disk without room, as Linux has it
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="only Linux has such a device")


@pytest.mark.parametrize("command", ["train", "stream"])
def test_a_full_disk_under_the_log_costs_the_log_alone(tmp_path, succeeds, command):
    X, y = random_rows(n=60)
    model = tmp_path / "m.h5"
    if command == "train":
        given = (make_store(tmp_path, X, y), model, "--max-outer", 4, "--tol", 0)
    else:
        given = (text_of(tmp_path, X, y), "--learner", "pa1", "--model", model)
    err = succeeds(command, *given, "--log", FULL).err
    assert load_model(model).weights.any()
    warnings = [line for line in err.splitlines() if line.startswith(f"{FULL}: ")]
    assert warnings == [f"{FULL}: no space left on device; the log ends here, the run goes on"]


def test_whole_lines_stay(tmp_path):
    path, told = tmp_path / "t.jsonl", []
    log = JsonLines(path, told.append, overwrite=False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        log.write({"event": float("nan")})
    log.write({"event": 1})
    os.write(log.file.fileno(), b'{"eve')  # from now on the disk is full
    with open(FULL, "wb") as full:
        os.dup2(full.fileno(), log.file.fileno())
    log.write({"event": 2})
    log.write({"event": 3})
    log.close()
    assert path.read_text() == '{"event": 1}\n'
    assert told == [f"{path}: no space left on device; the log ends here, the run goes on"]
