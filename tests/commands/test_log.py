"""A log that cannot be written any more: a training and a stream go on, and what stands in the log are whole lines."""

import errno
import json
import os

import pytest
from support.stream_cases import text_of
from support.training_cases import make_store, random_rows

from blocksvm.files.output import JsonLines
from blocksvm.model.model_file import load_model
from blocksvm.stream import main as stream
from blocksvm.train import main as train


class FullDisk:
    """A text file on a disk that is full after some lines, and takes half of the next one."""

    def __init__(self, file, lines: int):
        self.file = file
        self.lines = lines
        self.held = ""

    def fileno(self) -> int:
        return self.file.fileno()

    def write(self, text: str) -> None:
        self.held += text

    def flush(self) -> None:
        self.lines -= 1
        if self.lines < 0:
            os.write(self.file.fileno(), self.held[: len(self.held) // 2].encode())
            raise OSError(errno.ENOSPC, "No space left on device")
        self.file.write(self.held)
        self.file.flush()
        self.held = ""

    def close(self) -> None:
        self.file.close()
        if self.held:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full_after_two(monkeypatch):
    begin = JsonLines.__init__
    monkeypatch.setattr(JsonLines, "__init__", lambda log, path, file, warn: begin(log, path, FullDisk(file, 2), warn))


@pytest.mark.parametrize("command", ["train", "stream"])
def test_a_full_disk_under_the_log_costs_the_log_alone(tmp_path, succeeds, full_after_two, command):
    X, y = random_rows(n=60)
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    if command == "train":
        done = succeeds(train, make_store(tmp_path, X, y), model, "--log", log, "--max-outer", 4, "--tol", 0)
    else:
        done = succeeds(stream, text_of(tmp_path, X, y), "--learner", "pa1", "--model", model, "--log", log)
    assert load_model(model).weights.any()
    warnings = [line for line in done.err.splitlines() if line.startswith(f"{log}: ")]
    assert warnings == [f"{log}: no space left on device; the log ends here, the run goes on"]
    assert [json.loads(line)["event"] for line in log.read_text().splitlines(keepends=True)][0] == "start"
    assert log.read_text().count("\n") == 2
    assert log.read_text().endswith("}\n")


def test_what_is_no_json_is_an_error_even_then(tmp_path):
    path = tmp_path / "t.jsonl"
    log = JsonLines(path, open(path, "w", encoding="utf-8"), pytest.fail)  # noqa: SIM115 (closed below)
    with pytest.raises(ValueError, match="not JSON compliant"):
        log.write({"event": float("nan")})
    log.close()
