"""The pages of docs/ and README.md: their code runs, their links lead somewhere, made pages name what there is; the
examples in the docstrings of what Python users call run, and so do the demos; and each page of results has a task.

A page is run in a folder of its own, its blocks in their order, on small made-up files with the names that it uses.
Blocks are ``python``, ``sh`` or ``text`` (behind commands: beginnings of lines that these print); ``no-run`` behind the
language marks what cannot run here.  A python block that begins with ``# NAME.py`` is that file.
"""

import doctest
import gzip
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy
from support.paths import ROOT

import blocksvm
from blocksvm import estimators
from blocksvm.cli.commands import COMMANDS
from blocksvm.model.model_file import describe_model
from blocksvm.online import LEARNERS
from blocksvm.online.methods import NAMES
from blocksvm.store.reader import open_store

sys.path.append(str(ROOT / "tools"))
import pages as made_pages  # noqa: E402

DOCS, RESULTS = ROOT / "docs", ROOT / "experiments" / "results"
WRITTEN = {"README", "reliability"}  # results written by hand: an overview, and what campaigns found
SCRIPTS = sorted({path.stem for path in (ROOT / "experiments").glob("*.py")} - {"__init__", "dodo"})
PAGES = {str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md"))} | {"README.md": ROOT / "README.md"}
TEXTS = {name: path.read_text() for name, path in PAGES.items()}
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"python", "sh", "text", "sh no-run", "python no-run"}
# page -> blocks that are not run: they install, download, or need what is not there; the number shall not grow unseen
NOT_RUN = {"README.md": 2, "cluster.md": 2, "objects.md": 1, "tutorial.md": 1}
ELSEWHERE = {"extending.md", "extending-data.md"}  # run with oracles by test_extending.py
# what a reader is thought to have
FILES = ("train-1.svm.gz", "train-2.svm.gz", "train.svm", "new.svm", "rows.svm", "rows.vw", "table.csv",
         "separable.svm", "monday.svm", "tuesday.svm", "wednesday.svm", "clicks.svm", "more.svm", "topics.svm",
         "targets.svm", "train.txt", "test.txt")  # fmt: skip


def rows(seed: int, label: Callable[[float], float] | None = None, n: int = 300, d: int = 40) -> str:
    """svmlight rows whose labels are those of their scores; without ``label`` of two classes, parted by a plane but for
    some."""
    draw = np.random.default_rng(seed)
    w = np.random.default_rng(99).normal(size=d) if label is None else np.where(np.arange(d) < 19, 1.0, -1.0)
    lines = []
    for _ in range(n):
        ids = np.sort(draw.choice(d, 8, replace=False))
        values, noise = draw.normal(size=8).round(3), 0.5 * draw.normal()
        own = f"{label(values @ w[ids]):g}" if label else "+1" if values @ w[ids] + noise > 0 else "-1"
        lines.append(own + "".join(f" {j + 1}:{v:g}" for j, v in zip(ids, values, strict=True)))
    return "\n".join(lines) + "\n"


def table(seed: int, n: int = 80) -> str:
    """Cells under a header."""
    draw = np.random.default_rng(seed)
    cells = (f"{k % 2},{draw.normal() + k % 2:.3f},{draw.choice(['red', 'blue'])},{k}" for k in range(n))
    return "label,size,colour,id\n" + "\n".join(cells) + "\n"


def sentences(seed: int, n: int = 20) -> str:
    """Tokens with their tags and chunks, an empty line behind each sentence."""
    draw = np.random.default_rng(seed)
    nouns, verbs = draw.choice(["dog", "cat", "bird"], n), draw.choice(["ran", "flew"], n)
    words = zip(nouns, verbs, strict=True)
    return "".join(f"the DT B-NP\n{noun} NN I-NP\n{verb} VB B-VP\nhome RB O\n\n" for noun, verb in words)


def tagged(seed: int, n: int = 200) -> str:
    """Vowpal Wabbit's rows."""
    draw = np.random.default_rng(seed)
    return "".join(f"{2 * (k % 2) - 1} 1.0 'row{k} |text word{k % 2} word{draw.integers(9)}\n" for k in range(n))


