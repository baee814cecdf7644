"""ftrl: follow the regularised leader, proximally, with a step of each feature's own (FTRL-Proximal).

McMahan et al., Ad click prediction: a view from the trenches, KDD 2013, Alg. 1, for the gradient g of a row's loss:
    w_j = 0 where |z_j| <= l1, else -(z_j - sign(z_j) l1) / ((beta + sqrt(n_j)) / alpha + l2)
    sigma_j = (sqrt(n_j + g_j^2) - sqrt(n_j)) / alpha,  z_j += g_j - sigma_j w_j,  n_j += g_j^2
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.memory import value_at
from blocksvm.learners.layout import layout, parameters
from blocksvm.learners.protocol import GRADIENT, L1, Learner, Settings, following_numbers, not_negative, positive
from blocksvm.learners.rows import ROUNDS, averages, derivative_at, soft

COLUMN = layout("z", "squares", averaging=("lagged",))  # n_j
PARAMETER = parameters("alpha", "beta", "l1", "l2")


@inlined
def ftrl_weight(z, squares, parameters):
    excess = soft(z, parameters[PARAMETER.l1])
    if excess == 0.0:
        return 0.0
    pace = (parameters[PARAMETER.beta] + np.sqrt(squares)) / parameters[PARAMETER.alpha]
    return -excess / (pace + parameters[PARAMETER.l2])


@inlined
def ftrl_current(j, columns, width, scalars, parameters):
    return ftrl_weight(columns[j * width + COLUMN.z], columns[j * width + COLUMN.squares], parameters)


@inlined
def ftrl_mean(j, columns, width, scalars, parameters):
    lagged = columns[j * width + COLUMN.lagged]
    return ftrl_current(j, columns, width, scalars, parameters) - lagged / max(1.0, scalars[ROUNDS])


@inlined
def ftrl_score(indices, values, start, stop, columns, width, scalars, parameters):
    score = 0.0
    for k in range(start, stop):
        score += value_at(values, k) * ftrl_current(np.int64(indices[k]), columns, width, scalars, parameters)
    return score


@inlined
def ftrl_update(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters):
    scalars[ROUNDS] += 1.0
    derivative = derivative_at(z, y, importance, parameters)
    if derivative == 0.0:
        return
    for k in range(start, stop):
        place = np.int64(indices[k]) * width
        g = derivative * value_at(values, k)
        before = columns[place + COLUMN.squares]
        after = before + g * g
        if after == 0.0:
            continue
        w = ftrl_weight(columns[place + COLUMN.z], before, parameters)
        # the difference of the roots, without cancelling
        sigma = g * g / (np.sqrt(after) + np.sqrt(before)) / parameters[PARAMETER.alpha]
        columns[place + COLUMN.z] += g - sigma * w
        columns[place + COLUMN.squares] = after
        if averages(parameters):
            now = ftrl_weight(columns[place + COLUMN.z], after, parameters)
            columns[place + COLUMN.lagged] += (scalars[ROUNDS] - 1.0) * (now - w)


FTRL = Learner(
    name="ftrl",
    summary="follow the regularised leader, proximally: a step of each feature's own, and weights of 0",
    source="McMahan et al., KDD 2013",
    example="ftrl --loss logistic --alpha 0.05 --l1 1",
    settings=Settings(
        (
            *GRADIENT,
            positive("alpha", "learning rate", 0.1, metavar="A"),
            not_negative("beta", "what is added to the root of the squares", 1.0, metavar="B"),
            L1,
            not_negative("l2", "weight of ||w||^2 / 2", 0.0),
        )
    ),
    for_numbers=following_numbers,
    score=ftrl_score,
    update=ftrl_update,
    current=ftrl_current,
    mean=ftrl_mean,
    columns=COLUMN,
    parameters=PARAMETER,
    sparse=True,
)
