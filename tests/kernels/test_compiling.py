"""Compiling in ways that are not numba's usual one: inlined functions without counted references, own LLVM; and machine
code on disk: the same bits as compiled anew, never stale, never in a folder that others may write in."""

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
from types import FunctionType
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import config, types
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys
from support.paths import ROOT
from support.training_cases import random_rows

from blocksvm.api.fit import fit
from blocksvm.base import log
from blocksvm.kernels import inlined, inlined_views, kernel
from blocksvm.kernels.compile import SOURCES, cache_folder
from blocksvm.kernels.lanes import eight, four, plus, put, times
from blocksvm.kernels.rows import prefetch
from blocksvm.kernels.text_bytes import float_of_bits
from blocksvm.online import get_learner
from blocksvm.online.loops import loops_of

needs_jit = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@inlined
def doubled(x):
    return x + x


@inlined
def bits_as_number(x):
    return float_of_bits(x)


@kernel
def of_both(x, bits):
    return doubled(x) + bits_as_number(bits)


def test_an_inlined_function_is_called_by_kernels_and_by_python():
    bits = np.float64(-0.3).view(np.uint64)
    assert of_both(0.1, bits) == 0.1 + 0.1 - 0.3
    assert (doubled(0.1), doubled(3)) == (0.2, 6)


def moved_four(w, factor, to, i):
    put(to, i, plus(four(w, i), factor, times(factor, four(w, i))))


def moved_eight(w, factor, to, i):
    put(to, i, plus(eight(w, i), factor, times(factor, eight(w, i))))


@pytest.mark.parametrize(("moved", "count"), [(moved_four, 4), (moved_eight, 8)])
def test_numbers_side_by_side_are_those_of_plain_code(moved, count):
    """Bounds are checked where it is asked for."""
    w, to, in_kernel = np.random.default_rng(0).standard_normal(20), np.zeros(20), kernel(moved)
    for i in (np.uint64(0), np.uint64(3), np.uint64(20 - count)):
        to[:] = 0.0
        in_kernel(w, 0.3, to, i)
        expected = np.zeros(20)
        own = slice(int(i), int(i) + count)
        expected[own] = w[own] + 0.3 * (0.3 * w[own])
        assert np.array_equal(to, expected)
    if config.DISABLE_JIT:
        return
    checked = numba.njit(boundscheck=True)(moved)
    checked(w, 0.3, to, 20 - count)
    for i in (20 - count + 1, 20, 1 << 40):
        with pytest.raises(IndexError, match="out of bounds"):
            checked(w, 0.3, to, i)
    (code,) = checked.inspect_llvm().values()
    assert "out of bounds" in code


@kernel
def sum_asking_ahead(w, ahead):
    total = 0.0
    for i in range(w.shape[0]):
        prefetch(w, i + ahead)
        total += w[i]
    return total


def test_asking_for_memory_changes_nothing_and_never_fails():
    w = np.arange(10.0)
    assert [sum_asking_ahead(w, ahead) for ahead in (0, 3, 1 << 50, -(1 << 50))] == [45.0] * 4


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@inlined_views
def swapped(pair):
    return Pair(pair.second, pair.first)


@inlined
def sum_of(pair, depth):
    """Rebinds what it is given, in a loop, and returns early."""
    first, second = pair.first, pair.second
    for _ in range(depth):
        first, second = second, first[1:]
        if first.shape[0] < 2:
            return -1.0
    return first[0] + second[0]


@kernel
def many_sums(a, b, depth, times):
    total = 0.0
    for _ in range(times):
        made = a.copy()
        pair = Pair(made, b)
        total += sum_of(pair, depth) + sum_of(swapped(Pair(made[:], b)), depth)
    return total


@pytest.mark.slow
@needs_jit
def test_references_to_arrays_are_those_of_their_maker():
    a, b = np.arange(20.0), np.arange(20.0) + 0.5
    _nrt_python.memsys_enable_stats()
    before = sys.getrefcount(a), sys.getrefcount(b), rtsys.get_allocation_stats()
    found = [many_sums(a, b, depth, 50) for depth in (0, 3, 60)]
    after = sys.getrefcount(a), sys.getrefcount(b), rtsys.get_allocation_stats()
    assert after[:2] == before[:2]
    made, freed = (getattr(after[2], name) - getattr(before[2], name) for name in ("mi_alloc", "mi_free"))
    assert made == freed >= 150
    assert found == [many_sums.py_func(a, b, depth, 50) for depth in (0, 3, 60)]


@inlined
def parts_of(a):
    return a[:1], a[1:]


@kernel
def first_of_rest(a):
    return parts_of(a)[1][0]


def wrong_ones(package: str) -> set[str]:
    """The inlined functions of a package that return arrays, of those that a kernel has called."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(package)]
    functions = {one for module in modules for one in vars(module).values() if isinstance(one, FunctionType)}
    kinds = {function.__name__: cpu_target.typing_context._lookup_global(function) for function in functions}
    return {
        name
        for name, kind in kinds.items() if isinstance(kind, types.Function)
        for template in kind.templates
        for found, _ in getattr(template, "_impl_cache", {}).values() if found.targetoptions.get("_nrt") is False
        for one in found.overloads.values() if "array" in str(one.signature.return_type)
    }  # fmt: skip


@needs_jit
def test_inlined_functions_return_no_arrays():
    """They would be freed while they are in use.  numba refuses an array; of tuples of them, those are tried of
    what training is made of."""
    first_of_rest.compile((types.float64[::1],))
    assert wrong_ones(__name__) == {"parts_of"}  # not called: only looked at
    X, y = random_rows(n=60, d=10)
    for solver in ("dual-cd", "pegasos", "pa1", "auto", "arow"):
        fit(X, y, solver=solver, max_outer=2)
    fit(X, y, solver="newton", loss="logistic", max_outer=2)
    fit(X, np.arange(60) % 3, max_outer=2)
    assert not wrong_ones("blocksvm.")


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
