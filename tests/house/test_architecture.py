"""What linters do not see of the rooms: no circle of files, registries, doors, tuned constants, quick help."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

from blocksvm import structured
from blocksvm.base.user_code import object_at
from blocksvm.formats import FORMATS
from blocksvm.losses import LOSSES
from blocksvm.online import LEARNERS
from blocksvm.online.methods import SOLVERS

PACKAGE = ROOT / "blocksvm"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, however far around: those that are left when modules that import none of those
    left are taken away, one after the other, and then those that none imports."""
    left = {name: own & set(imports) for name, own in imports.items()}
    while gone := {name for name, own in left.items() if not own} | (set(left) - set().union(*left.values())):
        left = {name: own - gone for name, own in left.items() if name not in gone}
    return [sorted(left)] if left else []


def file_imports(path: Path, files: set[str]) -> set[str]:
    """The files of the package that one imports when it is run, at once or in a function."""
    tree = ast.parse(path.read_text())
    typing_only = {
        node
        for one in ast.walk(tree)
        if isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test)
        for node in ast.walk(one)
    }
    found = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & files or {node.module}
    return found & files


@pytest.mark.slow
def test_no_circle_of_files():
    names = {}
    for path in SOURCES:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    imports = {name: file_imports(path, set(names)) - {name} for name, path in names.items()}
    assert circles(imports) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]


@pytest.mark.parametrize("registry", [LOSSES, LEARNERS, SOLVERS, FORMATS, structured.LEARNERS, structured.TASKS])
def test_a_registry_names_objects_of_its_class(registry):
    wanted = tuple(map(object_at, registry.classes))
    assert all(isinstance(registry.load(name), wanted) for name in registry)


def test_a_door_is_a_few_lines():
    for path in PACKAGE.glob("*.py"):
        statements = ast.parse(path.read_text()).body
        assert path.name in ("__init__.py", "testing.py") or len(statements) <= 7, path.name


# constants of the core that no measurement has chosen: bytes, names, roundings, limits of what may be asked for, and
# two of a textbook (L-BFGS: DECREASE, PAIRS)
NOT_TUNED = {
    "AUTO", "BEST_SHARE", "BINS", "BIN_BITS", "CHANGE", "CHOOSING_BYTES", "DECREASE", "ENTRY_BYTES", "FARTHEST",
    "FEATURES", "FEW", "GAIN", "LARGE", "LARGEST_DRIFT", "LARGEST_FACTOR", "LEAST_ROWS", "LONG", "MEMBER_BYTES",
    "MOST_FIXED", "MOST_STEPS", "MOVING", "PAIRS", "PARTITION", "PASS", "QUADRATIC", "ROW_BYTES", "SET_PASS",
    "SLOT_BYTES", "TABLE_BYTES", "WITHIN",
}  # fmt: skip
MOST_TUNED = 25


def constants(path: Path) -> dict[str, bool]:
    """Names of the numbers that a file gives to constants, and whether a comment explains them."""
    lines, found = path.read_text().splitlines(), {}
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Assign):
            continue
        names = [one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        within = list(ast.walk(node.value))
        numbers = any(isinstance(one, ast.Constant) and isinstance(one.value, int | float) for one in within)
        plain = not any(isinstance(one, ast.Call | ast.Name) for one in within)
        if numbers and plain and all(name.isupper() for name in names):
            before = next(line for line in reversed(lines[: node.lineno - 1]) if not line[:1].isupper())
            explained = "#" in lines[node.lineno - 1] or before.startswith("#")
            found |= {name: explained for name in names}
    return found


def test_few_constants_are_tuned_and_each_is_explained():
    tuned = {}
    for path in SOURCES:
        if path.parent.name in ("training", "solvers"):
            tuned |= {name: said for name, said in constants(path).items() if name not in NOT_TUNED}
    assert len(tuned) <= MOST_TUNED, sorted(tuned)
    assert [name for name, said in tuned.items() if not said] == []


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        "split",
        "train",
        "predict",
        "ask",
        "stream",
        "regret",
        "margin",
        "structure",
        "report",
        "export",
        "import",
        "info",
        "completion",
    ],
)
def test_help_imports_nothing_heavy(command):
    """Quick start is a matter of what is imported, which does not depend on the machine."""
    code = (
        "import sys, runpy; sys.argv = ['x', '--help']\n"
        "try: runpy.run_module('blocksvm.%s', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'h5py', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)" % command
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout
