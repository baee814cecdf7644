"""Commands do without what only Linux has: its calls are taken away in a process that splits, trains and predicts."""

import os
import subprocess
import sys

import pytest
from support.paths import ROOT

pytestmark = pytest.mark.process

WITHOUT = """
del os.sched_getaffinity
builtins.open = io.open = not_proc(io.open)
os.open = not_proc(os.open)
os.stat = not_proc(os.stat)
os.readlink = not_proc(os.readlink)
"""
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
PROGRAM = """
import builtins, io, os, subprocess, sys


def not_proc(call):
    def guarded(path, *arguments, **more):
        if str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return call(path, *arguments, **more)

    return guarded


{without}
from blocksvm.cli.commands import main

for line in ("split rows.svm s.h5 --memory 50MB", "train s.h5 m.h5 --memory 50MB", "predict m.h5 rows.svm p.txt"):
    try:
        main([*line.split(), "--overwrite"])
    except SystemExit as end:
        assert end.code == 0, line
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "rows.svm").write_text(
        "".join(f"{(-1) ** i} 1:{1 + i % 7} {2 + i % 2}:{0.5 * (-1) ** i}\n" for i in range(60))
    )
    return folder


def test_a_machine_without_the_calls_of_linux(folder):
    code = PROGRAM.format(without=WITHOUT)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert "certified relative gap" in done.stdout and "accuracy 1.0000" in done.stdout
