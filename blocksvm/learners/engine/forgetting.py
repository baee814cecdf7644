"""Forgetting: the numbers of a feature decay towards their initial values by the fraction F in each round.

A number c with the initial value c_0 becomes c_0 + (1 - F)^a (c - c_0) in a rounds.  Weights that are sums over rows
decay to 0 (the shifting perceptron: Cavallanti, Cesa-Bianchi, Gentile, Machine Learning 69, 2007), variances and
precisions to the prior ones, sums of squared gradients to 0, so that steps do not shrink for ever.  Only the features
of a row are brought up to date, before it is scored; the last number of each is the round in which it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels import inlined, inlined_with
from blocksvm.learners.engine.layout import layout
from blocksvm.learners.engine.learner import Learner
from blocksvm.learners.engine.rule_parts import ROUNDS, plain_current
from blocksvm.learners.engine.rule_parts import plain_current as current
from blocksvm.learners.engine.rule_parts import plain_score as score
from blocksvm.learners.rules.perceptron import perceptron_update as update

# Placeholders: positions of the numbers that fade, in a feature and among the scalars; whether the weight is one of
# them. After the learner's parameters come log(1 - F) and the initial value of each number in FADES.
FADES = (0,)
FADING_SCALARS = (0,)
WEIGHT_FADES = True


@inlined
def forgetting_score(row, memory):
    indices, start, stop = row.indices, row.start, row.stop
    columns, width, parameters = memory.columns, memory.width, memory.parameters
    rate = parameters.shape[0] - 1 - len(FADES)
    now = memory.scalars[ROUNDS]
    for k in range(start, stop):
        place = np.int64(indices[k]) * width
        age = now - columns[place + width - 1]
        if age > 0.0:
            factor = np.exp(parameters[rate] * age)
            at = rate
            for c in FADES:
                at += 1
                columns[place + c] = parameters[at] + factor * (columns[place + c] - parameters[at])
            columns[place + width - 1] = now
    return score(row, memory)


@inlined
def forgetting_update(row, y, z, importance, memory):
    parameters = memory.parameters
    factor = np.exp(parameters[parameters.shape[0] - 1 - len(FADES)])
    for c in FADING_SCALARS:
        memory.scalars[c] *= factor
    update(row, y, z, importance, memory)


@inlined
def forgetting_current(j, memory):
    w = current(j, memory)
    if WEIGHT_FADES:
        parameters, width = memory.parameters, memory.width
        age = memory.scalars[ROUNDS] - memory.columns[j * width + width - 1]
        w *= np.exp(parameters[parameters.shape[0] - 1 - len(FADES)] * age)
    return w


@dataclass(frozen=True, kw_only=True, eq=False)
class Forgetting(Learner):
    """inner: the learner without forgetting; part: F."""

    inner: Learner
    part: float

    def packed(self, settings, average: bool) -> list[float]:
        initial = self.inner.initial(settings)
        decay = [math.log1p(-self.part), *(initial.get(name, 0.0) for name in self.inner.fades)]
        return self.inner.packed(settings, average) + decay


def forgetting(learner: Learner, part: float) -> Learner:
    """The learner with forgetting.  Raises InputError where it declares no numbers that fade."""
    if not learner.fades:
        raise InputError(
            f"{option('forget')}: {learner.name} does not support it; leave it out, or choose another learner"
        )
    names = learner.columns._fields[: len(learner.columns) - learner.columns.n_averaging]
    fades = tuple(names.index(name) for name in learner.fades)
    parts = {"FADES": fades}
    scored = inlined_with(forgetting_score, f"forgetting_{learner.score.__name__}", score=learner.score, **parts)
    changed = learner.update
    if learner.fading_scalars:
        scalars = tuple(learner.scalars._fields.index(name) for name in learner.fading_scalars)
        changed = inlined_with(forgetting_update, f"forgetting_{learner.update.__name__}", update=learner.update,
                               FADING_SCALARS=scalars, **parts)  # fmt: skip
    read = inlined_with(forgetting_current, f"forgetting_{learner.current.__name__}", current=learner.current,
                        WEIGHT_FADES=0 in fades and learner.current is plain_current, **parts)  # fmt: skip
    fields = {name: getattr(learner, name) for name in Learner.__dataclass_fields__}
    changes = {"columns": layout(*names, "up_to"), "score": scored, "update": changed, "current": read, "mean": read,
               "cached": None}  # columns fade between the two  # fmt: skip
    return Forgetting(**(fields | changes), inner=learner, part=part)
