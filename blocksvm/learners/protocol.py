"""What an online learner is: its functions over a row, its settings and their defaults, and these as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from blocksvm.errors import InputError

LOSS_NAMES = ("hinge", "perceptron", "squared-hinge", "logistic", "squared", "epsilon-insensitive")
GRADIENT = ("loss", "epsilon")  # settings of every learner that follows a loss's gradient
CODES = {"loss": LOSS_NAMES, "decay": ("constant", "sqrt"), "mirror": ("euclidean", "entropic", "p-norm")}


@dataclass(frozen=True)
class LearnerSettings:
    """Settings of online learners, None where not given: each learner knows which it takes, and their defaults.

    loss, epsilon (of epsilon-insensitive); step c and decay 'sqrt' (c / sqrt(t)) or 'constant'; radius of a projection
    or of EG; mirror map and p; l1, l2; cap V of HF-FOBOS; delta of AdaGrad; confidence eta and initial variance of the
    second-order learners; r of AROW; C of PA-I, PA-II, SCW; lam of Pegasos; max_norm R of the perceptron with bias;
    n_features that EG counts.
    """

    loss: str | None = None
    epsilon: float | None = None
    step: float | None = None
    decay: str | None = None
    radius: float | None = None
    mirror: str | None = None
    p: float | None = None
    l1: float | None = None
    l2: float | None = None
    cap: float | None = None
    delta: float | None = None
    confidence: float | None = None
    variance: float | None = None
    r: float | None = None
    C: float | None = None
    lam: float | None = None
    max_norm: float | None = None
    n_features: float | None = None

    def given(self) -> dict:
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


REQUIRED = object()  # in place of a default: the setting must be given, or known from the store
POSITIVE = ("step", "radius", "variance", "r", "C", "lam", "max_norm", "cap", "n_features")
NOT_NEGATIVE = ("epsilon", "l1", "l2", "delta")
OPTION = {"C": "-C", "lam": "--lambda"}


def option_of(name: str) -> str:
    """The setting as the command line calls it."""
    return OPTION.get(name, "--" + name.replace("_", "-"))


@dataclass(frozen=True)
class Learner:
    """One learner.

    functions: (score, update, current, mean), see ``kernels.online``; columns of F, averaging: the columns that an
    average takes beside them; settings: name -> default; own: the settings as the kernel's own numbers (from OWN);
    scalars(average): how many the kernel keeps; scale: which of them begins as 1; initial: what the columns begin with.
    """

    name: str
    functions: tuple
    settings: dict
    columns: int = 1
    averaging: int = 1
    own: Callable[[dict], list[float]] = lambda settings: []
    scalars: Callable[[bool], int] = lambda average: 1
    scale: int | None = None
    initial: Callable[[dict], list[float]] = lambda settings: []
    check: Callable[[dict], None] = lambda settings: None

    def resolve(self, given: LearnerSettings, known: dict) -> dict:
        """All settings of the learner: as given, else as ``known`` from the data, else its default.

        Raises InputError for a setting that it does not take, or lacks, or that is out of range.
        """
        chosen = given.given()
        for name in chosen:
            if name not in self.settings:
                takes = ", ".join(option_of(own) for own in self.settings) or "no settings"
                raise InputError(f"{option_of(name)}: {self.name} has no use for it; it takes {takes}")
        found = {}
        for name, default in self.settings.items():
            value = chosen.get(name, known.get(name) if default is REQUIRED else default)
            if value is None and default is REQUIRED:
                raise InputError(f"{self.name} needs {option_of(name)}")
            found[name] = value
            if value is not None:
                check_setting(name, value)
        self.check(found)
        return found

    def parameters(self, settings: dict, average: bool) -> list[float]:
        """P of the kernels."""
        common = [
            float(average),
            float(LOSS_NAMES.index(settings.get("loss", "hinge"))),
            settings.get("epsilon", 0.1),
            settings.get("step", 1.0),
            float(CODES["decay"].index(settings.get("decay", "constant"))),
        ]
        return [*common, *self.own(settings)]

    def of(self, settings: dict) -> Learner:
        """The learner whose functions run: this one, unless the settings choose among several."""
        return self

    def kernel_name(self) -> str:
        """Of the compiled loops; learners that differ in numbers alone share them."""
        return self.functions[1].__name__

    def width(self, average: bool) -> int:
        return self.columns + (self.averaging if average else 0)


def check_setting(name: str, value) -> None:
    """InputError where a setting is out of range."""
    if name in CODES:
        if value not in CODES[name]:
            raise InputError(f"{option_of(name)} {value}: choose one of {', '.join(CODES[name])}")
        return
    if name in POSITIVE and not (value > 0.0 and math.isfinite(value)):
        raise InputError(f"{option_of(name)} {value:g}: must be a finite number above 0")
    if name in NOT_NEGATIVE and not (value >= 0.0 and math.isfinite(value)):
        raise InputError(f"{option_of(name)} {value:g}: must be 0 or more")
    if name == "confidence" and not 0.5 < value < 1.0:
        raise InputError(f"{option_of(name)} {value:g}: must lie between 0.5 and 1")
