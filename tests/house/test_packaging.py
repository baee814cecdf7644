"""What an installation brings: the blocksvm command, its metadata, and the oldest dependencies that it claims."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.places import ROOT

import blocksvm
from blocksvm.__main__ import COMMANDS, main

PACKAGE = Path(blocksvm.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

sys.path.append(str(ROOT / "tools"))
import oldest  # noqa: E402


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=ROOT)


def test_it_is_cited_by_its_version():
    assert f"version: {blocksvm.__version__}\n" in (ROOT / "CITATION.cff").read_text()


# ------------------------------------------------------------------------------------------------ the command


def test_the_list_names_every_command_on_a_line(run_in_process):
    listed = run_in_process(main)
    assert (listed.code, listed.err) == (0, "")
    found = {line.split()[0]: line for line in listed.out.splitlines() if line.startswith("  ")}
    runnable = 'if __name__ == "__main__":'
    are_commands = {path.stem for path in PACKAGE.glob("[a-z]*.py") if runnable in path.read_text()}
    assert set(found) == set(COMMANDS) == are_commands
    assert all(len(line) <= 80 and len(line.split()) > 3 for line in found.values())
    assert run_in_process(main, "--help").out == listed.out


@pytest.mark.process
def test_listing_imports_nothing_heavy():
    code = (
        "import sys, runpy; sys.argv = ['blocksvm', *sys.argv[1:]]\n"
        "try: runpy.run_module('blocksvm', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'h5py', 'scipy', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    for arguments in ([], ["--version"], ["train", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode, done.stderr) == (0, ""), arguments


def test_functions_keep_their_names_beside_commands_of_the_same_name():
    import blocksvm.regret
    import blocksvm.split

    assert blocksvm.split.__module__ == "blocksvm.conversion.convert"
    assert blocksvm.regret.__module__ == "blocksvm.analysis.report"
    assert callable(sys.modules["blocksvm.split"].main)


def test_version(run_in_process):
    told = run_in_process(main, "--version")
    assert (told.code, told.out, told.err) == (0, f"blocksvm {blocksvm.__version__}\n", "")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("trian", "did you mean 'train'?"),
        ("Predict", "did you mean 'predict'?"),
        ("spilt", "did you mean 'split'?"),
        ("warmup", "run blocksvm alone to list the commands"),
        ("../train", "did you mean 'train'?"),
        ("", "run blocksvm alone to list the commands"),
    ],
)
def test_an_unknown_command_is_told_with_the_nearest(run_in_process, name, advice):
    told = run_in_process(main, name, "--help")
    assert (told.code, told.out) == (2, "")
    assert told.err == f"blocksvm: error: there is no command '{name}'; {advice}\n"


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments", [["info", "--help"], ["train", "nowhere.h5", "m.h5"], ["predict"], ["info", "--version"]]
)
def test_a_command_is_the_module_of_its_name(arguments):
    name, *rest = arguments
    own, through = run(f"blocksvm.{name}", *rest), run("blocksvm", *arguments)
    assert (through.returncode, through.stdout, through.stderr) == (own.returncode, own.stdout, own.stderr)
    assert own.stdout or own.stderr


@pytest.mark.process
def test_the_script_is_the_module():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="blocksvm")
    assert script.value == PROJECT["scripts"]["blocksvm"] == "blocksvm.__main__:entry"
    done = subprocess.run([Path(sys.executable).with_name("blocksvm"), "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"blocksvm {blocksvm.__version__}\n")


# ------------------------------------------------------------------------------------------------ metadata


def test_licence_and_types():
    told = importlib.metadata.metadata("blocksvm")
    assert told["License-Expression"] == PROJECT["license"] == "BSD-3-Clause"
    text = (ROOT / "LICENSE").read_text()
    assert text.startswith("BSD 3-Clause License") and "The blocksvm developers" in text
    assert (PACKAGE / "py.typed").exists()


def test_type_checkers_see_what_is_imported_on_first_use():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    told = {alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == {name: f"blocksvm.{module}" for name, module in blocksvm._LAZY.items()}
    assert all(hasattr(importlib.import_module(module), name) for name, module in told.items())


# ------------------------------------------------------------------------------------------------ the oldest claimed


def test_lower_bounds_become_pins():
    assert oldest.pins(["numpy>=2.0.0", "ruff==0.17.*"]) == ["numpy==2.0.0", "ruff==0.17.*"]
    for unbounded in ("numpy", "numpy<3", "numpy>=2,<3", "numpy~=2.0"):
        with pytest.raises(ValueError, match="names no lower bound"):
            oldest.pins([unbounded])


def test_every_dependency_has_a_lower_bound_and_groups_agree():
    extras = PROJECT["optional-dependencies"]
    pins = oldest.oldest(list(extras))
    assert len(set(pins)) == len({pin.split("==")[0] for pin in pins})
    assert len(oldest.oldest([])) == len(PROJECT["dependencies"])


def test_what_is_installed_is_what_is_claimed():
    """In .venv-oldest exactly the lower bounds, elsewhere at least these."""
    is_oldest = Path(sys.prefix).name == ".venv-oldest"
    for pin in oldest.oldest(["test"]):
        name, bound = pin.split("==")
        if bound.endswith("*"):
            continue
        there, least = (
            tuple(int(part) for part in version.split(".")[:3]) for version in (importlib.metadata.version(name), bound)
        )
        assert there == least if is_oldest else there >= least, name
