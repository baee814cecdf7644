"""Objects that are named by their location, 'module:attribute': the code that a user brings, and when it may run.

Importing a module runs it, so a file must not choose which one: a location is imported only where the user has given it
in this process for the same setting, as an option of a command or as an argument in Python (``by_user``).  What a
model, checkpoint, store or trace names besides is refused, whichever way it came here; ``names_of`` says which file is
being followed.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module

from blocksvm.base.errors import InputError, option

# the settings that name code; a location in any other one permits nothing
CODE = ("learner", "loss", "schedule", "format", "task", "score")
# options that name a learner, too
OF_LEARNERS = ("solver", "help_solver", "help_learner")

_by_user: set[tuple[str, str]] = set()  # (setting, location)
_file: ContextVar[str | None] = ContextVar("file", default=None)  # whose names are being followed


def by_user(values: Mapping = {}, /, **more) -> None:
    """Note values that the user has given, by setting; those of ``CODE`` may be locations ('a:b', of learners several:
    'a:b,c:d').  Those given while the names of a file are followed count for nothing."""
    if _file.get() is not None:
        return
    for name, value in {**values, **more}.items():
        setting = _setting(name)
        if isinstance(value, Mapping):
            by_user(value)
        elif isinstance(value, str) and setting in CODE:
            _by_user.update((setting, one) for one in (value.split(",") if setting == "learner" else [value]))


def _setting(name: str) -> str:
    return "learner" if name in OF_LEARNERS else name


@contextmanager
def no_user_locations() -> Iterator[None]:
    """Meanwhile the user has named no location yet, as a command begins."""
    before = set(_by_user)
    _by_user.clear()
    try:
        yield
    finally:
        _by_user.clear()
        _by_user.update(before)


@contextmanager
def names_of(file) -> Iterator[None]:
    """Meanwhile names are those of a file: settings that are made of them are not the user's."""
    before = _file.set(str(file))
    try:
        yield
    finally:
        _file.reset(before)


def is_named(location: str, setting: str) -> bool:
    """Whether the user has given the location for this setting."""
    return (_setting(setting), location) in _by_user


def require_named(location: str, setting: str, of_file: bool = False) -> None:
    """InputError unless the user has given the location for this setting, too; of_file: or no file's are followed."""
    if not (is_named(location, setting) or of_file and _file.get() is None):
        raise not_trusted(location, setting, _file.get() or "a file")


def not_trusted(location: str, setting: str, file) -> InputError:
    """The error where only a file names a location."""
    given = option(setting, location)
    return InputError(f"{file}: names {location} as its {setting}, whose code would run; if you trust it, give {given}")


def imported(location: str, setting: str):
    """The object of a location; InputError where only a file names it, ImportError, with why, where there is none."""
    require_named(location, setting)
    return object_at(location)


def location_of(value, setting: str) -> str:
    """'module:attribute' of an object that the user gives; InputError, which names the setting, where no module has it
    as an attribute.  The modules of its functions come first."""
    near = [getattr(part, "__module__", "") for part in vars(value).values() if callable(part)]
    for module in dict.fromkeys((*near, "__main__", *sys.modules)):
        for attribute, member in list(vars(sys.modules.get(module, object)).items()):
            if member is value:
                return f"{module}:{attribute}"
    raise InputError(f"{option(setting, value.name)}: is in no module; assign it to a name in its module")


def object_at(location: str):
    """The same of a location of this package: of a registry's line."""
    name, _, attribute = location.partition(":")
    try:
        module = import_module(name)
    except (AttributeError, ValueError) as error:
        raise ImportError(str(error)) from error
    if not hasattr(module, attribute):  # a file of the same name may come before the user's, as Python's own sched.py
        where = getattr(module, "__file__", None) or "a module of Python's own"
        raise ImportError(f"{name} is {where}, which has no {attribute}; if you mean another file, rename that")
    return getattr(module, attribute)
