"""Uniclass prediction: w predicts the rows themselves, and is passive where one lies near enough (``--targets none``).

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006, sec. 6: l = max(0, ||w - x|| - epsilon) > 0:

    w += tau (x - w) / ||x - w||,  tau = min(most, l / (1 + slack)),  most and slack as the learner's for classes

Learned radius: w and x have one coordinate more, in which w begins at B and x is 0; with the radius B the row is inside
where ||w - x||^2 <= B^2 - w_{n+1}^2, whose root begins at 0 and grows.  The score is the distance, this coordinate
included, so that it is compared with ``epsilon`` (B, where the radius is learned) in both.

A step moves every weight: w <- (1 - a) w + a x, a = tau / ||x - w||.  So w_j = scale v_j, and a row costs what it has
entries.  A scale below 2^-300 is multiplied by 2^300, which is exact, and each v_j by 2^-300 when a row next names
feature j: ``renewals`` counts, a feature's ``renewed`` is how many it has had.  ||w||^2 is kept up to date from round
to round; a round multiplies its error by (1 - a)^2, so that roundings do not add up to more than their number.
"""

import math
from collections.abc import Mapping

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.rows import value_at
from blocksvm.online.learner import REQUIRED, WEIGHTS, Learner, Setting, Settings, not_negative
from blocksvm.online.memory import layout, parameters
from blocksvm.online.rule_parts import sum_of_squares

COLUMN = layout("v", "renewed")
SCALAR = layout("rounds", "scale", "renewals", "sq_norm", "left")  # left: of the appended coordinate, as a part of B
PARAMETER = parameters("most", "slack", "learned", "epsilon")
SMALL = 2.0**-300
FORGOTTEN = 4.0  # renewals after which a weight is 0: 2^-1200 is none any more
SETTINGS = Settings((
    not_negative("epsilon", "radius: rows that lie within it of w cost nothing", REQUIRED, metavar="E"),
    Setting("learn_radius", "learn the radius: it begins at 0 and grows up to E", False, kind=bool),
))  # fmt: skip


@inlined
def renewed_by(times):
    if times == 0.0:
        return 1.0
    return 0.0 if times >= FORGOTTEN else SMALL**times


@inlined
def weight_at(slot, columns, scalars):
    factor = renewed_by(scalars[SCALAR.renewals] - columns[slot + COLUMN.renewed])
    return columns[slot + COLUMN.v] * factor * scalars[SCALAR.scale]


@inlined
def appended(scalars, parameters):
    """w_{n+1}."""
    return parameters[PARAMETER.learned] * parameters[PARAMETER.epsilon] * scalars[SCALAR.left]


@inlined
def distance(row, memory):
    """||w - x||: over the row's features by differences, over the others ||w||^2 less that of these."""
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    apart = 0.0
    others = scalars[SCALAR.sq_norm]
    for k in range(start, stop):
        w = weight_at(np.int64(indices[k]) * width, columns, scalars)
        v = value_at(values, k)
        apart += (w - v) * (w - v)
        others -= w * w
    left = appended(scalars, parameters)
    return np.sqrt(apart + max(0.0, others) + left * left)


@inlined
def move_towards(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    loss = z - parameters[PARAMETER.epsilon]
    if not loss > 0.0:
        return
    tau = min(parameters[PARAMETER.most] * importance, loss / (1.0 + parameters[PARAMETER.slack] / importance))
    part = min(1.0, tau / z)
    keep = 1.0 - part
    product = 0.0
    for k in range(start, stop):
        product += weight_at(np.int64(indices[k]) * width, columns, scalars) * value_at(values, k)
    moved = keep * keep * scalars[SCALAR.sq_norm] + part * (2.0 * keep * product + part * sum_of_squares(row))
    scalars[SCALAR.sq_norm] = max(0.0, moved)
    scalars[SCALAR.left] *= keep
    if keep == 0.0:
        scalars[SCALAR.renewals] += FORGOTTEN
        scalars[SCALAR.scale] = 1.0
    else:
        scalars[SCALAR.scale] = scalars[SCALAR.scale] * keep
        if scalars[SCALAR.scale] < SMALL:
            scalars[SCALAR.renewals] += 1.0
            scalars[SCALAR.scale] = scalars[SCALAR.scale] / SMALL
    for k in range(start, stop):
        slot = np.int64(indices[k]) * width
        v = columns[slot + COLUMN.v] * renewed_by(scalars[SCALAR.renewals] - columns[slot + COLUMN.renewed])
        columns[slot + COLUMN.v] = v + part * value_at(values, k) / scalars[SCALAR.scale]
        columns[slot + COLUMN.renewed] = scalars[SCALAR.renewals]


@inlined
def current(j, memory):
    return weight_at(j * memory.width, memory.columns, memory.scalars)


def describe(settings: Mapping, scalars: Mapping) -> dict:
    left = scalars["left"] if settings["learn_radius"] else 0.0
    return {"radius": settings["epsilon"] * math.sqrt((1.0 - left) * (1.0 + left))}


def of_rows(learner: Learner) -> Learner:
    """The passive-aggressive learner that predicts rows, in the place of one of classes."""
    numbers = learner.rule.numbers
    return learner.like(
        settings=learner.settings + SETTINGS, score=distance, update=move_towards, current=current, mean=current,
        columns=COLUMN, scalars=SCALAR, parameters=PARAMETER, initial=lambda settings: {"scale": 1.0, "left": 1.0},
        numbers=lambda settings: numbers(settings) | {"learned": float(settings["learn_radius"])},
        loss="epsilon-insensitive", targets={}, acts_up_to=math.inf,
        takes=tuple(what for what in learner.takes if what == WEIGHTS), describe=describe,
    )  # fmt: skip
