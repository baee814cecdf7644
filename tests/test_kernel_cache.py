"""Machine code on disk: found again by what is compiled into it alone, never stale, never run unchecked."""

import json
import math
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from training_cases import loaded_and_compiled, make_store, random_rows

from blocksvm import predict, train
from blocksvm.kernels import disk, inlined, inlined_with, kernel, specialised
from blocksvm.kernels.disk import read_checked, write_checked
from blocksvm.sources.store.files import read_meta, write_meta

ROOT = Path(__file__).parents[1]
needs_jit = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="nothing is compiled")

LOOP = """
import numpy as np
from blocksvm.kernels import inlined, inlined_with, kernel, specialised
import helper
from helper import weight

FACTOR = 2.0
TABLE = np.array([1.0, 2.0])

def score(x):
    return x

@inlined
def plus(x):
    return x + 1.0

@inlined
def minus(x):
    return x - 1.0

def loop(X):
    total = 0.0
    for i in range(X.shape[0]):
        total += score(X[i])
    return total

@kernel
def weighted(X):
    total = FACTOR
    for i in range(X.shape[0]):
        total += weight(X[i]) + helper.more(X[i]) + TABLE[1]
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


def python(code: str, cache: Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess:
    """Run code in a process of its own that finds this checkout and modules in ``cwd``."""
    path = os.pathsep.join([str(cwd), str(ROOT)])
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": path} | environment
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def answer(code: str, cache: Path, cwd: Path, **environment: str):
    """The JSON value that the code printed last."""
    done = python(f"import json, numpy as np, loops\nX = np.array([3.0, 4.0])\n{code}", cache, cwd, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def mine(tmp_path):
    """A folder with a user's own kernels, outside the package."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "loops.py").write_text(LOOP)
    (folder / "helper.py").write_text(HELPER)
    return folder


def files_of(cache: Path, pattern: str = "*.nbc") -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(cache.rglob(pattern)) if path.is_file()}


WEIGHTED = "print(json.dumps([loops.weighted(X), sum(loops.weighted.stats.cache_misses.values())]))"


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


@needs_jit
def test_an_edit_of_what_is_called_compiles_anew(tmp_path, mine):
    """In another file, outside the package, of equal size and date."""
    assert answer(WEIGHTED, tmp_path, mine) == [2.0 + 14.0 + 70.0 + 4.0, 1]
    assert answer(WEIGHTED, tmp_path, mine) == [90.0, 0]
    helper = mine / "helper.py"
    for old, new, value in (("2.0 * x", "3.0 * x", 97.0), ("10.0 * x", "20.0 * x", 167.0)):
        before = helper.stat()
        helper.write_text(helper.read_text().replace(old, new))
        os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
        shutil.rmtree(mine / "__pycache__", ignore_errors=True)  # Python, too, goes by size and date
        assert answer(WEIGHTED, tmp_path, mine) == [value, 1]
        assert answer(WEIGHTED, tmp_path, mine) == [value, 0]


@needs_jit
def test_a_global_changed_before_the_first_call_compiles_anew(tmp_path, mine):
    assert answer(WEIGHTED, tmp_path, mine) == [90.0, 1]
    assert answer(f"loops.FACTOR = 3.0\n{WEIGHTED}", tmp_path, mine) == [91.0, 1]
    assert answer(f"loops.TABLE[1] = 5.0\n{WEIGHTED}", tmp_path, mine) == [96.0, 1]
    assert answer(WEIGHTED, tmp_path, mine) == [90.0, 0]


@needs_jit
def test_neither_path_nor_date_matter(tmp_path, mine):
    assert answer(WEIGHTED, tmp_path / "cache", mine) == [90.0, 1]
    copy = tmp_path / "copy"
    shutil.copytree(mine, copy)
    (copy / "loops.py").write_text("# a line more\n" + LOOP)
    assert answer(WEIGHTED, tmp_path / "cache", copy) == [90.0, 0]


@needs_jit
def test_what_cannot_be_written_is_gone_on_without(tmp_path, mine):
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
    assert answer(full + WEIGHTED, tmp_path / "cache", mine) == [90.0, 1]
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert answer(WEIGHTED, tmp_path / "cache", mine) == [90.0, 1]