MAKERS = {".svm": rows, ".csv": table, ".txt": sentences, ".vw": tagged}
# files with labels of another kind than those of their suffix
NAMED = {"separable.svm": lambda score: 1 if score > 0 else -1, "targets.svm": lambda score: round(score, 3),
         "topics.svm": lambda score: 1 if score < -1 else 2 if score < 1 else 3}  # fmt: skip


def make(path: Path, seed: int) -> None:
    maker = MAKERS[Path(path.name.removesuffix(".gz")).suffix]
    text = (maker(seed, NAMED[path.name]) if path.name in NAMED else maker(seed)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def blocks(name: str) -> list[tuple[str, str]]:
    """(language and mark, code) of a page's blocks."""
    return BLOCK.findall(TEXTS[name])


def commands(code: str) -> list[str]:
    """The command lines of a block, comments left out, lines that go on put together."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def shell(line: str, succeeds) -> str:
    """What a command line prints; of ours alone, in this process."""
    line = line.replace("$(date +%F)", f"{date.today()}")
    words = shlex.split(line, comments=True)
    if words[:2] == ["python", "-m"] and words[2].startswith("blocksvm."):
        words = ["blocksvm", words[2].removeprefix("blocksvm."), *words[3:]]
    if words[0] == "blocksvm" and not re.search(r"[|<>;*]|\$\(", line.split(" #")[0]):
        assert words[1] in COMMANDS
        told = succeeds(words[1], *words[2:])
        return told.out + told.err
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    env = os.environ | {"PATH": os.pathsep.join(paths), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout + done.stderr


def shown(name: str, text: str) -> list[str]:
    """Lines without seconds; without any figure, where the page was not written with these releases."""
    same = all(f"{one.__name__} {one.__version__}" in TEXTS[name] for one in (np, scipy))
    figures = r"^ +\d+ +[\d.]+|[\d.]+s\b" if same else r"~?\d[\d.,]*(e[-+]\d+)?"
    lines = (re.sub(figures, "#", line).split() for line in text.splitlines() if line.strip() != "...")
    return [" ".join(words) for words in lines]


@pytest.mark.process
def test_what_is_done_each_night_can_be_done_in_the_third(tmp_path, monkeypatch, succeeds):
    """As it is printed: a job that is killed and repeated, too."""
    name = "recipes/nightly.md"
    monkeypatch.chdir(tmp_path)
    (lines,) = [commands(code) for kind, code in blocks(name) if kind == "sh" and re.search("^mv ", code, re.MULTILINE)]
    for kind, code in blocks(name):
        if kind == "python":
            exec(compile(code, name, "exec"), {})  # noqa: S102
        for line in commands(code) if kind == "sh" and commands(code) != lines else ():
            shell(line, succeeds)
    with open_store("rows.h5") as found:
        expected = found.n_samples
    for night in range(3):
        make(tmp_path / "tuesday.svm", 10 + night)
        expected += 300
        # killed after each of its lines and begun again in the last night; repeated as a whole in the others
        for n in range(1, len(lines) + 1) if night == 2 else (len(lines), len(lines)):
            for line in lines[:n]:
                shell(line, succeeds)
        with open_store("rows.h5") as found:
            assert found.n_samples == expected
            assert describe_model("model.h5").fingerprint == found.fingerprint


@pytest.mark.process
@pytest.mark.parametrize("name", sorted({name for name in PAGES if BLOCK.search(TEXTS[name])} - ELSEWHERE))
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, succeeds):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for seed, file in enumerate(FILES):
        make(tmp_path / file, seed)
    known = set(sys.modules)
    namespace, printed = {"__name__": "__main__"}, ""
    for kind, code in blocks(name):
        if kind == "sh":
            printed = "".join(shell(line, succeeds) for line in commands(code))
        elif kind == "text" and printed:
            told = shown(name, printed)
            assert [line for line in shown(name, code) if not any(one.startswith(line) for one in told)] == []
        elif kind == "python" and (file := re.match(r"# (\w+\.py)\n", code)):
            (tmp_path / file[1]).write_text(code)
        elif kind == "python":
            exec(compile(code, f"{name}: {code.splitlines()[0]}", "exec"), namespace)  # noqa: S102
    for module in set(sys.modules) - known:
        if getattr(sys.modules[module], "__file__", None) and tmp_path in Path(sys.modules[module].__file__).parents:
            del sys.modules[module]


def test_every_block_says_what_it_is_and_few_are_not_run():
    found = {name: Counter(kind for kind, _ in blocks(name)) for name in PAGES}
    assert {kind for counts in found.values() for kind in counts} <= KINDS
    # a fence that the pattern does not see would hide its code
    assert all(text.count("\n```") == 2 * sum(found[name].values()) for name, text in TEXTS.items())
    not_run = {name: sum(n for kind, n in counts.items() if kind.endswith("no-run")) for name, counts in found.items()}
    assert {name: n for name, n in not_run.items() if n} == NOT_RUN


def test_links_lead_to_files():
    pages = [*PAGES.values(), *RESULTS.glob("*.md")]
    links = [(page, target) for page in pages for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())]
    files = [(page, target) for page, target in links if "://" not in target]
    assert [(page, target) for page, target in files if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_site():
    listed = set(re.findall(r"- ([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text()))
    others = {"index.md", "changelog.md", "results/README.md", *made_pages.GENERATED}
    assert listed == ({*PAGES} | others) - {"README.md"}


def test_made_pages_name_what_there_is():
    settings, choosing = made_pages.settings(), TEXTS["choosing.md"]
    assert [name for name in NAMES if f"## {name}\n" not in settings] == []
    assert [name for name in LEARNERS if f"`{name}`" not in choosing] == []
    updates = made_pages.updates()
    assert [name for name in LEARNERS if f"`{name}`" not in updates] == []
    locations = re.findall(r"^::: (\S+)$", made_pages.api(), re.MULTILINE)
    assert locations and all(pkgutil.resolve_name(location) is not None for location in locations)
    assert "## A store" in made_pages.layout()


OFFERED = {name: getattr(blocksvm, name) for name in blocksvm.__all__} | {"LinearSVC": estimators.LinearSVC}
EXAMPLES = [
    test
    for name, offered in OFFERED.items()
    for test in doctest.DocTestFinder().find(offered, name, globs={"blocksvm": blocksvm, "scipy": scipy})
    if test.examples
]


def test_what_most_users_call_has_an_example():
    assert {"fit", "write_store", "open_store", "Stream", "Model", "LinearSVC"} <= {test.name for test in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_an_example_shows_what_it_prints(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text("+1 1:1 3:0.5\n-1 2:1 4:0.5\n" * 30)
    blocksvm.write_store("rows.svm", "rows.h5")
    with blocksvm.open_store("rows.h5") as store:
        blocksvm.fit(store).save("model.h5")
    told = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=told.append).failed == 0, "".join(told)


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
@pytest.mark.slow
def test_cluster_demo(tmp_path):
    """The run that lost a worker ends with the same bits."""
    line = [sys.executable, ROOT / "tools/cluster_demo.py", "--rows", "4000", "--folder", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "is killed" in done.stdout and done.stdout.endswith("the two models have the same bits\n")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_can_be_loaded(script, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    import_module(f"experiments.{script}")


def test_each_page_of_results_has_a_task_whose_commands_name_scripts_and_files(monkeypatch):
    monkeypatch.setitem(sys.modules, "doit", SimpleNamespace(get_var=lambda name, default: default))
    dodo = runpy.run_path(str(ROOT / "experiments" / "dodo.py"))
    assert set(dodo["MEASURED"]) == {path.stem for path in RESULTS.glob("*.md")} - WRITTEN
    commands = [*dodo["MADE"].values(), *(one for _, parts in dodo["MEASURED"].values() for one in parts.values())]
    assert set(re.findall(r"experiments\.(\w+)", " ".join(commands))) == set(SCRIPTS) - {"runs"}
    made = [file for files in dodo["MADE"] for file in files.split()]
    assert len(made) == len(set(made))
    rooms = " ".join(rooms for rooms, _ in dodo["MEASURED"].values()).split()
    assert [room for room in rooms if not (ROOT / "blocksvm" / room).is_dir()] == []
    front = (RESULTS / "README.md").read_text()
    assert set(re.findall(r"\]\(([\w-]+)\.md\)", front)) == set(dodo["MEASURED"]) | WRITTEN - {"README"}
    public = front.partition("**Files that DIR needs**")[2]
    wanted = {file for command in commands for file in dodo["files_of"](command)} - set(made)
    assert sorted(file for file in wanted if file not in public) == []
    assert [*dodo["task_data"](), *dodo["task_measurements"]()]


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
