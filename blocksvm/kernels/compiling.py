"""Compilation by numba: machine code of kernels, and none of functions that are only inlined in them.

By itself numba makes two wrappers for each inlined function, by which Python and C would call it, and machine code of it
and of them, before it is linked into its caller, where all of it is optimised and generated again: a quarter of the time
of compiling, and 30 MB.
"""

from __future__ import annotations

import gc
import re
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name, parse_assembly
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.environment import lookup_environment

from blocksvm.kernels.kernel_cache import KernelCache, cache_folder
from blocksvm.kernels.notices import say

OPTIONS = {"nogil": True, "error_model": "numpy"}
OBJECTS = 1_000_000  # that are made before Python looks for garbage
NEEDED = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals", "_finalize_specific")
# a release of numba that has other names for its steps compiles as it will, more slowly
KNOWN = all(hasattr(JITCodeLibrary, name) for name in NEEDED)


COUNTING = re.compile(r"^\s*(?:tail )?call void @NRT_(?:inc|dec)ref\(.*\)$", re.M)
ALLOCATION = "NRT_MemInfo_alloc"


def holds_arrays(kind) -> bool:
    """Whether values of this type of numba's may refer to arrays."""
    if isinstance(kind, types.BaseTuple):
        return any(map(holds_arrays, kind))
    return not isinstance(kind, types.Number | types.Boolean | types.NoneType | types.RangeType | types.SliceType)


def makes_arrays(state) -> bool:
    """Whether a function that is being compiled returns arrays, or gets some from a function that it calls."""
    calls = [(expression, signature) for expression, signature in state.calltypes.items() if is_call(expression)]
    return holds_arrays(state.return_type) or any(
        signature is not None
        and holds_arrays(signature.return_type)
        and not isinstance(state.typemap[expression.func.name], types.NamedTupleClass)
        for expression, signature in calls
    )


def is_call(expression) -> bool:
    return isinstance(expression, ir.Expr) and expression.op == "call"


class KernelLibrary(JITCodeLibrary):
    """The code of a kernel and of all that is linked into it."""

    def _finalize_specific(self):
        """Make the machine code, and give it the environments of inlined functions, which have no memory of their own."""
        super()._finalize_specific()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


class InlinedLibrary(JITCodeLibrary):
    """The code of an inlined function, to be linked into kernels; state: of its compilation."""

    state: Any

    def _optimize_final_module(self):
        """No optimisation, which its kernel gets with what is linked into it; but a function that makes no arrays does
        not count references to them: those that it is given belong to its caller until it returns, and the counting, an
        atomic operation each, cost learners up to half of a row's time."""
        if makes_arrays(self.state):
            return
        text = str(self._final_module)
        if "NRT_incref" in text and ALLOCATION not in text:
            name = self._final_module.name
            self._final_module = parse_assembly(COUNTING.sub("", text))
            self._final_module.name = name

    def _finalize_final_module(self):
        """Ready to be linked, not to be run."""
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self):
        """The message of numba to a function's environment: this, since there is no place for it yet."""
        return self

    def set_env(self, name: str, environment) -> None:
        """Nothing; see KernelLibrary."""

    def get_pointer_to_function(self, name: str) -> int:
        """There is none."""
        self._ensure_finalized()
        return 0


class KernelCompiler(CompilerBase):
    """numba's pipeline, with a library for kernels."""

    library: type[JITCodeLibrary] = KernelLibrary

    def define_pipelines(self):
        self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        self.state.library.state = self.state
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]

    def compile_extra(self, function):
        """Compile, with Python's search for garbage put off: the compiler makes many objects and few circles of them, in
        which the search would find nothing for a sixth of the time."""
        if cache_folder() is not None:
            say("compiling kernels (first use only, some seconds)")
        before = gc.get_threshold()
        gc.set_threshold(OBJECTS, *before[1:])
        try:
            return super().compile_extra(function)
        finally:
            gc.set_threshold(*before)


class InlinedCompiler(KernelCompiler):
    """numba's pipeline, with a library for inlined functions."""

    library = InlinedLibrary


def compiled_kernel(function):
    """``function`` compiled to be called by Python and by kernels."""
    if numba.config.DISABLE_JIT:
        return function
    known = {"pipeline_class": KernelCompiler} if KNOWN else {}
    compiled = numba.njit(no_cfunc_wrapper=True, **OPTIONS, **known)(function)
    compiled._cache = KernelCache(function)
    return compiled


def compiled_inlined(function):
    """``function`` compiled to be put in its callers' place; Python, which seldom calls it, compiles a copy."""
    if not KNOWN or numba.config.DISABLE_JIT:
        return numba.njit(forceinline=True, **OPTIONS)(function)
    compiled = numba.njit(
        forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=InlinedCompiler, **OPTIONS
    )(function)
    callable_one = []

    def compile_for_call(*args, **kwargs):
        if not callable_one:
            callable_one.append(numba.njit(**OPTIONS)(function))
        return callable_one[0]._compile_for_args(*args, **kwargs)

    # what is compiled for a kernel is not noted as callable, so each call asks for code
    compiled._insert = lambda *_, **__: None
    compiled._compile_for_args = compile_for_call
    return compiled


def processor() -> str:
    """The kind of processor that kernels are compiled for."""
    return get_host_cpu_name()
