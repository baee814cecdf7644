"""Compiled kernels on disk: the folder, a checked file for each kernel and signature, and what the file is named by.

numba makes what a file holds, and rebuilds a kernel of it.  numba's own index files are left out: two processes that
change one at the same time can make it name the wrong code.  A file begins with a checksum of the rest, so that a
damaged one counts as absent, and takes its name only when it is whole.

The folder is named by a hash of the sources of all kernels of the package and of what compiles them.  The name of a file
adds the kernel, the functions that were put into it, the signature and the processor; for functions from outside of the
package also the sources of their modules and of what these import.  What such a module reads from elsewhere while it is
imported is not seen.

Files hold pickles, which can do anything when they are read.  So the folder must belong to the user alone.
"""

from __future__ import annotations

import ast
import os
import pickle
import re
import shutil
import stat
import sys
import sysconfig
import tempfile
import time
from functools import cache, cached_property
from hashlib import blake2b
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

import llvmlite
import numba
import numpy as np
from llvmlite.binding import add_symbol, address_of_symbol
from numba.core.compiler import CompileResult
from numba.core.runtime import _nrt_python
from numba.core.serialize import dumps

from blocksvm.kernels.notices import say

PACKAGE = Path(__file__).parents[1]
# where kernels, or what is compiled into them, are defined
FOLDERS = ("base", "kernels", "losses", "online", "theory/kernels", "structured/kernels")
# numba's switches that decide about the code, as named in numba.config
SWITCHES = (
    "OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "DISABLE_INTEL_SVML", "DEBUGINFO_DEFAULT",
    "LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS",
)  # fmt: skip
UNUSED_SECONDS = 30 * 86_400  # after which a folder of another hash is removed
CHECKSUM_BYTES = 16
CONSTANTS = (type(None), bool, int, float, complex, str, bytes)
RELEASED = sys.stdlib_module_names | {"numpy", "scipy", "numba", "llvmlite", "blocksvm"}
INSTALLED = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


# ---------------------------------------------------------------------------------------------------- the folder


@cache
def folder_name() -> str:
    """By the releases of what compiles, its switches, and the sources of all kernels of the package."""
    digest = blake2b(digest_size=16)
    releases = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)
    digest.update(repr((releases, [getattr(numba.config, name, None) for name in SWITCHES])).encode())
    sources = [path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py")]
    for source in sorted(sources):
        digest.update(f"{source.relative_to(PACKAGE)}\0".encode() + source.read_bytes() + b"\0")
    return f"kernels-{digest.hexdigest()}"


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels; None, which is said, where there can be none that is safe.

    In ``$XDG_CACHE_HOME/blocksvm`` (by default ``~/.cache/blocksvm``), else in a folder in the temporary directory.
    """
    reasons = []
    # a group that may write is let pass in the first one, not below: homes are made so where each user has a group
    for root, others in ((user_root, stat.S_IWOTH), (temporary_root, stat.S_IWGRP | stat.S_IWOTH)):
        try:
            folder = root() / folder_name()
            folder.parent.mkdir(0o700, parents=True, exist_ok=True)
            require_private(folder.parent, others)
            if not folder.exists():
                folder.mkdir(0o700, exist_ok=True)
                remove_unused(folder.parent)
            require_private(folder, stat.S_IWGRP | stat.S_IWOTH)
            os.utime(folder)  # in use
            tempfile.TemporaryFile(dir=folder).close()
            return folder
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
            reasons.append(str(error))
    report_uncached("; ".join(reasons))
    return None


def user_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blocksvm"


def temporary_root() -> Path:
    return Path(tempfile.gettempdir()) / f"blocksvm-{os.getuid()}"


def require_private(folder: Path, others: int) -> None:
    """PermissionError where pickles in this folder are not to be trusted; others: bits of who may not write there."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{folder} is a link or a file")
    if status.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    if status.st_mode & others:
        raise PermissionError(f"others may write in {folder}")


def remove_unused(root: Path) -> None:
    """Remove the folders of kernels that no process has used for ``UNUSED_SECONDS``."""
    for folder in root.glob("kernels-*"):
        if time.time() - folder.lstat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def report_uncached(reason: str) -> None:
    say(
        f"kernels are compiled anew in each run, since they cannot be kept ({reason}): "
        "set XDG_CACHE_HOME to a folder that only you can write",
        warning=True,
    )


# ---------------------------------------------------------------------------------------------------- files


