"""``--json [FILE]`` is the same option of every command that has figures."""

import json
import re

import pytest
from support.file_cases import prepare

COMMANDS = {"split": "{0}/s.svm {0}/split.h5 --holdout 0.2 {0}/test.h5 --overwrite",
            "train": "{0}/s.h5 {0}/new.h5 --overwrite", "predict": "{0}/m.h5 {0}/s.h5 {0}/p.txt --overwrite",
            "ask": "{0}/m.h5 {0}/pool.svm {0}/asked.txt --overwrite",
            "cv": "{0}/s.h5 -C 0.1:1:2 --folds 2 --overwrite", "regret": "{0}/s.h5 --learner pa1 --overwrite",
            "margin": "{0}/s.h5 -C 1 --overwrite", "info": "{0}/s.h5 --overwrite",
            "stream": "{0}/s.svm --learner pa1 --overwrite",
            "structure": "evaluate {0}/chunks.h5 {0}/s.txt --overwrite"}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("in")
    prepare(here)
    (here / "pool.svm").write_text(re.sub("^[-1]+", "?", (here / "s.svm").read_text(), flags=re.MULTILINE))
    return here


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_figures_go_to_standard_output_or_a_file(name, folder, tmp_path, run_in_process, succeeds, refusal):
    arguments = COMMANDS[name].format(folder).split()
    printed = succeeds(name, *arguments, "--quiet", "--json")
    figures = json.loads(printed.out)  # one object, and nothing beside it
    first = [arguments[0], "--json", *arguments[1:]] if name == "structure" else ["--json", *arguments]
    assert json.loads(run_in_process(name, *first, "--quiet").out).keys() == figures.keys()  # takes no input for FILE
    for more, file in ((("--json", tmp_path / "f.json"), "f.json"), ((f"--json={tmp_path / 'other'}",), "other")):
        written = succeeds(name, *arguments, "--quiet", *more)
        assert written.out.strip() and not written.out.startswith("{")
        told = json.loads((tmp_path / file).read_text())
        assert told.keys() - {"json", "blocksvm"} == figures.keys()
    succeeds(name, *arguments, "--quiet", "--json", tmp_path / "f.json")
    words = [word for word in arguments if word != "--overwrite"]
    assert "exists already" in refusal(name, *words, "--json", tmp_path / "f.json")
