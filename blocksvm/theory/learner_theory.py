"""The theory of each learner, by which regret is measured: its mirror map, its ball, its regulariser, its bounds.

A learner that is not in the table is measured without bounds.  A new bound is an entry of bounds.py, and its name here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from blocksvm.online.exact import BALL
from blocksvm.online.exact import FOREL as FOREL_EXACT
from blocksvm.online.rules.adagrad import ADAGRAD_FOBOS, ADAGRAD_RDA, ADAGRAD_RDA_SQUARES
from blocksvm.online.rules.gradient import FOREL, OGD, PEGASOS, radius_of_optimum
from blocksvm.online.rules.mirror import ENTROPIC_MAP, P_NORM_MAP
from blocksvm.online.rules.mirror import EUCLIDEAN as EUCLIDEAN_MAP
from blocksvm.online.rules.passive_aggressive import PA, PA1, PA2
from blocksvm.online.rules.perceptron import PERCEPTRON, PERCEPTRON_BIAS
from blocksvm.online.rules.sparse import FOBOS, HF_FOBOS, SUBGRADIENT
from blocksvm.theory.each_round import add_subgradient
from blocksvm.theory.mirror_maps import ENTROPIC, EUCLIDEAN, P_NORM, Euclidean
from blocksvm.theory.weight_sums import add_adaptive, add_truncated


@dataclass(frozen=True, kw_only=True)
class Regulariser:
    """r(w) of a learner's objective, where regret can measure it: one of l1 sum_j h_j |w_j|, with ``heights`` those of
    the last round, else 1; l2 / 2 ||w||^2; norm ||w||.

    text: the formula for people; sums(rows, run): adds the sums over the rounds that need the learner's weights.
    """

    text: str
    l1: float | None = None
    l2: float | None = None
    norm: float | None = None
    heights: bool = False
    sums: Callable | None = None

    @property
    def truncates(self) -> bool:
        """It has an l1 norm that counts."""
        return self.l1 is not None and self.l1 > 0.0


@dataclass(frozen=True, kw_only=True)
class Theory:
    """What is known of a learner.

    bounds: names of those in ``bounds.py`` that are about it; mirror: the map that makes it mirror descent;
    ball(settings): (1 or 2, radius) of the norm ball that it stays in; regulariser(settings): r(w) of its objective;
    passive_aggressive: its step is min(most, hinge / (||x||^2 + slack)) with these two among its numbers.
    """

    bounds: tuple[str, ...] = ()
    mirror: Euclidean | None = None
    ball: Callable[[dict], tuple[int, float] | None] = lambda settings: None
    regulariser: Callable[[dict], Regulariser | None] = lambda settings: None
    passive_aggressive: bool = False


def l2_ball(settings: dict) -> tuple[int, float] | None:
    return None if settings["radius"] is None else (2, settings["radius"])


def truncation(text: str, heights: bool) -> Callable[[dict], Regulariser | None]:
    """r(w) = l1 sum_j h_j |w_j|, which regret can measure where there is no l2."""

    return lambda settings: (
        None if settings.get("l2") else Regulariser(text=text, l1=settings["l1"], heights=heights, sums=add_truncated)
    )


def l1_norm(sums: Callable) -> Callable[[dict], Regulariser]:
    """r(w) = l1 ||w||_1."""
    return lambda settings: Regulariser(text="l1 ||w||_1", l1=settings["l1"], sums=sums)


FOLLOWED = ("FoReL lemma, linearised losses", "OGD, constant step", "OGD, looser FoReL form", "OGD, tuned: B L sqrt(t)",
            "FoReL, tuned: B L sqrt(2 t)", "mirror descent, Bregman form")  # fmt: skip
MAPPED = (*FOLLOWED, "EG+-", "p-norm", "mirror descent in general")
EACH = "FOBOS, HF-FOBOS: inequality of each round"

THEORIES = {
    PERCEPTRON: Theory(bounds=("perceptron, hinge of u", "perceptron, separable")),
    PERCEPTRON_BIAS: Theory(bounds=("perceptron, hinge of u", "perceptron with bias")),
    PA: Theory(bounds=("PA, lemma", "PA, separable", "PA, rows of norm 1"), passive_aggressive=True),
    PA1: Theory(bounds=("PA, lemma", "PA-I"), passive_aggressive=True),
    PA2: Theory(bounds=("PA, lemma", "PA-II"), passive_aggressive=True),
    OGD: Theory(
        bounds=(*FOLLOWED, "OGD, falling step, projected", "mirror descent in general"), mirror=EUCLIDEAN, ball=l2_ball
    ),
    FOREL: Theory(bounds=(*FOLLOWED, "mirror descent in general"), mirror=EUCLIDEAN),
    EUCLIDEAN_MAP: Theory(bounds=MAPPED, mirror=EUCLIDEAN),
    ENTROPIC_MAP: Theory(bounds=MAPPED, mirror=ENTROPIC, ball=lambda settings: (1, settings["radius"])),
    P_NORM_MAP: Theory(bounds=MAPPED, mirror=P_NORM),
    PEGASOS: Theory(
        bounds=(
            "Pegasos, projected",
            "Pegasos, no projection",
            "strongly convex, steps 1 / (lambda t)",
            "strongly convex, largest gradient",
        ),
        ball=lambda settings: None if settings["unprojected"] else (2, radius_of_optimum(settings)),
        regulariser=lambda settings: Regulariser(text="lambda / 2 ||w||^2", l2=settings["lam"]),
    ),
    SUBGRADIENT: Theory(
        bounds=("subgradient, constant step", "subgradient, falling step"),
        regulariser=lambda settings: l1_norm(add_subgradient)(settings) if settings["l1"] else None,
    ),
    FOBOS.variants["l1"]: Theory(
        bounds=("FOBOS", "FOBOS, sum of one-round inequalities", EACH),
        regulariser=truncation("l1 ||w||_1", heights=False),
    ),
    FOBOS.variants["group"]: Theory(
        bounds=("FOBOS, group ||w||",),
        regulariser=lambda settings: Regulariser(text="group ||w||_2", norm=settings["group"]),
    ),
    HF_FOBOS: Theory(
        bounds=("HF-FOBOS", "HF-FOBOS, largest heights", "HF-FOBOS, heights", EACH),
        regulariser=truncation("l1 sum h_j |w_j| with the heights h of the last round", heights=True),
    ),
    ADAGRAD_RDA: Theory(bounds=("AdaGrad, RDA form",), regulariser=l1_norm(partial(add_adaptive, dual=True))),
    ADAGRAD_RDA_SQUARES: Theory(regulariser=l1_norm(partial(add_adaptive, dual=True))),
    ADAGRAD_FOBOS: Theory(bounds=("AdaGrad, FOBOS form",), regulariser=l1_norm(partial(add_adaptive, dual=False))),
    FOREL_EXACT: Theory(bounds=("FoReL, exact minimisers",)),
    BALL: Theory(bounds=("FTL, exact minimisers",), ball=l2_ball),
}


def theory_of(learner) -> Theory:
    """Of a learner, exact ones and those from outside the package too."""
    return THEORIES.get(learner, Theory())
