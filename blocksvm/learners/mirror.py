"""omd: online mirror descent with the Euclidean, the entropic or a p-norm map."""

from __future__ import annotations

import math
from dataclasses import replace

from blocksvm.errors import InputError
from blocksvm.kernels.online import mirror as kernels
from blocksvm.kernels.online.scaled import SCALE
from blocksvm.learners.protocol import Learner
from blocksvm.learners.scaled import GRADIENT, OGD, scalars

ENTROPIC = (kernels.entropic_score, kernels.entropic_update, kernels.entropic_current, kernels.entropic_mean)
POWER = (kernels.power_score, kernels.power_update, kernels.power_current, kernels.power_mean)
USES = {"euclidean": (), "entropic": ("radius", "n_features"), "p-norm": ("p",)}


class Omd(Learner):
    """Its functions and settings depend on the map."""

    def resolve(self, given, known: dict) -> dict:
        mirror = given.mirror or "euclidean"
        uses = USES.get(mirror, ())
        missing = "n_features" in uses and given.n_features is None and "n_features" not in known
        if missing:
            raise InputError("omd --mirror entropic needs --n-features: the number of features, known or not")
        allowed = replace(self, settings={k: v for k, v in self.settings.items() if k not in MAPS or k in uses})
        if "n_features" in uses:
            allowed.settings["n_features"] = known.get("n_features")
        return super(Omd, allowed).resolve(given, known)

    def of(self, settings: dict) -> Learner:
        """The learner with the functions of its map."""
        mirror = settings["mirror"]
        if mirror == "entropic":
            own = [settings["radius"], 0.0, settings["n_features"]]
            return Learner("omd-entropic", ENTROPIC, settings, 1, 2, lambda s: own, lambda average: 5)
        if mirror == "p-norm":
            return Learner("omd-p-norm", POWER, settings, 1, 2, lambda s: [0.0, s["p"], 0.0], lambda average: 5)
        return Learner("ogd", OGD, settings, own=lambda s: [math.inf, 0.0], scalars=scalars, scale=SCALE)


MAPS = {"radius", "p", "n_features"}


def at_least_two(settings: dict) -> None:
    p = settings.get("p")
    if p is not None and not (p >= 2.0 and math.isfinite(p)):
        raise InputError(f"--p {p:g}: the p-norm map needs 2 or more")


LEARNERS = (
    Omd("omd", (), GRADIENT | {"mirror": "euclidean", "step": 1.0, "radius": 1.0, "p": 2.0, "n_features": None},
        check=at_least_two),
)  # fmt: skip
