"""adagrad-rda, adagrad-rda-squares, adagrad-fobos, ftrl: a step size per feature, and l1 thresholds applied lazily.

AdaGrad (Duchi, Hazan, Singer, JMLR 2011):
RDA          u = sum g, H_j = delta + sqrt(sum g_j^2); w_j = -sign(u_j) (eta t / H_j) max(0, |u_j| / t - l1)
RDA, squares the same with h_j = sum g_j^2 in place of H_j / eta (proximal term sum_j h_j w_j^2 / (2t))
FOBOS        w_j -= eta g_j / H_j with the new H_j, then soft-threshold by eta l1 / H_j
FTRL-Proximal (McMahan et al., Ad click prediction: a view from the trenches, KDD 2013, Alg. 1):
             w_j = 0 where |z_j| <= l1, else -(z_j - sign(z_j) l1) / ((beta + sqrt(n_j)) / alpha + l2)
             sigma_j = (sqrt(n_j + g_j^2) - sqrt(n_j)) / alpha,  z_j += g_j - sigma_j w_j,  n_j += g_j^2

The numbers of a feature are u (RDA) or w (FOBOS), the sum of g_j^2, the round with which it is up to date and, for an
average, the sum of w so far: the thresholds of idle rounds grow evenly, so their sums are arithmetic series.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.rows import value_at
from blocksvm.online.learner import L1, L2, LOSS, STEP, Learner, Rule, Settings, not_negative, positive
from blocksvm.online.memory import layout, parameters, unsigned
from blocksvm.online.rule_parts import ROUNDS, averages, change_weight, derivative_at, lazy, plain_rule, soft

COLUMN = layout("u", "squares", "round", averaging=("sum",))
WEIGHT_COLUMN = layout("weight", "squares", "round", averaging=("sum",))
AT, WEIGHT_AT = unsigned(COLUMN), unsigned(WEIGHT_COLUMN)
PARAMETER = parameters("l1", "delta", "squares")  # squares: 1 for RDA with squares
FTRL_COLUMN = layout("weight", "z", "root", averaging=("lagged",))  # root of n_j
FTRL_PARAMETER = parameters("alpha", "beta", "l1", "l2")


@inlined
def pace(total, parameters):
    """eta / H_j, or 1 / h_j; 0 for a feature without a gradient so far, whose weight is 0."""
    eta, h = parameters[PARAMETER.step], parameters[PARAMETER.delta] + np.sqrt(total)
    if parameters[PARAMETER.squares] != 0.0:
        eta, h = 1.0, total
    return eta / h if h > 0.0 else 0.0


@inlined
def rda_idle(slot, memory):
    """(w_j, its sum over the rounds since it was up to date): -sign(u) pace (|u| - s l1) after round s = r + 1, ... as
    long as that is above 0."""
    columns, parameters, l1 = memory.columns, memory.parameters, memory.parameters[PARAMETER.l1]
    u, last = abs(columns[slot + AT.u]), memory.scalars[ROUNDS]
    if u == 0.0:
        return 0.0, 0.0
    excess = u - last * l1
    w = 0.0 if excess <= 0.0 else pace(columns[slot + AT.squares], parameters) * excess
    since, total = columns[slot + AT.round], 0.0
    if l1 > 0.0:
        last = min(last, np.floor(u / l1))
    if last > since:
        series = (last * (last + 1.0) - since * (since + 1.0)) / 2.0
        total = pace(columns[slot + AT.squares], parameters) * ((last - since) * u - l1 * series)
    if columns[slot + AT.u] > 0.0:
        w, total = 0.0 - w, 0.0 - total  # no -0
    return w, total


@inlined
def rda_score(row, memory):
    indices, values, start, stop = row
    z = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        w, _ = rda_idle(np.uint64(indices[k]) * np.uint64(memory.width), memory)
        z += value_at(values, k) * w
    return z


@inlined
def rda_update(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    derivative = derivative_at(z, y, importance, memory)
    if derivative == 0.0:
        scalars[ROUNDS] += 1.0
        return
    for k in range(np.uint64(start), np.uint64(stop)):
        slot = np.uint64(indices[k]) * np.uint64(width)
        g = derivative * value_at(values, k)
        if averages(parameters):
            _, total = rda_idle(slot, memory)
            columns[slot + AT.sum] += total
            columns[slot + AT.round] = scalars[ROUNDS]
        columns[slot + AT.u] += g
        columns[slot + AT.squares] += g * g
    scalars[ROUNDS] += 1.0


@inlined
def fobos_idle(slot, memory):
    """(w_j, sum of it over the rounds): soft-thresholds by eta l1 / H_j in the rounds since it was up to date."""
    columns, scalars, parameters = memory.columns, memory.scalars, memory.parameters
    w = columns[slot + WEIGHT_AT.weight]
    rounds = scalars[ROUNDS] - columns[slot + WEIGHT_AT.round]
    threshold = 0.0
    if w != 0.0 and parameters[PARAMETER.l1] != 0.0:
        threshold = pace(columns[slot + WEIGHT_AT.squares], parameters) * parameters[PARAMETER.l1]
    if rounds == 0.0 or threshold == 0.0:
        return w, rounds * w
    n = min(rounds, np.floor(abs(w) / threshold))
    total = n * abs(w) - threshold * n * (n + 1.0) / 2.0
    return soft(w, rounds * threshold), (total if w > 0.0 else -total)


@inlined
def fobos_moved(slot, g, eta, memory):
    columns, parameters = memory.columns, memory.parameters
    columns[slot + WEIGHT_AT.squares] += g * g
    step = pace(columns[slot + WEIGHT_AT.squares], parameters)
    return soft(columns[slot + WEIGHT_AT.weight] - step * g, step * parameters[PARAMETER.l1])


@inlined
def ftrl_update(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[ROUNDS] += 1.0
    derivative = derivative_at(z, y, importance, memory)
    if derivative == 0.0:
        return
    rate, l1 = 1.0 / parameters[FTRL_PARAMETER.alpha], parameters[FTRL_PARAMETER.l1]
    fixed = rate * parameters[FTRL_PARAMETER.beta] + parameters[FTRL_PARAMETER.l2]
    for k in range(start, stop):
        slot = np.int64(indices[k]) * width
        g = derivative * value_at(values, k)
        before = columns[slot + FTRL_COLUMN.root]
        root = np.sqrt(before * before + g * g)
        if root == 0.0:
            continue
        w = columns[slot + FTRL_COLUMN.weight]
        # the difference of the roots, without cancelling
        sigma = rate * (g * g / (root + before))
        z_j = columns[slot + FTRL_COLUMN.z] + g - sigma * w
        columns[slot + FTRL_COLUMN.z] = z_j
        columns[slot + FTRL_COLUMN.root] = root
        change = -soft(z_j, l1) / (fixed + rate * root) - w
        change_weight(slot + FTRL_COLUMN.weight, slot + FTRL_COLUMN.lagged, change, memory)


ADAPTIVE = Settings((LOSS, STEP, L1, not_negative("delta", "number added to the root of the sum of squares", 1.0)))

ADAGRAD_RDA = Learner(
    "adagrad-rda", "AdaGrad, regularised dual averaging", "adagrad-rda --l1 1e-6", "Duchi, Hazan, Singer, JMLR 2011",
    settings=ADAPTIVE,
    rule=Rule(
        rda_score, rda_update, **lazy("rda", rda_idle, COLUMN), columns=COLUMN, parameters=PARAMETER,
        numbers=lambda settings: {"squares": 0.0},
    ),
)  # fmt: skip
ADAGRAD_RDA_SQUARES = ADAGRAD_RDA.like(
    "adagrad-rda-squares", "the same with the squares of the gradients in place of their root, without a step size",
    "adagrad-rda-squares --l1 1e-6", settings=Settings((LOSS, L1)),
    numbers=lambda settings: {"squares": 1.0, "delta": 0.0},
)  # fmt: skip
ADAGRAD_FOBOS = ADAGRAD_RDA.like(
    "adagrad-fobos", "AdaGrad, forward-backward splitting", "adagrad-fobos --step 0.1 --l1 1e-6",
    **lazy("adagrad_fobos", fobos_idle, WEIGHT_COLUMN, fobos_moved), columns=WEIGHT_COLUMN,
)  # fmt: skip
FTRL = Learner(
    "ftrl", "follow the regularised leader, proximally: a step of each feature's own, and weights of 0",
    "ftrl --loss logistic --alpha 0.05 --l1 1", "McMahan et al., KDD 2013",
    settings=Settings((
        LOSS, positive("alpha", "learning rate", 0.1, metavar="A"),
        not_negative("beta", "number added to the root of the sum of squares", 1.0, metavar="B"), L1, L2,
    )),
    rule=plain_rule(ftrl_update, FTRL_COLUMN, parameters=FTRL_PARAMETER),
)  # fmt: skip
