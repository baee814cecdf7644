"""The pages of docs/ and README.md: their code runs, their links lead somewhere, made pages name what there is.

A page is run in a folder of its own, its blocks in their order, on small made-up files with the names that it uses.
Blocks are ``python``, ``sh`` or ``text`` (behind commands: beginnings of lines that these print); ``no-run`` behind the
language marks what cannot run here.  A python block that begins with ``# NAME.py`` is that file.
"""

import gzip
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import scipy
from support.paths import ROOT

from blocksvm.cli.commands import COMMANDS
from blocksvm.model.model_file import describe_model
from blocksvm.online import LEARNERS
from blocksvm.online.methods import NAMES
from blocksvm.store.reader import open_store

sys.path.append(str(ROOT / "tools"))
import pages as made_pages  # noqa: E402

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md"))} | {"README.md": ROOT / "README.md"}
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"python", "sh", "text", "sh no-run", "python no-run"}
# page -> blocks that are not run: they install, download, or need what is not there; the number shall not grow unseen
NOT_RUN = {"README.md": 2, "cluster.md": 2, "objects.md": 1, "tutorial.md": 1}
ELSEWHERE = {"extending.md", "extending-data.md"}  # run with oracles by test_extending.py
# what a reader is thought to have
FILES = (
    "train-1.svm.gz", "train-2.svm.gz", "train.svm", "new.svm", "rows.svm", "rows.vw", "table.csv", "separable.svm",
    "monday.svm", "tuesday.svm", "wednesday.svm", "clicks.svm", "more.svm", "topics.svm", "targets.svm", "train.txt",
    "test.txt",
)  # fmt: skip


def rows(seed: int, n: int = 300, d: int = 40) -> str:
    """svmlight rows of two classes, parted by a plane but for some."""
    draw = np.random.default_rng(seed)
    w = np.random.default_rng(99).normal(size=d)
    lines = []
    for _ in range(n):
        ids = np.sort(draw.choice(d, 8, replace=False))
        values = draw.normal(size=8).round(3)
        label = "+1" if values @ w[ids] + 0.5 * draw.normal() > 0 else "-1"
        lines.append(label + "".join(f" {j + 1}:{v:g}" for j, v in zip(ids, values, strict=True)))
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
    parts = (
        f"the DT B-NP\n{noun} NN I-NP\n{verb} VB B-VP\nhome RB O\n" for noun, verb in zip(nouns, verbs, strict=True)
    )
    return "\n".join(parts) + "\n"


def relabelled(label) -> Callable[[int], str]:
    """Rows whose labels are those that ``label`` gives for a row's score and features."""

    def made(seed: int) -> str:
        lines = []
        for line in rows(seed).splitlines():
            pairs = [pair.split(":") for pair in line.split()[1:]]
            score = sum(float(value) * (1 if int(name) < 20 else -1) for name, value in pairs)
            lines.append(" ".join([f"{label(score):g}", *line.split()[1:]]))
        return "\n".join(lines) + "\n"

    return made


def tagged(seed: int, n: int = 200) -> str:
    """Vowpal Wabbit's rows."""
    draw = np.random.default_rng(seed)
    return "".join(f"{2 * (k % 2) - 1} 1.0 'row{k} |text word{k % 2} word{draw.integers(9)}\n" for k in range(n))


MAKERS = {".svm": rows, ".csv": table, ".txt": sentences, ".vw": tagged}
# files with labels of another kind than those of their suffix
NAMED = {"separable.svm": relabelled(lambda score: 1 if score > 0 else -1),
         "targets.svm": relabelled(lambda score: round(score, 3)),
         "topics.svm": relabelled(lambda score: 1 if score < -1 else 2 if score < 1 else 3)}  # fmt: skip


def make(path: Path, seed: int) -> None:
    maker = NAMED.get(path.name, MAKERS[Path(path.name.removesuffix(".gz")).suffix])
    text = maker(seed).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def blocks(name: str) -> list[tuple[str, str]]:
    """(language and mark, code) of a page's blocks."""
    return BLOCK.findall(PAGES[name].read_text())


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
    same = all(f"{one.__name__} {one.__version__}" in PAGES[name].read_text() for one in (np, scipy))
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
@pytest.mark.parametrize("name", sorted({name for name in PAGES if BLOCK.search(PAGES[name].read_text())} - ELSEWHERE))
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
    assert all(text.count("\n```") == 2 * sum(found[name].values()) for name, text in _texts())
    not_run = {name: sum(n for kind, n in counts.items() if kind.endswith("no-run")) for name, counts in found.items()}
    assert {name: n for name, n in not_run.items() if n} == NOT_RUN


def _texts():
    return [(name, path.read_text()) for name, path in PAGES.items()]


def test_links_lead_to_files():
    missing = []
    for name, text in _texts():
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in target and not (PAGES[name].parent / target).exists():
                missing.append((name, target))
    assert missing == []


def test_every_page_is_in_the_site():
    listed = set(re.findall(r"- ([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text()))
    others = {"index.md", "changelog.md", "results/README.md", *made_pages.GENERATED}
    assert listed == ({*PAGES} | others) - {"README.md"}


def test_made_pages_name_what_there_is():
    settings, choosing = made_pages.settings(), PAGES["choosing.md"].read_text()
    assert [name for name in NAMES if f"## {name}\n" not in settings] == []
    assert [name for name in LEARNERS if f"`{name}`" not in choosing] == []
    updates = made_pages.updates()
    assert [name for name in LEARNERS if f"`{name}`" not in updates] == []
    locations = re.findall(r"^::: (\S+)$", made_pages.api(), re.MULTILINE)
    assert locations and all(pkgutil.resolve_name(location) is not None for location in locations)
    assert "## A store" in made_pages.layout()
