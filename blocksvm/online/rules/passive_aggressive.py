"""pa, pa1, pa2: the least step after which the row has margin 1, as it is, cut off, or softened.

PA, PA-I, PA-II (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006, Fig. 1): where
l = max(0, 1 - m) > 0, w += tau y x,

    tau = min(most, l / (||x||^2 + slack)):   PA most = inf, slack = 0;   PA-I most = C;   PA-II slack = 1 / (2C)

With costs of wrong labels (section 8 there) l is the loss of loops.loss_of_pair.
Regression (section 4 there): l = max(0, |<w, x> - y| - epsilon), the step towards y.  Rows without labels: uniclass.py.
A row of importance h has h C in place of C.
"""

import math

from blocksvm.kernels import inlined
from blocksvm.kernels.loss_functions import derivative, value
from blocksvm.online.costs import COST_RULE, COSTS
from blocksvm.online.learner import NO_TARGETS, NUMBERS, UNIFORM, C, Learner, Settings, cut_off, softened
from blocksvm.online.memory import parameters
from blocksvm.online.rule_parts import ROUNDS, add_plain, plain_rule, sum_of_squares
from blocksvm.online.rules.uniclass import of_rows

PARAMETER = parameters("most", "slack")
WITH_COSTS = Settings((COSTS, COST_RULE))


@inlined
def passive_update(row, y, z, importance, memory):
    parameters = memory.parameters
    memory.scalars[ROUNDS] += 1.0
    loss = value(memory.loss, z, y, 1.0)
    if loss > 0.0:
        q = sum_of_squares(row)
        if q > 0.0:
            tau = min(parameters[PARAMETER.most] * importance, loss / (q + parameters[PARAMETER.slack] / importance))
            add_plain(row, -derivative(memory.loss, z, y, 1.0) * tau, memory)


def of_numbers(learner: Learner) -> Learner:
    return learner.like(
        settings=learner.settings.without("costs", "cost_rule"), loss="epsilon-insensitive", targets={},
        acts_up_to=math.inf,
    )  # fmt: skip


PA1 = Learner(
    "pa1", "passive-aggressive, steps cut off at C", "pa1 -C 0.1",
    "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006", settings=Settings((C,)) + WITH_COSTS,
    rule=plain_rule(passive_update, parameters=PARAMETER, numbers=cut_off), acts_up_to=1.0,
    targets={NUMBERS: of_numbers, NO_TARGETS: of_rows},
)  # fmt: skip
PA2 = PA1.like("pa2", "passive-aggressive, steps softened by 1 / (2C)", "pa2 -C 0.1", numbers=softened)
PA = PA1.like(
    "pa", "passive-aggressive: the least step to margin 1", "pa --average", settings=WITH_COSTS, takes=UNIFORM
)
