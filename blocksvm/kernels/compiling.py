"""How numba makes code: machine code of kernels, and none of functions that are only put inside of them.

By itself numba makes two wrappers for each inlined function, by which Python and C would call it, and machine code of it
and of them, before it is linked into its caller, where all of it is optimised and generated again: a quarter of the time
of compiling, and 30 MB.
"""

from __future__ import annotations

import numba
from llvmlite.binding import parse_bitcode
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.environment import lookup_environment

OPTIONS = {"nogil": True, "error_model": "numpy"}
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
        """What numba tells a function's environment: this, since there is no place for it yet."""
        return self

    def set_env(self, name: str, environment) -> None:
        """Nothing; see KernelLibrary."""

    def get_pointer_to_function(self, name: str) -> int:
        """There is none."""
        self._ensure_finalized()
        return 0


class LoadedLibrary(JITCodeLibrary):
    """Machine code from disk.  Its bitcode, by which other code is linked with it, is read only when some is: that takes
    half as long as all else that loading does."""

    bitcode = b""

    def _get_module_for_linking(self):
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self.bitcode)
        return super()._get_module_for_linking()


def load_library(codegen, serialized: tuple[str, str, tuple[bytes, bytes]], defined: list[str]) -> JITCodeLibrary:
    """What codegen.unserialize_library makes of a library; defined: the names that its bitcode defines."""
    name, kind, code = serialized
    if kind != "object":
        return codegen.unserialize_library(serialized)
    library = LoadedLibrary(codegen, name)
    machine_code, library.bitcode = code
    library.enable_object_caching()
    library._set_compiled_object(machine_code)
    library._finalize_final_module()
    codegen._engine._defined_symbols.update(defined)
    return library


class KernelCompiler(CompilerBase):
    """numba's pipeline, with a library for kernels."""

    library: type[JITCodeLibrary] = KernelLibrary

    def define_pipelines(self):
        self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class InlinedCompiler(KernelCompiler):
    """numba's pipeline, with a library for inlined functions."""

    library = InlinedLibrary


def compiled_kernel(function):
    """``function`` compiled to be called by Python and by kernels."""
    known = {"pipeline_class": KernelCompiler} if KNOWN else {}
    return numba.njit(no_cfunc_wrapper=True, **OPTIONS, **known)(function)


def compiled_inlined(function):
    """``function`` compiled to be put in its callers' place; for Python, which seldom calls it, it is compiled anew."""
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
