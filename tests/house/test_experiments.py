"""The measurements can be loaded, each page of results has a task, and what pages name is there."""

import re
import runpy
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest
from support.paths import ROOT

RESULTS = ROOT / "experiments" / "results"
WRITTEN = {"README", "reliability"}  # by hand: an overview, and what campaigns found
SCRIPTS = sorted({path.stem for path in (ROOT / "experiments").glob("*.py")} - {"__init__", "dodo"})


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_can_be_loaded(script, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    import_module(f"experiments.{script}")


def test_each_page_has_a_task_whose_commands_name_scripts_and_files(monkeypatch):
    monkeypatch.setitem(sys.modules, "doit", SimpleNamespace(get_var=lambda name, default: default))
    dodo = runpy.run_path(str(ROOT / "experiments" / "dodo.py"))
    assert set(dodo["MEASURED"]) == {path.stem for path in RESULTS.glob("*.md")} - WRITTEN
    commands = [*dodo["MADE"].values(), *(one for _, parts in dodo["MEASURED"].values() for one in parts.values())]
    assert set(re.findall(r"experiments\.(\w+)", " ".join(commands))) == set(SCRIPTS) - {"runs"}
    made = [file for files in dodo["MADE"] for file in files.split()]
    assert len(made) == len(set(made))
    rooms = " ".join(rooms for rooms, _ in dodo["MEASURED"].values()).split()
    assert [room for room in rooms if not (ROOT / "blocksvm" / room).is_dir()] == []
    public = (RESULTS / "README.md").read_text().partition("**Files that DIR needs**")[2]
    wanted = {file for command in commands for file in dodo["files_of"](command)} - set(made)
    assert sorted(file for file in wanted if file not in public) == []
    assert [*dodo["task_data"](), *dodo["task_measurements"]()]


def test_pages_name_files_that_exist():
    text = {path.name: path.read_text() for path in RESULTS.glob("*.md")}
    missing = [(name, target) for name, page in text.items() for target in re.findall(r"\]\(([^)#\s]+)", page)
               if "://" not in target and not (RESULTS / target).exists()]  # fmt: skip
    assert missing == []
    assert all(f"]({name})" in text["README.md"] for name in set(text) - {"README.md"})


def test_the_figures_of_the_front_page_are_pairs_of_the_pages():
    front = (ROOT / "README.md").read_text()
    row = r"^\|.*\| ([\d.]+) \| ([^|]*?) ?\| ([\d.]*) ?\| \[[\w.-]+\]\((experiments/\S+\.md)\)"
    rows = re.findall(row, front, re.MULTILINE)
    assert len(rows) == front.count("](experiments/results/") - 2 > 8  # all but the picture and the overview
    for ours, other, ratio, page in rows:
        theirs = other.partition(" (")[0].strip()
        for figure in filter(None, (ours, theirs)):
            assert f"| {figure} |" in (ROOT / page).read_text(), (figure, page)
        assert float(f"{float(theirs) / float(ours):.2g}") == float(ratio) if ratio else not theirs[:1].isdigit()