@needs_jit
def test_a_damaged_file_counts_as_absent(tmp_path, mine):
    assert answer(WEIGHTED, tmp_path / "cache", mine) == [90.0, 1]
    (path, whole), *_ = [item for item in files_of(tmp_path / "cache").items() if "weighted" in item[0].name]
    for damaged in (b"", whole[:-1], whole[:500] + b"XX" + whole[502:]):
        path.write_bytes(damaged)
        assert answer(WEIGHTED, tmp_path / "cache", mine) == [90.0, 1]
        assert read_checked(path) is not None, "it was written anew"
    write_checked(path, b"whole, but not of this release of numba")
    assert answer(WEIGHTED, tmp_path / "cache", mine) == [90.0, 1]
    assert answer(WEIGHTED, tmp_path / "cache", mine) == [90.0, 0]


@needs_jit
def test_loaded_code_finds_what_it_calls(tmp_path, mine):
    """Kernels with little in common: what is brought up for one may not be enough for the next."""
    (mine / "various.py").write_text(
        "import math\nimport numpy as np\nfrom blocksvm.kernels import kernel\n"
        "@kernel\ndef product(X):\n    return np.dot(X, X) + np.linalg.norm(X)\n"
        "@kernel\ndef drawn(X):\n    np.random.seed(0)\n    return np.random.random() < 1.0\n"
        "@kernel\ndef counted(X):\n    seen = {}\n    for x in X:\n        seen[x] = 1\n    return len(seen)\n"
        "@kernel\ndef hashed(X):\n    return hash((1, X[0])) != 0\n"
        "@kernel\ndef texts(X):\n    return len(str(X.size) + 'é')\n"
        "@kernel\ndef sums(X):\n    return math.erf(X[0]) + math.lgamma(X[1]) + np.sort(X)[0] + len([x for x in X])\n"
        "@kernel\ndef falls(n):\n    return n if n < 2 else falls(n - 1) + falls(n - 2)\n"
        "@kernel\ndef fails(X):\n    if X[0] > 1.0:\n        raise ValueError('too large', X[0])\n"
    )
    names = ("product", "drawn", "counted", "hashed", "texts", "sums", "falls")
    code = (
        "import various as v\n"
        "X = np.array([3.0, 4.0])\n"
        "try: v.fails(X)\n"
        "except ValueError as error: said = list(error.args)\n"
        "found = [getattr(v, n)(8 if n == 'falls' else X) for n in %r]\n"
        "kernels = [getattr(v, n) for n in ('fails', *%r)]\n"
        "print(json.dumps([said, found, sum(sum(k.stats.cache_misses.values()) for k in kernels)]))"
    ) % (names, names)
    expected = [["too large", 3.0], [30.0, True, 2, True, 2, math.erf(3.0) + math.lgamma(4.0) + 5.0, 21]]
    assert answer(code, tmp_path / "cache", mine) == [*expected, len(names) + 1]
    assert answer(code, tmp_path / "cache", mine) == [*expected, 0]
    for name in ("product", "hashed", "falls"):  # each in a process of its own, with nothing else loaded
        alone = f"import various as v; print(json.dumps(v.{name}({'8' if name == 'falls' else 'X'})))"
        assert answer(alone, tmp_path / "cache", mine) == expected[1][names.index(name)]


@needs_jit
def test_code_from_disk_is_linked_into_what_is_compiled_later(tmp_path, mine):
    """Its bitcode, which loading leaves unread, is read then."""
    assert answer("import helper; print(json.dumps(helper.more(3.0)))", tmp_path, mine) == 30.0
    code = (
        "import helper; loaded = helper.more(3.0)\n"
        "@loops.kernel\ndef twice(x):\n    return helper.more(x) + helper.more(x + 1.0)\n"
        "print(json.dumps([loaded, sum(helper.more.stats.cache_hits.values()), twice(3.0)]))"
    )
    assert answer(code, tmp_path, mine) == [30.0, 1, 70.0]


# --- fingerprints ---------------------------------------------------------------------------------------------------


def made(source: str):
    """The kernel ``k`` of a text."""
    names = {"__name__": "made", "np": np, "inlined": inlined, "kernel": kernel, "specialised": specialised}
    exec(source, names)
    return names["k"]


CALLS = "@inlined\ndef f(x):\n    return {f}\n@kernel\ndef k(x{default}):\n    return f(x) + C\nC = {C}"
SAME = CALLS.format(f="x + 1.0", default="", C="2.0")


