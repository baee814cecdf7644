"""What a kernel's machine code is made of, as one number: its fingerprint.

Two kernels have the same fingerprint only where the same is compiled: the bytecode of a function and, recursively,
of every function that it reaches through its globals (inlined functions, other kernels, intrinsics, wherever they are
defined), the options that each is compiled with, the values of global constants and arrays, default arguments and
closures.  Paths, dates, line numbers and comments play no part.  The libraries' own functions are identified by name;
their releases are identified by the folder that the code is kept in.

Not seen is what numba itself finds by other ways than a global: the implementations that ``numba.extending.overload``
registers for a plain Python function.
"""

from __future__ import annotations

import dis
import enum
import sys
from hashlib import blake2b
from types import CodeType, FunctionType, ModuleType

import numpy as np

LIBRARIES = {"numpy", "numba", "llvmlite", "builtins"} | sys.stdlib_module_names
CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))

_parts: dict[FunctionType, tuple[bytes, tuple[FunctionType, ...]]] = {}


class UnidentifiedError(Exception):
    """A kernel reaches a value that this file cannot tell from another one like it."""


def fingerprint(compiled) -> str:
    """32 hexadecimal digits, equal only for functions into which the same is compiled.

    compiled: what ``kernel`` or ``inlined`` returned.  Raises UnidentifiedError where it reaches a global of a kind that
    has no known identity (an open file, an instance of a user's class).
    """
    spelling = Spelling(())
    spelling.value(compiled)
    digest = blake2b(digest_size=16)
    numbers: dict[FunctionType, int] = {}
    pending: list[FunctionType] = []

    def add(text: bytes, reached) -> None:
        """Functions are named by the order in which they are found, so that calls in a circle end."""
        digest.update(b"%d:%s" % (len(text), text))
        for function in reached:
            number = numbers.setdefault(function, len(numbers))
            if number == len(pending):
                pending.append(function)
            digest.update(b"%d," % number)

    add(b"".join(spelling.text), spelling.reached)
    for function in pending:  # grows meanwhile
        if function not in _parts:
            _parts[function] = describe(function)
        add(*_parts[function])
    return digest.hexdigest()


def describe(function: FunctionType) -> tuple[bytes, tuple[FunctionType, ...]]:
    """(everything that ``function`` itself is made of, the functions that it reaches in the order of their mention)."""
    spelling = Spelling(names_in(function.__code__))
    spelling.code(function.__code__)
    for name in sorted(spelling.names):
        if name not in function.__globals__:
            continue
        before = len(spelling.text), len(spelling.reached)
        try:
            spelling.token("global", name)
            spelling.value(function.__globals__[name])
        except UnidentifiedError:
            if name in globals_of(function.__code__):
                raise
            # the name of an attribute or method that a global happens to have, too
            del spelling.text[before[0] :], spelling.reached[before[1] :]
    spelling.value(function.__defaults__)
    spelling.value(function.__kwdefaults__)
    spelling.value(tuple(cell.cell_contents for cell in function.__closure__ or ()))
    return b"".join(spelling.text), tuple(spelling.reached)


def names_in(code: CodeType) -> set[str]:
    """Names of globals and attributes in a function and the functions within it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names


def globals_of(code: CodeType) -> set[str]:
    """The names among them that are loaded as globals; slow, by reading the instructions."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= globals_of(constant)
    return names


def is_of_a_library(value) -> bool:
    """Whether ``value`` is what a library calls by its name, such as ``numpy.uint64`` or ``math.sqrt``."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = getattr(value, "__module__", None) or type(value).__module__
    if not isinstance(name, str) or not isinstance(module, str) or module.partition(".")[0] not in LIBRARIES:
        return False
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


class Spelling:
    """Writes values as bytes, unambiguously, and collects the functions among them.

    names: the attributes of modules that are looked at.
    """

    def __init__(self, names):
        self.names = names
        self.text: list[bytes] = []
        self.reached: list[FunctionType] = []
        self._within: set[int] = set()

    def token(self, *parts: str | bytes) -> None:
        for part in parts:
            part = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            self.text.append(b"%d:%s" % (len(part), part))

    def function(self, function: FunctionType) -> None:
        self.token("function")
        self.reached.append(function)

    def code(self, code: CodeType) -> None:
        self.token("code", code.co_code, getattr(code, "co_exceptiontable", b""))
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.token(repr((counts, names)), str(len(code.co_consts)))
        for constant in code.co_consts:
            self.value(constant)

    def value(self, value) -> None:
        kind = type(value)
        if kind in CONSTANTS:
            self.token(kind.__name__, repr(value))
        elif kind is CodeType:
            self.code(value)
        elif isinstance(value, np.generic):
            self.token("scalar", kind.__name__, repr(value.dtype), value.tobytes())
        elif isinstance(value, np.ndarray):
            self.array(value)
        elif isinstance(value, enum.Enum):
            self.token("member", kind.__qualname__, value.name)
            self.value(value.value)
        elif isinstance(value, (tuple, list, set, frozenset, dict)):
            self.once(value, self.container)
        elif is_of_a_library(value):
            self.token("library", getattr(value, "__module__", None) or kind.__module__, value.__name__)
        elif isinstance(value, ModuleType):
            self.once(value, self.module)
        elif isinstance(getattr(value, "py_func", None), FunctionType):  # compiled by numba
            self.token("compiled", kind.__qualname__)
            self.value(getattr(value, "targetoptions", None))
            self.function(value.py_func)
        elif isinstance(getattr(value, "_defn", None), FunctionType):  # an intrinsic
            self.token("intrinsic", kind.__qualname__)
            self.function(value._defn)
        elif isinstance(value, FunctionType):
            self.function(value)
        elif isinstance(value, type):
            self.once(value, self.type)
        elif isinstance(value, np.dtype) or kind.__module__.startswith("numba.core.types"):
            self.token("type", kind.__qualname__, str(value))
        else:
            raise UnidentifiedError(f"a global of type {kind.__qualname__}")

    def once(self, value, write) -> None:
        """What contains itself is not entered again."""
        if id(value) in self._within:
            self.token("again")
            return
        self._within.add(id(value))
        write(value)
        self._within.discard(id(value))

    def array(self, value: np.ndarray) -> None:
        if value.dtype.hasobject:
            raise UnidentifiedError("an array of objects")
        layout = (value.shape, value.flags.c_contiguous, value.flags.f_contiguous, value.flags.writeable)
        self.token("array", repr(value.dtype), repr(layout), value.tobytes())

    def container(self, value) -> None:
        kind = type(value)
        self.token(kind.__qualname__, str(len(value)))
        if isinstance(value, dict):
            value = sorted(value.items(), key=repr)
        elif isinstance(value, (set, frozenset)):
            value = sorted(value, key=repr)
        elif kind not in (tuple, list):  # fields are found by name
            self.token(repr(getattr(kind, "_fields", None)))
        for one in value:
            self.value(one)

    def module(self, value: ModuleType) -> None:
        self.token("module", value.__name__)
        if value.__name__.partition(".")[0] in LIBRARIES:
            return
        for name in sorted(self.names):
            if name in vars(value):
                self.token(name)
                self.value(vars(value)[name])

    def type(self, value: type) -> None:
        self.token("class", value.__qualname__, repr(getattr(value, "_fields", None)))
        for base in value.__bases__:
            self.value(base)
        for name, one in sorted(vars(value).items()):
            if isinstance(one, FunctionType) and not is_of_a_library(one):
                self.token(name)
                self.function(one)
            elif type(one) in CONSTANTS and not name.startswith("__"):
                self.token(name)
                self.value(one)
