"""The logger ``blocksvm``, INFO for progress, WARNING for remarks; and what is said once in a process."""

import logging
import warnings
from collections.abc import Callable

LOG = logging.getLogger("blocksvm")
LOG.addHandler(logging.NullHandler())  # otherwise Python prints warnings that nobody has asked for

_show: Callable[[str], None] | None = None
_said: set[str] = set()


def show_with(show: Callable[[str], None] | None) -> None:
    """Pass what is said to ``show`` from now on; None: log them, and warn of failures."""
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
    else:
        LOG.info("%s", sentence)