@needs_jit
@pytest.mark.parametrize(
    "other",
    [
        CALLS.format(f="x + 2.0", default="", C="2.0"),
        CALLS.format(f="x - 1.0", default="", C="2.0"),
        CALLS.format(f="x + 1", default="", C="2.0"),
        CALLS.format(f="x + 1.0", default="", C="2"),
        CALLS.format(f="x + 1.0", default="", C="np.float32(2)"),
        CALLS.format(f="x + 1.0", default="", C="np.array([2.0])"),
        CALLS.format(f="x + 1.0", default="", C="(2.0,)"),
        CALLS.format(f="x + 1.0", default=", y=1", C="2.0"),
        SAME.replace("f(x) +", "f(x) -"),
        SAME.replace("@inlined", "@kernel"),
    ],
)
def test_whatever_is_compiled_counts(other):
    from blocksvm.kernels.identity import fingerprint

    assert fingerprint(made(SAME)) == fingerprint(made("# moved\n\n" + SAME)), "lines are no part of it"
    assert fingerprint(made(SAME)) != fingerprint(made(other))


@needs_jit
def test_arrays_by_content_shape_and_layout():
    from blocksvm.kernels.identity import fingerprint

    text = "C = %s\n@kernel\ndef k(x):\n    return C[0, 0] + x"
    arrays = ["np.eye(2)", "np.eye(2)[:, ::-1]", "np.ones((1, 4))", "np.ones((4, 1))", "np.ones((1, 4), np.float32)",
              "np.ones((4, 4))", "np.asfortranarray(np.ones((4, 4)))"]  # fmt: skip
    assert len({fingerprint(made(text % one)) for one in arrays}) == len(arrays)
    assert fingerprint(made(text % "np.eye(2)")) == fingerprint(made(text % "np.identity(2)"))


@needs_jit
def test_calls_in_a_circle():
    from blocksvm.kernels.identity import fingerprint

    text = (
        "@kernel\ndef even(n):\n    return True if n == 0 else odd(n - 1)\n"
        "@kernel\ndef odd(n):\n    return %s if n == 0 else even(n - 1)\n"
        "k = even"
    )
    assert fingerprint(made(text % "False")) == fingerprint(made(text % "False"))
    assert fingerprint(made(text % "False")) != fingerprint(made(text % "True"))


@needs_jit
def test_intrinsics_by_what_they_generate():
    from blocksvm.kernels.identity import fingerprint

    text = (
        "from numba.extending import intrinsic\n"
        "def scale(builder, x):\n    return builder.%s(x, x)\n"
        "@intrinsic\ndef twice(context, x):\n"
        "    def codegen(context, builder, signature, args):\n        return scale(builder, args[0])\n"
        "    return x(x), codegen\n"
        "@kernel\ndef k(x):\n    return twice(x)"
    )
    adds, multiplies = made(text % "fadd"), made(text % "fmul")
    assert fingerprint(adds) == fingerprint(made(text % "fadd")) != fingerprint(multiplies)
    assert (adds(3.0), multiplies(3.0)) == (6.0, 9.0)


@needs_jit
def test_what_cannot_be_identified_is_not_kept(tmp_path, mine):
    """Its code is compiled in each process; an attribute of the same name does not matter."""
    text = (
        "from blocksvm.kernels import kernel\nshape = size = open('unknown.py')\n"
        "@kernel\ndef named(X):\n    return X.shape[0]\n"
        "@kernel\ndef k(X):\n    return size is not None\n"
    )
    (mine / "unknown.py").write_text(text)
    code = "import unknown as u; print(json.dumps([u.named(X), sum(u.named.stats.cache_misses.values())]))"
    assert answer(code, tmp_path / "cache", mine) == [2, 1]
    assert answer(code, tmp_path / "cache", mine) == [2, 0]
    from blocksvm.kernels.identity import UnidentifiedError, fingerprint

    with pytest.raises(UnidentifiedError), open(mine / "unknown.py") as file:
        fingerprint(specialised(lambda X: size_of(X), "k", size_of=file))


def size_of(X):
    return X.size


# --- functions put in the place of others ---------------------------------------------------------------------------


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


def test_without_compiling_all_is_plain_python(tmp_path, mine):
    code = (
        "k = loops.specialised(loops.loop, 'k', score=loops.inlined_with(loops.loop, 'l', score=loops.plus))\n"
        "print(json.dumps([type(k).__name__, k(X.reshape(1, 2)), loops.weighted(X)]))"
    )
    assert answer(code, tmp_path / "cache", mine, NUMBA_DISABLE_JIT="1") == ["function", 9.0, 90.0]
    assert not files_of(tmp_path / "cache", "*")


