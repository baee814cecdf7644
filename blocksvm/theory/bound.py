"""What a bound is, and the assumptions that several bounds share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import option
from blocksvm.theory.comparators import Comparator, length_in
from blocksvm.theory.run import Run
from blocksvm.theory.theories import ENTROPIC, Euclidean

UNIT = 1e-4  # how far ||x||^2 may lie from 1: rows come from text of some digits, and are stored in single precision


@dataclass(frozen=True)
class Condition:
    """An assumption: holds(run), or holds(run, u) of one about u; detail(run): the offending figures for messages."""

    text: str
    holds: Callable[..., bool]
    detail: Callable[[Run], str] = lambda run: ""
    about_u: bool = False


# what is bounded, as the run has it (K,); of a regret the sum of u of the name in ``REGRETS`` is subtracted
QUANTITIES: dict[str, Callable[[Run], np.ndarray]] = {
    "regret": lambda run: run.loss,
    "linearised regret": lambda run: run.linear,
    "weighted regret": lambda run: run.weighted,
    "mistakes": lambda run: run.mistakes,
    "sum of squared losses": lambda run: run.at(run.hinge_of(run.scores) ** 2),
    "sum tau (2 l - tau ||x||^2)": lambda run: run.at(
        run.tau * (2.0 * run.hinge_of(run.scores) - run.tau * run.sq_norms)
    ),
    "l1 ||h_t||": lambda run: run.read.heights,
    "0": lambda run: np.zeros(len(run.times)),
}
REGRETS = {"regret": "loss", "linearised regret": "linear", "weighted regret": "weighted"}


@dataclass(frozen=True)
class Bound:
    """measured(run) (K,) <= right(run, u) (K,), inf where the bound says nothing for this u.

    of: names of the learners that it is about, with the variant where it is about one alone; quantity: of
    ``QUANTITIES``; proven: False where the paper's proof has a gap, so that figures are reported without a claim.
    """

    name: str
    source: str
    statement: str
    of: tuple[str, ...]
    right: Callable[[Run, Comparator], np.ndarray]
    conditions: tuple[Condition, ...] = ()
    quantity: str = "regret"
    proven: bool = True
    remark: str = ""

    def measured(self, run: Run) -> np.ndarray:
        return QUANTITIES[self.quantity](run)

    @property
    def regret(self) -> str | None:
        """The name of the sum of u that is subtracted from ``measured`` for the regret, or None."""
        return REGRETS.get(self.quantity)


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
    lambda run: run.ball is None or run.ball[0] == 1,  # that of EG+- is its domain
    lambda run: option("radius", run.settings.get("radius")),
)
PROJECTED = Condition(
    "projected on ||w|| <= B", lambda run: run.ball is not None, lambda run: f"no {option('radius')} is given"
)
ALL_COUNTED = Condition(
    "d counts every feature",
    lambda run: run.theory.mirror is not ENTROPIC or run.settings["n_features"] >= run.d,
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
    lambda run: run.regulariser is not None,
    lambda run: option("l2", run.settings["l2"]) if run.settings.get("l2") else "r is another one",
)
SEPARATES = Condition("all margins above 0: a separating u was found", lambda run, u: u.margin[-1] > 0.0, about_u=True)
NO_LOSS = Condition(
    "l*_t = 0: a u with all margins at least 1 was found", lambda run, u: u.hinge[-1] == 0.0, about_u=True
)


def in_ball(run: Run, u: Comparator) -> bool:
    return run.ball is None or length_in(run, u) <= run.ball[1]


IN_BALL = Condition("||u|| <= B", in_ball, about_u=True)


def mirror_is(mirror: Euclidean) -> Condition:
    return Condition(
        f"the mirror map is {mirror.name}",
        lambda run: run.theory.mirror is mirror,
        lambda run: option("mirror", run.theory.mirror.name),
    )


def largest_sq_norm(run: Run) -> float:
    """max ||x||^2 without the constant feature."""
    return float(run.sq_norms.max()) - run.runner.bias**2


def eta(run: Run) -> float:
    return run.settings["step"]
