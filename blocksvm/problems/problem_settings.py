"""The settings of a problem: the loss, what it is multiplied with, and the weights of the classes."""

from dataclasses import dataclass

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import Setting, Settings
from blocksvm.losses import LOSSES, check_loss


@dataclass(frozen=True)
class LossName(Setting):
    """One of the losses, MODULE:ATTRIBUTE of one outside the package, or, in Python, a ``Loss`` itself."""

    def checked(self, value):
        return None if value is None else check_loss(value)


@dataclass(frozen=True)
class ClassWeights(Setting):
    """'balanced', {label: weight}, or the latter as text, LABEL=WEIGHT,LABEL=WEIGHT."""

    def checked(self, value):
        if value is None or value == "balanced":
            return value
        try:
            if isinstance(value, str):
                pairs = [part.split("=") for part in value.split(",")]
            else:
                pairs = list(dict(value).items())
            weights = {_label(label): float(weight) for label, weight in pairs}
        except (TypeError, ValueError):
            raise InputError(f"{option(self.name, value)}: expected balanced or LABEL=WEIGHT,LABEL=WEIGHT") from None
        if len(weights) < len(pairs):
            again = next(label for label in weights if [_label(one) for one, _ in pairs].count(label) > 1)
            text = f"{again:g}" if isinstance(again, float) else again
            raise InputError(f"{option(self.name, value)}: gives the label {text} two weights; leave one out")
        for label, weight in weights.items():
            if not 0.0 < weight < float("inf"):
                shown = f"{label:g}" if isinstance(label, float) else label
                wrong = option(self.name, f"{shown}={weight:g}")
                raise InputError(f"{wrong}: the weight must be a finite number above 0")
        return weights


def _label(label) -> float | str:
    """A label as stores have them: a number where it is one."""
    try:
        return float(label)
    except ValueError:
        if not label:
            raise
        return label


PROBLEM_SETTINGS = Settings((
    LossName("loss", f"the loss: {', '.join(LOSSES)}", "hinge", str, metavar="NAME"),
    Setting("C", "weight of the sum of losses", 1.0, above=0.0),
    Setting("lam", "weight of the norm beside the mean loss, instead of C", above=0.0, metavar="L"),
    ClassWeights("class_weight", "factors of C by class: balanced, or LABEL=WEIGHT,LABEL=WEIGHT", kind=str,
                 metavar="W"),
), exclusive=(("C", "lam"),))  # fmt: skip
REST, CRAMMER_SINGER = "rest", "crammer-singer"
MULTICLASS = Setting("multiclass", "more than two labels: 'rest' (default), one against the others; 'crammer-singer'",
                     None, str, choices=(REST, CRAMMER_SINGER), metavar="RULE")  # fmt: skip
WITH_CLASSES = PROBLEM_SETTINGS + (MULTICLASS,)


def learns_together(multiclass: str | None) -> bool:
    """Whether this way to several classes has one problem of them all."""
    return multiclass == CRAMMER_SINGER
