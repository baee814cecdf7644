"""Online learners: a rule for one row, its settings, the numbers it stores of each feature, and its capabilities.

A learner is four inlined functions of a ``SparseRow`` and the learner's ``Memory`` (layout.py):

    score(row, memory) -> <w, x>; may bring the row's features up to date
    update(row, y, z, importance, memory): one round on the row, whose label is y = +-1, or a number, and whose score is
        z, a prior model's part included; importance: how much its loss counts, above 0
    current(j, memory) -> weight j after the rounds so far; changes nothing
    mean(j, memory) -> mean of weight j after each round; changes nothing

They name numbers of a feature, of the scalars and of the parameters by the layouts that the learner declares, and parts
of the loss that it follows as kernels/loss_placeholders.py has them.  ``loops.py`` makes the compiled loops over rows from these,
``runner.py`` runs them.
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

# Squares, and quotients of squares, must stay far from the ends of float64.
LARGEST = 1e50

# what labels may be: of a row a class, a number, a set of classes; or they are not looked at
CLASSES, NUMBERS, SETS, NO_TARGETS = "classes", "numbers", "sets", "none"
PROTOTYPE, REST = RULES = ("prototype", "rest")  # the ways to more than two classes


def learns_apart(rule: str | None) -> bool:
    """Whether this way to several classes has a learner for each."""
    return rule == REST


def of_classes(targets: str | None) -> bool:
    """Whether this setting of targets, or none, means classes, or sets of them."""
    return targets in (None, CLASSES, SETS)


def positive(name: str, help: str, default, **more) -> Setting:
    """A setting above 0 whose squares and quotients double precision holds."""
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

# settings of how any learner is used
SHARED = Settings(
    (
        Setting("average", "take the mean of the weights over the rows learned from, not the last weights", False,
                kind=bool),
        Setting("multiclass", "for more than two labels: 'prototype' (default), one rule for all classes, or 'rest', "
                "a learner for each", None, kind=str, choices=RULES, metavar="RULE"),
        Setting("targets", "what labels are: 'classes' (default), 'numbers' (regression) or 'sets' of classes (a store "
                "knows); 'none': the rows themselves are predicted", None, kind=str,
                choices=(CLASSES, NUMBERS, SETS, NO_TARGETS), metavar="KIND"),
        Setting("forget", "decay what was learned by the factor 1 - F in each row, for targets that drift (default: "
                "never)", None, above=0.0, below=1.0, metavar="F"),
        Setting("query", "ask for a label with probability B / (B + |margin|) (default: always)", None, above=0.0,
                most=LARGEST, metavar="B"),
        Setting("joint", "learn one weight vector over joint features of row and class, by the map at this place: "
                "'module:attribute' (default: none)", None, kind=str, metavar="MAP"),
    )
)  # fmt: skip

COMMON_SETTINGS = SHARED + (PROBLEM_SETTINGS["class_weight"],)  # what all learners take over stores and streams


@dataclass(frozen=True)
class Kept:
    """``score`` and ``update`` for the loop over two classes where the one leaves what it found to the other in the
    memory's scratch: ``numbers`` float64 for each entry of the row."""

    score: Callable
    update: Callable
    numbers: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """One learner, all of it.

    name; summary: one line for lists; source: where the rule is from; example: the learner with options, as one would
    type them; settings: those of its own.

    score, update, current, mean: see above.  columns, scalars, parameters: layouts of what they are given; more_scalars:
    how many scalars lie behind the named ones, by whether averages are wanted; numbers: those parameters that are no
    setting of the same name; initial, initial_scalars: what does not begin at 0, by name.
    loss: the name of the loss, where that is no setting; needs: parts of it that the rule needs beside the derivative.
    real: it learns numbers; for_numbers(learner): the learner that takes its place where labels are numbers, None where
    it learns classes alone; for_rows(learner): that which predicts rows by w itself, whose score is the distance and
    whose label is 0.
    kept: the two functions as the loop over two classes calls them, where they share what they find.
    jointly: the loop over rows of several classes, where ``update`` is not what a step over all of them is.
    fades, fading_scalars: the columns and scalars that forgetting.py takes back towards what they began with (scalars: 0).
    choice: a setting whose value chooses the learner among ``variants``; complete(settings, known): the settings with
    what follows from others, and from the data; raises InputError for what no single setting's range tells;
    constant(settings): the value of a constant feature that the rule needs.

    What it can do: takes_weights: rows may differ in importance; takes_prior: its weights may be added to a prior
    model's; takes_average, takes_bias: the mean of its weights, and a constant feature, have a meaning; sparse: weights
    become exactly 0; acts_up_to: the margin up to which rows change anything; describe(settings, scalars by name): what
    a model's description says besides.
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
    kept: Kept | None = None
    fades: tuple[str, ...] = ()
    fading_scalars: tuple[str, ...] = ()
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
        """A learner that differs from this one in some entries; with another score or update nothing is kept between
        the two, unless it is said how."""
        if "score" in changes or "update" in changes:
            changes.setdefault("kept", None)
        return replace(self, **changes)

    def of(self, given: Mapping) -> Learner:
        """The learner with the functions that the settings choose: this one, unless there are variants."""
        if self.choice is None:
            return self
        setting = next(s for s in self.settings if s.name == self.choice)
        value = given.get(self.choice)
        return self.variants[cast(str, setting.default if value is None else setting.checked(value))]

    def of_targets(self, targets: str | None) -> Learner:
        """The learner for labels of this kind, None: CLASSES; InputError where there is none."""
        if of_classes(targets):
            return self
        make = self.for_numbers if targets == NUMBERS else self.for_rows
        if make is None:
            what = "learns classes alone" if self.for_numbers is None else "learns from labels alone"
            raise InputError(f"{option('targets', targets)}: {self.name} {what}; choose another learner")
        return make(self)

    def resolve(self, given: Mapping, known: Mapping = {}) -> dict:
        """Every setting's value: as given, else as ``known`` from the data, else its default.

        Raises InputError for a setting that it does not take, or lacks, or that is out of range.
        """
        chosen = self.of(given)
        found = chosen.settings_of(given).resolve(given, chosen.name, known)
        chosen.check_loss(found)
        return chosen.complete(found, known)

    def loss_of(self, given: Mapping) -> str:
        """The name of its loss where these settings are given."""
        if LOSS.name not in self.settings:
            return self.loss
        setting = self.settings[LOSS.name]
        value = given.get(LOSS.name)
        return cast(str, setting.default if value is None else setting.checked(value))

    def settings_of(self, given: Mapping) -> Settings:
        """Its settings, and those of its loss, where these are given."""
        more = get_loss(self.loss_of(given)).settings
        return self.settings + tuple(setting for setting in more if setting.name not in self.settings)

    def check_loss(self, settings: Mapping) -> None:
        """InputError where its loss is not of its targets, or lacks a part that the rule needs."""
        name = self.loss_of(settings)
        if self.real and not get_loss(name).of_numbers:
            fit = ", ".join(other for other in LOSSES if get_loss(other).of_numbers)
            raise InputError(f"{option('loss', name)}: is for two classes; for numbers choose one of {fit}")
        for part in self.needs:
            require(name, part, self.name)

    def number_of(self, settings: Mapping, name: str) -> float:
        """One of its own parameters: a computed one, or the setting of this name; inf for one that is off."""
        value = self.numbers(settings).get(name, settings.get(name))
        return math.inf if value is None else float(value)

    def packed(self, settings: Mapping, average: bool) -> list[float]:
        """The settings as the functions get them, in the order of ``parameters``."""
        common = {
            "average": float(average),
            "step": settings.get("step", 1.0),
            "decay": float(DECAY.choices.index(settings.get("decay", "constant"))),
        }
        own = (self.number_of(settings, name) for name in self.parameters._fields[len(COMMON) :])
        return [*common.values(), *own]

    def width(self, average: bool) -> int:
        """Numbers that it keeps of a feature."""
        return len(self.columns) - (0 if average else self.columns.n_averaging)

    def n_scalars(self, average: bool) -> int:
        return len(self.scalars) + self.more_scalars(average)


def following_numbers(learner: Learner) -> Learner:
    """``for_numbers`` of a learner that follows the gradient of any loss: the same, with those of regression."""
    loss = replace(LOSS, default=DEFAULT_OF_NUMBERS)
    declared = tuple(loss if setting.name == loss.name else setting for setting in learner.settings)
    return learner.like(
        settings=Settings(declared, learner.settings.exclusive), for_numbers=None, real=True,
        variants={value: following_numbers(variant) for value, variant in learner.variants.items()},
    )  # fmt: skip
