"""The declaration of an online learner: its rule for one row, its settings, its memory, and what it supports.

The rule is four inlined functions of a ``SparseRow`` and the learner's ``Memory`` (layout.py):

    score(row, memory) -> <w, x>; may bring the row's features up to date
    update(row, y, z, importance, memory): one round on the row; y = +-1 or a number is its label, z its score with a
        prior model's part, importance > 0 the weight of its loss
    current(j, memory) -> weight j after the rounds so far; changes nothing
    mean(j, memory) -> mean of weight j over the rounds; changes nothing

They name the numbers of a feature, the scalars and the parameters by the layouts that the learner declares, and the
functions of a loss by kernels/loss_placeholders.py.  loops.py compiles loops over rows with them; runner.py runs these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import REQUIRED, Setting, Settings
from blocksvm.learners.engine.layout import COMMON, Layout, layout
from blocksvm.losses import DEFAULT, DEFAULT_OF_NUMBERS, LOSSES, get_loss, require
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS, LossName

# Squares, and quotients of squares, must not overflow or underflow in float64.
LARGEST = 1e50

# kinds of labels: a class, a number, a set of classes; none is used
CLASSES, NUMBERS, SETS, NO_TARGETS = "classes", "numbers", "sets", "none"
PROTOTYPE, REST = RULES = ("prototype", "rest")  # the rules for more than two classes


def learns_apart(rule: str | None) -> bool:
    """Whether this rule for several classes has a learner for each."""
    return rule == REST


def of_classes(targets: str | None) -> bool:
    """Whether this value of the setting targets, or None, means classes or sets of them."""
    return targets in (None, CLASSES, SETS)


def positive(name: str, help: str, default, **more) -> Setting:
    """A setting above 0 whose squares and quotients neither overflow nor underflow."""
    return Setting(name, help, default, above=0.0, most=LARGEST, **more)


def not_negative(name: str, help: str, default, **more) -> Setting:
    return Setting(name, help, default, least=0.0, most=LARGEST, **more)


# settings that several learners have
LOSS = LossName("loss", f"the loss whose gradient is followed: {', '.join(LOSSES)}", DEFAULT, str, metavar="NAME")
STEP = positive("step", "step size c", 1.0, metavar="C")
DECAY = Setting("decay", "step sizes c / sqrt(t), or constant ones", "sqrt", kind=str, choices=("constant", "sqrt"))
RADIUS = positive("radius", "project w on the ball ||w|| <= B", None, metavar="B")
L1 = not_negative("l1", "weight of ||w||_1", 0.0)
C = positive("C", "weight of the loss", 1.0)
LAM = positive("lam", "weight of ||w||^2 / 2", REQUIRED, metavar="L")
MAX_NORM = positive("max_norm", "largest norm of a row (a store knows it)", REQUIRED, metavar="R")

# settings of every learner
SHARED = Settings(
    (
        Setting("average", "take the mean of the weights over the rows learned from, not the last weights", False,
                kind=bool),
        Setting("multiclass", "for more than two labels: 'prototype' (default), one rule for all classes, or 'rest', "
                "a learner for each", None, kind=str, choices=RULES, metavar="RULE"),
        Setting("targets", "what labels are: 'classes' (default), 'numbers' (regression) or 'sets' of classes (a store "
                "knows); 'none': the rows themselves are predicted", None, kind=str,
                choices=(CLASSES, NUMBERS, SETS, NO_TARGETS), metavar="KIND"),
        Setting("query", "ask for a label with probability B / (B + |margin|) (default: always)", None, above=0.0,
                most=LARGEST, metavar="B"),
    )
)  # fmt: skip

COMMON_SETTINGS = SHARED + (PROBLEM_SETTINGS["class_weight"],)  # what all learners take on stores and streams


@dataclass(frozen=True)
class Cached:
    """``score`` and ``update`` for the loop over two classes, where ``score`` leaves results for ``update`` in the
    memory's scratch: ``numbers`` float64 for each entry of the row."""

    score: Callable
    update: Callable
    numbers: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """The declaration of a learner.

    name; summary: one line for lists; source: of the rule; example: the learner with options, as on a command line;
    settings: of this learner alone.

    score, update, current, mean: see above.  columns, scalars, parameters: their layouts.  more_scalars(average): how
    many unnamed scalars follow the named ones.  numbers(settings): the parameters that are not settings of the same
    name.  initial, initial_scalars: initial values other than 0, by name.
    loss: the name of the loss, unless that is a setting; needs: functions of it that the rule uses, derivative aside.
    real: labels are numbers.  for_numbers(learner): the variant for numbers, None if there is none; for_rows(learner):
    the variant that predicts rows by w itself, whose score is the distance and whose label is 0.
    cached: the two functions for the loop over two classes, if they share results.
    jointly: the loop over rows of several classes, for a rule whose step changes all classes.
    choice: a setting that selects one of ``variants``.  complete(settings, known): the settings with those that follow
    from others and from the data; raises InputError for what no single setting's range excludes.
    constant(settings): the value of a constant feature that the rule needs.

    takes_weights: rows may have weights; takes_prior: its weights may be added to a prior model's; takes_average,
    takes_bias: the mean of its weights, and a constant feature, have a meaning; sparse: weights become exactly 0;
    acts_up_to: the margin up to which rows change anything; describe(settings, scalars by name): entries of a model's
    description.
    """

    name: str
    summary: str
    source: str
    example: str
    settings: Settings
    score: Callable
    update: Callable
    current: Callable
    mean: Callable
    columns: Layout
    scalars: Layout = layout("rounds")
    parameters: Layout = layout(*COMMON)
    more_scalars: Callable[[bool], int] = lambda average: 0
    numbers: Callable[[Mapping], dict[str, float]] = lambda settings: {}
    initial: Callable[[dict], dict[str, float]] = lambda settings: {}
    initial_scalars: Mapping[str, float] = field(default_factory=dict)
    loss: str = DEFAULT
    needs: tuple[str, ...] = ()
    real: bool = False
    for_numbers: Callable[[Learner], Learner] | None = None
    for_rows: Callable[[Learner], Learner] | None = None
    jointly: Callable | None = None
    cached: Cached | None = None
    choice: str | None = None
    variants: Mapping[str, Learner] = field(default_factory=dict)
    complete: Callable[[dict, Mapping], dict] = lambda settings, known: settings
    constant: Callable[[dict], float] | None = None
    takes_weights: bool = True
    takes_prior: bool = True
    takes_average: bool = True
    takes_bias: bool = True
    sparse: bool = False
    acts_up_to: float = math.inf
    describe: Callable[[Mapping, Mapping], dict] = lambda settings, scalars: {}

    def like(self, **changes) -> Learner:
        """A copy with these changes.  A changed score or update drops ``cached``, unless that is changed, too."""
        if "score" in changes or "update" in changes:
            changes.setdefault("cached", None)
        return replace(self, **changes)

    def of(self, settings: Mapping) -> Learner:
        """The variant that these settings choose: this learner, unless it has variants."""
        if self.choice is None:
            return self
        setting = next(s for s in self.settings if s.name == self.choice)
        value = settings.get(self.choice)
        return self.variants[cast(str, setting.default if value is None else setting.checked(value))]

    def of_targets(self, targets: str | None) -> Learner:
        """The variant for labels of this kind; None: classes.  Raises InputError where there is none."""
        if of_classes(targets):
            return self
        make = self.for_numbers if targets == NUMBERS else self.for_rows
        if make is None:
            what = "learns classes alone" if self.for_numbers is None else "learns from labels alone"
            raise InputError(f"{option('targets', targets)}: {self.name} {what}; choose another learner")
        return make(self)

    def resolve(self, settings: Mapping, known: Mapping = {}) -> dict:
        """The value of every setting: from ``settings``, else from the data (``known``), else its default.

        Raises InputError for a setting that is unknown, missing or out of range.
        """
        chosen = self.of(settings)
        resolved = chosen.settings_of(settings).resolve(settings, chosen.name, known)
        chosen.check_loss(resolved)
        return chosen.complete(resolved, known)

    def loss_of(self, settings: Mapping) -> str:
        """The name of its loss with these settings."""
        if LOSS.name not in self.settings:
            return self.loss
        setting = self.settings[LOSS.name]
        value = settings.get(LOSS.name)
        return cast(str, setting.default if value is None else setting.checked(value))

    def settings_of(self, settings: Mapping) -> Settings:
        """Its settings and those of the loss that ``settings`` choose."""
        more = get_loss(self.loss_of(settings)).settings
        return self.settings + tuple(setting for setting in more if setting.name not in self.settings)

    def check_loss(self, settings: Mapping) -> None:
        """Raise InputError where its loss is not for its targets, or lacks a function that the rule needs."""
        name = self.loss_of(settings)
        if self.real and not get_loss(name).of_numbers:
            fit = ", ".join(other for other in LOSSES if get_loss(other).of_numbers)
            raise InputError(f"{option('loss', name)}: is for two classes; for numbers choose one of {fit}")
        for part in self.needs:
            require(name, part, self.name)

    def number_of(self, settings: Mapping, name: str) -> float:
        """A parameter: a computed one, or the setting of this name; inf for a setting that is None."""
        value = self.numbers(settings).get(name, settings.get(name))
        return math.inf if value is None else float(value)

    def packed(self, settings: Mapping, average: bool) -> list[float]:
        """The settings as numbers, in the order of ``parameters``."""
        common = {
            "average": float(average),
            "step": settings.get("step", 1.0),
            "decay": float(DECAY.choices.index(settings.get("decay", "constant"))),
        }
        specific = (self.number_of(settings, name) for name in self.parameters._fields[len(COMMON) :])
        return [*common.values(), *specific]

    def width(self, average: bool) -> int:
        """Numbers for each feature."""
        return len(self.columns) - (0 if average else self.columns.n_averaging)

    def n_scalars(self, average: bool) -> int:
        return len(self.scalars) + self.more_scalars(average)


def following_numbers(learner: Learner) -> Learner:
    """``for_numbers`` of a learner that follows the gradient of any loss: the same one with a loss of regression."""
    loss = replace(LOSS, default=DEFAULT_OF_NUMBERS)
    declared = tuple(loss if setting.name == loss.name else setting for setting in learner.settings)
    return learner.like(
        settings=Settings(declared, learner.settings.exclusive), for_numbers=None, real=True,
        variants={value: following_numbers(variant) for value, variant in learner.variants.items()},
    )  # fmt: skip
