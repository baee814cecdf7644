"""perceptron, pa, pa1, pa2: each update moves towards the gold output and away from one other.

With d = features(gold) - features(y'), w += tau d:

    perceptron   y' the best output, if it is not the gold one: tau = 1 (Collins, EMNLP 2002)
    pa, pa1, pa2 l = r - <w, d> > 0: tau = l / ||d||^2, the same but at most C, or l / (||d||^2 + 1 / (2C))
                 (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006, sections 6 and 8), where y' is
                 predicted: the best output, r = sqrt(rho(y, y')); or max-loss: that of the largest score + rho, r = rho

The paper's max-loss update has the root of the loss there, too; of a loss that is a sum its root is none, so that the
largest score + root could not be found by the decoders of sequences, trees and lattices.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from blocksvm.structured.output_structure import Structure
from blocksvm.structured.structured_learner import OnlineMachine, StructuredLearner, Update, score
from blocksvm.structured.structured_settings import AGGRESSIVE, ONLINE, PREDICTED, C


def perceptron_update(structure: Structure, w: np.ndarray, examples: np.ndarray, settings: dict) -> Update:
    (i,) = examples
    output = structure.best(w, i)
    loss = structure.loss(i, output)
    if loss == 0.0:
        return Update([], np.empty(0), 0, 0.0)
    return Update([structure.difference(i, output)], np.ones(1), 1, loss)


def aggressive_update(
    structure: Structure, w: np.ndarray, examples: np.ndarray, settings: dict, cut: bool, softening: float
) -> Update:
    """cut: no step is longer than C; softening: the factor of 1 / C that is added to the squared norm."""
    (i,) = examples
    predicted = settings["against"] == PREDICTED
    output = structure.best(w, i) if predicted else structure.most_violating(w, i)
    rho = structure.loss(i, output)
    if rho == 0.0:
        return Update([], np.empty(0), 0, 0.0)
    row = structure.difference(i, output)
    below = score(row, w)
    wrong = predicted or below <= 0.0  # an output whose score is larger than the gold one's shows a mistake
    hinge = (math.sqrt(rho) if predicted else rho) - below
    scale = row.sq_norm + (softening / settings["C"] if softening else 0.0)
    tau = 0.0
    if hinge > 0.0 and row.sq_norm > 0.0:
        tau = hinge / scale
        if cut:
            tau = min(tau, settings["C"])
    return Update([row], np.array([tau]), int(wrong), rho if wrong else 0.0)


PERCEPTRON = StructuredLearner(
    name="perceptron",
    summary="on a wrong output, a step from it to the gold one",
    source="Collins, EMNLP 2002",
    settings=ONLINE,
    make=partial(OnlineMachine, perceptron_update),
)
PA = StructuredLearner(
    name="pa",
    summary="passive-aggressive: the least step after which the gold output leads by its margin",
    source="Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006",
    settings=AGGRESSIVE,
    make=partial(OnlineMachine, partial(aggressive_update, cut=False, softening=0.0)),
)
PA1 = StructuredLearner(
    name="pa1",
    summary="passive-aggressive, steps cut off at C",
    source=PA.source,
    settings=AGGRESSIVE + (C,),
    make=partial(OnlineMachine, partial(aggressive_update, cut=True, softening=0.0)),
)
PA2 = StructuredLearner(
    name="pa2",
    summary="passive-aggressive, steps softened by 1 / (2C)",
    source=PA.source,
    settings=AGGRESSIVE + (C,),
    make=partial(OnlineMachine, partial(aggressive_update, cut=False, softening=0.5)),
)
