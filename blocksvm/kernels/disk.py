"""Machine code on disk: the folders that it is kept in, its files, and marks of what is there.

A file holds one kernel compiled for one signature.  Its name is a hash of all that decides about the code: the
kernel's fingerprint (identity.py), the signature, the processor and numba's switches; so neither the path nor the date
of a source file matters, copies of the package share the files, and stale code is never found.  A file begins with a
checksum of the rest: what is damaged counts as absent and is written anew.  What cannot be written is left out.

Code is stored in pickles, which can do anything when they are read.  So the user's folder must belong to the user alone.
Besides it there may be a folder within the package, filled when its wheel was built (tools/compiled_wheel.py): it is
trusted as the package's code is, and never written.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import os
import pickle
import re
import shutil
import stat
import sys
import tempfile
import time
import warnings
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

# folders of the package in which kernels, or functions that are inlined into them, are defined
FOLDERS = ("kernels", "problems", "learners")
# numba's switches that decide about the code, as named in numba.config
SWITCHES = (
    "OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "DISABLE_INTEL_SVML", "DEBUGINFO_DEFAULT",
    "LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS",
)  # fmt: skip
CHECKSUM_BYTES = 16
CONTENT = 2  # of a file: (names that the code needs, names that it defines, what numba knows of it)
COMPILED = Path(__file__).parents[1] / "compiled"  # what was compiled when the package's wheel was built
PATIENCE = 60.0  # seconds for a kernel that another process compiles

# of this process: files of kernels that were loaded or saved, by their sizes; kernels that could not be kept
_kept: dict[str, int] = {}
_not_kept: set[str] = set()
_environment: dict[str, str] = {}
# kernels that this process compiles while another may want them, by their files; None where it knows of no other
_claims: dict[str, int] | None = None


@cache
def folder_name() -> str:
    """The name of a folder of compiled kernels: a hash of the releases of what compiles them."""
    digest = blake2b(digest_size=8)
    for part in (version("numba"), version("llvmlite"), version("numpy"), sys.version):
        digest.update(part.encode() + b"\0")
    return f"kernels-{digest.hexdigest()}"


@cache
def cache_folder() -> Path | None:
    """The folder that compiled kernels are written to, named by ``folder_name``; None where there can be none.

    ``$XDG_CACHE_HOME/blocksvm`` (by default ``~/.cache/blocksvm``), else a folder in the temporary directory.  Where
    others could change both, a new one that goes with the process, and a RuntimeWarning.
    """
    name = folder_name()
    reasons = []
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blocksvm"
        root.mkdir(0o700, parents=True, exist_ok=True)
        # a group that may write is let pass here, not below: folders are made so where each user has a group
        why_not = refusal(root, stat.S_IWOTH) or usable(root / name)
        if not why_not:
            return root / name
        reasons.append(why_not)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        reasons.append(str(error))
    try:
        folder = Path(tempfile.gettempdir()) / f"blocksvm-{os.getuid()}-{name}"
        why_not = usable(folder)
        if not why_not:
            return folder
        reasons.append(why_not)
        own = tempfile.mkdtemp(prefix="blocksvm-")
        folder = Path(own) / "blocksvm" / name
        folder.mkdir(0o700, parents=True)
    except OSError as error:
        reasons.append(str(error))
        folder = None
    else:
        atexit.register(_remove, own, os.getpid())
        _environment["XDG_CACHE_HOME"] = own
    warnings.warn(
        f"kernels are compiled anew in each run, since there is no safe folder to keep them in ({'; '.join(reasons)}): "
        "set XDG_CACHE_HOME to a folder that only you can write",
        RuntimeWarning,
        stacklevel=2,
    )
    return folder


def usable(folder: Path) -> str:
    """Make a folder where there is none; why it cannot be used, or ''."""
    try:
        folder.mkdir(0o700, exist_ok=True)
        why_not = refusal(folder, stat.S_IWGRP | stat.S_IWOTH)
    except OSError as error:
        return str(error)
    if not why_not and not os.access(folder, os.W_OK | os.X_OK):
        return f"no permission to write in {folder}"
    return why_not


def refusal(folder: Path, others: int) -> str:
    """Why pickles in this folder are not to be trusted, or ''; others: bits of who may not write there."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is a link or a file"
    if found.st_uid != os.getuid():
        return f"{folder} belongs to another user"
    if found.st_mode & others:
        return f"others may write in {folder}"
    return ""


