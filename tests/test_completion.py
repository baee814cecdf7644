"""Completion: bash's function is run, the other shells' scripts are read by them where they are installed."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from training_cases import run_in_process

from blocksvm.__main__ import COMMANDS
from blocksvm.cli.completion import SHELLS, Choice, Described
from blocksvm.completion import commands, main


@pytest.fixture(scope="module")
def known():
    return commands()


def completed(script, *words):
    """What bash offers for the last word; a line of its own for each."""
    quoted = " ".join(json.dumps(word) for word in ("blocksvm", *words))
    text = f'{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _blocksvm; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(known):
    script = SHELLS["bash"](known)
    assert completed(script, "") == list(COMMANDS)
    assert completed(script, "str") == ["stream", "structure"]
    assert completed(script, "train", "store.h5", "--multi") == ["--multiclass"]
    assert completed(script, "train", "--loss", "hin") == ["hinge"]
    assert completed(script, "train", "--loss", "=", "log") == ["logistic"]
    assert completed(script, "train", "--loss", "=") == completed(script, "train", "--loss", "")
    assert {"perceptron", "squared-hinge"} <= set(completed(script, "train", "--loss", ""))  # of any solver
    assert completed(script, "stream", "--learner", "adagrad-f") == ["adagrad-fobos"]
    assert completed(script, "stream", "--format", "v") == ["vw"]
    assert completed(script, "cv", "--select", "r") == ["rmse"]
    assert completed(script, "completion", "z") == ["zsh"]
    assert completed(script, "regret", "--confid") == ["--confidence"]
    for words in (("train", "--memory", ""), ("train", "--log", ""), ("predict", ""), ("nothing", "--")):
        assert completed(script, *words) == []  # bash itself offers files, where it may


def test_every_option_of_every_command_is_completed(known):
    for name, words in (
        ("predict", ["--probabilities", "--json"]),
        ("train", ["--checkpoint", "-C", "--lambda", "--gamma"]),
    ):
        flags = {flag for one in known[name].options for flag in one.flags}
        assert set(words) <= flags
    assert set(known) == set(COMMANDS)
    for shell, make in SHELLS.items():
        script = make(known)
        for command in known.values():
            for one in command.options:
                for flag in one.flags:
                    there = (
                        flag if shell != "fish" else f"-l {flag[2:]} " if flag.startswith("--") else f"-s {flag[1:]} "
                    )
                    assert there in script


EVIL = {"x": Described("it's a: [test] \\", (Choice(("-e", "--evil"), "don't: [a] \\ `id` $(id)", True, ("a", "b")),))}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_its_script(known, shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    for described in (known, EVIL):
        script = tmp_path / "script"
        script.write_text(SHELLS[shell](described))
        done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_what_a_help_text_says_is_quoted(shell):
    script = SHELLS[shell](EVIL)
    within = {"zsh": "'(-e --evil)--evil[don'\\''t\\: \\[a\\] \\\\ `id` $(id)]:value:(a b)'",
              "fish": "-s e -l evil -x -a 'a b' -d 'don\\'t: [a] \\\\ `id` $(id)'"}  # fmt: skip
    assert within[shell] in script


def test_the_command(capsys):
    code, out, err = run_in_process(capsys, main, "bash")
    assert (code, err) == (0, "") and out.endswith("complete -o default -F _blocksvm blocksvm\n")
    code, _, err = run_in_process(capsys, main, "tcsh")
    assert code == 2 and "choose one of bash, zsh, fish" in err
