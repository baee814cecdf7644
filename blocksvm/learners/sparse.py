"""subgradient, fobos, hf-fobos: learners with an l1 term, which make weights zero."""

from __future__ import annotations

import math

from blocksvm.errors import InputError
from blocksvm.kernels.online import sparse as kernels
from blocksvm.learners.protocol import Learner
from blocksvm.learners.scaled import GRADIENT

SUBGRADIENT = (
    kernels.subgradient_score,
    kernels.subgradient_update,
    kernels.subgradient_current,
    kernels.subgradient_mean,
)
FOBOS = (kernels.fobos_score, kernels.fobos_update, kernels.fobos_current, kernels.fobos_mean)
STEPS = GRADIENT | {"step": 1.0, "decay": "sqrt", "l1": 0.0}


def table(average: bool) -> int:
    return kernels.TABLE + (3 * (kernels.PERIOD + 1) if average else 0)


def known_power(settings: dict) -> None:
    if settings["p"] not in (1.0, 2.0, 3.0, math.inf):
        raise InputError(f"--p {settings['p']:g}: hf-fobos has the norms 1, 2, 3 and inf")


def heights(settings: dict) -> list[float]:
    cap = math.inf if settings["cap"] is None else settings["cap"]
    return [settings["l1"], 0.0, settings["p"], cap]


LEARNERS = (
    Learner("subgradient", SUBGRADIENT, STEPS, columns=2, own=lambda s: [s["l1"]]),
    Learner("fobos", FOBOS, STEPS | {"l2": 0.0}, columns=3, averaging=2, scalars=table,
            scale=kernels.SCALE, own=lambda s: [s["l1"], s["l2"], 0.0, math.inf]),
    Learner("hf-fobos", FOBOS, STEPS | {"p": 2.0, "cap": None}, columns=3, averaging=2, scalars=table,
            scale=kernels.SCALE, own=heights,
            check=known_power),
)  # fmt: skip