# --- commands -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder of a store, cache that a training with a cold cache filled)"""
    folder = tmp_path_factory.mktemp("trained")
    X, y = random_rows(n=60, d=10, dtype=np.float32)
    store = make_store(folder, X, y)
    seen, err = probe(folder / "cache", store)
    assert "compiling the dual-cd hinge kernels for float32 values" in err
    assert seen["misses"] == [], "the process itself compiled"
    return store, folder / "cache"


def probe(cache: Path, store: Path, package: Path = ROOT, **environment: str) -> tuple[dict, str]:
    """Train in a process with the package found in the given folder: what it loaded and compiled, and said."""
    options = [store, store.with_name("model.h5"), "--overwrite", "--max-outer", "2"]
    return loaded_and_compiled("train", options, cache, package, **environment)


def assert_warm(seen: tuple[dict, str]) -> None:
    found, err = seen
    assert found["misses"] == []
    assert found["hits"] >= 5
    assert "compiling" not in err


@needs_jit
def test_a_second_training_compiles_nothing(trained):
    store, cache = trained
    assert_warm(probe(cache, store))


@needs_jit
def test_loading_imports_nothing_of_the_compiler(trained):
    """Which would take longer than all kernels."""
    store, cache = trained
    seen, _ = probe(cache, store)
    assert seen["hits"] and not seen["compiler"]


@needs_jit
def test_a_copy_of_the_package_compiles_nothing(trained, tmp_path):
    store, cache = trained
    shutil.copytree(ROOT / "blocksvm", tmp_path / "blocksvm", ignore=shutil.ignore_patterns("__pycache__"))
    for source in (tmp_path / "blocksvm").rglob("*.py"):  # and dates do not matter
        source.touch()
    seen = probe(cache, store, tmp_path)
    assert seen[0]["path"].startswith(str(tmp_path))
    assert_warm(seen)


@needs_jit
def test_a_missing_or_cut_file_is_made_anew_in_the_child(trained, tmp_path):
    store, warm = trained
    shutil.copytree(warm, tmp_path / "cache")
    names = [path for path in files_of(tmp_path / "cache") if path.name.startswith("dual_cd_pass_hinge")]
    names[0].unlink()
    for mark in files_of(tmp_path / "cache", "ready-*"):
        assert mark.stat().st_mode & 0o077 == 0
    found, err = probe(tmp_path / "cache", store)
    assert found["misses"] == []
    assert "compiling the dual-cd hinge kernels" in err
    for path in files_of(tmp_path / "cache", "*"):
        os.truncate(path, path.stat().st_size // 2)
    found, err = probe(tmp_path / "cache", store)
    assert found["misses"] == []
    assert "compiling the dual-cd hinge kernels" in err
    assert_warm(probe(tmp_path / "cache", store))


@pytest.fixture
def installed(trained, tmp_path):
    """(store, package that holds the compiled kernels of a training as an installed wheel does, its folder of them)"""
    store, warm = trained
    package = tmp_path / "site" / "blocksvm"
    shutil.copytree(ROOT / "blocksvm", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(warm / "blocksvm", package / "compiled")
    return store, package.parent, package / "compiled"


@needs_jit
def test_what_the_package_brings_is_not_compiled(installed, tmp_path):
    store, package, _ = installed
    before = files_of(package, "*")
    assert_warm(probe(tmp_path / "cache", store, package, PYTHONDONTWRITEBYTECODE="1"))
    assert files_of(tmp_path / "cache", "*") == {}
    assert files_of(package, "*") == before


@needs_jit
@pytest.mark.parametrize("cut", [True, False])
def test_what_is_damaged_in_the_package_is_compiled_into_the_users_folder(installed, tmp_path, cut):
    """cut: as the mark shows, so that it is compiled ahead; otherwise when it is called."""
    store, package, compiled = installed
    (damaged,) = compiled.glob("*/dual_cd_pass_hinge*.nbc")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2] if cut else b"X" * len(whole))
    before = files_of(compiled, "*")
    found, err = probe(tmp_path / "cache", store, package)
    assert ("compiling the dual-cd hinge kernels" in err) == cut
    assert found["misses"] == ([] if cut else ["dual_cd_pass_hinge"])
    assert [path.name for path in files_of(tmp_path / "cache")] == [damaged.name]
    assert files_of(compiled, "*") == before
    assert_warm(probe(tmp_path / "cache", store, package))


