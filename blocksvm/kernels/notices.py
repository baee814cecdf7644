"""What is said of compiling, and to whom."""

from __future__ import annotations

import warnings
from collections.abc import Callable

_show: Callable[[str], None] | None = None
_said: set[str] = set()


def show_with(show: Callable[[str], None] | None) -> None:
    """From now on, what is to be said of compiling is given to ``show``; None: it is warned of what is wrong alone."""
    global _show
    _show = show


def say(sentence: str, warning: bool = False) -> None:
    """Say a sentence once in a process."""
    if sentence in _said:
        return
    _said.add(sentence)
    if _show is not None:
        _show(sentence)
    elif warning:
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)
