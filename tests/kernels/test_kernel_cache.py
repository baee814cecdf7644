"""Machine code on disk: the same bits as compiled anew, never stale, never from a folder that others may write in."""

import ast
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from support.paths import ROOT

from blocksvm.base import log
from blocksvm.kernels import inlined
from blocksvm.kernels.compile import SOURCES, cache_folder
from blocksvm.online import get_learner
from blocksvm.online.loops import loops_of

needs_jit = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="nothing is compiled")


def python(code: str, cache: Path, **environment: str) -> subprocess.Popen:
    """A process of its own that finds this checkout."""
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"} | environment
    line = [sys.executable, "-c", f"import json, numpy as np\n{code}"]
    return subprocess.Popen(line, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen):
    """The JSON value that it printed last, and what it said."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return json.loads(out.splitlines()[-1]), err


def files_of(cache: Path) -> list[Path]:
    return [path for path in sorted(cache.rglob("*.nb?")) if path.is_file()]


# the sums for the kinds of numbers that are given, and how often the kernel was compiled
SUMS = """
from blocksvm.kernels.columns import row_sq_norms as k
out = np.empty(1)
for kind in {kinds}:
    k(np.array([0, 2]), np.arange(2, dtype=np.int32), np.array([3, 4], kind), out)
print(json.dumps([out[0], sum(k.stats.cache_misses.values())]))
"""


@pytest.mark.process
@needs_jit
def test_processes_that_compile_at_the_same_time(tmp_path):
    """One kernel for other types in each, of which numba's index would lose some, or take one for another."""
    kinds = ("float64", "float32", "int64", "int32")
    running = [python(SUMS.format(kinds=[kind]), tmp_path) for kind in (*kinds, "float64")]
    assert [answer_of(process)[0][0] for process in running] == [25.0] * 5
    assert answer_of(python(SUMS.format(kinds=kinds), tmp_path))[0] == [25.0, 0]


@pytest.mark.process
@needs_jit
@pytest.mark.parametrize("cut", ["*.nbi", "*.nbc"])
def test_a_file_that_was_cut_off_is_made_anew(tmp_path, cut):
    run = SUMS.format(kinds=["float64"])
    assert answer_of(python(run, tmp_path))[0] == [25.0, 1]
    for path in tmp_path.rglob(cut):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert [answer_of(python(run, tmp_path))[0] for _ in range(2)] == [[25.0, 1], [25.0, 0]]


@pytest.mark.process
@needs_jit
def test_a_loss_from_outside_is_compiled_anew(tmp_path):
    """Its source is not what the folder is named by."""
    code = (
        "from blocksvm.problems.problem_kernels import Objective\n"
        "from blocksvm.solvers.newton_kernels import duals_and_curvatures as k\n"
        "from {module} import {loss}\n"
        "z, out = np.zeros((1, 1)), np.zeros((1, 1))\n"
        "of_rows = np.ones(1, np.int16), None, None, Objective(0.0, z + [1, 1], None, {loss}.at({{'width': 2.0}}))\n"
        "k(z, *of_rows, None, z.copy(), out)\n"
        "print(json.dumps([out[0, 0], sum(k.stats.cache_misses.values())]))"
    )
    for module, loss, found in (
        ("support.smooth_hinge", "SMOOTH_HINGE", [[0.5, 1], [0.5, 1]]),
        ("blocksvm.losses.box", "SQUARED_HINGE", [[2.0, 1], [2.0, 0]]),
    ):
        line = code.format(module=module, loss=loss)
        assert [answer_of(python(line, tmp_path))[0] for _ in range(2)] == found


@needs_jit
def test_learners_that_differ_have_code_of_their_own_and_those_from_outside_none_that_is_kept():
    @inlined
    def update(row, y, z, importance, memory):
        memory.scalars[0] += 1.0

    loops = [loops_of(get_learner("omd").of({"mirror": mirror}).rule).one for mirror in ("entropic", "p-norm")]
    names = {loop._cache._impl.filename_base for loop in loops if loop._cache.kept}
    assert len(names) == 2
    assert not loops_of(get_learner("pa1").rule._replace(update=update)).one._cache.kept


