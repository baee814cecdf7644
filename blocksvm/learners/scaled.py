"""ogd, forel (linearised), pegasos with sub-batches of one row."""

from __future__ import annotations

import math

from blocksvm.kernels.online import scaled as kernels
from blocksvm.learners.protocol import REQUIRED, Learner

OGD = (kernels.scaled_score, kernels.ogd_update, kernels.scaled_current, kernels.scaled_mean)
PEGASOS = (kernels.scaled_score, kernels.pegasos_update, kernels.scaled_current, kernels.scaled_mean)
GRADIENT = {"loss": "hinge", "epsilon": 0.1}


def scalars(average: bool) -> int:
    return 4


def radius(settings: dict) -> list[float]:
    return [math.inf if settings.get("radius") is None else settings["radius"], 0.0]


LEARNERS = (
    Learner("ogd", OGD, GRADIENT | {"step": 1.0, "decay": "sqrt", "radius": None}, own=radius, scalars=scalars,
            scale=kernels.SCALE),
    Learner("forel", OGD, GRADIENT | {"step": 1.0}, own=radius, scalars=scalars, scale=kernels.SCALE),
    Learner("pegasos", PEGASOS, {"lam": REQUIRED}, own=lambda s: [1.0 / math.sqrt(s["lam"]), s["lam"]],
            scalars=scalars, scale=kernels.SCALE),
)  # fmt: skip
