"""The demo in its small size: it runs, holds its memory, and its story has figures."""

import re
import subprocess
import sys

import pytest
from support.places import ROOT


@pytest.mark.process
def test_small_demo(tmp_path):
    folder = tmp_path / "demo"
    done = subprocess.run([sys.executable, ROOT / "tools/demo.py", "--size", "small", "--folder", str(folder)],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (folder / "model.h5").exists()
    accuracy = float(re.search(r"accuracy ([0-9.]+) \(", done.stdout)[1])
    majority = float(re.search(r"would give ([0-9.]+)", done.stdout)[1])
    assert accuracy > majority
    gap = float(re.search(r"certified relative gap ([0-9.e+-]+)", done.stdout)[1])
    assert gap <= 1e-3
    assert "YOURS.svm" in done.stdout and "the largest weights" in done.stdout


@pytest.mark.process
def test_an_existing_folder_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/demo.py", "--folder", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--folder names a new folder" in done.stderr.splitlines()[-1]