@pytest.mark.slow
def test_kernels_hold_no_constants_that_their_folder_is_not_named_by():
    """What kernels import from the package lies in the sources that are hashed."""
    hashed = {path for pattern in SOURCES for path in (ROOT / "blocksvm").glob(pattern)}
    kept = tuple(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in hashed)
    for source in (ROOT / "blocksvm").rglob("*.py"):
        tree = ast.parse(source.read_text())
        loose = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("blocksvm")
            for alias in node.names
            if not f"{node.module}.{alias.name}".startswith(kept)
        }
        compiled = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
            & {"kernel", "inlined", "inlined_views"}
        ]
        names = {one.id for node in compiled for one in ast.walk(node) if isinstance(one, ast.Name)}
        assert not names & loose, (source, names & loose)
        assert not compiled or source in hashed, source


def another_owns_it(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives folders away")
    os.chown(path, 12345, 12345)


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


SPOILED = [lambda path: path.chmod(0o777), lambda path: path.chmod(0o770), another_owns_it, a_link, a_file]


@pytest.mark.parametrize("spoil", SPOILED)
def test_an_unsafe_folder_is_not_used(tmp_path, monkeypatch, spoil):
    """It holds pickles."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(log, "_said", set())

    def folder_now() -> tuple[Path | None, str]:
        """(cache folder of a process that begins now, what it says)"""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            return cache_folder.__wrapped__(), "".join(str(one.message) for one in said)

    ordinary, said = folder_now()
    assert ordinary.is_relative_to(tmp_path / "cache")
    assert said == ""
    assert stat.S_IMODE(ordinary.stat().st_mode) == stat.S_IMODE(ordinary.parent.stat().st_mode) == 0o700
    spoil(ordinary)
    found, said = folder_now()
    assert found is None
    assert said.count("kernels are compiled anew in each run") == 1
    assert str(ordinary) in said


@pytest.mark.process
@needs_jit
@pytest.mark.parametrize("full", [False, True])
def test_a_command_without_a_folder_or_on_a_full_disk_says_so_once(tmp_path, full):
    cache = tmp_path / "cache"
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n" if full else ""
    if not full:
        cache.write_bytes(b"")
    lines = SUMS.format(kinds=["float64", "float32"]).strip().replace("\n", "\n    ")
    code += (
        "from blocksvm.cli import console\n"
        f"def main(arguments):\n    console.Parser('test', '').parse_args([])\n    {lines}\n"
        "console.run(main, [])"
    )
    out, err = python(code, cache).communicate(timeout=60)
    assert json.loads(out) == [25.0, 2]
    assert err.count("kernels are compiled anew in each run") == 1
    assert "Traceback" not in err and "Warning" not in err
    assert files_of(tmp_path) == []


@pytest.mark.process
def test_folders_of_other_sources_are_removed_when_they_were_not_used_for_long(tmp_path):
    root = tmp_path / "cache" / "blocksvm"
    for name, days in (("kernels-old", 31), ("kernels-new", 29), ("other", 31)):
        (root / name).mkdir(parents=True)
        (root / name / "file.nbc").touch()
        os.utime(root / name, (time.time() - days * 86_400,) * 2)
    root.chmod(0o700)
    line = "from blocksvm.kernels.compile import cache_folder; print(json.dumps(cache_folder().name))"
    own, _ = answer_of(python(line, tmp_path / "cache"))
    assert sorted(path.name for path in root.iterdir()) == sorted(["kernels-new", "other", own])


@pytest.mark.process
def test_without_compiling_all_is_plain_python(tmp_path):
    code = SUMS.replace("sum(k.stats.cache_misses.values())", "type(k).__name__").format(kinds=["float64"])
    assert answer_of(python(code, tmp_path, NUMBA_DISABLE_JIT="1"))[0] == [25.0, "function"]
    assert not list(tmp_path.iterdir())
