"""The rooms of the code: imports point downwards only, libraries stay where they belong, files explain themselves."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT, TESTS

from blocksvm import structured
from blocksvm.base.user_code import object_at
from blocksvm.commands import COMMANDS
from blocksvm.formats import FORMATS
from blocksvm.learners import LEARNERS
from blocksvm.learners.engine.methods import SOLVERS
from blocksvm.losses import LOSSES

PACKAGE = ROOT / "blocksvm"

# Each room (a folder, or a file at the top) may import from rooms below it, and from its own.
LEVELS = [
    ["__init__"],
    ["base"],
    ["kernels"],
    ["sources"],
    ["store", "losses"],
    ["formats", "problems"],
    ["conversion"],
    ["solvers"],
    ["learners"],
    ["model"],
    ["training", "streaming"],
    ["cluster"],
    ["api"],
    ["validation"],
    ["exchange", "reporting"],
    ["theory", "structured"],  # wings, which stand on the house
    ["estimators"],
    ["cli"],
    ["commands"],
    ["doors"],
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
# library -> the folders and files that may import it
ONLY_IN = {
    "h5py": ["store", "model"],
    "hdf5plugin": ["store"],
    "numcodecs": ["store"],
    "msgspec": ["store"],
    "numba": ["kernels"],
    "llvmlite": ["kernels"],
    "sklearn": ["estimators", "exchange/sklearn_models", "exchange/vectorizers"],
    "onnx": ["exchange/onnx"],
    "pyarrow": ["exchange/weights_table", "formats/tables"],
    "obstore": ["base/objects/obstore_access"],
    "sacrebleu": ["structured/candidates"],
    "argparse": ["cli", "commands"],
    "dask": ["cluster/dask_client"],
    "distributed": ["cluster/dask_client", "cluster/dask_workers"],
}
PRINTING = {"cli", "estimators", "commands"}  # estimators: where verbose asks for it
SOURCES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "__init__" if parts[0] == "__init__.py" else "doors"


def within(path: Path, place: str) -> bool:
    own = path.relative_to(PACKAGE).with_suffix("").as_posix()
    return own == place or own.startswith(place + "/")


def imported(tree: ast.AST):
    """Names of all modules that a file imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module if node.module != "blocksvm" else f"blocksvm.{node.names[0].name}"


def violations(path: Path, text: str) -> list[str]:
    room = room_of(path)
    found = []
    tree = ast.parse(text)
    for name in imported(tree):
        top, _, rest = name.partition(".")
        if top == "blocksvm":
            other = rest.split(".")[0]
            if other in LEVEL and other != room and LEVEL[other] >= LEVEL[room]:
                found.append(f"{room} imports {other}, which does not lie below it")
        elif top in ONLY_IN and not any(within(path, place) for place in ONLY_IN[top]):
            found.append(f"{room} imports {top}")
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        if called and room not in PRINTING:
            found.append(f"{room} prints")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    assert violations(path, path.read_text()) == []


def test_the_check_can_fail():
    path = PACKAGE / "kernels" / "invented.py"
    assert violations(path, "from blocksvm.training.training import Trainer\nimport h5py\nprint(1)") == [
        "kernels imports training, which does not lie below it",
        "kernels imports h5py",
        "kernels prints",
    ]
    # two rooms of one floor know nothing of each other
    beside = "from blocksvm.streaming.stream_pass import StreamPass"
    assert violations(PACKAGE / "training" / "invented.py", beside) == [
        "training imports streaming, which does not lie below it"
    ]


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
        assert path.name == "__init__.py" or len(statements) <= 7, path.name


def test_every_room_has_its_floor():
    assert {room_of(path) for path in SOURCES} <= set(LEVEL)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_explain_themselves_and_are_not_too_long(path):
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= 560


LONGEST_CLASS = 300  # lines
MOST_ARGUMENTS = 10  # of a function that is not compiled; in the core fewer
MOST_OF_A_KERNEL = 16  # arguments of a function of kernels/ and learners/engine/loops.py
CORE, MOST_IN_CORE = {"training", "solvers", "problems", "losses", "store", "sources", "validation"}, 8


