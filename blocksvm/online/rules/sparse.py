"""subgradient, fobos, hf-fobos: l1 regularisation applied lazily: thresholds of a feature add up until a row has it.

FOBOS (Duchi, Singer, JMLR 2009): w -= eta_t g_t, then soft-threshold by eta_t l1, then divide by 1 + eta_t l2; or, as
in the paper's analysis, with eta_{t+1} in place of eta_t in the last two (half_steps).
HF-FOBOS (Oiwa, Matsushima, Nakagawa, ECML PKDD 2011, eq. 12-13): the threshold of feature j is eta_t l1 h_j,
h_j = (sum_s |eta_s g_s,j|^p)^(1/p), the largest for p = inf, round t's included; capped where p <= 2.
Subgradient on loss + l1 ||w||_1 (the same paper, eq. 6): w -= eta_t (g_t + l1 sign(w)).

Thresholds add up: with w = scale v (the scale has the divisions) and the cumulative penalty S_t = sum_s eta_s l1 /
scale_{s-1}, a feature brought up to date at the end of round r becomes soft(v, (S_t - S_r) h_j).  Its numbers are v,
S_r (``applied``: the part of S already applied), and the sum of |eta g|^p (of p other than 1, 2, 3 its p-th root, which
neither overflows nor vanishes).
"""

import math

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.rows import value_at
from blocksvm.online.learner import DECAY, GROUP, L1, L2, LOSS, STEP, Learner, Rule, Setting, Settings, positive
from blocksvm.online.memory import layout, parameters, unsigned
from blocksvm.online.rule_parts import LAST_ALONE, ROUNDS, derivative_at, eta_at, is_small, lazy, soft
from blocksvm.online.rules.gradient import GROUPED

COLUMN = layout("v", "applied", "powers")
AT = unsigned(COLUMN)
SCALAR = layout("rounds", "scale", "penalty")  # penalty: S_t
# p: 0 for FOBOS; ahead: 1 where round t's threshold has the step of round t + 1
PARAMETER = parameters("l1", "l2", "p", "cap", "ahead")
IDLE = layout("weight", "round", averaging=("sum",))  # columns of subgradient
IDLE_AT = unsigned(IDLE)


@inlined
def height_at(total, p, cap):
    """h_j from the sum of powers; p, cap: parameters, read before a loop that writes."""
    if p == 0.0:
        return 1.0
    if p == 2.0:
        return min(np.sqrt(total), cap)
    if p == 3.0:
        return np.cbrt(total)
    return min(total, cap) if p <= 2.0 else total


@inlined
def raised_to(total, a, p):
    """The sum of powers with ``a`` = |eta g| added."""
    if p == 1.0:
        return total + a
    if p == 2.0:
        return total + a * a
    if p == 3.0:
        return total + a * a * a
    larger, smaller = max(total, a), min(total, a)
    if p == np.inf or smaller == 0.0:
        return larger
    return larger * (1.0 + (smaller / larger) ** p) ** (1.0 / p)


@inlined
def thresholded(slot, columns, penalty, p, cap):
    """v with the thresholds up to the last round."""
    h = height_at(columns[slot + AT.powers], p, cap)
    return soft(columns[slot + AT.v], (penalty - columns[slot + AT.applied]) * h)


