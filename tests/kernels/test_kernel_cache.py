"""Machine code on disk: the same bits as compiled anew, never stale, never run unchecked; functions put together."""

import ast
import json
import math
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.places import ROOT
from support.training_cases import command, make_store, random_rows

from blocksvm.kernels import inlined, inlined_with, notices, specialised
from blocksvm.kernels.kernel_cache import FOLDERS, cache_folder

needs_jit = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="nothing is compiled")

LOOP = """
import numpy as np
from blocksvm.kernels import inlined, inlined_with, kernel, specialised
import helper
from constants import FACTOR
from helper import weight

def score(x):
    return x

@inlined
def plus(x):
    return x + 1.0

@inlined
def minus(x):
    return x - 1.0

FACTORS = (1.0, 1.0)

@inlined
def scaled(x):
    return FACTORS[0] * FACTORS[1] * x

def loop(X):
    total = 0.0
    for i in range(X.shape[0]):
        total += score(X[i])
    return total

@kernel
def weighted(X):
    total = FACTOR
    for i in range(X.shape[0]):
        total += weight(X[i]) + helper.more(X[i])
    return total
"""
HELPER = """
from blocksvm.kernels import inlined, kernel

@inlined
def weight(x):
    return 2.0 * x

@kernel
def more(x):
    return 10.0 * x
"""


def python(code: str, cache: Path, cwd: Path = ROOT, **environment: str) -> subprocess.Popen:
    """A process of its own, that finds this checkout and modules in ``cwd``."""
    path = os.pathsep.join([str(cwd), str(ROOT)])
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | environment
    line = [sys.executable, "-c", f"import json, numpy as np\n{code}"]
    return subprocess.Popen(line, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen):
    """The JSON value that it printed last, and what it said."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return json.loads(out.splitlines()[-1]), err


def answer(code: str, cache: Path, cwd: Path, **environment: str):
    return answer_of(python(f"import loops\nX = np.array([3.0, 4.0])\n{code}", cache, cwd, **environment))[0]


@pytest.fixture
def mine(tmp_path):
    """A folder with a user's own kernels, outside the package."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "loops.py").write_text(LOOP)
    (folder / "helper.py").write_text(HELPER)
    (folder / "constants.py").write_text("FACTOR = 2.0\n")
    return folder


def files_of(cache: Path) -> list[Path]:
    return [path for path in sorted(cache.rglob("*")) if path.is_file()]


# the sum, and how often the kernel was compiled
WEIGHTED = "print(json.dumps([loops.weighted(X), sum(loops.weighted.stats.cache_misses.values())]))"
SUM = 2.0 + 2.0 * 7.0 + 10.0 * 7.0


@pytest.mark.process
@needs_jit
def test_one_name_with_other_parts_is_other_code(tmp_path, mine):
    """Also where a process loads both, which two processes compiled: numba numbers functions anew in each."""
    one = "k = loops.specialised(loops.loop, 'same', score=loops.%s); print(json.dumps(k(X)))"
    assert answer(one % "plus", tmp_path, mine) == 9.0
    assert answer(one % "minus", tmp_path, mine) == 5.0
    both = (
        "k, l = (loops.specialised(loops.loop, 'same', score=s) for s in (loops.plus, loops.minus))\n"
        "@loops.kernel\n"
        "def difference(X):\n"
        "    return k(X) - l(X)\n"
        "found = [k(X), l(X), sum((k.stats.cache_misses + l.stats.cache_misses).values()), difference(X)]\n"
        "print(json.dumps(found))"
    )
    assert answer(both, tmp_path, mine) == [9.0, 5.0, 0, 4.0]


@pytest.mark.process
@needs_jit
def test_a_changed_source_of_the_users_is_compiled_anew(tmp_path, mine):
    """Also one that is only imported, and of equal date."""
    assert answer(WEIGHTED, tmp_path, mine) == [SUM, 1]
    total = SUM
    for name, old, new, more in (
        ("helper.py", "2.0 * x", "3.0 * x", 7.0),
        ("helper.py", "10.0 * x", "20.0 * x", 70.0),
        ("constants.py", "2.0", "5.0", 3.0),
        ("loops.py", "total = FACTOR", "total = 1.0 + FACTOR", 1.0),
    ):
        before = (mine / name).stat()
        (mine / name).write_text((mine / name).read_text().replace(old, new))
        os.utime(mine / name, ns=(before.st_atime_ns, before.st_mtime_ns))
        total += more
        assert answer(WEIGHTED, tmp_path, mine) == [total, 1]
    assert answer(WEIGHTED, tmp_path, mine) == [total, 0]


@pytest.mark.process
@needs_jit
def test_what_is_in_no_file_is_not_kept(tmp_path, mine):
    """Functions of a prompt or a notebook, and parts of which nothing is known."""
    code = (
        "from blocksvm.kernels import inlined, kernel, specialised\n"
        "@kernel\ndef k(X):\n    return X[0]\n"
        "@inlined\ndef own(x):\n    return x * 2.0\n"
        "print(json.dumps([k(X), specialised(loops.loop, 'l', score=own)(X)]))"
    )
    assert answer(code, tmp_path / "cache", mine) == [3.0, 14.0]
    assert files_of(tmp_path / "cache") == []


