"""Compiling in ways that are not numba's usual one: inlined functions without counted references, own LLVM."""

import sys
from types import FunctionType
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import config, types
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys
from support.training_cases import random_rows

from blocksvm.api.fit import fit
from blocksvm.kernels import inlined, inlined_views, kernel
from blocksvm.kernels.lanes import eight, four, plus, put, times
from blocksvm.kernels.rows import prefetch
from blocksvm.kernels.text_bytes import float_of_bits

needs_jit = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@inlined
def doubled(x):
    return x + x


@inlined
def bits_as_number(x):
    return float_of_bits(x)


@kernel
def of_both(x, bits):
    return doubled(x) + bits_as_number(bits)


def test_an_inlined_function_is_called_by_kernels_and_by_python():
    bits = np.float64(-0.3).view(np.uint64)
    assert of_both(0.1, bits) == 0.1 + 0.1 - 0.3
    assert (doubled(0.1), doubled(3)) == (0.2, 6)


def moved_four(w, factor, to, i):
    put(to, i, plus(four(w, i), factor, times(factor, four(w, i))))


def moved_eight(w, factor, to, i):
    put(to, i, plus(eight(w, i), factor, times(factor, eight(w, i))))


@pytest.mark.parametrize(("moved", "count"), [(moved_four, 4), (moved_eight, 8)])
def test_numbers_side_by_side_are_those_of_plain_code(moved, count):
    """Bounds are checked where it is asked for."""
    w, to, in_kernel = np.random.default_rng(0).standard_normal(20), np.zeros(20), kernel(moved)
    for i in (np.uint64(0), np.uint64(3), np.uint64(20 - count)):
        to[:] = 0.0
        in_kernel(w, 0.3, to, i)
        expected = np.zeros(20)
        own = slice(int(i), int(i) + count)
        expected[own] = w[own] + 0.3 * (0.3 * w[own])
        assert np.array_equal(to, expected)
    if config.DISABLE_JIT:
        return
    checked = numba.njit(boundscheck=True)(moved)
    checked(w, 0.3, to, 20 - count)
    for i in (20 - count + 1, 20, 1 << 40):
        with pytest.raises(IndexError, match="out of bounds"):
            checked(w, 0.3, to, i)
    (code,) = checked.inspect_llvm().values()
    assert "out of bounds" in code


@kernel
def sum_asking_ahead(w, ahead):
    total = 0.0
    for i in range(w.shape[0]):
        prefetch(w, i + ahead)
        total += w[i]
    return total


def test_asking_for_memory_changes_nothing_and_never_fails():
    w = np.arange(10.0)
    assert [sum_asking_ahead(w, ahead) for ahead in (0, 3, 1 << 50, -(1 << 50))] == [45.0] * 4


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@inlined_views
def swapped(pair):
    return Pair(pair.second, pair.first)


@inlined
def sum_of(pair, depth):
    """Rebinds what it is given, in a loop, and returns early."""
    first, second = pair.first, pair.second
    for _ in range(depth):
        first, second = second, first[1:]
        if first.shape[0] < 2:
            return -1.0
    return first[0] + second[0]


@kernel
def many_sums(a, b, depth, times):
    total = 0.0
    for _ in range(times):
        made = a.copy()
        pair = Pair(made, b)
        total += sum_of(pair, depth) + sum_of(swapped(Pair(made[:], b)), depth)
    return total


@pytest.mark.slow
@needs_jit
def test_references_to_arrays_are_those_of_their_maker():
    a, b = np.arange(20.0), np.arange(20.0) + 0.5
    _nrt_python.memsys_enable_stats()
    before = sys.getrefcount(a), sys.getrefcount(b), rtsys.get_allocation_stats()
    found = [many_sums(a, b, depth, 50) for depth in (0, 3, 60)]
    after = sys.getrefcount(a), sys.getrefcount(b), rtsys.get_allocation_stats()
    assert after[:2] == before[:2]
    made, freed = (getattr(after[2], name) - getattr(before[2], name) for name in ("mi_alloc", "mi_free"))
    assert made == freed >= 150
    assert found == [many_sums.py_func(a, b, depth, 50) for depth in (0, 3, 60)]


@inlined
def parts_of(a):
    return a[:1], a[1:]


@kernel
def first_of_rest(a):
    return parts_of(a)[1][0]


def wrong_ones(package: str) -> set[str]:
    """The inlined functions of a package that return arrays, of those that a kernel has called."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(package)]
    functions = {one for module in modules for one in vars(module).values() if isinstance(one, FunctionType)}
    kinds = {function.__name__: cpu_target.typing_context._lookup_global(function) for function in functions}
    return {
        name
        for name, kind in kinds.items() if isinstance(kind, types.Function)
        for template in kind.templates
        for found, _ in getattr(template, "_impl_cache", {}).values() if found.targetoptions.get("_nrt") is False
        for one in found.overloads.values() if "array" in str(one.signature.return_type)
    }  # fmt: skip


@needs_jit
def test_inlined_functions_return_no_arrays():
    """They would be freed while they are in use.  numba refuses an array; of tuples of them, those are tried of
    what training is made of."""
    first_of_rest.compile((types.float64[::1],))
    assert wrong_ones(__name__) == {"parts_of"}  # not called: only looked at
    X, y = random_rows(n=60, d=10)
    for solver in ("dual-cd", "pegasos", "pa1", "auto", "arow"):
        fit(X, y, solver=solver, max_outer=2)
    fit(X, y, solver="newton", loss="logistic", max_outer=2)
    fit(X, np.arange(60) % 3, max_outer=2)
    assert not wrong_ones("blocksvm.")
