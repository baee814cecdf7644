"""Messages about compilation, once each in a process."""

from __future__ import annotations

import warnings
from collections.abc import Callable

_show: Callable[[str], None] | None = None
_issued: set[str] = set()


def show_with(show: Callable[[str], None] | None) -> None:
    """Pass messages about compilation to ``show`` from now on; None: only warn of failures."""
    global _show
    _show = show


def say(sentence: str, warning: bool = False) -> None:
    """Say a sentence once in a process."""
    if sentence in _issued:
        return
    _issued.add(sentence)
    if _show is not None:
        _show(sentence)
    elif warning:
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)