def oversized(text: str, most: int = MOST_ARGUMENTS, compiled: bool = False) -> list[str]:
    """Classes that are too long and functions with too many parameters; compiled: those with a decorator, too."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno >= LONGEST_CLASS:
            found.append(node.name)
        if isinstance(node, ast.FunctionDef) and (compiled or not node.decorator_list):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if len([one for one in parameters if one.arg not in ("self", "cls")]) > most:
                found.append(node.name)
    return found


def limit(path: Path) -> int:
    return MOST_IN_CORE if room_of(path) in CORE else MOST_ARGUMENTS


@pytest.mark.slow
def test_classes_and_calls_stay_small():
    kernels = [path for path in SOURCES if within(path, "kernels") or within(path, "learners/engine/loops")]
    sizes = [(path, limit(path), False) for path in SOURCES if path not in kernels]
    sizes += [(path, MOST_OF_A_KERNEL, True) for path in kernels]
    assert {path.name: found for path, *size in sizes if (found := oversized(path.read_text(), *size))} == {}
    assert oversized("class Long:\n" + "    x = 1\n" * LONGEST_CLASS) == ["Long"]
    many = f"def many({', '.join('abcdefghijk')}):\n    pass"
    assert oversized(many) == ["many"]
    assert oversized(f"@kernel\n{many}") == [] and oversized(f"@kernel\n{many}", compiled=True) == ["many"]


LONGEST_OF_A_COMMAND = 60  # lines of a function


def long_functions(text: str) -> list[str]:
    """Functions of more than ``LONGEST_OF_A_COMMAND`` lines."""
    functions = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]
    return [one.name for one in functions if one.end_lineno - one.lineno >= LONGEST_OF_A_COMMAND]


def test_functions_of_commands_are_short():
    commands = sorted((PACKAGE / "commands").glob("*.py"))
    assert {path.name: found for path in commands if (found := long_functions(path.read_text()))} == {}
    body = "    x = 1\n" * (LONGEST_OF_A_COMMAND - 1)
    assert long_functions(f"def just():\n{body}") == []
    assert long_functions(f"def long():\n{body}    x = 1\n") == ["long"]


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
        if room_of(path) in ("training", "solvers"):
            tuned |= {name: said for name, said in constants(path).items() if name not in NOT_TUNED}
    assert len(tuned) <= MOST_TUNED, sorted(tuned)
    assert [name for name, said in tuned.items() if not said] == []


def test_a_solver_has_few_methods():
    tree = ast.parse((PACKAGE / "solvers/solver.py").read_text())
    (solver,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Solver"]
    assert sum(isinstance(node, ast.FunctionDef) for node in solver.body) <= 14


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
        "demo",
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


# Constants that tests replace: three places of the system's files, a time to wait (in two tests), an experiment's grid;
# and one size, of learners' memory of 100 MB, that both ways of it may be compared on small models.
MOST_REPLACED = 8


def test_few_constants_are_replaced():
    pattern = re.compile(r'setattr\(\s*(?:[a-z_.]+, "|"[a-z_.]+\.)[A-Z_]+"')
    assert len(pattern.findall('setattr(one.two, "SIZE", 1)\nsetattr("one.two.SIZE", 1)')) == 2
    found = {
        path.name: len(pattern.findall(path.read_text()))
        for path in TESTS.rglob("*.py")
        if path.name != Path(__file__).name
    }
    assert sum(found.values()) <= MOST_REPLACED, found


def test_no_test_imports_a_test():
    pattern = re.compile(r"^\s*(?:from|import) test_", re.M)
    assert [path.name for path in TESTS.rglob("*.py") if pattern.search(path.read_text())] == []


def test_every_test_lies_in_a_room():
    """A folder for each room of the code, with tests alone; what several of them share is in tests/support."""
    others = {"golden", "support", "__pycache__"}
    assert [path.name for path in TESTS.glob("test_*.py")] == []
    rooms = [path for path in TESTS.iterdir() if path.is_dir() and path.name not in others]
    strangers = [p for room in rooms for p in room.rglob("*.py") if not p.name.startswith("test_")]
    assert strangers == []
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert len(names) == len(set(names))


# Comparisons with the name of a loss, solver, learner, task, format, command, or of a way that a setting chooses: by
# file, how many, and why no capability is asked there.
NAME_CHECKS = {
    "learners/engine/learner.py": (1, "the one place that knows which way to several classes has a learner for each"),
    "problems/problem_settings.py": (1, "the one place that knows which way to several classes is one problem"),
    "commands/completion.py": (1, "the one command that has its own --average"),
    "formats/__init__.py": (1, "the endings of names of files, which formats are called like"),
    "formats/text/documents.py": (1, "no check of a task: the n-grams of a kind that a task is named like"),
}
MOST_NAME_CHECKS = 5
WAYS = ("mirror", "regulariser", "multiclass", "kernel")  # settings whose values are names of methods


def registered_names() -> set[str]:
    """Names in the registries, and the choices of ``WAYS``."""
    from blocksvm.learners.engine.methods import NAMES, get_method

    theirs = structured.LEARNERS, structured.TASKS
    settings = [setting for name in NAMES for setting in get_method(name).settings if setting.name in WAYS]
    ways = {choice for one in settings for choice in one.choices}
    return {*LOSSES, *NAMES, *FORMATS, *ways}.union(*theirs) - {"auto"}  # which is the value of many settings


def texts_in(node: ast.AST | None) -> set[str]:
    """The texts of a literal: of one, of a tuple, list or set of them, or the keys of a dictionary."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else ()
    return set().union(*map(texts_in, node.keys if isinstance(node, ast.Dict) else elements))


