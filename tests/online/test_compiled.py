"""Each learner compiled does what it does in plain Python, to the last bit; but for exponentials and powers, which
numpy and the compiler round otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from support.online_cases import CASES, agree, csr, rows
from support.plain_learners import in_plain_python

from blocksvm.online import LEARNERS
from blocksvm.online.runner import Runner

ROUNDED = {"hf-fobos": 1e-12}  # a cube root or a power


@pytest.mark.parametrize("name", LEARNERS)
def test_the_bits_are_those_of_plain_python(name):
    d = 15
    X, y = rows(n=60, d=d, density=0.4)
    order = np.arange(60, dtype=np.int32)
    runner = Runner(name, CASES[name][-1], {}, average=True)
    states, read = [], []
    for loops in (runner.loops, in_plain_python(runner.loops)):
        runner.loops = loops
        state = runner.new_state(d)
        runner.learn(csr(X), y.astype(np.int16), order, d, state)
        read.append(runner.weights(state, np.empty(d + 1)))
        states.append(state)
    tolerance = ROUNDED.get(name, 1e-12 if {"loss", "mirror", "p"} & set(CASES[name][-1]) else 0.0)
    for what in ("columns", "scalars", "tally"):
        found, expected = (getattr(state, what) for state in states)
        agree(found, expected, tolerance)
    agree(*read, tolerance)
    assert read[0].any()
