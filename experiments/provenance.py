"""Where the figures of experiments/results come from: the last line of each page names its data, their commits and
days, and a check lists the pages whose inputs have changed since.

    python -m experiments.provenance            writes the lines
    python -m experiments.provenance --check    ends with 1 where a page has another line
    python -m experiments.provenance --stale    lists, for each page, what has changed since its data were measured

Inputs of a page are the scripts of its commands (experiments/dodo.py), the commands of the package that these run, and
all files of the package that they import, however far.  A commit ending in -dirty was measured before it was committed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from experiments.figures import RESULTS, ROOT, renew

BEGIN = "Measured: "
OTHERS = ("README", "reliability")  # an overview; what campaigns wrote


def measured_pages() -> list[str]:
    return sorted(path.stem for path in RESULTS.glob("*.md") if path.stem not in OTHERS)


def data_of(page: str) -> list[Path]:
    """The files of a page, whose names begin with that of no longer page."""
    pages = measured_pages()
    return [
        path for path in sorted((RESULTS / "data").glob(f"{page}*.json"))
        if max((name for name in pages if path.stem == name or path.stem.startswith(f"{name}-")), key=len) == page
    ]  # fmt: skip


def line_of(page: str) -> str:
    """The last line of a page."""
    parts = []
    for path in data_of(page):
        kept = json.loads(path.read_text())
        parts.append(f"[{path.stem}.json](data/{path.name}) at {kept['commit']}, {kept['date']}")
    return f"{BEGIN}{'; '.join(parts)}.\n"


def pages_with_lines() -> dict[Path, str]:
    """All pages as they are to be."""
    found = {}
    for page in measured_pages():
        path = RESULTS / f"{page}.md"
        text = re.sub(rf"\n{BEGIN}.*\n\Z", "", path.read_text().rstrip("\n") + "\n", flags=re.DOTALL)
        found[path] = f"{text.rstrip()}\n\n{line_of(page)}"
    return found


# ------------------------------------------------------------------------------------------------ what has changed


def module_file(name: str) -> Path | None:
    """The file of a module of this repository."""
    place = ROOT.joinpath(*name.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.exists()), None)


@cache
def offered() -> dict[str, str]:
    """The module of each name that the package offers at its top."""
    text = (ROOT / "blocksvm" / "__init__.pyi").read_text()
    return {name: f"blocksvm.{module}" for module, name in re.findall(r"from \.(\S+) import (\w+)", text)}


@cache
def imports_of(path: Path) -> frozenset[Path]:
    """The files of this repository that one names: by an import, wherever in it, or by a place, 'module:attribute'."""
    text = path.read_text()
    names = set(re.findall(r'"(blocksvm[.\w]+):\w+"', text))
    names |= {offered()[name] for name in re.findall(r"\bblocksvm\.(\w+)", text) if name in offered()}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
            if node.module == "blocksvm":
                names |= {offered()[alias.name] for alias in node.names if alias.name in offered()}
    found = {module_file(name) for name in names if name.split(".")[0] in ("blocksvm", "experiments")}
    return frozenset(found - {None})


def reached(roots: Iterable[Path]) -> set[Path]:
    """The roots and all that they import."""
    left, found = list(roots), set()
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += imports_of(path)
    return found


def commands_in(path: Path) -> set[str]:
    """The commands of the package that a script runs, but info, which only tells what there is."""
    text = path.read_text()
    names = set(re.findall(r'command\(\s*"(\w+)"|"blocksvm\.(\w+)"', text))
    names = {name for pair in names for name in pair if name}
    shared = re.search(r"from experiments.measuring import (.*)", text)
    names |= {"split", "train"} & set(re.findall(r"\w+", shared[1] if shared else ""))
    return names - {"info"}


def inputs_of(page: str, measured: dict[str, dict[str, str]]) -> set[Path]:
    """The files that a page's figures depend on."""
    text = " ".join(measured[page].values())
    scripts = {module_file(name) for name in re.findall(r"experiments\.\w+", text)} - {None}
    commands = set(re.findall(r"blocksvm\.(\w+)", text)).union(*map(commands_in, scripts))
    if "benchopt run" in text:
        scripts |= {*(ROOT / "experiments" / "benchopt").rglob("*.py"), module_file("blocksvm.api.fit")}
    return reached(scripts | {module_file(f"blocksvm.commands.{name}") for name in commands})


def changes(commit: str, files: set[Path]) -> list[str] | None:
    """Which of the files have changed since a commit, the most changed first; None where the commit is not known."""
    known = commit.removesuffix("-dirty")
    line = ["git", "diff", "--numstat", known, "--", *sorted(str(path.relative_to(ROOT)) for path in files)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return None
    rows = [row.split("\t") for row in done.stdout.splitlines()]
    return [name for plus, minus, name in sorted(rows, key=lambda row: -int(row[0]) - int(row[1]))]


def stale(measured: dict[str, dict[str, str]]) -> list[str]:
    """A line for each file of data."""
    lines = []
    for page in measured_pages():
        inputs = inputs_of(page, measured)
        for path in data_of(page):
            kept = json.loads(path.read_text())
            found = changes(kept["commit"], inputs)
            what = (
                "its commit is not known here" if found is None else "nothing has changed" if not found
                else f"{len(found)} of {len(inputs)} files changed, most of all {', '.join(found[:3])}"
            )  # fmt: skip
            lines.append(f"{path.stem:<26} {kept['date']}  {kept['commit']:<15} {what}")
    return lines


def commands_of_pages() -> dict[str, dict[str, str]]:
    """``MEASURED`` of experiments/dodo.py."""
    sys.modules.setdefault("doit", SimpleNamespace(get_var=lambda name, default: default))
    return runpy.run_path(str(ROOT / "experiments" / "dodo.py"), run_name="dodo")["MEASURED"]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="write nothing; end with 1 where a page has another last line")
    p.add_argument("--stale", action="store_true", help="list what has changed since the data were measured")
    options = p.parse_args()
    if options.stale:
        print("\n".join(stale(commands_of_pages())))
        return
    renew(pages_with_lines(), options.check, "provenance")


if __name__ == "__main__":
    main()
