"""The one exception for what is wrong with a user's input, the one warning, and how settings are named in sentences.

A setting is an option to who types a command (``--max-norm 0``) and a keyword to who calls a function (``max_norm=0``):
messages name it through ``called`` and ``said``, and a command says at its start that options are spoken.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable

# settings whose option is not "--" and their name
OPTIONS = {"C": "-C", "lam": "--lambda"}

LONGEST_SAID = 70  # characters of a table

# what moves a cursor, breaks a line, turns the order of letters or is no character at all; a tab is harmless
CONTROLS = re.compile("[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_options_spoken = False


def printable(text: str) -> str:
    """A text of a file on one line: its control characters as Python writes them, \\n or \\x1b."""
    return CONTROLS.sub(_escape, text)


def shown_lines(text: str) -> str:
    """The same of lines, which stay lines."""
    return text if CONTROLS.search(text.replace("\n", "")) is None else "\n".join(map(printable, text.split("\n")))


def _escape(found: re.Match) -> str:
    return found[0].encode("unicode_escape").decode()


class InputError(ValueError):
    """Something that the user gave is wrong: the message is one sentence with what, where, and what to do.  Control
    characters of what it quotes are shown as escapes."""

    def __init__(self, message: str):
        super().__init__(shown_lines(message))


ADVICE = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.EFBIG: "no file may be so large there; choose another place, or raise the limit (ulimit -f)",
    errno.EACCES: "allow it, or choose another place",
    errno.EPERM: "allow it, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENOENT: "check the name, and whether its folder is still there",
    errno.ENOTDIR: "check the name",
    errno.EISDIR: "give the name of a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "too many files are open in this process; raise the limit (ulimit -n) or give fewer files at once",
    errno.ENFILE: "too many files are open on this machine; close some, and run it again",
    errno.ENOMEM: "the machine has no more memory; lower the memory that the run may take",
    errno.ESTALE: "the file system has lost it; run it again",
}
# not of the user's making
FOREIGN = (errno.EIO, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.EBADF, errno.EINTR, errno.EAGAIN)


def advice(error: OSError) -> str:
    """What to do about an error of the system."""
    return ADVICE.get(error.errno or 0, "check the disk or the connection, and run it again")


def system_sentence(error: OSError) -> tuple[str, int]:
    """An error of the system as (sentence, exit status): 2 where the user can mend it, else 1."""
    name = f"{error.filename}: " if error.filename else ""
    what = error.strerror or next(iter(str(error).splitlines()), "an unknown error of the system")
    known = error.errno is not None and error.errno not in FOREIGN
    return f"{name}{what[:1].lower() + what[1:]}; {advice(error)}", 2 if known else 1


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
