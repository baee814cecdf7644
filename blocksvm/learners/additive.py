"""perceptron, perceptron-bias, pa, pa1, pa2."""

from __future__ import annotations

import math

from blocksvm.kernels.online.additive import passive_update, perceptron_update
from blocksvm.kernels.online.rows import plain_current, plain_mean, plain_score
from blocksvm.learners.protocol import REQUIRED, Learner

PERCEPTRON = (plain_score, perceptron_update, plain_current, plain_mean)
PASSIVE = (plain_score, passive_update, plain_current, plain_mean)

LEARNERS = (
    Learner("perceptron", PERCEPTRON, {"step": 1.0}),
    # b += step y R^2 is the update of a constant feature of value R
    Learner("perceptron-bias", PERCEPTRON, {"step": 1.0, "max_norm": REQUIRED}),
    Learner("pa", PASSIVE, {}, own=lambda s: [math.inf, 0.0]),
    Learner("pa1", PASSIVE, {"C": 1.0}, own=lambda s: [s["C"], 0.0]),
    Learner("pa2", PASSIVE, {"C": 1.0}, own=lambda s: [math.inf, 1.0 / (2.0 * s["C"])]),
)
