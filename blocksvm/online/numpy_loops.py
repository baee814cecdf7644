"""The loops over rows of a learner that is a function of numpy arrays (``Learner.update_numpy``): those of loops.py, in
plain Python."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from blocksvm.kernels.compile import with_globals
from blocksvm.online import loops
from blocksvm.online.learner import Learner


def numpy_loops(learner: Learner, settings: dict, average: bool) -> loops.Loops:
    """The loops of a learner with these settings."""
    rule, state = learner.rule, SimpleNamespace(settings=settings)
    names = list(enumerate(rule.columns._fields))[1 : len(rule.columns) - rule.columns.n_averaging]
    scalars = list(enumerate(rule.scalars._fields))
    lagged = rule.width(True) - 1 if average else None

    def entries(row):
        part = slice(row.start, row.stop)
        x = np.ones(row.stop - row.start) if row.values is None else row.values[part].astype(np.float64)
        return row.indices[part], x

    def score(row, memory) -> float:
        j, x = entries(row)
        return float(x @ memory.columns.reshape(-1, memory.width)[j, 0])

    def update(row, y, z, importance, memory) -> None:
        memory.scalars[0] += 1.0
        j, x = entries(row)
        columns = memory.columns.reshape(-1, memory.width)
        own = columns[j]
        before = own[:, 0].copy()
        state.importance = importance
        for c, name in names:
            setattr(state, name, own[:, c])
        for c, name in scalars:
            setattr(state, name, float(memory.scalars[c]))
        w = learner.update_numpy(own[:, 0], x, y, z, state)
        if lagged is not None:  # see ``rule_parts.change_weight``
            own[:, lagged] += (memory.scalars[0] - 1.0) * (w - before)
        own[:, 0] = w
        for c, name in names:
            own[:, c] = getattr(state, name)
        for c, name in scalars[1:]:
            memory.scalars[c] = getattr(state, name)
        columns[j] = own

    def read_weights(memory, average, out) -> None:
        columns = memory.columns.reshape(len(memory.scalars), -1, memory.width)
        out[:] = columns[:, :, 0].reshape(-1)
        if average:
            out -= (columns[:, :, lagged] / np.maximum(1.0, memory.scalars[:, :1])).reshape(-1)

    three = loops.assembled("numpy", 0, score, update, None, with_globals, with_globals)
    return loops.Loops(*map(in_plain_python, three), read_weights)


def in_plain_python(loop):
    """A loop in plain Python, which asks for no cache lines."""
    plain = with_globals(loop, loop.__name__, fetch_ahead=lambda *arguments: None)

    def run(*arguments):
        with np.errstate(over="ignore"):  # products of hashes
            plain(*arguments)

    return run
