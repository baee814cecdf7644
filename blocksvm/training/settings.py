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
    """Settings of a run.

    solver: a name of ``online.methods``; learner: it is meant as an online learner (pegasos is a solver, too);
    method: the solver's own settings as they were given, which its ``Settings`` resolve when the rows are known; the
    others as ``RUN_SETTINGS`` describes them.  Raises InputError, in its caller's words, for what is wrong with them.
    """

    solver: str = "dual-cd"
    learner: bool = False
    method: Mapping = field(default_factory=dict)
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
        """From keywords as ``fit`` takes them: those of the run, and the solver's own; a solver or a learner also as
        the object itself."""
        if solver is not None and learner is not None:
            raise InputError(f"{option('solver')} and {option('learner')} say the same thing; give one of them")
        solver = None if solver is None else SOLVERS.name_of(solver)
        learner = None if learner is None else LEARNERS.name_of(learner)
        run = {name: keywords.pop(name) for name in RUN_SETTINGS.names() if keywords.get(name) is not None}
        keywords = {name: value for name, value in keywords.items() if value is not None}
        return cls(solver=learner or solver or cls.solver, learner=learner is not None, method=keywords, **run)

    @classmethod
    def continuing(
        cls, path: str | Location, solver: str | None = None, learner: str | Learner | None = None, **keywords
    ):
        """The settings of a model's learner, to go on with; the keywords must agree with them."""
        saved = describe_model(path)
        method = saved.method
        learner = None if learner is None else LEARNERS.name_of(learner)
        for name, wanted in (("solver", solver), ("learner", learner)):
            if wanted is not None and wanted != method.name:
                raise InputError(f"{path}: was learned by {method.name}, not by {wanted}; leave {option(name)} out")
        by_user(keywords, solver=solver, learner=learner)
        with names_of(path):
            takes = get_method(method.name, method.learner).takes(method.settings)
            values = {name: keywords.pop(name) for name in takes.names() if name in keywords}
            if keywords.get("bias") is None:
                keywords["bias"] = saved.constant
            named = {"learner" if method.learner else "solver": method.name}
            return cls.of(**named, **continued_settings(path, method, takes, values), **keywords)

    def __post_init__(self):
        by_user(self.method, solver=self.solver, schedule=self.schedule)
        method = get_method(self.solver, self.learner)
        run = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("solver", "learner", "method")}
        for name, value in RUN_SETTINGS.resolve(run, "a run").items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "method", method.takes(self.method).checked(self.method, method.name))
        make_schedule(self.schedule)
        if not method.capabilities.schedules and self.schedule not in ("auto", "1"):
            raise InputError(
                f"{option('schedule', self.schedule)}: {self.solver} sees each row once in an epoch; leave it out"
            )
        if self.free_bias:
            self.capabilities.require("free_bias", self.solver, "bias=free", "give the value of a constant feature")
        if working_set_share(self.working_set) not in (None, AUTO):
            self.capabilities.require("working_set", self.solver, "working_set")
        needs = self.make_schedule().needs
        if needs and not method.capabilities.working_set:
            raise InputError(
                f"{option('schedule', self.schedule)}: needs {needs}, which {self.solver} has not; give a number of "
                "passes"
            )

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
        """With a solver in the place of 'auto': newton where its reading is worth it (``suits_newton``) and nothing is
        asked for that only dual-cd has."""
        if self.solver != "auto" or self.learner:
            return self
        plain_run = (self.schedule, self.working_set, self.method.get("multiclass")) in (
            ("auto", "auto", None), ("auto", "auto", REST),
        )  # fmt: skip
        newton = plain_run and suits_newton(
            str(PROBLEM_SETTINGS.resolve({"loss": self.method.get("loss")}, "a run")["loss"]), source, self.memory
        )
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
    quarter of the memory at most, and there are ten rows or more a feature, each of which is in a tenth of them.

    Then its eight readings take less than those of dual-cd, whatever C is, and a Hessian little more than the reading;
    where rows have few of the features, a Hessian takes many times as long, and dual-cd few readings
    (experiments/results/tall.md)."""
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
        raise InputError(
            f"{option('working_set', text)}: expected auto, none, or a share of the memory between 0 and 1"
        )
    return share