@pytest.mark.process
@needs_jit
def test_a_damaged_file_is_compiled_anew(tmp_path, mine):
    cache = tmp_path / "cache"
    assert answer(WEIGHTED, cache, mine) == [SUM, 1]
    (path,) = (path for path in files_of(cache) if path.name.startswith("weighted"))
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:900] + b"XX" + whole[902:]):
        path.write_bytes(damaged)
        assert answer(WEIGHTED, cache, mine) == [SUM, 1]
        assert path.read_bytes() != damaged, "it was written anew"
    assert answer(WEIGHTED, cache, mine) == [SUM, 0]


@pytest.mark.process
@needs_jit
def test_constants_that_are_put_into_a_function_are_part_of_its_name(tmp_path, mine):
    """Tuples of them, too; each is compiled once."""
    code = (
        "k = specialised(loops.loop, 'k', score=inlined_with(loops.scaled, 'scaled_by', FACTORS=%s))\n"
        "print(json.dumps([k(X), sum(k.stats.cache_misses.values())]))"
    )
    code = "from blocksvm.kernels import inlined_with, specialised\n" + code
    for factors, total, misses in (((1.0, 2.0), 14.0, 1), ((1.0, 2.0), 14.0, 0), ((1.0, 3.0), 21.0, 1)):
        assert answer(code % (factors,), tmp_path / "cache", mine) == [total, misses]


@pytest.mark.process
@needs_jit
def test_processes_that_compile_at_the_same_time(tmp_path, mine):
    """One kernel for other types in each, of which numba's own index would lose some."""
    kinds = ("float64", "float32", "int64", "int32")
    code = "import loops; X = np.array([3, 4], '%s'); " + WEIGHTED
    for compiled in (1, 0):
        running = [python(code % kind, tmp_path / "cache", mine) for kind in (*kinds, "float64")]
        found = [answer_of(process)[0] for process in running]
        assert [total for total, _ in found] == [SUM] * 5
        assert compiled or all(misses == 0 for _, misses in found)
    assert {path.suffix for path in files_of(tmp_path / "cache")} == {".nbc"}


@pytest.mark.process
@needs_jit
def test_loaded_code_finds_what_it_calls(tmp_path, mine):
    """Kernels with little in common: what is brought up for one may not be enough for the next."""
    (mine / "various.py").write_text(
        "import math\nimport numpy as np\nfrom blocksvm.kernels import kernel\n"
        "@kernel\ndef product(X):\n    return np.dot(X, X) + np.linalg.norm(X)\n"
        "@kernel\ndef drawn(X):\n    np.random.seed(0)\n    return np.random.random() < 1.0\n"
        "@kernel\ndef counted(X):\n    seen = {}\n    for x in X:\n        seen[x] = 1\n    return len(seen)\n"
        "@kernel\ndef hashed(X):\n    return hash((1, X[0])) != 0\n"
        "@kernel\ndef sums(X):\n    return math.erf(X[0]) + np.sort(X)[0] + len([x for x in X])\n"
        "@kernel\ndef fails(X):\n    if X[0] > 1.0:\n        raise ValueError('too large', X[0])\n"
    )
    expected = {"product": 30.0, "drawn": True, "counted": 2, "hashed": True, "sums": math.erf(3.0) + 5.0}
    code = (
        "import various as v\n"
        "X = np.array([3.0, 4.0])\n"
        "try: v.fails(X)\n"
        "except ValueError as error: said = list(error.args)\n"
        f"names = {list(expected)}\n"
        "found = [getattr(v, name)(X) for name in names]\n"
        "kernels = [getattr(v, name) for name in ('fails', *names)]\n"
        "print(json.dumps([said, found, sum(sum(k.stats.cache_misses.values()) for k in kernels)]))"
    )
    for misses in (len(expected) + 1, 0):
        assert answer(code, tmp_path / "cache", mine) == [["too large", 3.0], list(expected.values()), misses]
    for name in ("product", "hashed"):  # each in a process of its own, with nothing else loaded
        assert (
            answer(f"import various as v; print(json.dumps(v.{name}(X)))", tmp_path / "cache", mine) == expected[name]
        )


@pytest.mark.slow
def test_kernels_hold_no_constants_that_their_folder_is_not_named_by():
    """What kernels import from the package lies in the folders whose sources are hashed."""
    kept = tuple(f"blocksvm.{folder}" for folder in FOLDERS)
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
            and {one.id for one in node.decorator_list if isinstance(one, ast.Name)} & {"kernel", "inlined"}
        ]
        names = {one.id for node in compiled for one in ast.walk(node) if isinstance(one, ast.Name)}
        assert not names & loose, (source, names & loose)
        assert not compiled or any(source.is_relative_to(ROOT / "blocksvm" / folder) for folder in FOLDERS), source


@pytest.mark.process
@needs_jit
def test_a_full_disk_is_gone_on_without(tmp_path, mine):
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\nimport loops\n"
    code = f"{full}X = np.array([3.0, 4.0])\n{WEIGHTED}"
    found, err = answer_of(python(code, tmp_path / "cache", mine))
    assert found == [SUM, 1]
    assert err.count("kernels are compiled anew in each run") == 1
    assert files_of(tmp_path / "cache") == []


