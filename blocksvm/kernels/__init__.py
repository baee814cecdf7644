"""The compiled inner loops: arrays and scalars in, arrays and scalars out.

This file owns the ways in which functions are compiled: ``kernel`` and ``inlined``, and ``specialised`` and
``inlined_with``, which put other functions in the place of those that one calls.  compiling.py owns how
numba compiles, kernel_cache.py stores machine code on disk, notices.py reports on it.

Conventions of all kernels (asserted by ``Block``): ``indptr`` int64, ``indices`` int32, ``values`` float32 or
float64 or None (every value is 1), ``w``, ``alpha`` and sums float64, all C-contiguous.  Kernels do not check
bounds: the caller has checked the arrays.
"""

from __future__ import annotations

from types import FunctionType


def kernel(function):
    """Compile ``function`` on first use, without the GIL, and keep the machine code on disk."""
    from blocksvm.kernels.compiling import compiled_kernel

    return compiled_kernel(function)


def inlined(function):
    """Compile ``function`` for use inside kernels only, and put it in its caller's place.

    Left to itself LLVM calls the larger ones: parsing and the inner loops then take two to three times as long.
    """
    from blocksvm.kernels.compiling import compiled_inlined

    return compiled_inlined(function)


def specialised(function, name: str, **parts):
    """A kernel made of ``function`` with ``parts`` in the place of its globals of the same names.

    So a loop is written once, and compiled once for each of the inlined functions that it is to call.  ``function`` is a
    plain one, or a kernel; copies differ by their parts, ``name`` is for people.  Raises TypeError
    where ``function`` mentions no global of a part's name.
    """
    return kernel(_copy(function, name, parts))


def inlined_with(function, name: str, **parts):
    """An inlined function made of ``function`` (plain, or inlined) with ``parts`` in the place of its globals of the
    same names: several losses share one coordinate step, each with its own bound and diagonal.

    Raises TypeError as ``specialised`` does.
    """
    return inlined(_copy(function, name, parts))


def with_parts(name: str, parts: dict, *functions) -> dict:
    """Inlined copies of ``functions``, plain ones or inlined, by their names: each has those of ``parts`` that it
    mentions in the place of its globals."""
    plain = [getattr(function, "py_func", function) for function in functions]
    return {
        function.__name__: inlined_with(
            function,
            f"{name}_{function.__name__}",
            **{part: parts[part] for part in parts if part in function.__code__.co_names},
        )
        for function in plain
    }


def in_python(function, **parts):
    """The Python function behind a compiled one that calls the Python functions behind those that it calls; parts: in
    the place of globals of these names, in all of them."""
    plain = getattr(function, "py_func", function)
    known = {name: plain.__globals__.get(name) for name in plain.__code__.co_names}
    own = {name: parts[name] for name in known if name in parts}
    own |= {
        name: in_python(member, **parts) for name, member in known.items()
        if name not in parts and hasattr(member, "py_func")
    }  # fmt: skip
    return _copy(plain, plain.__name__, own) if own else plain


def _copy(function, name: str, parts: dict) -> FunctionType:
    """With the globals as they are now: what ``function`` calls must have been defined."""
    function = getattr(function, "py_func", function)
    unknown = set(parts) - set(function.__code__.co_names)
    if unknown:
        raise TypeError(f"{function.__name__} calls no {', '.join(sorted(unknown))}")
    copy = FunctionType(
        function.__code__, function.__globals__ | parts, name, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = name
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.made_of = function, parts
    return copy
