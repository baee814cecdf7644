"""The declaration of an online learner: its rule for one row, its settings, its memory, and what it supports.

A rule is four inlined functions of a ``SparseRow`` and the learner's ``Memory`` (memory.py):

    score(row, memory) -> <w, x>; may bring the row's features up to date, and leave numbers for update in the scratch
    update(row, y, z, importance, memory): one round on the row; y = +-1 or a number is its label, z its score with a
        prior model's part, importance > 0 the weight of its loss
    current(j, memory) -> weight j after the rounds so far; changes nothing
    mean(j, memory) -> mean of weight j over the rounds; changes nothing

They name the numbers of a feature, the scalars and the parameters by the layouts that the learner declares, and the
functions of a loss by kernels/loss_functions.py.  loops.py compiles loops over rows with them; runner.py runs these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple, cast

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import REQUIRED, Setting, Settings
from blocksvm.losses import DEFAULT, DEFAULT_OF_NUMBERS, LOSSES, get_loss
from blocksvm.online.memory import COMMON, Layout, layout
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS, LossName

# Squares, and quotients of squares, must not overflow or underflow in float64.
LARGEST = 1e50

# kinds of labels: a class, a number, a set of classes; none is used
CLASSES, NUMBERS, SETS, NO_TARGETS = "classes", "numbers", "sets", "none"
PROTOTYPE, REST = RULES = ("prototype", "rest")  # the rules for more than two classes: one for all, a learner for each


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
L2 = not_negative("l2", "weight of ||w||^2 / 2", 0.0)
GROUP = not_negative("group", "weight of ||w||_2, not squared", 0.0)
C = positive("C", "weight of the loss", 1.0)
LAM = positive("lam", "weight of ||w||^2 / 2", REQUIRED, metavar="L")
MAX_NORM = positive("max_norm", "largest norm of a row (a store knows it)", REQUIRED, metavar="R")


# "most" and "slack" of a step min(most, loss / (||x||^2 + slack)): cut off at C, if there is one; softened by 1 / (2C)
def cut_off(settings: Mapping) -> dict[str, float]:
    return {"most": settings.get("C", math.inf), "slack": 0.0}


def softened(settings: Mapping) -> dict[str, float]:
    return {"most": math.inf, "slack": 1.0 / (2.0 * settings["C"])}


# settings of every learner
SHARED = Settings((
    Setting("average", "take the mean of the weights over the rows learned from, not the last weights", False,
            kind=bool),
    Setting("multiclass", "for more than two labels: 'prototype' (default), one rule for all classes, or 'rest', "
            "a learner for each", None, kind=str, choices=RULES, metavar="RULE"),
    Setting("targets", "what labels are: 'classes' (default), 'numbers' (regression) or 'sets' of classes (a store "
            "knows); 'none': the rows themselves are predicted", None, kind=str,
            choices=(CLASSES, NUMBERS, SETS, NO_TARGETS), metavar="KIND"),
    Setting("query", "ask for a label with probability B / (B + |margin|) (default: always)", None, above=0.0,
            most=LARGEST, metavar="B"),
))  # fmt: skip

COMMON_SETTINGS = SHARED + (PROBLEM_SETTINGS["class_weight"],)  # what all learners take on stores and streams

# What a learner takes: rows with weights; a prior model, to whose weights its own may be added; --average, the mean of
# its weights; --bias, a constant feature.
WEIGHTS, PRIOR, AVERAGE, BIAS = EVERYTHING = ("weights", "prior", "average", "bias")
UNIFORM = (PRIOR, AVERAGE, BIAS)  # of a learner to which all rows count the same

BY_LOSS: dict[str, Callable] = {}  # stands for ``following_numbers`` of numbers, of a learner with the setting loss


class Rule(NamedTuple):
    """What the loops over rows are compiled with, and the memory that it needs.

    score, update, current, mean: see above; columns, scalars, parameters: the layouts of a feature's numbers, of the
    scalars and of the settings as numbers.  initial(settings): initial values other than 0, by name.
    numbers(settings): the parameters that are not settings of the same name.  scratch: numbers for each entry of a row
    that ``score`` leaves in the memory's scratch for ``update``, before which it is called with the same row.  jointly:
    the loop over rows of several classes, for a rule whose step changes all classes.
    """

    score: Callable | None = None
    update: Callable | None = None
    current: Callable | None = None
    mean: Callable | None = None
    columns: Layout = layout("weight", averaging=("lagged",))
    scalars: Layout = layout("rounds")
    parameters: Layout = layout(*COMMON)
    initial: Callable[[Mapping], dict[str, float]] = lambda settings: {}
    numbers: Callable[[Mapping], dict[str, float]] = lambda settings: {}
    scratch: int = 0
    jointly: Callable | None = None

    def width(self, average: bool) -> int:
        return len(self.columns) - (0 if average else self.columns.n_averaging)

    def number_of(self, settings: Mapping, name: str) -> float:
        """A parameter: a computed one, or the setting of this name; inf for a setting that is None."""
        value = self.numbers(settings).get(name, settings.get(name))
        return math.inf if value is None else float(value)

    def packed(self, settings: Mapping, average: bool) -> list[float]:
        decay = DECAY.choices.index(settings.get("decay", "constant"))
        values = {"step": 1.0} | dict(settings) | {"average": average, "decay": decay}
        return [self.number_of(values, name) for name in self.parameters._fields]


@dataclass(frozen=True, eq=False)
class Learner:
    """The declaration of a learner.

    name; summary: one line for lists; example: the learner with options, as on a command line; source: of the rule;
    settings: of this learner alone; rule: with its four functions or, with ``update_numpy``, its layouts alone.
    update_numpy(w, x, y, z, state): the new weights (m,) of the row's features, of the old ones, the row's values (m,),
    its label and its score; state has ``settings``, ``importance``, and by the names of the layouts further numbers of
    the features, (m,) arrays, and the scalars, which keep what is assigned to them.  It runs in plain Python
    (``loops.numpy_loops``).  loss: the name of the loss, unless that is a setting.

    complete(settings, known): the settings with those that follow from others and from the data; raises InputError for
    what no single setting's range excludes, and for a loss without a function that the rule uses.  targets: by the kind
    of other labels than classes, what makes the learner for them of this one; by default ``following_numbers``, where
    it has the setting loss.  variants: the learner of each value of the setting that has these choices.  takes: of
    ``EVERYTHING``.  acts_up_to: the margin up to which rows change anything.  describe(settings, scalars by name):
    entries of a model's description.

    A learner with the setting max_norm has a constant feature of that value of its own.
    """

    name: str
    summary: str = ""
    example: str = ""
    source: str = ""
    _: KW_ONLY
    settings: Settings = Settings()
    rule: Rule = Rule()
    update_numpy: Callable | None = None
    loss: str = DEFAULT
    complete: Callable[[dict, Mapping], dict] = lambda settings, known: settings
    targets: Mapping[str, Callable[[Learner], Learner]] = field(default_factory=lambda: BY_LOSS)
    variants: Mapping[str, Learner] = field(default_factory=dict)
    takes: tuple[str, ...] = EVERYTHING
    acts_up_to: float = math.inf
    describe: Callable[[Mapping, Mapping], dict] = lambda settings, scalars: {}

    def __post_init__(self):
        if self.targets is BY_LOSS:
            targets = {NUMBERS: following_numbers} if LOSS.name in self.settings else {}
            object.__setattr__(self, "targets", targets)

    def like(self, *named: str, **changes) -> Learner:
        """A copy with these changes, of its own fields and of its rule's; named: name, summary, example, source."""
        changes |= zip(("name", "summary", "example", "source"), named, strict=False)
        of_rule = {name: changes.pop(name) for name in Rule._fields if name in changes}
        return replace(self, rule=self.rule._replace(**of_rule), **changes)

    def of(self, settings: Mapping) -> Learner:
        """The variant that these settings choose: this learner, unless it has variants."""
        return self.variants[self._value(self.chooser, settings)] if self.chooser else self

    @property
    def chooser(self) -> str | None:
        names = tuple(self.variants)
        return next((setting.name for setting in self.settings if names and setting.choices == names), None)

    def of_targets(self, targets: str | None) -> Learner:
        """The learner for labels of this kind; None: classes.  Raises InputError where there is none."""
        if targets not in (NUMBERS, NO_TARGETS):
            return self
        if targets not in self.targets:
            what = "learns from labels alone" if NUMBERS in self.targets else "learns classes alone"
            raise InputError(f"{option('targets', targets)}: {self.name} {what}; choose another learner")
        return self.targets[targets](self)

    def resolve(self, settings: Mapping, known: Mapping = {}) -> dict:
        """The value of every setting: from ``settings``, else from the data (``known``), else its default.  InputError
        for one that is unknown, missing or out of range."""
        chosen = self.of(settings)
        return chosen.complete(chosen.settings_of(settings).resolve(settings, chosen.name, known), known)

    def loss_of(self, settings: Mapping) -> str:
        return self._value(LOSS.name, settings) if LOSS.name in self.settings else self.loss

    def settings_of(self, settings: Mapping) -> Settings:
        """Its settings and those of the loss that ``settings`` choose."""
        more = get_loss(self.loss_of(settings)).settings
        return self.settings + tuple(setting for setting in more if setting.name not in self.settings)

    def _value(self, name: str, settings: Mapping) -> str:
        setting, value = self.settings[name], settings.get(name)
        return cast(str, setting.default if value is None else setting.checked(value))


def following_numbers(learner: Learner) -> Learner:
    """Of a learner that follows the gradient of any loss, the same one with a loss of regression."""

    def complete(settings: dict, known: Mapping) -> dict:
        if not get_loss(settings["loss"]).of_numbers:
            fit = ", ".join(other for other in LOSSES if get_loss(other).of_numbers)
            raise InputError(f"{option('loss', settings['loss'])}: is for two classes; for numbers choose one of {fit}")
        return learner.complete(settings, known)

    loss = replace(LOSS, default=DEFAULT_OF_NUMBERS)
    declared = tuple(loss if setting.name == loss.name else setting for setting in learner.settings)
    return learner.like(
        settings=Settings(declared, learner.settings.exclusive), complete=complete, targets={},
        variants={value: following_numbers(variant) for value, variant in learner.variants.items()},
    )  # fmt: skip
