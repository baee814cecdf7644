"""ftrl: follow the regularised leader, proximally, with a step size per feature (FTRL-Proximal).

McMahan et al., Ad click prediction: a view from the trenches, KDD 2013, Alg. 1, for the gradient g of a row's loss:
    w_j = 0 where |z_j| <= l1, else -(z_j - sign(z_j) l1) / ((beta + sqrt(n_j)) / alpha + l2)
    sigma_j = (sqrt(n_j + g_j^2) - sqrt(n_j)) / alpha,  z_j += g_j - sigma_j w_j,  n_j += g_j^2
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.prefetch import value_at
from blocksvm.online.learner import (
    L1,
    LOSS,
    NUMBERS,
    Learner,
    Settings,
    following_numbers,
    not_negative,
    positive,
)
from blocksvm.online.memory import layout, parameters
from blocksvm.online.rule_parts import ROUNDS, change_weight, derivative_at, plain_rule, soft

COLUMN = layout("weight", "z", "root", averaging=("lagged",))  # root of n_j
PARAMETER = parameters("alpha", "beta", "l1", "l2")


@inlined
def ftrl_update(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[ROUNDS] += 1.0
    derivative = derivative_at(z, y, importance, memory)
    if derivative == 0.0:
        return
    rate, beta, l1 = 1.0 / parameters[PARAMETER.alpha], parameters[PARAMETER.beta], parameters[PARAMETER.l1]
    fixed = rate * beta + parameters[PARAMETER.l2]
    for k in range(start, stop):
        place = np.int64(indices[k]) * width
        g = derivative * value_at(values, k)
        before = columns[place + COLUMN.root]
        root = np.sqrt(before * before + g * g)
        if root == 0.0:
            continue
        w = columns[place + COLUMN.weight]
        # the difference of the roots, without cancelling
        sigma = rate * (g * g / (root + before))
        z_j = columns[place + COLUMN.z] + g - sigma * w
        columns[place + COLUMN.z] = z_j
        columns[place + COLUMN.root] = root
        change = -soft(z_j, l1) / (fixed + rate * root) - w
        change_weight(place + COLUMN.weight, place + COLUMN.lagged, change, memory)


FTRL = Learner(
    name="ftrl",
    summary="follow the regularised leader, proximally: a step of each feature's own, and weights of 0",
    source="McMahan et al., KDD 2013",
    example="ftrl --loss logistic --alpha 0.05 --l1 1",
    settings=Settings(
        (
            LOSS,
            positive("alpha", "learning rate", 0.1, metavar="A"),
            not_negative("beta", "number added to the root of the sum of squares", 1.0, metavar="B"),
            L1,
            not_negative("l2", "weight of ||w||^2 / 2", 0.0),
        )
    ),
    rule=plain_rule(ftrl_update, COLUMN, parameters=PARAMETER),
    targets={NUMBERS: following_numbers},
)
