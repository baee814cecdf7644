"""Libraries that only some outputs need, checked before work begins."""

from __future__ import annotations

from blocksvm.base.errors import InputError


def require_library(name: str, owner: str, instead: str = "") -> None:
    """InputError where a library is not installed.  owner: what needs it; instead: advice beside installing it."""
    from importlib.util import find_spec

    if find_spec("sklearn" if name == "scikit-learn" else name) is None:
        raise InputError(f"{owner} needs {name}; install it with pip install {name}{instead}")