def environment() -> dict[str, str]:
    """What a child process must be started with to find the same folder."""
    cache_folder()
    return os.environ | _environment


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def read_checked(path: Path) -> bytes | None:
    """What ``write_checked`` wrote; None where the file is absent, unreadable or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = data[CHECKSUM_BYTES:]
    return content if data[:CHECKSUM_BYTES] == blake2b(content, digest_size=CHECKSUM_BYTES).digest() else None


def folders() -> list[Path]:
    """Where compiled kernels are looked for: the folder that they are written to, then the package's own."""
    own = cache_folder()
    return [*([] if own is None else [own]), COMPILED / folder_name()]


def read_kept(name: str) -> bytes | None:
    """What the file of this name holds in the first folder that has it whole; None where none has."""
    contents = (read_checked(folder / name) for folder in folders())
    return next((content for content in contents if content is not None), None)


def write_checked(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, whoever else writes it meanwhile; OSError where it cannot be written."""
    handle, partial = tempfile.mkstemp(prefix=".", suffix=".partial", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(blake2b(content, digest_size=CHECKSUM_BYTES).digest())
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def share_compiling() -> None:
    """From now on, this process and those forked from it compile no kernel that another one of them is compiling."""
    global _claims
    _claims = {}


def claimed(path: Path) -> bytes | None:
    """What another process writes that is compiling this kernel; None where none is, and others now wait for this one.

    A claim is a lock, so that it ends with its process.  It is not waited for without end: who waits compiles then.
    """
    try:
        file = os.open(path.with_suffix(".claim"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:  # a file system without locks
            break
    content = read_checked(path)
    if content is None:
        _claims[path.name] = file
    else:
        give_up(path, file)
    return content


def give_up(path: Path, file: int) -> None:
    """End a claim: a file descriptor."""
    path.with_suffix(".claim").unlink(missing_ok=True)
    os.close(file)


class DiskCache:
    """Where numba looks for a kernel's code before it compiles, and puts what it compiled: the interface that its
    dispatchers know (numba.core.caching)."""

    def __init__(self, dispatcher):
        self._dispatcher = dispatcher
        function = dispatcher.py_func
        self._module, self._name = function.__module__, function.__qualname__
        self._fingerprint: str | None = None
        self._enabled = True

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Nothing is out of date; what is compiled again is written again."""

    def load_overload(self, sig, target_context):
        """The kernel compiled for ``sig``, a tuple of numba's types; None where it is not on disk."""
        name = self._file(sig, target_context.codegen())
        content = read_kept(name) if name is not None else None
        if content is None and name is not None and _claims is not None and cache_folder() is not None:
            content = claimed(cache_folder() / name)
        if content is None:
            return None
        try:
            loaded = rebuilt(target_context, *Loader(io.BytesIO(content)).load())
        except Exception:  # whatever a pickle of other modules raises: it is compiled and written anew
            return None
        _kept[name] = len(content)
        return loaded

    def save_overload(self, sig, data) -> None:
        """Write what was compiled for ``sig``, where that is possible."""
        path = None
        try:
            name = self._file(sig, data.codegen)
            path = cache_folder() / name if name is not None and cache_folder() is not None else None
            if path is not None and not data.library.has_dynamic_globals and all(x.can_cache for x in data.lifted):
                from numba.core.serialize import dumps

                module = data.library._final_module
                outside = sorted(name for name in _names(module, True) if not name.startswith("llvm."))
                defined = sorted(_names(data.library._get_module_for_linking(), False))
                content = dumps((outside, defined, data._reduce()))
                write_checked(path, content)
                _kept[path.name] = len(content)
                return
        except Exception:  # a full disk, or a release of numba that says it in another way: go on without
            pass
        finally:
            if path is not None and _claims:
                file = _claims.pop(path.name, None)
                if file is not None:
                    give_up(path, file)
        _not_kept.add(self._name)

    def _file(self, sig, codegen) -> str | None:
        """The name of one signature's file; None for a kernel that is not to be kept on disk."""
        from numba import config

        from blocksvm.kernels.identity import UnidentifiedError, fingerprint

        if not self._enabled:
            return None
        if self._fingerprint is None:
            try:
                self._fingerprint = fingerprint(self._dispatcher)
            except UnidentifiedError:
                self._enabled = False
                return None
            # Code from several processes is linked by names, which numba makes of the function's name and a counter
            # that starts anew in each process: they must differ where the code differs.
            self._dispatcher.py_func.__qualname__ = f"{self._name}_{self._fingerprint[:16]}"
        switches = [str(getattr(config, name, None)) for name in SWITCHES]
        types = [_spelt(kind) for kind in sig]
        parts = (CONTENT, self._module, self._name, self._fingerprint, types, codegen.magic_tuple())
        digest = blake2b(repr((parts, switches)).encode(), digest_size=16)
        return f"{re.sub('[^A-Za-z0-9_]', '', self._name)[-60:]}-{digest.hexdigest()}.nbc"


class Loader(pickle.Unpickler):
    """Reads a kernel's file without importing the modules of the compiler in which functions that the kernel calls were
    defined: numba looks nothing up in them that compiled code needs, and they take longer to import than ten kernels."""

    def find_class(self, module: str, name: str):
        if name == "_rebuild_env":
            return rebuild_environment
        return super().find_class(module, name)


def rebuild_environment(module: str, constants, name: str):
    """What numba.core.environment._rebuild_env does, but for the import: the constants that compiled code refers to.

    The globals of an environment serve functions that are compiled anew, never loaded ones.
    """
    from numba.core.environment import Environment, lookup_environment

    found = lookup_environment(name)
    if found is None:
        known = sys.modules.get(module)
        found = Environment({"__name__": module} if known is None else known.__dict__)
        found.consts[:] = constants
        found.env_name = name
        Environment._memo[name] = found
    return found


def rebuilt(target_context, outside: list[str], defined: list[str], reduced: tuple):
    """A kernel made of what its file holds."""
    from numba.core.compiler import CompileResult

    from blocksvm.kernels.compiling import load_library

    prepare(target_context, outside)
    serialized, *others = reduced
    library = load_library(target_context.codegen(), serialized, defined)
    found = CompileResult._rebuild(Rebuilding(target_context, library), serialized, *others)
    return found._replace(target_context=target_context)


class Rebuilding:
    """Stands for numba's target while a kernel is rebuilt, and gives it a library that was made already."""

    def __init__(self, target_context, library):
        self.target_context = target_context
        self.library = library

    def __getattr__(self, name: str):
        return getattr(self.target_context, name)

    def codegen(self):
        return self

    def unserialize_library(self, serialized):
        return self.library


def _names(module, declared: bool) -> list[str]:
    """Of functions and variables that a module of LLVM declares, or of those that it defines."""
    return [one.name for one in (*module.functions, *module.global_variables) if one.is_declaration == declared]


def prepare(target_context, outside: list[str]) -> None:
    """Bring up what code needs that is loaded and not compiled: ``outside``, the functions and variables that the code
    finds by name, among them those of numba's memory management.

    These are known at once.  ``rtsys.initialize`` and ``target_context.refresh``, which compile some more for the
    compiler and load all that it knows, a quarter of a second of each start, are needed only where a name would not be
    found (which would end the process).
    """
    from llvmlite.binding import add_symbol, address_of_symbol
    from numba.core.runtime import _nrt_python, rtsys

    def found() -> bool:
        return all(address_of_symbol(name) for name in outside)

    if not found():
        for name, address in _nrt_python.c_helpers.items():
            add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    if not found():
        rtsys.initialize(target_context)
    if not found():
        target_context.refresh()


def _spelt(kind) -> str:
    """A type of numba's as text, with the names of its fields, by which kernels find them."""
    parts = [_spelt(part) for part in getattr(kind, "types", ())]
    return f"{kind} {getattr(kind, 'fields', '')} {parts}"


@cache
def sources_hash() -> str:
    """Of all sources of the package that hold compiled functions, and of what else decides about their code."""
    package = Path(__file__).parents[1]
    digest = blake2b(digest_size=16)
    for folder in FOLDERS:
        for source in sorted((package / folder).rglob("*.py")):
            digest.update(f"{source.relative_to(package)}\0".encode() + source.read_bytes())
    switches = sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))
    digest.update(repr((switches, processor())).encode())
    return digest.hexdigest()