def text_constants(tree: ast.Module) -> dict[str, set[str]]:
    """The texts in a module's constants, by name."""
    found = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else ()
        )
        for target in targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            found |= {
                name.id: texts for name, value in pairs if isinstance(name, ast.Name) and (texts := texts_in(value))
            }
    return found


def known_constants(path: Path | None, tree: ast.Module) -> dict[str, set[str]]:
    """Those of a module, and those that it imports from others of the package."""
    found = text_constants(tree)
    for node in ast.walk(tree) if path else ():
        if isinstance(node, ast.ImportFrom) and node.module.startswith("blocksvm"):
            source = PACKAGE.parent / node.module.replace(".", "/")
            source = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
            theirs = text_constants(ast.parse(source.read_text()))
            found |= {a.asname or a.name: theirs[a.name] for a in node.names if a.name in theirs}
    return found


def name_checks(text: str, names: set[str], path: Path | None = None) -> list[str]:
    """Comparisons by ==, != and in with one of the names, or, where something is called a command, with a command's."""
    tree = ast.parse(text)
    constants = known_constants(path, tree)

    def texts(node: ast.AST) -> set[str]:
        if isinstance(node, ast.Constant):
            return {node.value} if isinstance(node.value, str) else set()
        if isinstance(node, ast.Name):
            return constants.get(node.id, set())
        return set().union(*map(texts, node.elts)) if isinstance(node, ast.Tuple | ast.List | ast.Set) else set()

    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            inside = isinstance(node.ops[0], ast.In | ast.NotIn)
            of_text = set().union(*map(texts, node.comparators if inside else [node.left, *node.comparators]))
            shown = ast.unparse(node)
            if of_text & (names | set(COMMANDS) if "command" in shown or "name ==" in shown else names):
                found.append(shown)
    return found


@pytest.mark.slow
def test_capabilities_are_asked_for_and_not_names():
    names = registered_names()
    found = {path.relative_to(PACKAGE).as_posix(): name_checks(path.read_text(), names, path) for path in SOURCES}
    assert {file: len(one) for file, one in found.items() if one} == {f: n for f, (n, _) in NAME_CHECKS.items()}, {
        file: one for file, one in found.items() if one
    }
    assert sum(n for n, _ in NAME_CHECKS.values()) <= MOST_NAME_CHECKS


def test_a_name_check_is_found():
    names = {"hinge", "pa1", "rest"}
    assert name_checks('x = loss.name == "hinge"', names) == ["loss.name == 'hinge'"]
    assert name_checks('RULE = "rest"\nx = rule != RULE', names) == ["rule != RULE"]
    assert name_checks('FILES = ("npz", "hinge")\nx = name not in FILES', names) == ["name not in FILES"]
    assert name_checks('PARTS = {"hinge": 1}\nx = name in PARTS', names) == ["name in PARTS"]
    assert name_checks('x = name in ("pa", "pa1") or "pa1" in settings', names) == ["name in ('pa', 'pa1')"]
    assert name_checks('x = command == "train" or kind == "train"', names) == ["command == 'train'"]
    assert name_checks('x = kind == "store" or y is None', names) == []
