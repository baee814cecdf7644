"""Objects that are named by their place, 'module:attribute': the code that a user brings, and when it may run.

Importing a module runs it, so a file must not choose which one: a place is imported only where the user has named it in
this process, as an option of a command or as an argument in Python (``by_user``).  What a model, checkpoint, store or
trace names besides is refused, whichever way it came here; ``names_of`` says which file is being followed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module

from blocksvm.base.errors import InputError, option

# the settings that name code; a place in any other one permits nothing
CODE = ("solver", "learner", "loss", "schedule", "format", "task", "score", "help-solver", "help-learner")

_by_user: set[str] = set()
_file: ContextVar[str | None] = ContextVar("file", default=None)  # whose names are being followed


def by_user(*values) -> None:
    """Note values that the user has given for settings that name code: texts, which may be places ('a:b', or several,
    'a:b,c:d'), or settings with their values, of which only those of ``CODE`` count.  Those given while the names of a
    file are followed are the file's, and count for nothing."""
    if _file.get() is not None:
        return
    for value in values:
        if isinstance(value, Mapping):
            by_user(*(one for name, one in value.items() if name in CODE or isinstance(one, Mapping)))
        elif isinstance(value, str):
            _by_user.update((value, *value.split(",")))


def by_options(arguments: Sequence[str]) -> None:
    """The same of a command's arguments, '--loss a:b' or '--loss=a:b'."""
    for number, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag.startswith("--") and flag[2:] in CODE:
            by_user(value if equals else "".join(arguments[number + 1 : number + 2]))


def clear_user_places() -> set[str]:
    """Forget the places that the user has named, as a command begins; returns them."""
    before = set(_by_user)
    _by_user.clear()
    return before


@contextmanager
def names_of(file) -> Iterator[None]:
    """Meanwhile names are those of a file: settings that are made of them are not the user's."""
    before = _file.set(str(file))
    try:
        yield
    finally:
        _file.reset(before)


def is_named(place: str) -> bool:
    """Whether the user has named the place."""
    return place in _by_user


def require_named(place: str, setting: str) -> None:
    """InputError unless the user has named the place, too; setting: the one by which a user does."""
    if place not in _by_user:
        raise not_trusted(place, setting, _file.get() or "a file")


def check_followed(place: str, setting: str) -> None:
    """The same, while the names of a file are followed."""
    if _file.get() is not None:
        require_named(place, setting)


def not_trusted(place: str, setting: str, file) -> InputError:
    """The error where only a file names a place."""
    return InputError(
        f"{file}: names {place} as its {setting}, whose code would run; if you trust it, give {option(setting, place)}"
    )


def imported(place: str, setting: str):
    """The object of a place that the user has named.  Raises InputError where only a file names it, and ImportError,
    with the reason, where there is none."""
    require_named(place, setting)
    return object_at(place)


def place_of(value, setting: str) -> str:
    """'module:attribute' of an object that the user gives; InputError, which names the setting, where no module has it
    as an attribute.  The modules of its functions come first."""
    near = [getattr(part, "__module__", "") for part in vars(value).values() if callable(part)]
    for module in dict.fromkeys((*near, "__main__", *sys.modules)):
        for attribute, member in list(vars(sys.modules.get(module, object)).items()):
            if member is value:
                return f"{module}:{attribute}"
    raise InputError(f"{option(setting, value.name)}: is in no module; assign it to a name in its module")


def object_at(place: str):
    """The same of a place of this package: of a registry's line."""
    name, _, attribute = place.partition(":")
    try:
        module = import_module(name)
    except (AttributeError, ValueError) as error:
        raise ImportError(str(error)) from error
    if not hasattr(module, attribute):  # a file of the same name may come before the user's, as Python's own sched.py
        where = getattr(module, "__file__", None) or "a module of Python's own"
        raise ImportError(f"{name} is {where}, which has no {attribute}; if you mean another file, rename that")
    return getattr(module, attribute)
