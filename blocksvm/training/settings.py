"""The settings of a training run: those of the solver, and those that every run has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import plain
from blocksvm.base.user_code import by_user, names_of
from blocksvm.files.paths import Location
from blocksvm.losses import get_loss
from blocksvm.model.model_file import describe_model
from blocksvm.model.solver_state import continued_settings
from blocksvm.online import LEARNERS
from blocksvm.online.learner import Learner
from blocksvm.online.methods import SOLVERS, get_method
from blocksvm.problems.problem_settings import MULTICLASS, PROBLEM_SETTINGS, REST
from blocksvm.sources.source import Source
from blocksvm.training.run_settings import FREE, LIMITS, RUN_SETTINGS
from blocksvm.training.schedule import Schedule, make_schedule

AUTO = 0.0  # in the place of the working set's share: as much as the memory plan gives it


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a run, the last ones as ``RUN_SETTINGS`` describes them; InputError for what is wrong with them."""

    solver: str = "dual-cd"  # a name of ``online.methods``
    learner: bool = False  # it is meant as an online learner (pegasos is a solver, too)
    method: Mapping = field(default_factory=dict)  # the solver's own settings as given, resolved when rows are known
    bias: float | str = 0.0
    schedule: str = "auto"
    working_set: str = "auto"
    partition: str = "redrawn"
    block_chunks: int | None = None
    order: str = "shuffled"
    memory: int = 1_000_000_000
    seed: int = 0
    tol: float = 1e-3
    max_outer: int | None = None
    max_passes: int | None = None
    max_seconds: float = math.inf

    @classmethod
    def of(cls, solver: str | None = None, learner: str | Learner | None = None, **keywords) -> TrainSettings:
        """From keywords as ``fit`` takes them; a solver or a learner also as the object itself."""
        if solver is not None and learner is not None:
            raise InputError(f"{option('solver')} and {option('learner')} say the same thing; give one of them")
        solver = None if solver is None else SOLVERS.name_of(solver)
        learner = None if learner is None else LEARNERS.name_of(learner)
        run = {name: keywords.pop(name) for name in RUN_SETTINGS.names() if keywords.get(name) is not None}
        keywords = {name: value for name, value in keywords.items() if value is not None}
        return cls(solver=learner or solver or cls.solver, learner=learner is not None, method=keywords, **run)

    @classmethod
    def continuing(cls, path: str | Location, solver: str | None = None, learner: str | Learner | None = None, **more):
        """The settings of a model's learner, to go on with; those that are given must agree with them."""
        saved = describe_model(path)
        method = saved.method
        learner = None if learner is None else LEARNERS.name_of(learner)
        for name, wanted in (("solver", solver), ("learner", learner)):
            if wanted is not None and wanted != method.name:
                raise InputError(f"{path}: was learned by {method.name}, not by {wanted}; leave {option(name)} out")
        by_user(more, solver=solver, learner=learner)
        with names_of(path):
            takes = get_method(method.name, method.learner).takes(method.settings)
            values = {name: more.pop(name) for name in takes.names() if name in more}
            if more.get("bias") is None:
                more["bias"] = saved.constant
            named = {"learner" if method.learner else "solver": method.name}
            return cls.of(**named, **continued_settings(path, method, takes, values), **more)

    def __post_init__(self):
        by_user(self.method, solver=self.solver, schedule=self.schedule)
        method = get_method(self.solver, self.learner)
        run = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("solver", "learner", "method")}
        for name, value in RUN_SETTINGS.resolve(run, "a run").items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "method", method.takes(self.method).checked(self.method, method.name))
        make_schedule(self.schedule)
        if not method.capabilities.schedules and self.schedule not in ("auto", "1"):
            given = option("schedule", self.schedule)
            raise InputError(f"{given}: {self.solver} sees each row once in an epoch; leave it out")
        if self.free_bias:
            self.capabilities.require("free_bias", self.solver, "bias=free", "give the value of a constant feature")
        if working_set_share(self.working_set) not in (None, AUTO):
            self.capabilities.require("working_set", self.solver, "working_set")
        if (needs := self.make_schedule().needs) and not method.capabilities.working_set:
            given = option("schedule", self.schedule)
            raise InputError(f"{given}: needs {needs}, which {self.solver} has not; give a number of passes")

    @property
    def capabilities(self):
        return get_method(self.solver, self.learner).capabilities

    @property
    def free_bias(self) -> bool:
        return self.bias == FREE

    @property
    def constant(self) -> float:
        """The value of the constant feature; 0 where the bias is free, whose solver chooses it."""
        return 0.0 if isinstance(self.bias, str) else self.bias

    def settled(self, source: Source) -> TrainSettings:
        """With a solver in place of 'auto': newton where it suits, and nothing is asked for that only dual-cd has."""
        if self.solver != "auto" or self.learner:
            return self
        plain_run = self.schedule == self.working_set == "auto" and self.method.get("multiclass") in (None, REST)
        loss = PROBLEM_SETTINGS.resolve({"loss": self.method.get("loss")}, "a run")["loss"]
        newton = plain_run and suits_newton(str(loss), source, self.memory)
        method = {name: value for name, value in self.method.items() if not newton or name != MULTICLASS.name}
        return replace(self, solver="newton" if newton else "dual-cd", method=method)

    def outer_limit(self) -> int:
        return self.max_outer if self.max_outer is not None else self.capabilities.default_max_outer

    def ended_by_default(self, status: str) -> bool:
        """What ended a run before its tolerance is no limit that was given."""
        return status == "rounding" or (status == "max-outer" and self.max_outer is None)

    def passes_left(self, made: int) -> float:
        """Of those that may be made over a row, after so many."""
        return math.inf if self.max_passes is None else self.max_passes - made

    def working_set_share(self) -> float | None:
        """Of the memory, for the rows kept between readings: a share, ``AUTO``, or None: none are kept."""
        return working_set_share(self.working_set) if self.capabilities.working_set else None

    def make_schedule(self) -> Schedule:
        """As asked for; one pass a visit where a solver has no use for more."""
        return make_schedule(self.schedule if self.capabilities.schedules else "1")

    def run_settings(self) -> dict:
        """Those of the run by name, as descriptions of files hold them."""
        return plain({name: getattr(self, name) for name in RUN_SETTINGS.names()})

    def arithmetic(self) -> dict:
        """Those of the run that decide what is computed, besides the memory: a resumed run must share them."""
        return {name: value for name, value in self.run_settings().items() if name not in LIMITS}


def suits_newton(loss: str, source: Source, memory: int) -> bool:
    """Whether Newton's method is the one for a loss on these rows, by counts alone: it is smooth, the Hessians take a
    quarter of the memory at most, and there are ten rows or more a feature, each of which is in a tenth of them.  Then
    its eight readings take less than those of dual-cd, whatever C is (experiments/results/tall.md)."""
    d, n = source.n_features + 1, source.n_samples
    smooth = get_loss(loss).has("second_derivative")
    return smooth and 16 * d * d <= memory / 4 and 10 * d <= n and d * n <= 10 * (source.n_nonzeros + n)


def working_set_share(text: str) -> float | None:
    """From 'auto', 'none' or a share: a share of the memory, ``AUTO``, or None; InputError for anything else."""
    if text in ("auto", "none"):
        return AUTO if text == "auto" else None
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 < share < 1.0:
        given = option("working_set", text)
        raise InputError(f"{given}: expected auto, none, or a share of the memory between 0 and 1")
    return share
