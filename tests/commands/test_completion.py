"""Completion: bash's function is run, the other shells' scripts are read by them where they are installed."""

import json
import subprocess
import sys

import pytest
import shtab

from blocksvm.cli.commands import COMMANDS
from blocksvm.completion import commands


@pytest.fixture(scope="module")
def known():
    return commands()


def completed(script, *words):
    """What bash offers for the last word; a line of its own for each."""
    quoted = " ".join(json.dumps(word) for word in ("blocksvm", *words))
    asked = f'COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _shtab_blocksvm; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", f"{script}\n{asked}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.process
def test_bash_completes_commands_options_values_and_files(known, tmp_path, monkeypatch):
    script = shtab.complete(known, "bash")
    assert set(completed(script, "")) >= set(COMMANDS)
    assert completed(script, "str") == ["stream", "structure"]
    assert completed(script, "train", "store.h5", "model.h5", "--multi") == ["--multiclass"]
    assert completed(script, "train", "--loss", "hin") == ["hinge"]
    assert {"squared-hinge"} <= set(completed(script, "train", "--loss", ""))  # of any solver
    assert completed(script, "stream", "--learner", "adagrad-f") == ["adagrad-fobos"]
    assert completed(script, "stream", "--format", "v") == ["vw"]
    assert completed(script, "cv", "--select", "r") == ["rmse"]
    assert completed(script, "completion", "z") == ["zsh"]
    assert completed(script, "regret", "--confid") == ["--confidence"]
    (tmp_path / "rows.h5").touch()
    monkeypatch.chdir(tmp_path)
    for words in (("train", ""), ("train", "--log", "ro"), ("predict", "ro"), ("split", "r")):
        assert completed(script, *words) == ["rows.h5"]


def test_the_command(succeeds, monkeypatch, refusal):
    assert "_shtab_blocksvm" in succeeds("completion", "bash").out
    assert "choose one of bash, zsh, fish" in refusal("completion", "csh")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install shtab" in refusal("completion", "bash")