@inlined
def fobos_score(row, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    start, stop, width = np.uint64(start), np.uint64(stop), np.uint64(width)
    penalty, p, cap = scalars[SCALAR.penalty], parameters[PARAMETER.p], parameters[PARAMETER.cap]
    z = 0.0
    for k in range(start, stop):
        slot = np.uint64(indices[k]) * width
        v = thresholded(slot, columns, penalty, p, cap)
        columns[slot + AT.v] = v
        columns[slot + AT.applied] = penalty
        z += value_at(values, k) * v
    return scalars[SCALAR.scale] * z


@inlined
def reset(memory):
    """Bring every feature up to date, and reset penalty and scale."""
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scale, penalty = scalars[SCALAR.scale], scalars[SCALAR.penalty]
    p, cap = parameters[PARAMETER.p], parameters[PARAMETER.cap]
    for slot in range(np.uint64(0), np.uint64(columns.shape[0]), np.uint64(width)):
        columns[slot + AT.v] = scale * thresholded(slot, columns, penalty, p, cap)
        columns[slot + AT.applied] = 0.0
    scalars[SCALAR.scale] = 1.0
    scalars[SCALAR.penalty] = 0.0


@inlined
def fobos_current(j, memory):
    slot = np.uint64(j) * np.uint64(memory.width)
    scalars, parameters = memory.scalars, memory.parameters
    p, cap = parameters[PARAMETER.p], parameters[PARAMETER.cap]
    return scalars[SCALAR.scale] * thresholded(slot, memory.columns, scalars[SCALAR.penalty], p, cap)


@inlined
def fobos_update(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    eta = eta_at(scalars[SCALAR.rounds], parameters)
    scale = scalars[SCALAR.scale]
    half = eta_at(scalars[SCALAR.rounds] + parameters[PARAMETER.ahead], parameters)
    threshold = half * parameters[PARAMETER.l1] / scale
    after = scale / (1.0 + half * parameters[PARAMETER.l2])
    scalars[SCALAR.scale] = after
    scalars[SCALAR.penalty] += threshold
    move = -eta * derivative_at(z, y, importance, memory)
    if move != 0.0:
        penalty, p, cap = scalars[SCALAR.penalty], parameters[PARAMETER.p], parameters[PARAMETER.cap]
        start, stop, width = np.uint64(start), np.uint64(stop), np.uint64(width)
        for k in range(start, stop):
            slot = np.uint64(indices[k]) * width
            change = move * value_at(values, k)
            powers = columns[slot + AT.powers]
            if p != 0.0:
                powers = raised_to(powers, abs(change), p)
                columns[slot + AT.powers] = powers
            columns[slot + AT.v] = soft(columns[slot + AT.v] + change / scale, threshold * height_at(powers, p, cap))
            columns[slot + AT.applied] = penalty
    if is_small(after, parameters):
        reset(memory)


# -- subgradient: the numbers of a feature are w, the round with which it is up to date and, for an average, the sum of
# w


@inlined
def idle(slot, memory):
    """(w, its sum) after the rounds since the feature was up to date, one by one: ``w -= eta_s l1 sign(w)``."""
    columns, parameters = memory.columns, memory.parameters
    w, t, now = columns[slot + IDLE_AT.weight], columns[slot + IDLE_AT.round], memory.scalars[ROUNDS]
    if parameters[PARAMETER.l1] == 0.0:
        return w, (now - t) * w
    total = 0.0
    while t < now and w != 0.0:
        t += 1.0
        w -= np.copysign(eta_at(t, parameters) * parameters[PARAMETER.l1], w)
        total += w
    return w, total


@inlined
def moved(slot, g, eta, memory):
    w = memory.columns[slot + IDLE_AT.weight]
    sign = np.float64(w > 0.0) - np.float64(w < 0.0)
    return w - eta * (g + memory.parameters[PARAMETER.l1] * sign)


REGULARISER = Setting(
    "regulariser", "l1 ||w||_1 + l2/2 ||w||^2, or group ||w||_2 (not squared)", "l1", kind=str, choices=("l1", "group")
)
HALF_STEPS = Setting(
    "half_steps", "step size of the threshold: the same as the gradient's, or that of the next round", "same",
    kind=str, choices=("same", "next"),
)  # fmt: skip

SUBGRADIENT = Learner(
    "subgradient", "subgradient steps on loss + l1 ||w||_1, the baseline that FOBOS argues against",
    "subgradient --l1 1e-4", "Oiwa, Matsushima, Nakagawa, ECML PKDD 2011, eq. 6",
    settings=Settings((LOSS, STEP, DECAY, L1)),
    rule=Rule(
        **lazy("subgradient", idle, IDLE, moved), columns=IDLE, parameters=PARAMETER,
        numbers=lambda settings: {"l2": 0.0, "p": 0.0, "cap": math.inf, "ahead": 0.0},
    ),
)  # fmt: skip
ON_L1 = SUBGRADIENT.like(
    "fobos", "forward-backward splitting: a gradient step, then the threshold of l1 and the shrinking of l2",
    "fobos --l1 1e-4", "Duchi, Singer, JMLR 2009",
    settings=Settings((LOSS, STEP, DECAY, REGULARISER, L1, L2, HALF_STEPS)), score=fobos_score, update=fobos_update,
    current=fobos_current, mean=fobos_current, columns=COLUMN, scalars=SCALAR, takes=LAST_ALONE,
    numbers=lambda settings: {"p": 0.0, "cap": math.inf, "ahead": float(settings["half_steps"] == "next")},
    initial=lambda settings: {"scale": 1.0},
)  # fmt: skip
FOBOS = ON_L1.like(
    settings=Settings((LOSS, STEP, DECAY, REGULARISER, L1, L2, HALF_STEPS, GROUP)),
    variants={"l1": ON_L1, "group": GROUPED.like(name="fobos", settings=GROUPED.settings + Settings((REGULARISER,)))},
)
HF_FOBOS = ON_L1.like(
    "hf-fobos", "FOBOS whose threshold of a feature grows with how often and how far it moved",
    "hf-fobos --l1 1e-3 --p 2 --cap 500", "Oiwa, Matsushima, Nakagawa, ECML PKDD 2011",
    settings=Settings((
        LOSS, STEP, DECAY, L1, Setting("p", "p of the norm of a feature's steps", 2.0, least=1.0, infinite=True),
        positive("cap", "largest height of a threshold, for p up to 2", None, metavar="V"),
    )),
    numbers=lambda settings: {"l2": 0.0, "ahead": 0.0},
)  # fmt: skip
