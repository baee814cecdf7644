"""cw-var, cw-stdev, arow, scw1, scw2: second-order learners with diagonal covariances."""

from __future__ import annotations

import math
from statistics import NormalDist

from blocksvm.kernels.online.confidence import arow_update, cw_stdev_update, cw_var_update
from blocksvm.kernels.online.rows import plain_current, plain_mean, plain_score
from blocksvm.learners.protocol import Learner


def functions(update) -> tuple:
    return plain_score, update, plain_current, plain_mean


def phi(settings: dict) -> float:
    """The quantile of the standard normal distribution at the confidence eta."""
    return NormalDist().inv_cdf(settings["confidence"])


CONFIDENT = {"confidence": 0.9, "variance": 1.0}
SOFT = {"confidence": 0.9, "C": 1.0, "variance": 1.0}


def variance(settings: dict) -> list[float]:
    return [0.0, settings["variance"]]


LEARNERS = (
    Learner("cw-var", functions(cw_var_update), CONFIDENT, columns=2, own=lambda s: [phi(s)],
            initial=lambda s: [0.0, 1.0 / s["variance"]]),
    Learner("cw-stdev", functions(cw_stdev_update), CONFIDENT, columns=2, own=lambda s: [phi(s), math.inf, 0.0],
            initial=variance),
    Learner("arow", functions(arow_update), {"r": 1.0, "variance": 1.0}, columns=2, own=lambda s: [s["r"]],
            initial=variance),
    Learner("scw1", functions(cw_stdev_update), SOFT, columns=2, own=lambda s: [phi(s), s["C"], 0.0], initial=variance),
    Learner("scw2", functions(cw_stdev_update), SOFT, columns=2,
            own=lambda s: [phi(s), math.inf, 1.0 / (2.0 * s["C"])], initial=variance),
)  # fmt: skip
