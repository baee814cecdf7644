"""adagrad-rda, adagrad-rda-squares, adagrad-fobos."""

from __future__ import annotations

from blocksvm.kernels.online import adagrad as kernels
from blocksvm.learners.protocol import Learner
from blocksvm.learners.scaled import GRADIENT

RDA = (kernels.rda_score, kernels.rda_update, kernels.rda_current, kernels.rda_mean)
FOBOS = (
    kernels.adagrad_fobos_score,
    kernels.adagrad_fobos_update,
    kernels.adagrad_fobos_current,
    kernels.adagrad_fobos_mean,
)
ADAPTIVE = GRADIENT | {"step": 1.0, "l1": 0.0, "delta": 1.0}

LEARNERS = (
    Learner("adagrad-rda", RDA, ADAPTIVE, columns=3, own=lambda s: [s["l1"], s["delta"], 0.0]),
    Learner("adagrad-rda-squares", RDA, GRADIENT | {"l1": 0.0}, columns=3, own=lambda s: [s["l1"], 0.0, 1.0]),
    Learner("adagrad-fobos", FOBOS, ADAPTIVE, columns=3, own=lambda s: [s["l1"], s["delta"], 0.0]),
)
