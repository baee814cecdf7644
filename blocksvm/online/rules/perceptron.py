"""perceptron and perceptron-bias: a step along y x for each mistake.

Perceptron (Rosenblatt, Psychological Review 1958; with bias: Novikoff 1962): m <= 0: w += step y x.
"""

from blocksvm.kernels import inlined
from blocksvm.online.learner import MAX_NORM, STEP, Learner, Settings
from blocksvm.online.rule_parts import PARAMETER, ROUNDS, add_plain, plain_rule


@inlined
def perceptron_update(row, y, z, importance, memory):
    scalars, parameters = memory.scalars, memory.parameters
    scalars[ROUNDS] += 1.0
    if y * z <= 0.0:
        factor = parameters[PARAMETER.step] * importance * y
        add_plain(row, factor, memory)


PERCEPTRON = Learner(
    "perceptron", "a step along y x for each mistake", "perceptron --max-outer 100", "Rosenblatt 1958; Novikoff 1962",
    settings=Settings((STEP,)), rule=plain_rule(perceptron_update), acts_up_to=0.0,
)  # fmt: skip
# another name of the perceptron with a constant feature of value R, whose update is b += step y R^2
PERCEPTRON_BIAS = PERCEPTRON.like(
    "perceptron-bias", "the perceptron with a bias of its own, a constant feature of value R",
    "perceptron-bias --max-outer 100", settings=Settings((STEP, MAX_NORM)),
)  # fmt: skip