def processor() -> str:
    """The processor's model and features, where the system tells; several machines may share a home."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            lines = file.read(8192).decode("ascii", "replace").split("\n\n")[0].splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def _mark(purpose: str, kind: str) -> str:
    named = blake2b(repr((purpose, kind, sources_hash())).encode(), digest_size=16).hexdigest()
    return f"ready-{named}"


def is_ready(purpose: str, kind: str) -> bool:
    """Whether all that ``purpose`` needs for values of ``kind`` was compiled before and is still there."""
    content = read_kept(_mark(purpose, kind))
    if content is None:
        return False
    for line in content.decode().splitlines():
        size, name = line.split(" ", 1)
        if all(size_of(folder / name) != int(size) + CHECKSUM_BYTES for folder in folders()):
            return False
    return True


def size_of(path: Path) -> int:
    """Bytes of a file; -1 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def mark_ready(purpose: str, kind: str) -> None:
    """Note that this process has run ``purpose`` for values of ``kind``: which files it needs.

    Nothing is noted where a kernel could not be kept: the mark promises that nothing is compiled any more.
    """
    if cache_folder() is None or _not_kept:
        return
    try:
        content = "".join(f"{size} {name}\n" for name, size in sorted(_kept.items()))
        write_checked(cache_folder() / _mark(purpose, kind), content.encode())
    except OSError:
        return
