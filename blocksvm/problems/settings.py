"""The settings that make a batch problem; imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Mapping

from blocksvm.errors import InputError, said
from blocksvm.problems import LOSSES, check_loss, get_loss
from blocksvm.settings import Setting, Settings


def class_weights(given) -> str | dict:
    """'balanced', or {label: weight} of a mapping or of 'LABEL=WEIGHT,LABEL=WEIGHT'; labels that are numbers are
    float."""
    if given == "balanced":
        return given
    pairs = (
        given.items() if isinstance(given, Mapping) else [part.partition("=")[::2] for part in str(given).split(",")]
    )
    weights = {}
    for label, weight in pairs:
        try:
            number = float(weight if label != "" else "")
        except (TypeError, ValueError):
            raise InputError(f"{said('class_weight', given)}: expected balanced or LABEL=WEIGHT,LABEL=WEIGHT") from None
        if not (number > 0.0 and math.isfinite(number)):
            raise InputError(f"{said('class_weight', f'{label}={number:g}')}: must be a finite number above 0")
        try:
            weights[float(label)] = number
        except (TypeError, ValueError):
            weights[label] = number
    return weights


class ProblemSettings(Settings):
    """Those of a problem, and the own ones of the loss that is named among those given."""

    def with_own(self, given: Mapping) -> Settings:
        loss = get_loss(given.get("loss") or self["loss"].default)
        return Settings((*self.declared, *loss.settings), self.exclusive)

    def checked(self, given: Mapping, owner: str) -> dict:
        if all(name in self for name, value in given.items() if value is not None):
            return super().checked(given, owner)  # no loss need be imported
        return self.with_own(given).checked(given, owner)

    def resolve(self, given: Mapping, owner: str, known: Mapping = {}) -> dict:
        return self.with_own(given).resolve(given, owner, known)


PROBLEM_SETTINGS = ProblemSettings((
    Setting("loss", f"the loss of a row: {', '.join(LOSSES)}, or MODULE:ATTRIBUTE of your own", default="hinge",
            kind=check_loss, metavar="NAME"),
    Setting("C", "weight of the sum of losses", default=1.0, above=0.0),
    Setting("lam", "instead of C: C = 1 / (L * rows, each counted by its weight)", above=0.0, metavar="L"),
    Setting("class_weight", "balanced, or LABEL=WEIGHT,LABEL=WEIGHT: factors of C", kind=class_weights, metavar="W"),
), exclusive=(("C", "lam"),))  # fmt: skip
