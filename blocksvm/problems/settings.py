"""The settings that make a batch problem; imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Mapping

from blocksvm.errors import InputError, said
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


PROBLEM_SETTINGS = Settings((
    Setting("loss", "the loss of a row: hinge or squared-hinge", default="hinge", kind=str, metavar="NAME",
            choices=("hinge", "squared-hinge")),
    Setting("C", "weight of the sum of losses", default=1.0, above=0.0),
    Setting("lam", "instead of C: C = 1 / (L * rows)", above=0.0, metavar="L"),
    Setting("class_weight", "balanced, or LABEL=WEIGHT,LABEL=WEIGHT: factors of C", kind=class_weights, metavar="W"),
), exclusive=(("C", "lam"),))  # fmt: skip
