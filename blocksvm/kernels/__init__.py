"""The compiled inner loops, and nothing but: arrays and scalars in, arrays and scalars out.

This file owns the one decorator through which every kernel is compiled (``kernel``) and the place where
compiled code is cached.  numba's own cache does not notice an edit in a *callee* that lives in another
file, so the cache folder is named by a hash of all kernel sources: an edit anywhere compiles anew, and
stale code cannot be loaded.

Conventions of all kernels (asserted by ``Block``): ``indptr`` int64, ``indices`` int32, ``values`` float32 or
float64 or None (every value is 1), ``w``, ``alpha`` and sums float64, all C-contiguous.  Kernels do not check
bounds: whoever calls one has checked the arrays.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import FunctionType


@cache
def cache_folder() -> Path:
    """The folder of the compiled kernels; its name is a hash of their sources and of what compiles them."""
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    for part in (version("numba"), version("llvmlite"), sys.version, os.environ.get("NUMBA_BOUNDSCHECK", "")):
        digest.update(part.encode())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "blocksvm" / f"kernels-{digest.hexdigest()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except OSError:
        usable = False
    if usable:
        return folder
    folder = Path(tempfile.gettempdir()) / f"blocksvm-{os.getuid()}" / folder.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kernel(function):
    """Compile ``function`` on first use, without the GIL, and cache the machine code on disk."""
    import numba

    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    if hasattr(compiled, "enable_caching"):  # plain Python where NUMBA_DISABLE_JIT is set
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(cache_folder())
        try:
            compiled.enable_caching()
        finally:
            numba.config.CACHE_DIR = before
    return compiled


def specialised(function, name: str, **parts):
    """A kernel made of ``function`` with ``parts`` in the place of its globals of the same names.

    So a loop is written once, and compiled once for each of the inlined functions that it is to call; ``name`` tells
    the copies apart in the cache.
    """
    unknown = set(parts) - set(function.__code__.co_names)
    if unknown:
        raise TypeError(f"{function.__name__} calls no {', '.join(sorted(unknown))}")
    made = FunctionType(function.__code__, function.__globals__ | parts, name, function.__defaults__)
    made.__qualname__ = name
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    return kernel(made)


def start() -> None:
    """Bring numba's runtime up, some tenths of a second that the first call of any kernel would take."""
    import numpy as np

    from blocksvm.kernels.margins import sum_of_squares

    sum_of_squares(np.zeros(1))


def inlined(function):
    """Compile ``function`` for use inside kernels only, and put it in its caller's place.

    Left to itself LLVM calls the larger ones: parsing and the inner loops then take two to three times as long.
    """
    import numba

    return numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
