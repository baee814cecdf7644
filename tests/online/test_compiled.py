"""Each learner compiled does what it does in plain Python, to the last bit; but for exponentials and powers, which
numpy and the compiler round otherwise.  Positions beyond 2^31."""

import mmap

import numpy as np
import pytest
from support.online_cases import CASES, agree, csr, has_mean, rows
from support.plain_learners import in_plain_python

from blocksvm.online import LEARNERS
from blocksvm.online.runner import Runner

MAP_NORESERVE = 0x4000  # of Linux; mmap has it from Python 3.14 on
ROUNDED = {"hf-fobos": 1e-12}  # a cube root or a power


@pytest.mark.parametrize("name", LEARNERS)
def test_the_bits_are_those_of_plain_python(name):
    d = 15
    X, y = rows(n=60, d=d, density=0.4)
    order = np.arange(60, dtype=np.int32)
    runner = Runner(name, CASES[name][0], {}, average=has_mean(name, CASES[name][0]))
    states, read = [], []
    for loops in (runner.loops, in_plain_python(runner.loops)):
        runner.loops = loops
        state = runner.new_state(d)
        runner.learn(csr(X), y.astype(np.int16), order, d, state)
        read.append(runner.weights(state, np.empty(d + 1)))
        states.append(state)
    tolerance = ROUNDED.get(name, 1e-12 if {"loss", "mirror", "p"} & set(CASES[name][0]) else 0.0)
    for what in ("columns", "scalars", "tally"):
        found, expected = (getattr(state, what) for state in states)
        agree(found, expected, tolerance)
    agree(*read, tolerance)
    assert read[0].any()


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
