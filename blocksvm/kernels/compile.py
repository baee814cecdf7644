"""How numba compiles kernels, and where their machine code is kept: in a folder named by a hash of the sources of all
kernels, so that code of other sources is never found.  Files in it are numba's own; they are pickles, which can do
anything when they are read, so the folder must belong to the user alone."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from types import FunctionType

import llvmlite
import numba
import numpy as np
from llvmlite.binding import add_symbol, address_of_symbol, get_host_cpu_name
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.runtime import _nrt_python
from numba.extending import overload, register_jitable

from blocksvm.base.log import say

PACKAGE = Path(__file__).parents[1]
# where kernels, or what is compiled into them, are defined
SOURCES = ("base/**/*.py", "losses/*.py", "online/**/*.py", "**/kernels/*.py", "**/*_kernels.py")
# numba's switches that decide about the code, as named in numba.config
SWITCHES = (
    "OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "DISABLE_INTEL_SVML", "DEBUGINFO_DEFAULT",
    "LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS",
)  # fmt: skip
UNUSED_SECONDS = 30 * 86_400  # after which a folder of another hash is removed

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": True}
# What is put into its caller's place is called by no one else, and counts no references to arrays, which are its
# caller's until it returns: the counting, an atomic operation each, cost learners up to a third of a row's time.
# Left to itself LLVM calls the larger functions: parsing and the inner loops then take two to three times as long.
INLINED = OPTIONS | {"forceinline": True, "no_cpython_wrapper": True, "_nrt": False}
processor = get_host_cpu_name  # the kind that kernels are compiled for


def kernel(function):
    """Compile ``function`` on first use, without the GIL, and keep the machine code on disk."""
    if numba.config.DISABLE_JIT:
        return function
    compiled = numba.njit(**OPTIONS)(function)
    compiled._cache = KernelCache(function)
    return compiled


def inlined(function):
    """``function`` itself, which kernels put in its callers' place; it makes and returns no arrays."""
    return register_jitable(**INLINED)(function)


def inlined_views(function):
    """``function`` itself, which returns (tuples of) arrays: it becomes a part of the kernel's source."""
    return register_jitable(inline="always", **OPTIONS)(function)


def by_type(name: str) -> Callable:
    """A function of (loss, ...) that calls the loss's method of this name, for kernels: there the type of loss, a
    NamedTuple, decides what is compiled.  A loss without the method is taken for one whose value is not a number."""

    def function(loss, *arguments):
        return getattr(loss, name)(*arguments)

    function.__name__ = name

    def of_type(loss, *arguments):
        return getattr(loss.instance_class, name, not_a_number)

    overload(function, strict=False, jit_options=INLINED)(of_type)
    return function


def not_a_number(loss, *arguments):
    return np.nan


LONGEST = 60  # of a name, of which files are named


def specialised(function, name: str, **parts):
    """A kernel made of ``function`` with ``parts`` in the place of its globals of the same names.  So a loop is written
    once, and compiled once for each learner, whose inlined functions it is to call.  Raises TypeError where
    ``function`` mentions no global of a part's name."""
    return kernel(with_globals(function, name, **parts))


def inlined_with(function, name: str, **parts):
    """An inlined function made of ``function`` with ``parts`` in the place of its globals of the same names.  Raises
    TypeError as ``specialised`` does."""
    return inlined(with_globals(function, name, **parts))


def with_parts(name: str, parts: dict, *functions) -> dict:
    """Inlined copies of ``functions``, by name, with those of ``parts`` that they mention in their globals' places."""
    return {
        function.__name__: inlined_with(
            function,
            f"{name}_{function.__name__}",
            **{part: parts[part] for part in parts if part in function.__code__.co_names},
        )
        for function in functions
    }


def with_globals(function, name: str, **parts) -> FunctionType:
    """A copy of a Python function, or of a kernel's, with ``parts`` in the place of its globals, as they are now: what
    it calls must have been defined."""
    function = getattr(function, "py_func", function)
    unknown = set(parts) - set(function.__code__.co_names)
    if unknown:
        raise TypeError(f"{function.__name__} calls no {', '.join(sorted(unknown))}")
    # numba keeps machine code by a function's name, and links by it: copies that differ have other names
    put_in = [(part, identity(parts[part])) for part in sorted(parts)]
    name = f"{name[:LONGEST]}_{blake2b(repr(put_in).encode(), digest_size=8).hexdigest()}"
    copy = FunctionType(
        function.__code__, function.__globals__ | parts, name, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = name
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.parts = getattr(function, "parts", {}) | parts
    return copy


def identity(part):
    """What a part of a function is, for ``repr``: its value, or a function's module, name and what it encloses."""
    if not callable(part):
        return part
    enclosed = [identity(cell.cell_contents) for cell in getattr(part, "__closure__", None) or ()]
    return part.__module__, getattr(part, "__qualname__", part), enclosed


# ---------------------------------------------------------------------------------------------------- the folder


@cache
def folder_name() -> str:
    """By the releases of what compiles, its switches, and the sources of all kernels of the package."""
    digest = blake2b(digest_size=16)
    releases = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)
    digest.update(repr((releases, [getattr(numba.config, name, None) for name in SWITCHES])).encode())
    for source in sorted({path for pattern in SOURCES for path in PACKAGE.glob(pattern)}):
        digest.update(f"{source.relative_to(PACKAGE)}\0".encode() + source.read_bytes() + b"\0")
    return f"kernels-{digest.hexdigest()}"


