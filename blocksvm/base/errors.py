"""The one exception for what is wrong with a user's input, the one warning, and how settings are named in sentences.

A setting is an option to who types a command (``--max-norm 0``) and a keyword to who calls a function (``max_norm=0``):
messages name it through ``option``, and a command calls ``use_option_names`` at its start.
"""

import difflib
import errno
import re
from collections.abc import Iterable

# settings whose option is not "--" and their name
OPTIONS = {"C": "-C", "lam": "--lambda", "n_jobs": "--threads", "start_from": "--from", "n": "-n"}

LONGEST_VALUE = 70  # characters of a table
NO_VALUE = object()


class Bytes(int):
    """A size in bytes, as its caller writes it in a sentence: '12.3MB' on a command line, '12_300_000' in Python."""


# what moves a cursor, breaks a line, turns the order of letters or is no character at all; a tab is harmless
CONTROLS = re.compile("[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_option_names = False


def printable(text: str) -> str:
    """A text of a file on one line: its control characters as Python writes them, \\n or \\x1b."""
    return CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def shown_lines(text: str) -> str:
    """The same of lines, which stay lines."""
    return text if CONTROLS.search(text.replace("\n", "")) is None else "\n".join(map(printable, text.split("\n")))


class InputError(ValueError):
    """A user's input is wrong: a sentence of what, where, and what to do; control characters come out as escapes."""

    def __init__(self, message: str):
        super().__init__(shown_lines(message))


ADVICE = {
    errno.ENOSPC: "free some space or choose another location",
    errno.EDQUOT: "free some space or choose another location",
    errno.EFBIG: "no file may be so large there; choose another location, or raise the limit (ulimit -f)",
    errno.EACCES: "allow it, or choose another location",
    errno.EPERM: "allow it, or choose another location",
    errno.EROFS: "choose another location",
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
    """The advice on an error of the system."""
    return ADVICE.get(error.errno or 0, "check the disk or the connection, and run it again")


def system_sentence(error: OSError) -> tuple[str, int]:
    """An error of the system as (sentence, exit status): 2 where the user can mend it, else 1."""
    name = f"{error.filename}: " if error.filename else ""
    what = error.strerror or next(iter(str(error).splitlines()), "an unknown error of the system")
    known = error.errno is not None and error.errno not in FOREIGN
    return f"{name}{what[:1].lower() + what[1:]}; {advice(error)}", 2 if known else 1


class InputWarning(UserWarning):
    """An input that can be used, but hardly as it was meant: one sentence with what to look at."""


def use_option_names(on: bool) -> bool:
    """From now on name settings as options (True) or as keywords (False), in all threads of the process, which a
    context variable would not reach; returns what held before."""
    global _option_names
    before, _option_names = _option_names, on
    return before


def option_string(name: str) -> str:
    """A setting as the command line has it: '--max-norm', '-C'."""
    return OPTIONS.get(name, "--" + name.replace("_", "-"))


def option(name: str, value=NO_VALUE) -> str:
    """A setting, and its value if any, as its caller writes them: '--max-norm' and '--max-norm 0' on the command line,
    'max_norm' and 'max_norm=0' in Python; of True '--overwrite' and 'overwrite=True'."""
    spelled = option_string(name) if _option_names else name
    if value is NO_VALUE or (value is True and _option_names):
        return spelled
    if isinstance(value, Bytes):
        text = f"{value / 1e6:g}MB" if _option_names else f"{value:_}"
    else:
        text = f"{value:g}" if isinstance(value, float) else value_text(value)
    return f"{spelled} {text}" if _option_names else f"{spelled}={text}"


def value_text(value) -> str:
    """A value in a sentence, of a long table its beginning."""
    text = str(value)
    return text if isinstance(value, str | float) or len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was meant where ``name`` is mistyped or broken off, None where none is like it."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1)
    return next(iter(close or [known for known in names if name and known.startswith(name)]), None)


def one_of(name: str, names: Iterable[str], more: str = "") -> str:
    """The end of a sentence on a name that is none of these: 'choose one of pa1, pa2; did you mean pa1?'"""
    names = list(names)
    meant = nearest(name, names)
    return f"choose one of {', '.join(names)}{more}{f'; did you mean {meant}?' if meant else ''}"


def require_library(name: str, owner: str, instead: str = "") -> None:
    """InputError where a library is not installed.  owner: what needs it; instead: advice beside installing it."""
    from importlib.util import find_spec

    if find_spec("sklearn" if name == "scikit-learn" else name) is None:
        raise InputError(f"{owner} needs {name}; install it with pip install {name}{instead}")
