"""Each learner compiled does what it does in plain Python, to the last bit; but for exponentials and powers, which
numpy and the compiler round otherwise.  Positions beyond 2^31."""

import mmap

import numpy as np
import pytest
from support.online_cases import CASES, agree, has_mean, rows, taught
from support.plain_learners import in_plain_python

from blocksvm.online import LEARNERS
from blocksvm.online.runner import Runner

MAP_NORESERVE = 0x4000  # of Linux; mmap has it from Python 3.14 on
ROUNDED = {"hf-fobos": 1e-12}  # a cube root or a power


@pytest.mark.parametrize("name", LEARNERS)
def test_the_bits_are_those_of_plain_python(name):
    (X, y), case, found = rows(n=60, d=15, density=0.4), CASES[name][0], []
    runner = Runner(name, case, {}, average=has_mean(name, case))
    for loops in (runner.loops, in_plain_python(runner.loops)):
        runner.loops = loops
        found.append(taught(runner, X, y))
    tolerance = ROUNDED.get(name, 1e-12 if {"loss", "mirror", "p"} & set(case) else 0.0)
    for what in ("columns", "scalars", "tally"):
        agree(*(getattr(state, what) for state, _, _ in found), tolerance)
    agree(found[0][2], found[1][2], tolerance)
    assert found[0][2].any()


def test_classes_times_features_may_exceed_two_to_the_31():
    """In 26 GB of memory that is promised by nobody, of which some pages are used."""
    d, k = (1 << 30) + 5, 3
    runner = Runner("perceptron", {}, {}, n_classes=k, rule="prototype")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    columns = np.frombuffer(mmap.mmap(-1, 8 * k * (d + 1), flags), np.float64)
    state = runner.new_state(0)
    state.columns = columns
    matrix = np.array([0, 2], np.int64), np.array([3, d - 1], np.int32), np.array([1.0, 2.0], np.float32)
    runner.learn(matrix, np.array([2], np.int16), np.zeros(1, np.int32), d, state)
    right, wrong = 2 * (d + 1), 0
    assert columns[[right + 3, right + d - 1]].tolist() == [1.0, 2.0]
    assert columns[[wrong + 3, wrong + d - 1]].tolist() == [-1.0, -2.0]
    assert columns[d + 1 : 2 * (d + 1) : 1 << 20].sum() == 0.0