@pytest.mark.process
@needs_jit
def test_a_first_run_says_that_it_compiles_and_a_second_one_has_the_same_bits(tmp_path):
    X, y = random_rows(n=60, d=10, dtype=np.float32)
    store = make_store(tmp_path, X, y)
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    models = []
    for name, quiet, compiles in (("a", (), 1), ("b", (), 0), ("c", ("--quiet",), 0)):
        done = command(store, tmp_path / f"{name}.h5", *quiet, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("compiling kernels (first use only, some seconds)") == compiles
        models.append(h5py.File(tmp_path / f"{name}.h5")["weights"][()].tobytes())
    assert len(set(models)) == 1
    shutil.rmtree(tmp_path / "cache")
    quiet = command(store, tmp_path / "d.h5", "--quiet", env=env)
    assert (quiet.returncode, quiet.stderr) == (0, "")


FOLDER = "from blocksvm.kernels.kernel_cache import cache_folder; print(json.dumps(str(cache_folder())))"


def folder_of(cache: Path, temporary: Path) -> tuple[Path, str]:
    """(cache folder of a process, what it said)"""
    found, err = answer_of(python(FOLDER, cache, TMPDIR=str(temporary)))
    return Path(found), err


def others_may_write(path: Path) -> None:
    path.chmod(0o777)


def a_group_may_write(path: Path) -> None:
    path.chmod(0o770)


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


SPOILED = [others_may_write, a_group_may_write, another_owns_it, a_link, a_file]


@pytest.mark.parametrize("spoil", SPOILED)
def test_an_unsafe_folder_is_not_used(tmp_path, monkeypatch, spoil):
    """Neither the ordinary one nor the one in the temporary directory: both hold pickles."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(notices, "_issued", set())

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
    second, said = folder_now()
    assert second.parent.parent == temporary
    assert said == ""
    assert stat.S_IMODE(second.stat().st_mode) == stat.S_IMODE(second.parent.stat().st_mode) == 0o700
    spoil(second.parent)
    third, said = folder_now()
    assert third is None
    assert said.count("kernels are compiled anew in each run") == 1
    assert str(ordinary) in said
    assert str(second.parent) in said


@pytest.mark.process
@needs_jit
def test_a_command_without_a_folder_says_so_once(tmp_path):
    X, y = random_rows(n=60, d=10, dtype=np.float32)
    store = make_store(tmp_path, X, y)
    (tmp_path / "cache").write_bytes(b"")
    (tmp_path / f"blocksvm-{os.getuid()}").write_bytes(b"")
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    done = command(store, tmp_path / "m.h5", env=env)
    assert done.returncode == 0
    assert done.stderr.count("kernels are compiled anew in each run") == 1
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr


@pytest.mark.process
def test_folders_of_other_sources_are_removed_when_they_were_not_used_for_long(tmp_path):
    root = tmp_path / "cache" / "blocksvm"
    for name, days in (("kernels-old", 31), ("kernels-new", 29), ("other", 31)):
        (root / name).mkdir(parents=True)
        (root / name / "file.nbc").touch()
        os.utime(root / name, (time.time() - days * 86_400,) * 2)
    root.chmod(0o700)
    own, _ = folder_of(tmp_path / "cache", tmp_path)
    assert sorted(path.name for path in root.iterdir()) == sorted(["kernels-new", "other", own.name])


def upper(c):
    return c


def step(alpha, c):
    """A coordinate step of a loss."""
    return min(alpha + 1.0, upper(c))


def take_steps(alphas, c):
    total = 0.0
    for i in range(alphas.shape[0]):
        total += step(alphas[i], c)
    return total


@inlined
def unbounded(c):
    return np.inf


@inlined
def half(c):
    return 0.5 * c


@pytest.mark.parametrize(("bound", "total"), [(unbounded, 1.0 + 2.0 + 5.0), (half, 1.0 + 1.5 + 1.5)])
def test_losses_share_a_step(bound, total):
    own = inlined_with(step, "own_step", upper=bound)
    assert specialised(take_steps, "steps", step=own)(np.array([0.0, 1.0, 4.0]), 3.0) == total


def test_a_part_that_nobody_calls():
    with pytest.raises(TypeError, match="step calls no lower"):
        inlined_with(step, "own_step", lower=half)
    with pytest.raises(TypeError, match="take_steps calls no upper"):
        specialised(take_steps, "steps", upper=half)


@pytest.mark.process
def test_without_compiling_all_is_plain_python(tmp_path, mine):
    code = (
        "k = loops.specialised(loops.loop, 'k', score=loops.inlined_with(loops.loop, 'l', score=loops.plus))\n"
        "print(json.dumps([type(k).__name__, k(X.reshape(1, 2)), loops.weighted(X)]))"
    )
    assert answer(code, tmp_path / "cache", mine, NUMBA_DISABLE_JIT="1") == ["function", 9.0, SUM]
    assert not (tmp_path / "cache").exists()