def read_checked(path: Path) -> bytes | None:
    """The bytes that ``write_checked`` wrote; None where the file is absent, unreadable or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = data[CHECKSUM_BYTES:]
    return content if data[:CHECKSUM_BYTES] == blake2b(content, digest_size=CHECKSUM_BYTES).digest() else None


def write_checked(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, even if another process writes it meanwhile; OSError where it cannot be written."""
    handle, partial = tempfile.mkstemp(prefix=".", suffix=".partial", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(blake2b(content, digest_size=CHECKSUM_BYTES).digest())
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


class KernelCache:
    """Where numba looks for a kernel's code before it compiles, and puts what it compiled: the interface that its
    dispatchers know (``numba.core.caching``)."""

    def __init__(self, function):
        self._function = function

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    @cached_property
    def _name(self) -> str | None:
        """Of all files of this kernel; None where it is not kept on disk."""
        function = self._function
        try:
            digest = blake2b(repr(identity(function)).encode(), digest_size=12).hexdigest()
        except UnknownSourceError:
            return None
        # Code from several processes is linked by names, which numba makes of the function's name and a counter that
        # starts from 0 in each process: they must differ where the code differs.
        function.__qualname__ = f"{function.__qualname__}_{digest}"
        return re.sub("[^A-Za-z0-9_]", "", function.__qualname__)[-90:]

    def load_overload(self, sig, target_context):
        """The kernel compiled for ``sig``, a tuple of numba's types; None where it is not on disk."""
        path = self._path(sig, target_context.codegen())
        content = None if path is None else read_checked(path)
        if content is None:
            return None
        outside, reduced = pickle.loads(content)
        bring_up(target_context, outside)
        return CompileResult._rebuild(target_context, *reduced)

    def save_overload(self, sig, compiled) -> None:
        """Write what was compiled for ``sig``, where that is possible."""
        path = self._path(sig, compiled.codegen)
        if path is None or compiled.library.has_dynamic_globals:
            return
        module = compiled.library._final_module
        outside = [one.name for one in (*module.functions, *module.global_variables) if one.is_declaration]
        try:
            write_checked(path, dumps(([name for name in outside if not name.startswith("llvm.")], compiled._reduce())))
        except OSError as error:
            report_uncached(str(error))

    def _path(self, sig, codegen) -> Path | None:
        """The file of one signature; None where there is none."""
        if self._name is None or cache_folder() is None:
            return None
        parts = ([_spelt(kind) for kind in sig], codegen.magic_tuple())
        return cache_folder() / f"{self._name}-{blake2b(repr(parts).encode(), digest_size=12).hexdigest()}.nbc"


def bring_up(target_context, outside: list[str]) -> None:
    """Make the functions and variables known that code finds by their names: those of numba's memory management, which
    takes no time, or else all that the compiler knows, a third of a second of each start."""
    if not all(map(address_of_symbol, outside)):
        for name, address in _nrt_python.c_helpers.items():
            add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    if not all(map(address_of_symbol, outside)):
        target_context.refresh()


def _spelt(kind) -> str:
    """A type of numba's as text, with the names of its fields, by which kernels find them."""
    parts = [_spelt(part) for part in getattr(kind, "types", ())]
    return f"{kind} {getattr(kind, 'fields', '')} {parts}"


# ---------------------------------------------------------------------------------------------------- identity


class UnknownSourceError(Exception):
    """A kernel holds an object that cannot be distinguished from another one like it."""


def identity(value):
    """What a function is made of, for ``repr``: its place, the functions and constants put into it, and a hash of its
    sources where the folder's name does not tell them.  Raises UnknownSourceError."""
    value = getattr(value, "py_func", value)
    if type(value) in CONSTANTS:
        return value
    if type(value) is tuple:
        return tuple(map(identity, value))
    if not hasattr(value, "__code__"):
        raise UnknownSourceError(f"a part of type {type(value).__qualname__}")
    original, parts = getattr(value, "made_of", (value, {}))
    if original is not value:
        return identity(original), sorted((name, identity(part)) for name, part in parts.items())
    cells = [identity(cell.cell_contents) for cell in value.__closure__ or ()]
    place = (value.__module__, value.__qualname__, value.__code__.co_firstlineno)
    if any(PACKAGE / folder in Path(value.__code__.co_filename).parents for folder in FOLDERS):
        return place, cells
    module = sys.modules.get(value.__module__)
    if os.path.abspath(getattr(module, "__file__", None) or "") != os.path.abspath(value.__code__.co_filename):
        raise UnknownSourceError(f"{place} is not of the file of its module")
    return place, cells, sources_hash(module)


@cache
def sources_hash(module: ModuleType) -> str:
    """Of the source of a module from outside of the package and of all that it imports, and these in turn unless they
    are installed beside it.  Releases of ``RELEASED`` are part of the folder's name."""
    digest = blake2b(digest_size=16)
    package = module.__name__.partition(".")[0]
    pending = [module]
    for one in pending:  # grows meanwhile
        try:
            source = Path(one.__file__).read_bytes()
            tree = ast.parse(source)
        except (OSError, TypeError, ValueError, SyntaxError, AttributeError):  # of C, or without a file
            continue
        digest.update(f"{one.__name__} {len(source)}\0".encode() + source)
        top = one.__name__.partition(".")[0]
        if top == package or not one.__file__.startswith(INSTALLED):
            pending += [dependency for dependency in imported(tree, one) if dependency not in pending]
    return digest.hexdigest()


def imported(tree: ast.Module, module: ModuleType) -> list[ModuleType]:
    """The modules, but those of ``RELEASED``, that a module's source imports, wherever in it."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            base = resolve_name(base, module.__package__) if node.level else base
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    modules = [sys.modules.get(name) for name in dict.fromkeys(names) if name.partition(".")[0] not in RELEASED]
    return [one for one in dict.fromkeys(modules) if one is not None]
