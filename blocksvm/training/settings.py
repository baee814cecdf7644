"""What a training run is asked to do, and what of it changes the arithmetic."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

import numpy as np

from blocksvm.errors import InputError
from blocksvm.learners.solver import OnlineSettings
from blocksvm.problems.losses import LOSSES
from blocksvm.problems.problem import Problem
from blocksvm.settings import plain
from blocksvm.sources.source import Labels, Source
from blocksvm.training.methods import NAMES, default_max_outer, is_online
from blocksvm.training.schedule import Schedule, make_schedule

LARGEST = 1e50  # of sum_i C_i ||x_i||, and of 1 / C_i: squares and quotients of these must stay finite

PARTITIONS = ("redrawn", "fixed")
ORDERS = ("shuffled", "stored")


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a run.  C multiplies the sum of losses; lam, if given, sets C = 1/(lam * n_samples) instead.

    class_weight: None, 'balanced', or weights by label; memory in bytes; schedule 'auto', 'overlap', 'tol:EPS' or a
    number of passes; tol: the certified relative gap to reach; max_outer None: the solver's own default.
    Of an online learner (``solver`` one of ``LEARNERS``) ``online`` holds the settings, its loss and C among them.
    """

    solver: str = "dual-cd"
    loss: str = "hinge"
    C: float = 1.0
    lam: float | None = None
    bias: float = 0.0
    class_weight: str | dict[float, float] | None = None
    batch: int = 1
    schedule: str = "auto"
    partition: str = "redrawn"
    block_chunks: int | None = None
    order: str = "shuffled"
    memory: int = 1_000_000_000
    seed: int = 0
    tol: float = 1e-3
    max_outer: int | None = None
    max_seconds: float = math.inf
    online: OnlineSettings = field(default_factory=OnlineSettings)

    def __post_init__(self):
        if self.solver not in NAMES:
            raise InputError(f"--solver {self.solver}: unknown; choose one of {', '.join(NAMES)}")
        if self.loss not in LOSSES:
            raise InputError(f"--loss {self.loss}: unknown; choose one of {', '.join(LOSSES)}")
        if self.partition not in PARTITIONS:
            raise InputError(f"--partition {self.partition}: unknown; choose one of {', '.join(PARTITIONS)}")
        if self.order not in ORDERS:
            raise InputError(f"--order {self.order}: unknown; choose one of {', '.join(ORDERS)}")
        self._above("-C", self.C, 0.0)
        if self.lam is not None:
            self._above("--lambda", self.lam, 0.0)
        for name, value in (("--bias", self.bias), ("--tol", self.tol)):
            if not (value >= 0.0 and math.isfinite(value)):
                raise InputError(f"{name} {value:g}: must be 0 or more")
        for name, value in (
            ("--batch", self.batch),
            ("--block-chunks", self.block_chunks),
            ("--max-outer", self.max_outer),
        ):
            if value is not None and value < 1:
                raise InputError(f"{name} {value}: must be 1 or more")
        if not self.max_seconds > 0.0:
            raise InputError(f"--max-seconds {self.max_seconds:g}: must be above 0")
        if not -(2**63) <= self.seed < 2**63:
            raise InputError(f"--seed {self.seed}: must fit in 64 bits")
        make_schedule(self.schedule)
        if is_online(self.solver) and self.schedule not in ("auto", "1"):
            raise InputError(f"--schedule {self.schedule}: {self.solver} sees each row once in an epoch; leave it out")

    @staticmethod
    def _above(name: str, value: float, bound: float) -> None:
        if not (value > bound and math.isfinite(value)):
            raise InputError(f"{name} {value:g}: must be a finite number above {bound:g}")

    def outer_limit(self) -> int:
        return self.max_outer if self.max_outer is not None else default_max_outer(self.solver)

    def make_schedule(self) -> Schedule:
        """As asked for; an online learner sees each row once in an epoch."""
        return make_schedule("1" if is_online(self.solver) else self.schedule)

    def arithmetic(self) -> dict:
        """The settings that a resumed run must share, by their names on the command line."""
        values = asdict(self)
        for name in ("memory", "tol", "max_outer", "max_seconds"):
            del values[name]
        if isinstance(self.class_weight, dict):
            values["class_weight"] = {f"{label:g}": weight for label, weight in sorted(self.class_weight.items())}
        return plain(values)

    def problem(self, source: Source) -> Problem:
        """The problem on this source; InputError unless it has two labels, or more for an online learner."""
        if is_online(self.solver):
            return self._learned(source)
        labels = require_two_labels(source)
        negatives, positives = (count for _, count in source.label_counts)
        C = self.C if self.lam is None else 1.0 / (self.lam * source.n_samples)
        problem = Problem(
            loss=LOSSES[self.loss],
            cost=C * np.array(self._weights(labels, negatives, positives)),
            bias=self.bias,
            n_samples=source.n_samples,
            class_counts=(negatives, positives),
        )
        largest = max(1.0, source.max_norm, self.bias) * problem.total_cost
        if not (problem.cost.min() >= 1.0 / LARGEST and largest <= LARGEST):
            raise InputError(
                f"{'-C' if self.lam is None else '--lambda'} {self.C if self.lam is None else self.lam:g}: is beyond "
                "what double precision can solve on these rows; choose one nearer to 1, or scale the values"
            )
        return problem

    def _learned(self, source: Source) -> Problem:
        """What an online learner needs of a problem: the constant feature, and how many rows there are."""
        for option, value in (("--class-weight", self.class_weight), ("--lambda", self.lam)):
            if value is not None:
                raise InputError(f"{option}: {self.solver} has no use for it")
        if source.labels is None:
            require_two_labels(source)
        counts = tuple(count for _, count in source.label_counts)
        return Problem(LOSSES["hinge"], np.ones(2), self.bias, source.n_samples, counts)

    def _weights(self, labels: Labels, negatives: int, positives: int) -> tuple[float, float]:
        if self.class_weight is None:
            return 1.0, 1.0
        if self.class_weight == "balanced":
            return tuple((negatives + positives) / (2.0 * count) for count in (negatives, positives))
        for label, weight in self.class_weight.items():
            if label not in (labels.negative, labels.positive):
                raise InputError(
                    f"--class-weight {label:g}={weight:g}: no row has this label; "
                    f"the labels are {labels.negative:g} and {labels.positive:g}"
                )
            self._above(f"--class-weight {label:g}=", weight, 0.0)
        return self.class_weight.get(labels.negative, 1.0), self.class_weight.get(labels.positive, 1.0)


def require_two_labels(source: Source) -> Labels:
    """The two labels of a binary problem; InputError says what is there instead, and what to do."""
    if source.labels is not None and source.label_counts is not None and len(source.label_counts) == 2:
        return source.labels
    if source.label_counts is None:
        raise InputError(f"{source.name}: has more than 10,000 distinct labels; a binary solver needs two")
    found = [label for label, _ in source.label_counts]
    if len(found) == 1:
        raise InputError(
            f"{source.name}: all rows have the label {found[0]:g}; training needs rows of two classes, add the other"
        )
    if not found:
        raise InputError(f"{source.name}: has no labels; training needs rows of two classes")
    shown = ", ".join(f"{label:g}" for label in found[:5]) + (", ..." if len(found) > 5 else "")
    raise InputError(
        f"{source.name}: has {len(found)} labels ({shown}), but the solvers are binary; make one class against the "
        f"others, e.g. awk '{{$1 = ($1 == {found[0]:g}) ? 1 : -1}} 1' INPUT | python -m blocksvm.split - STORE.h5"
    )
