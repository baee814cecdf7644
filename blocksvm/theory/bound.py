"""The classes of bounds, and the assumptions that several bounds share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import option
from blocksvm.theory.comparators import Comparator
from blocksvm.theory.mirror_maps import ENTROPIC, EUCLIDEAN, Euclidean
from blocksvm.theory.replay import ReplayedRun

UNIT = 1e-4  # how far ||x||^2 may lie from 1: rows come from text of some digits, and are stored in single precision


@dataclass(frozen=True)
class Condition:
    """An assumption about the learner and the rows: holds(run), and detail(run), the offending figures for messages."""

    text: str
    holds: Callable[[ReplayedRun], bool]
    detail: Callable[[ReplayedRun], str] = lambda run: ""


@dataclass(frozen=True)
class Admission:
    """An assumption of a bound about u."""

    text: str
    holds: Callable[[ReplayedRun, Comparator], bool]


# what is bounded -> the name of the sums (K,) of the run that are it; of a regret those of u are subtracted
QUANTITIES = {
    "regret": "loss", "linearised regret": "linear", "weighted regret": "weighted", "mistakes": "mistakes",
    "sum of squared losses": "hinge_squares", "sum tau (2 l - tau ||x||^2)": "progress", "l1 ||h_t||": "heights_norm",
    "0": "zeros",
}  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """measured(run) (K,) <= right(run, u) (K,), inf where the bound says nothing for this u.

    quantity: of ``QUANTITIES``; proven: False where the paper's proof has a gap, so that figures are reported without a
    claim.
    """

    name: str
    source: str
    statement: str
    right: Callable[[ReplayedRun, Comparator], np.ndarray]
    conditions: tuple[Condition, ...] = ()
    admissions: tuple[Admission, ...] = ()
    quantity: str = "regret"
    proven: bool = True
    remark: str = ""

    def measured(self, run: ReplayedRun) -> np.ndarray:
        return getattr(run, QUANTITIES[self.quantity])

    @property
    def regret(self) -> str | None:
        """The name of the sum of u that is subtracted from ``measured`` for the regret, or None."""
        return QUANTITIES[self.quantity] if self.quantity.endswith("regret") else None


FROM_ZERO = Condition("w_1 = 0", lambda run: True, lambda run: "all learners begin there")
CONSTANT = Condition(
    "eta is constant", lambda run: run.constant_step, lambda run: option("decay", run.settings["decay"])
)
FALLING = Condition(
    "eta_t = c / sqrt(t)",
    lambda run: not run.constant_step,
    lambda run: option("decay", run.settings.get("decay", "constant")),
)
UNPROJECTED = Condition(
    "no projection",
    lambda run: run.mirror is not EUCLIDEAN or run.ball is None,
    lambda run: option("radius", run.settings.get("radius")),
)
PROJECTED = Condition(
    "projected on ||w|| <= B", lambda run: run.ball is not None, lambda run: f"no {option('radius')} is given"
)
ALL_COUNTED = Condition(
    "d counts every feature",
    lambda run: run.mirror is not ENTROPIC or run.settings["n_features"] >= run.d,
    lambda run: f"{option('n_features', run.settings['n_features'])} against {run.d}",
)
UNIT_ROWS = Condition(
    "||x|| = 1",
    lambda run: bool(np.abs(run.sq_norms - 1.0).max() <= UNIT),
    lambda run: f"norms from {math.sqrt(run.sq_norms.min()):.4g} to {math.sqrt(run.sq_norms.max()):.4g}",
)
# a u that separates rows of both classes has |b| <= R ||u||, which the proof needs
BOTH_CLASSES = Condition(
    "rows of both classes", lambda run: run.y.min() < run.y.max(), lambda run: "all rows are of one class"
)
LARGEST_KNOWN = Condition(
    "R >= max ||x||",
    lambda run: run.settings["max_norm"] ** 2 * (1.0 + 1e-12) >= largest_sq_norm(run),
    lambda run: f"{option('max_norm', run.settings['max_norm'])} against {math.sqrt(largest_sq_norm(run)):g}",
)
L1_ALONE = Condition(
    "r = l1 ||w||_1 alone",
    lambda run: run.regulariser is not None and run.regulariser.l1 is not None,
    lambda run: option("l2", run.settings["l2"]) if run.settings.get("l2") else "r is another one",
)
SEPARATES = Admission("all margins above 0: a separating u was found", lambda run, u: u.margin[-1] > 0.0)
NO_LOSS = Admission("l*_t = 0: a u with all margins at least 1 was found", lambda run, u: u.hinge[-1] == 0.0)
IN_BALL = Admission(
    "||u|| <= B", lambda run, u: run.ball is None or (u.norm if run.ball[0] == 2 else u.norm_1) <= run.ball[1]
)


def mirror_is(mirror: Euclidean) -> Condition:
    return Condition(
        f"the mirror map is {mirror.name}",
        lambda run: run.mirror is mirror,
        lambda run: option("mirror", run.mirror.name),
    )


def largest_sq_norm(run: ReplayedRun) -> float:
    """max ||x||^2 without the constant feature."""
    return float(run.sq_norms.max()) - run.bias**2
