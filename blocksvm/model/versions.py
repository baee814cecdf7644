"""Versions of what takes part in the arithmetic and the files, for traces, checkpoints and models."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

from blocksvm import __version__


@cache
def versions() -> dict[str, str]:
    names = ("numpy", "numba", "h5py", "numcodecs")
    return {"blocksvm": __version__, "python": platform.python_version()} | {name: version(name) for name in names}