def test_marks_name_files_of_either_folder(tmp_path, monkeypatch):
    brought = tmp_path / "compiled" / disk.folder_name()
    own = tmp_path / "own"
    for folder in (brought, own):
        folder.mkdir(parents=True)
    monkeypatch.setattr(disk, "COMPILED", brought.parent)
    monkeypatch.setattr(disk, "_kept", {"brought.nbc": 4, "own.nbc": 4})
    monkeypatch.setattr(disk, "_not_kept", set())
    monkeypatch.setattr(disk, "cache_folder", lambda: own)
    disk.write_checked(brought / "brought.nbc", b"code")
    disk.write_checked(own / "own.nbc", b"code")
    assert not disk.is_ready("split", "float32")
    disk.mark_ready("split", "float32")
    assert disk.is_ready("split", "float32") and not disk.is_ready("split", "ones")
    (mark,) = own.glob("ready-*")
    mark.rename(brought / mark.name)
    assert disk.is_ready("split", "float32")
    (own / "own.nbc").rename(brought / "own.nbc")
    assert disk.is_ready("split", "float32")
    monkeypatch.setattr(disk, "cache_folder", lambda: None)  # where no folder of the user's is safe
    assert disk.is_ready("split", "float32")
    os.truncate(brought / "own.nbc", 10)
    assert not disk.is_ready("split", "float32")


@needs_jit  # plain Python warns of overflows in its hashes
@pytest.mark.parametrize("values", ["../../../hostile", "ones/x", "", "float16", 3, None, ["float32"], {"a": 1}])
@pytest.mark.parametrize("command", ["predict", "train"])
def test_a_hostile_kind_of_values_reaches_no_path(tmp_path, monkeypatch, run_in_process, command, values):
    X, y = random_rows(n=20, d=5, dtype=np.float32)
    store = make_store(tmp_path, X, y)
    damaged = store
    if command == "predict":
        damaged = tmp_path / "model.h5"
        assert run_in_process(train.main, store, damaged, "--quiet").code == 0
    with h5py.File(damaged, "r+") as file:
        meta = read_meta(file)
        assert meta["values"] == "float32"
        del file["meta"], file.attrs["meta_checksum"]
        write_meta(file, meta | {"values": values})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", None)
    before = sorted(tmp_path.rglob("*"))
    arguments = (damaged, store) if command == "predict" else (damaged, tmp_path / "new.h5")
    done = run_in_process(predict.main if command == "predict" else train.main, *arguments)
    assert done.code == 2
    assert f"{damaged}: is damaged" in done.last_line
    assert done.last_line.endswith("make it again")
    assert sorted(tmp_path.rglob("*")) == before


# --- the folder -----------------------------------------------------------------------------------------------------

FOLDER = "import blocksvm.kernels as k, json; print(json.dumps(str(k.cache_folder())))"


def folder_of(cache: Path, temporary: Path) -> tuple[Path, str]:
    """(cache folder of a process, what it said)"""
    done = python(FOLDER, cache, TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)), done.stderr


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
    path.rmdir()
    path.write_bytes(b"")


SPOILED = [others_may_write, a_group_may_write, another_owns_it, a_link, a_file]


@pytest.mark.parametrize("spoil", SPOILED)
def test_an_unsafe_folder_is_not_used(tmp_path, spoil):
    """Neither the ordinary one nor the one in the temporary directory: both hold pickles."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ordinary, said = folder_of(tmp_path / "cache", temporary)
    assert ordinary.is_relative_to(tmp_path / "cache")
    assert said == ""
    assert stat.S_IMODE(ordinary.stat().st_mode) == stat.S_IMODE(ordinary.parent.stat().st_mode) == 0o700
    spoil(ordinary)
    second, said = folder_of(tmp_path / "cache", temporary)
    assert second.parent == temporary
    assert said == ""
    assert stat.S_IMODE(second.stat().st_mode) == 0o700
    spoil(second)
    third, said = folder_of(tmp_path / "cache", temporary)
    assert third.is_relative_to(temporary)
    assert not third.is_relative_to(second)
    assert said.count("kernels are compiled anew in each run") == 1
    assert str(ordinary) in said
    assert str(second) in said
    assert not third.exists(), "it goes with its process"


@needs_jit
def test_a_command_with_a_folder_of_its_own_still_compiles_in_a_child(tmp_path, trained):
    store, _ = trained
    (tmp_path / "cache").write_bytes(b"")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    second, _ = folder_of(tmp_path / "cache", temporary)
    second.chmod(0o777)
    found, err = probe(tmp_path / "cache", store, TMPDIR=str(temporary))
    assert found["misses"] == []
    assert err.startswith("kernels are compiled anew in each run")
    assert "compiling the dual-cd hinge kernels" in err
    assert os.listdir(temporary) == [second.name]
