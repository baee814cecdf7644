"""What a first use compiles: once, in two processes at most, and nothing that a later run has to compile again."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from numba import config, types

from blocksvm.kernels import disk, inlined, kernel
from blocksvm.kernels.text import FINE, close_rows
from blocksvm.kernels.words import float_of_bits

needs_jit = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 33, 64, 100, 300])
def test_rows_out_of_order_are_sorted_and_joined_in_the_order_of_their_entries(n):
    rng = np.random.default_rng(n)
    for most in (3, n, 50 * n):
        ids = rng.integers(0, most, n)
        values = rng.standard_normal(n)
        expected: dict[int, float] = {}
        for i, v in zip(ids.tolist(), values.tolist(), strict=True):
            expected[i] = expected[i] + v if i in expected else v
        indptr = np.array([0, n])
        row, code, _, _ = close_rows(indptr, 0, 1, ids, values, True, False, False)
        assert (row, code) == (1, FINE)
        assert ids[: indptr[1]].tolist() == sorted(expected)
        assert values[: indptr[1]].tolist() == [expected[i] for i in sorted(expected)]


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
    for _ in range(2):
        assert doubled(0.1) == 0.2
        assert doubled(3) == 6
        assert bits_as_number(bits) == -0.3


@needs_jit
def test_an_inlined_function_has_no_machine_code():
    doubled.compile((types.float32,))
    compiled = doubled.overloads[types.float32,]
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cpython_wrapper_name) == 0


def test_a_kernel_that_another_process_compiles_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "kernel.nbc"
    monkeypatch.setattr(disk, "_claims", {})
    assert disk.claimed(path) is None, "nobody compiles it yet"
    (held,) = disk._claims.values()
    found = []
    other = threading.Thread(target=lambda: found.append(disk.claimed(path)))
    other.start()
    other.join(0.05)
    assert other.is_alive() and not found
    disk.write_checked(path, b"code")
    disk.give_up(path, held)
    other.join()
    assert found == [b"code"]
    assert [one.name for one in tmp_path.iterdir()] == ["kernel.nbc"]


def test_a_kernel_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_claims", {})
    monkeypatch.setattr(disk, "PATIENCE", 0.02)
    assert disk.claimed(tmp_path / "kernel.nbc") is None
    held = dict(disk._claims)
    assert disk.claimed(tmp_path / "kernel.nbc") is None
    for file in [*held.values(), *disk._claims.values()]:
        os.close(file)
