"""pa, pa1, pa2: the least step after which the row has margin 1, as it is, cut off, or softened.

PA, PA-I, PA-II (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006, Fig. 1): where
l = max(0, 1 - m) > 0, w += tau y x,

    tau = min(most, l / (||x||^2 + slack)):   PA most = inf, slack = 0;   PA-I most = C;   PA-II slack = 1 / (2C)

With costs of wrong labels (section 8 there) l is the loss of loops.costly_pair.
Regression (section 4 there): l = max(0, |<w, x> - y| - epsilon), the step towards y.  Rows without labels: uniclass.py.
A row of importance h has h C in place of C.
"""

import math

from blocksvm.kernels import inlined
from blocksvm.kernels.loss_functions import value
from blocksvm.online.costs import COST_RULE, COSTS
from blocksvm.online.learner import AVERAGE, BIAS, EVERYTHING, NO_TARGETS, NUMBERS, PRIOR, C, Learner, Settings
from blocksvm.online.memory import parameters
from blocksvm.online.rule_parts import (
    ROUNDS,
    add_plain,
    plain_rule,
    sum_of_squares,
)
from blocksvm.online.rules.uniclass import of_rows

PARAMETER = parameters("most", "slack")
WITH_COSTS = Settings((COSTS, COST_RULE))


@inlined
def step_length(loss, row, importance, parameters):
    """tau of a row with this loss."""
    q = sum_of_squares(row)
    if q == 0.0:
        return 0.0
    return min(parameters[PARAMETER.most] * importance, loss / (q + parameters[PARAMETER.slack] / importance))


@inlined
def passive_update(row, y, z, importance, memory):
    memory.scalars[ROUNDS] += 1.0
    loss = 1.0 - y * z
    if loss > 0.0:
        factor = y * step_length(loss, row, importance, memory.parameters)
        add_plain(row, factor, memory)


@inlined
def passive_regression(row, y, z, importance, memory):
    memory.scalars[ROUNDS] += 1.0
    loss = value(memory.loss, z, y, 1.0)
    if loss > 0.0:
        factor = step_length(loss, row, importance, memory.parameters)
        if z > y:
            factor = -factor
        add_plain(row, factor, memory)


def of_numbers(learner: Learner) -> Learner:
    return learner.like(
        settings=learner.settings.without("costs", "cost_rule"), update=passive_regression,
        loss="epsilon-insensitive", targets={}, acts_up_to=math.inf,
    )  # fmt: skip


PA = Learner(
    name="pa",
    summary="passive-aggressive: the least step to margin 1",
    source="Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006",
    example="pa --average",
    settings=WITH_COSTS,
    rule=plain_rule(passive_update, parameters=PARAMETER, numbers=lambda settings: {"most": math.inf, "slack": 0.0}),
    acts_up_to=1.0,
    targets={NUMBERS: of_numbers, NO_TARGETS: of_rows},
    takes=(PRIOR, AVERAGE, BIAS),
)
PA1 = PA.like(
    name="pa1",
    summary="passive-aggressive, steps cut off at C",
    example="pa1 -C 0.1",
    settings=Settings((C,)) + WITH_COSTS,
    numbers=lambda settings: {"most": settings["C"], "slack": 0.0},
    takes=EVERYTHING,
)
PA2 = PA.like(
    name="pa2",
    summary="passive-aggressive, steps softened by 1 / (2C)",
    example="pa2 -C 0.1",
    settings=Settings((C,)) + WITH_COSTS,
    numbers=lambda settings: {"most": math.inf, "slack": 1.0 / (2.0 * settings["C"])},
    takes=EVERYTHING,
)
