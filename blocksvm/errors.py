"""The one exception for what is wrong with a user's input, the one warning, and how settings are named in sentences.

A setting is an option to who types a command (``--max-norm 0``) and a keyword to who calls a function (``max_norm=0``):
messages name it through ``called`` and ``said``, and a command says at its start that options are spoken.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# settings whose option is not "--" and their name
OPTIONS = {"C": "-C", "lam": "--lambda"}

LONGEST_SAID = 70  # characters of a table

_options_spoken = False


class InputError(ValueError):
    """Something that the user gave is wrong: the message is one sentence with what, where, and what to do."""


class InputWarning(UserWarning):
    """What the user gave can be used, but hardly as it was meant: one sentence with what to look at."""


def speak_options(on: bool) -> bool:
    """From now on name settings as options (True) or as keywords (False); returns what held before."""
    global _options_spoken
    before, _options_spoken = _options_spoken, on
    return before


def option(name: str) -> str:
    """A setting as the command line calls it: '--max-norm', '-C'."""
    return OPTIONS.get(name, "--" + name.replace("_", "-"))


def called(name: str) -> str:
    """A setting as its caller writes it: '--max-norm' on the command line, 'max_norm' in Python."""
    return option(name) if _options_spoken else name


def switched_on(name: str) -> str:
    """A setting without a value: '--overwrite' on the command line, 'overwrite=True' in Python."""
    return option(name) if _options_spoken else f"{name}=True"


def brief(value) -> str:
    """A value in a sentence, of a long table its beginning."""
    text = str(value)
    return text if isinstance(value, str | float) or len(text) <= LONGEST_SAID else f"{text[: LONGEST_SAID - 3]}..."


def said(name: str, value) -> str:
    """A setting with the value given, as its caller wrote them: '--max-norm 0' or 'max_norm=0'."""
    shown = f"{value:g}" if isinstance(value, float) else brief(value)
    return f"{option(name)} {shown}" if _options_spoken else f"{name}={shown}"


def nearest(given: str, names: Iterable[str]) -> str | None:
    """The name that was meant where ``given`` is mistyped or broken off, None where none is like it."""
    names = list(names)
    close = difflib.get_close_matches(given, names, n=1)
    return next(iter(close or [name for name in names if given and name.startswith(given)]), None)


def one_of(given: str, names: Iterable[str], more: str = "") -> str:
    """The end of a sentence on a name that is none of these: 'choose one of pa1, pa2; did you mean pa1?'"""
    names = list(names)
    meant = nearest(given, names)
    return f"choose one of {', '.join(names)}{more}{f'; did you mean {meant}?' if meant else ''}"
