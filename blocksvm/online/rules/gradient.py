"""ogd, forel, pegasos, fobos with a group: gradient steps on w = scale v, where shrinking is one multiplication.

OGD (Zinkevich, ICML 2003): w -= eta_t g_t, then the projection on ||w|| <= radius (inf: none).  With a constant step
and no radius it is linearised FoReL, and mirror descent with the Euclidean map.
Pegasos (Shalev-Shwartz, Singer, Srebro, Cotter, Math. Prog. 2011) with sub-batches of one row: eta_t = 1 / (lambda t),
w *= 1 - eta_t lambda first; radius 1 / sqrt(lambda) for the hinge loss, for others that of lambda/2 ||w||^2 <= loss at
w = 0.
FOBOS with the regulariser group ||w||_2, not squared (Duchi, Singer, JMLR 2009, section 5.3): w -= eta_t g_t, then
w *= max(0, 1 - eta_t group / ||w||): all weights shrink together, and become 0 together.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels import inlined
from blocksvm.kernels.rows import value_at
from blocksvm.losses import get_loss
from blocksvm.online.learner import DECAY, GROUP, LAM, LOSS, RADIUS, STEP, UNIFORM, C, Learner, Rule, Setting, Settings
from blocksvm.online.memory import layout, parameters
from blocksvm.online.rule_parts import averages, derivative_at, dot, eta_at, is_small, sum_of_squares

COLUMN = layout("v", averaging=("lagged",))
SCALAR = layout("rounds", "scale", "norm", "sum")  # ||w||^2; sum of the scales after each round
PARAMETER = parameters("radius", "lam")

RENEW_NORM = 1 << 20  # rounds after which ||w||^2, which drifts by rounding, is recomputed


@inlined
def factor_of(scalars, parameters):
    """w / v; mirror.py has others in its place."""
    return scalars[SCALAR.scale]


@inlined
def scaled_score(row, memory):
    return factor_of(memory.scalars, memory.parameters) * dot(row, memory)


@inlined
def scaled_current(j, memory):
    return factor_of(memory.scalars, memory.parameters) * memory.columns[j * memory.width + COLUMN.v]


@inlined
def scaled_mean(j, memory):
    columns, width, scalars = memory.columns, memory.width, memory.scalars
    slot = j * width
    total = scalars[SCALAR.sum] * columns[slot + COLUMN.v] - columns[slot + COLUMN.lagged]
    return total / max(1.0, scalars[SCALAR.rounds])


@inlined
def rescale(slot, factor, memory):
    """Multiply v_j with a factor; how the sum for the average so far, sum v - lagged, changes goes to lagged."""
    columns, scalars, parameters = memory.columns, memory.scalars, memory.parameters
    if averages(parameters):
        columns[slot + COLUMN.lagged] -= scalars[SCALAR.sum] * columns[slot + COLUMN.v]
    columns[slot + COLUMN.v] = columns[slot + COLUMN.v] * factor + 0.0  # turns -0 into 0


@inlined
def rescale_all(factor, memory):
    """Multiply v with a factor, and let the scale begin anew."""
    for slot in range(0, memory.columns.shape[0], memory.width):
        rescale(slot, factor, memory)
    memory.scalars[SCALAR.sum] = 0.0
    memory.scalars[SCALAR.scale] = 1.0


@inlined
def move(row, factor, memory):
    """``w += factor x``."""
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    if factor == 0.0:
        return
    if parameters[PARAMETER.radius] < np.inf:
        # not the predicted score, which may include a prior model's part
        product = scalars[SCALAR.scale] * dot(row, memory)
        scalars[SCALAR.norm] += factor * (2.0 * product + factor * sum_of_squares(row))
    factor /= scalars[SCALAR.scale]
    for k in range(start, stop):
        slot = np.int64(indices[k]) * width
        change = factor * value_at(values, k)
        columns[slot + COLUMN.v] += change
        if averages(parameters):
            columns[slot + COLUMN.lagged] += scalars[SCALAR.sum] * change


@inlined
def end_round(memory):
    """End a round: project, and update the sum for the average."""
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    radius = parameters[PARAMETER.radius]
    if scalars[SCALAR.rounds] % RENEW_NORM == 0.0 and radius < np.inf:
        total = 0.0
        for slot in range(0, columns.shape[0], width):
            total += columns[slot + COLUMN.v] * columns[slot + COLUMN.v]
        scalars[SCALAR.norm] = scalars[SCALAR.scale] * scalars[SCALAR.scale] * total
    if scalars[SCALAR.norm] > radius * radius:
        scalars[SCALAR.scale] = scalars[SCALAR.scale] * (radius / np.sqrt(scalars[SCALAR.norm]))
        scalars[SCALAR.norm] = radius * radius
    if is_small(scalars[SCALAR.scale], parameters):
        rescale_all(scalars[SCALAR.scale], memory)
    scalars[SCALAR.sum] += scalars[SCALAR.scale]


@inlined
def pegasos_update(row, y, z, importance, memory):
    scalars, parameters = memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    t = scalars[SCALAR.rounds]
    if t > 1.0:  # at t = 1 the factor is 0, and w is 0 already
        shrink = 1.0 - 1.0 / t
        scalars[SCALAR.scale] = scalars[SCALAR.scale] * shrink
        scalars[SCALAR.norm] *= shrink * shrink
    factor = -derivative_at(z, y, importance, memory) / (parameters[PARAMETER.lam] * t)
    move(row, factor, memory)
    end_round(memory)


@inlined
def ogd_update(row, y, z, importance, memory):
    """w -= eta_t g_t, then w *= max(0, 1 - eta_t group / ||w||), the group's weight in the place of lambda, or 0.
    Where w becomes 0, it is cleared: the features of the row alone if it was 0 before the step, else all."""
    scalars, parameters = memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    eta = eta_at(scalars[SCALAR.rounds], parameters)
    before = scalars[SCALAR.norm]
    factor = -eta * derivative_at(z, y, importance, memory)
    move(row, factor, memory)
    threshold = eta * parameters[PARAMETER.lam]
    length = np.sqrt(max(scalars[SCALAR.norm], 0.0))
    if length > threshold:
        shrink = 1.0 - threshold / length
        scalars[SCALAR.scale] = scalars[SCALAR.scale] * shrink
        scalars[SCALAR.norm] *= shrink * shrink
    elif threshold > 0.0 and (before != 0.0 or factor != 0.0):
        if before == 0.0:
            for k in range(row.start, row.stop):
                rescale(np.int64(row.indices[k]) * memory.width, 0.0, memory)
        else:
            rescale_all(0.0, memory)
        scalars[SCALAR.norm] = 0.0
    end_round(memory)


def lam_of_C(settings: dict, known: Mapping) -> dict:
    """The settings with lambda = 1 / (C l) for l rows if C is set instead; InputError where l is not known."""
    if settings["lam"] is None:
        if not known.get("n_samples"):
            raise InputError(f"{option('C')}: pegasos needs {option('lam')} where the number of rows is not known")
        settings["lam"] = 1.0 / (settings["C"] * known["n_samples"])
    return settings


def radius_of_optimum(settings: dict) -> float:
    """The radius of a ball that contains the minimiser of lambda/2 ||w||^2 + mean loss: the minimum is at most the mean
    loss at w = 0; for the hinge loss by strong duality (Pegasos 2011).  inf for no projection."""
    if settings["unprojected"]:
        return math.inf
    loss = get_loss(settings["loss"])
    if loss.ball is not None:
        return math.sqrt(loss.ball / settings["lam"])
    at_zero = max(loss.at(settings).value(0.0, y, 1.0) for y in (-1.0, 1.0))
    return math.sqrt(2.0 * at_zero / settings["lam"])


OGD = Learner(
    "ogd", "online gradient descent, projected on a ball if wanted", "ogd --loss logistic --step 0.5",
    "Zinkevich, ICML 2003", settings=Settings((LOSS, STEP, DECAY, RADIUS)),
    rule=Rule(
        scaled_score, ogd_update, scaled_current, scaled_mean, COLUMN, SCALAR, PARAMETER,
        initial=lambda settings: {"scale": 1.0}, numbers=lambda settings: {"lam": 0.0},
    ),
)  # fmt: skip
UNREACHED = 1e150  # a radius that no w reaches, since ||w||^2 is up to date only with a finite radius
GROUPED = OGD.like(
    settings=Settings((LOSS, STEP, DECAY, GROUP)),
    numbers=lambda settings: {"lam": settings["group"], "radius": UNREACHED},
)  # fmt: skip
# another name of ogd with a constant step and no radius
FOREL = OGD.like(
    "forel", "follow the regularised leader on linearised losses: gradient descent with a constant step",
    "forel --step 0.1", "Shalev-Shwartz, Online learning and online convex optimization, 2012, section 2.3",
    settings=Settings((LOSS, STEP)), numbers=lambda settings: {"lam": 0.0, "radius": math.inf},
)  # fmt: skip
PEGASOS = OGD.like(
    "pegasos", "Pegasos with sub-batches of one row: steps of 1 / (lambda t), projected",
    "pegasos --lambda 1e-4 --average", "Shalev-Shwartz, Singer, Srebro, Cotter, Math. Prog. 2011",
    settings=Settings((
        LAM, replace(C, default=None, help="the same as lambda = 1 / (C * rows), where their number is known"), LOSS,
        Setting("unprojected", "leave out the projection on the ball that contains the optimum", False, kind=bool),
    ), (("lam", "C"),)),
    complete=lam_of_C, update=pegasos_update, numbers=lambda settings: {"radius": radius_of_optimum(settings)},
    targets={}, takes=UNIFORM,
)  # fmt: skip
