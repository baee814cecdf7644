"""The compiled inner loops: arrays and scalars in, arrays and scalars out; compile.py owns how numba compiles them.

Conventions of all kernels, which a ``Block`` keeps to: ``indptr`` int64, ``indices`` int32, ``values`` float32 or
float64 or None (every value is 1), ``w``, ``alpha`` and sums float64, all C-contiguous.  Kernels do not check
bounds: the caller has checked the arrays.
"""

from __future__ import annotations

from hashlib import blake2b
from types import FunctionType

from blocksvm.kernels.compile import by_type, inlined, inlined_views, kernel

__all__ = ["by_type", "inlined", "inlined_views", "inlined_with", "kernel", "specialised", "with_globals", "with_parts"]


LONGEST = 60  # of a name, of which files are named


def specialised(function, name: str, **parts):
    """A kernel made of ``function`` with ``parts`` in the place of its globals of the same names.

    So a loop is written once, and compiled once for each learner, whose inlined functions it is to call.  Raises TypeError
    where ``function`` mentions no global of a part's name.
    """
    return kernel(with_globals(function, name, **parts))


def inlined_with(function, name: str, **parts):
    """An inlined function made of ``function`` with ``parts`` in the place of its globals of the same names.  Raises
    TypeError as ``specialised`` does."""
    return inlined(with_globals(function, name, **parts))


def with_parts(name: str, parts: dict, *functions) -> dict:
    """Inlined copies of ``functions`` by their names: each has those of ``parts`` that it mentions in the place of its
    globals."""
    return {
        function.__name__: inlined_with(
            function,
            f"{name}_{function.__name__}",
            **{part: parts[part] for part in parts if part in function.__code__.co_names},
        )
        for function in functions
    }


def with_globals(function, name: str, **parts) -> FunctionType:
    """A copy of a Python function, or of a kernel's, with ``parts`` in the place of its globals, as they are now: what
    it calls must have been defined."""
    function = getattr(function, "py_func", function)
    unknown = set(parts) - set(function.__code__.co_names)
    if unknown:
        raise TypeError(f"{function.__name__} calls no {', '.join(sorted(unknown))}")
    # numba keeps machine code by a function's name, and links by it: copies that differ have other names
    put_in = [(part, identity(parts[part])) for part in sorted(parts)]
    name = f"{name[:LONGEST]}_{blake2b(repr(put_in).encode(), digest_size=8).hexdigest()}"
    copy = FunctionType(
        function.__code__, function.__globals__ | parts, name, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = name
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.parts = getattr(function, "parts", {}) | parts
    return copy


def identity(part):
    """What a part of a function is, for ``repr``: its value, or where a function is and what it encloses; a copy's name
    tells what was put into it."""
    if not callable(part):
        return part
    enclosed = [identity(cell.cell_contents) for cell in getattr(part, "__closure__", None) or ()]
    return part.__module__, getattr(part, "__qualname__", part), enclosed
