"""The installation: the blocksvm command, its metadata, the oldest dependencies that it claims; quick help."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.paths import ROOT

import blocksvm
from blocksvm import structured
from blocksvm.base.user_code import object_at
from blocksvm.cli.commands import COMMANDS, main
from blocksvm.formats import FORMATS
from blocksvm.losses import LOSSES
from blocksvm.online import LEARNERS
from blocksvm.online.methods import SOLVERS

PACKAGE = Path(blocksvm.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=ROOT)


def test_the_list_names_every_command_on_a_line(run_in_process):
    listed = run_in_process(main)
    assert (listed.code, listed.err) == (0, "")
    found = {line.split()[0]: line for line in listed.out.splitlines() if line.startswith("  ")}
    runnable = 'if __name__ == "__main__":'
    are_commands = {path.stem for path in PACKAGE.glob("[a-z]*.py") if runnable in path.read_text()}
    assert set(found) == set(COMMANDS) == are_commands
    assert all(len(line) <= 80 and len(line.split()) > 3 for line in found.values())
    assert run_in_process(main, "--help").out == listed.out


@pytest.mark.parametrize(
    ("name", "advice"),
    [("trian", "did you mean 'train'?"), ("Predict", "did you mean 'predict'?"), ("spilt", "did you mean 'split'?"),
     ("warmup", "run blocksvm alone to list the commands"), ("../train", "did you mean 'train'?"),
     ("", "run blocksvm alone to list the commands")],
)  # fmt: skip
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


def test_what_the_package_offers_has_names_that_no_module_shares():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    names = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(blocksvm.__all__) == names and all(hasattr(blocksvm, name) for name in names)
    assert names.isdisjoint(path.stem for path in PACKAGE.iterdir())


GROUPS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z]+\])?(>=|==)([0-9.]+[0-9*])")


@pytest.mark.parametrize("group", GROUPS)
def test_every_dependency_has_a_lower_bound_and_groups_agree(group):
    """So that the oldest releases that are claimed can be installed (the session ``oldest`` of nox)."""
    assert all(BOUND.fullmatch(requirement) for requirement in GROUPS[group])
    others = {BOUND.fullmatch(one)[1]: one for name in GROUPS if name != group for one in GROUPS[name]}
    assert all(others.get(BOUND.fullmatch(one)[1], one) == one for one in GROUPS[group])


def test_what_is_installed_is_what_is_claimed():
    """In the session ``oldest`` exactly the lower bounds, elsewhere at least these."""
    for name, _, bound in (BOUND.fullmatch(one).groups() for one in (*GROUPS[""], *GROUPS["test"])):
        there, least = (
            tuple(int(part) for part in version.split(".")[:3] if part != "*")
            for version in (importlib.metadata.version(name), bound)
        )
        assert there == least if Path(sys.prefix).name == "oldest" and "*" not in bound else there >= least, name


@pytest.mark.parametrize("registry", [LOSSES, LEARNERS, SOLVERS, FORMATS, structured.LEARNERS, structured.TASKS])
def test_a_registry_names_objects_of_its_class(registry):
    wanted = tuple(map(object_at, registry.classes))
    assert all(isinstance(registry.load(name), wanted) for name in registry)


@pytest.mark.process
@pytest.mark.parametrize("line", ["", " --version", " train --help", *(f".{name} --help" for name in COMMANDS)])
def test_lists_and_help_import_nothing_heavy(line):
    """Quick start is a matter of what is imported, which does not depend on the machine."""
    code = (
        "import sys, runpy; del sys.argv[0]\n"
        "try: runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'h5py', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *f"blocksvm{line}".split()], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout or line == " --version"
