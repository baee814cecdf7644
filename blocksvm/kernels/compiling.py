"""Compilation by numba: machine code of kernels, and none of functions that are only inlined in them.

By itself numba makes two wrappers for each inlined function, by which Python and C would call it, and machine code of it
and of them, before it is linked into its caller, where all of it is optimised and generated again: a quarter of the time
of compiling, and 30 MB.
"""

from __future__ import annotations

import gc

import numba
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
    """The code of an inlined function, to be linked into kernels."""

    def _optimize_final_module(self):
        """Nothing: with what is linked into it, it is optimised in its kernel."""

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