@cache
def cache_folder() -> Path | None:
    """``$XDG_CACHE_HOME/blocksvm/kernels-HASH`` (or ``~/.cache/...``); None, which is said, where none is safe."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blocksvm" / folder_name()
        folder.parent.mkdir(0o700, parents=True, exist_ok=True)
        # a group that may write is let pass here, not below: homes are made so where each user has a group
        require_private(folder.parent, stat.S_IWOTH)
        if not folder.exists():
            folder.mkdir(0o700, exist_ok=True)
            remove_unused(folder.parent)
        require_private(folder, stat.S_IWGRP | stat.S_IWOTH)
        os.utime(folder)  # in use
        tempfile.TemporaryFile(dir=folder).close()
        return folder
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        report_uncached(str(error))
        return None


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


class Locator(_CacheLocator):
    """Where numba keeps the code of a function: in a folder of its module's name."""

    def __init__(self, function: Callable):
        self.function = function

    @classmethod
    def from_function(cls, function: Callable, file: str) -> Locator:
        return cls(function)

    def get_cache_path(self) -> str:
        return f"{cache_folder()}/{self.function.__module__}"

    def get_source_stamp(self) -> None:
        """The folder's name has it."""
        return

    def get_disambiguator(self) -> str:
        return str(self.function.__code__.co_firstlineno)


class CacheFiles(CompileResultCacheImpl):
    """What numba keeps of a kernel, and the names of what its code finds outside of itself."""

    _locator_classes = (Locator,)

    def reduce(self, compiled):
        module = compiled.library._final_module
        outside = [one.name for one in (*module.functions, *module.global_variables) if one.is_declaration]
        return [name for name in outside if not name.startswith("llvm.")], super().reduce(compiled)

    def rebuild(self, target_context, payload):
        """With what code finds by name known: functions of numba's memory management, which takes no time, or else all
        that the compiler knows, a third of a second of each start."""
        outside, reduced = payload
        if not all(map(address_of_symbol, outside)):
            for name, address in _nrt_python.c_helpers.items():
                add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
        if not all(map(address_of_symbol, outside)):
            target_context.refresh()
        return super().rebuild(target_context, reduced)


class KernelCache(FunctionCache):
    """What numba asks for a kernel's code before it compiles, and gives what it compiled."""

    _impl_class = CacheFiles

    def __init__(self, function: Callable):
        self.function = function

    @cached_property
    def kept(self) -> bool:
        """Whether there is a folder, and the kernel is not made of functions of another package, whose sources the
        folder is not named by.  Asked first when the kernel is called: no file is looked for before."""
        if not is_ours(self.function) or cache_folder() is None:
            return False
        super().__init__(self.function)
        return True

    @property
    def cache_path(self) -> str:
        return self._cache_path if self.kept else ""

    def load_overload(self, sig, target_context):
        """The kernel compiled for ``sig``, a tuple of numba's types; None where it cannot be read from disk."""
        if self.kept and of_ours(sig):
            try:
                if (found := self._load_overload(sig, target_context)) is not None:
                    return found
            except Exception:  # a file that was cut off, as when the power fails
                with suppress(OSError):
                    self.flush()
        begin_to_compile()
        return None

    def save_overload(self, sig, compiled) -> None:
        """Write what was compiled for ``sig``, where that is possible.  One process at a time: two that change one of
        numba's index files at once could make it name the wrong code."""
        if self.kept and of_ours(sig):
            try:
                with open(f"{cache_folder()}/lock", "w") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    super().save_overload(sig, compiled)
            except OSError as error:
                report_uncached(str(error))


@cache
def begin_to_compile() -> None:
    """Say so; and leave what there is by now out of Python's search for garbage, since the compiler makes many objects
    and few circles of them: a tenth of its time."""
    if cache_folder() is not None:
        say("compiling kernels (first use only, some seconds)")
    gc.freeze()


def is_ours(part) -> bool:
    """Whether a function, and all that was put into it, are of this package."""
    if not callable(part):
        return True
    return part.__module__.startswith("blocksvm.") and all(map(is_ours, getattr(part, "parts", {}).values()))


def of_ours(sig) -> bool:
    """Whether no loss of another package is among the types of arguments."""
    return all(
        is_ours(one.instance_class) and of_ours(one.types) for one in sig if isinstance(one, types.BaseNamedTuple)
    )
