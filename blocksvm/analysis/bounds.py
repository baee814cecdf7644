"""Proven bounds of online learners, each as data: what is bounded, by what, and under which assumptions.

A bound says ``measured(run) <= right(run, u)`` for every fixed u that it admits, at every number of rounds; where it is
about the regret, ``measured`` is the learner's loss, and the loss of u stands on the right.  A new bound is one
entry, whose name the learners that it is about give among their ``bounds``.

Novikoff 1962           On convergence proofs on perceptrons.
Crammer et al. 2006     Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online passive-aggressive algorithms, JMLR 7.
Zinkevich 2003          Online convex programming and generalized infinitesimal gradient ascent, ICML.
Shalev-Shwartz 2012     Online learning and online convex optimization, Foundations and Trends in ML 4(2).
Kivinen, Warmuth 1997   Exponentiated gradient versus gradient descent for linear predictors, Inf. and Comp. 132.
Gentile 2003            The robustness of the p-norm algorithms, Machine Learning 53.
Pegasos 2011            Shalev-Shwartz, Singer, Srebro, Cotter, Mathematical Programming 127.
Duchi, Singer 2009      Efficient online and batch learning using forward backward splitting, JMLR 10.
Oiwa et al. 2011        Oiwa, Matsushima, Nakagawa: Frequency-aware truncated methods, ECML PKDD.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blocksvm.analysis.comparators import Comparator
from blocksvm.analysis.replay import Run
from blocksvm.errors import called, said
from blocksvm.learners.exact import SUBOPTIMAL

UNIT = 1e-4  # how far ||x||^2 may lie from 1: rows come from text of some digits, and are stored in single precision


@dataclass(frozen=True)
class Condition:
    """An assumption about the learner and the rows: holds(run), and what was found there, for messages."""

    text: str
    holds: Callable[[Run], bool]
    found: Callable[[Run], str] = lambda run: ""


@dataclass(frozen=True)
class Admission:
    """What a bound assumes of u."""

    text: str
    holds: Callable[[Run, Comparator], bool]


@dataclass(frozen=True)
class Bound:
    """measured(run) (K,) <= right(run, u) (K,), inf where the bound says nothing for this u.

    regret: name of the sum of u that measured less makes the regret, or None; proven: False where the paper's proof
    leaves a gap, so that figures are reported without a claim.
    """

    name: str
    source: str
    statement: str
    quantity: str
    measured: Callable[[Run], np.ndarray]
    right: Callable[[Run, Comparator], np.ndarray]
    conditions: tuple[Condition, ...] = ()
    admissions: tuple[Admission, ...] = ()
    regret: str | None = None
    proven: bool = True
    remark: str = ""


FROM_ZERO = Condition("w_1 = 0", lambda run: True, lambda run: "all learners begin there")
CONSTANT = Condition("eta is constant", lambda run: run.constant_step, lambda run: said("decay", run.settings["decay"]))
FALLING = Condition(
    "eta_t = c / sqrt(t)",
    lambda run: not run.constant_step,
    lambda run: said("decay", run.settings.get("decay", "constant")),
)
UNPROJECTED = Condition(
    "no projection",
    lambda run: run.mirror != "euclidean" or run.ball is None,
    lambda run: said("radius", run.settings.get("radius")),
)
PROJECTED = Condition(
    "projected on ||w|| <= B", lambda run: run.ball is not None, lambda run: f"no {called('radius')} is given"
)
ALL_COUNTED = Condition(
    "d counts every feature",
    lambda run: run.mirror != "entropic" or run.settings["n_features"] >= run.d,
    lambda run: f"{said('n_features', run.settings['n_features'])} against {run.d}",
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
    lambda run: run.settings["max_norm"] ** 2 * (1.0 + 1e-12) >= largest_own(run),
    lambda run: f"{said('max_norm', run.settings['max_norm'])} against {math.sqrt(largest_own(run)):g}",
)
L1_ALONE = Condition(
    "r = l1 ||w||_1 alone", lambda run: not run.settings.get("l2", 0.0), lambda run: said("l2", run.settings.get("l2"))
)
SEPARATES = Admission("all margins above 0: a separating u was found", lambda run, u: u.margin[-1] > 0.0)
NO_LOSS = Admission("l*_t = 0: a u with all margins at least 1 was found", lambda run, u: u.hinge[-1] == 0.0)
IN_BALL = Admission(
    "||u|| <= B", lambda run, u: run.ball is None or (u.norm if run.ball[0] == 2 else u.norm_1) <= run.ball[1]
)


def mirror_is(name: str) -> Condition:
    return Condition(
        f"the mirror map is {name}", lambda run: run.mirror == name, lambda run: said("mirror", run.mirror)
    )


def largest_own(run: Run) -> float:
    """max ||x||^2 without the constant feature."""
    return float(run.sq_norms.max()) - run.bias**2


def eta(run: Run) -> float:
    return run.settings["step"]


def own_map(run: Run, u: Comparator) -> float:
    """R(u) - min R of the mirror map, at most."""
    if run.mirror == "entropic":
        return run.settings["radius"] * math.log(2.0 * run.settings["n_features"]) / eta(run)
    return (u.norm if run.mirror == "euclidean" else u.norm_dual) ** 2 / (2.0 * eta(run))


def smoothness(run: Run) -> float:
    """eta of a map that is 1 / eta-strongly convex in the norm whose dual the gradients are measured in."""
    factors = {"entropic": run.settings.get("radius"), "p-norm": run.settings.get("p", 2.0) - 1.0}
    return eta(run) * factors.get(run.mirror, 1.0)


def up_to(run: Run, u: Comparator, reach: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``right`` where ||u|| <= reach, else inf."""
    return np.where(u.norm <= reach, right, np.inf)


def forward_backward(run: Run, u: Comparator, G: np.ndarray) -> np.ndarray:
    """2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)."""
    c, D = run.settings["step"], u.distance
    return u.loss + 2.0 * G * D + (D * D / (2.0 * c) + 8.0 * G * G * c) * np.sqrt(run.times)


def unit_rows(run: Run, u: Comparator) -> np.ndarray:
    """(||u|| + 2 sqrt(sum l*^2))^2 where every ||x||^2 is 1; the same proof for those between 1 / b and 1 / a."""
    a, b = 1.0 / run.sq_norms.max(), 1.0 / run.sq_norms.min()
    return ((math.sqrt(a) * u.norm + 2.0 * b * np.sqrt(u.hinge_squares)) / a) ** 2


def heights_norm(run: Run) -> float:
    """l1 ||h_T||_2."""
    return 0.0 if run.l1_weights is None else float(np.linalg.norm(run.l1_weights))


BOUNDS = (
    Bound(
        "FoReL lemma, linearised losses", "Shalev-Shwartz 2012, Lemma 2.3",
        "sum <z_t, w_t - u> <= ||u||^2 / (2 eta) + sum <z_t, w_t - w_{t+1}> = ||u||^2 / (2 eta) + eta sum ||z_t||^2",
        "linearised regret", lambda run: run.linear,
        lambda run, u: u.linear + u.norm**2 / (2.0 * eta(run)) + eta(run) * run.gradient_squares,
        (FROM_ZERO, mirror_is("euclidean"), CONSTANT, UNPROJECTED), regret="linear",
    ),
    Bound(
        "FoReL, exact minimisers", "Shalev-Shwartz 2012, Lemma 2.3",
        "regret <= ||u||^2 / (2 eta) + sum (f_t(w_t) - f_t(w_{t+1}))",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + run.stability, (FROM_ZERO,), regret="loss",
    ),
    Bound(
        "FTL, exact minimisers", "Shalev-Shwartz 2012, Lemma 2.1",
        "regret <= sum (f_t(w_t) - f_t(w_{t+1}))",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss * (1.0 + SUBOPTIMAL * run.times) + run.stability, (), (IN_BALL,), regret="loss",
        remark="the minimisers are exact to 1e-7 of the loss, which is counted",
    ),
    Bound(
        "OGD, constant step", "Zinkevich 2003; Shalev-Shwartz 2012",
        "regret <= ||u||^2 / (2 eta) + eta / 2 sum ||z_t||^2",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) / 2.0 * run.gradient_squares,
        (FROM_ZERO, mirror_is("euclidean"), CONSTANT), (IN_BALL,), regret="loss",
    ),
    Bound(
        "OGD, looser FoReL form", "Shalev-Shwartz 2012, Theorem 2.4",
        "regret <= ||u||^2 / (2 eta) + eta sum ||z_t||^2",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) * run.gradient_squares,
        (FROM_ZERO, mirror_is("euclidean"), CONSTANT), (IN_BALL,), regret="loss",
    ),
    Bound(
        "OGD, tuned: B L sqrt(t)", "Zinkevich 2003",
        "regret <= B L sqrt(t), with L^2 = mean ||z_t||^2 and the B for which eta = B / (L sqrt(t))",
        "regret", lambda run: run.loss,
        lambda run, u: up_to(run, u, eta(run) * np.sqrt(run.gradient_squares),
                             u.loss + eta(run) * run.gradient_squares),
        (FROM_ZERO, mirror_is("euclidean"), CONSTANT), (IN_BALL,), regret="loss",
        remark="at each t for the comparators with ||u|| <= B",
    ),
    Bound(
        "FoReL, tuned: B L sqrt(2 t)", "Shalev-Shwartz 2012",
        "regret <= B L sqrt(2 t), with L^2 = mean ||z_t||^2 and the B for which eta = B / (L sqrt(2 t))",
        "regret", lambda run: run.loss,
        lambda run, u: up_to(run, u, eta(run) * np.sqrt(2.0 * run.gradient_squares),
                             u.loss + 2.0 * eta(run) * run.gradient_squares),
        (FROM_ZERO, mirror_is("euclidean"), CONSTANT), (IN_BALL,), regret="loss",
        remark="at each t for the comparators with ||u|| <= B",
    ),
    Bound(
        "OGD, falling step, projected", "Zinkevich 2003, Theorem 1",
        "regret <= (2 B)^2 sqrt(t) / (2 c) + c sum ||z_t||^2 / (2 sqrt(t))",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + (2.0 * run.ball[1]) ** 2 * np.sqrt(run.times) / (2.0 * eta(run))
        + eta(run) / 2.0 * run.falling_squares,
        (FALLING, PROJECTED), (IN_BALL,), regret="loss",
    ),
    Bound(
        "EG+-", "Kivinen, Warmuth 1997; Shalev-Shwartz 2012",
        "regret <= U log(2 d) / eta + eta U / 2 sum ||z_t||_inf^2",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + own_map(run, u) + smoothness(run) / 2.0 * run.dual_squares,
        (FROM_ZERO, mirror_is("entropic"), ALL_COUNTED),
        (Admission("||u||_1 <= U", lambda run, u: u.norm_1 <= run.settings["radius"]),), regret="loss",
    ),
    Bound(
        "p-norm", "Gentile 2003; Shalev-Shwartz 2012",
        "regret <= ||u||_q^2 / (2 eta) + eta (p - 1) / 2 sum ||z_t||_p^2, 1/p + 1/q = 1",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + own_map(run, u) + smoothness(run) / 2.0 * run.dual_squares,
        (FROM_ZERO, mirror_is("p-norm")), regret="loss",
    ),
    Bound(
        "mirror descent in general", "Shalev-Shwartz 2012",
        "regret <= R(u) - min R + eta sum ||z_t||_*^2, R 1/eta-strongly convex in ||.||",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + own_map(run, u) + smoothness(run) * run.dual_squares,
        (FROM_ZERO, CONSTANT), (IN_BALL,), regret="loss",
    ),
    Bound(
        "perceptron, hinge of u", "Shalev-Shwartz 2012, section 3.3",
        "|M| - sum hinge_t(u) <= R ||u|| sqrt(|M|)",
        "mistakes", lambda run: run.mistakes,
        lambda run, u: u.hinge + run.R * u.norm * np.sqrt(run.mistakes), (FROM_ZERO,),
        remark="for perceptron-bias of the rows with their constant feature",
    ),
    Bound(
        "perceptron, separable", "Novikoff 1962",
        "|M| <= (R / gamma)^2 ||u||^2, gamma the least margin of u",
        "mistakes", lambda run: run.mistakes,
        lambda run, u: (run.R * u.norm / u.margin) ** 2, (FROM_ZERO,), (SEPARATES,),
    ),
    Bound(
        "perceptron with bias", "Novikoff 1962; Cristianini, Shawe-Taylor 2000, Theorem 2.3",
        "|M| <= (2 R / gamma)^2, gamma the least margin of (u, b) with ||u|| = 1",
        "mistakes", lambda run: run.mistakes,
        lambda run, u: (2.0 * run.settings["max_norm"] * u.own_norm / u.margin) ** 2,
        (FROM_ZERO, BOTH_CLASSES, LARGEST_KNOWN), (SEPARATES,),
    ),
    Bound(
        "PA, lemma", "Crammer et al. 2006, Lemma 1",
        "sum tau_t (2 l_t - tau_t ||x_t||^2 - 2 l*_t) <= ||u||^2",
        "sum tau (2 l - tau ||x||^2)", lambda run: run.progress,
        lambda run, u: u.norm**2 + 2.0 * u.tau_hinge, (FROM_ZERO,),
    ),
    Bound(
        "PA, separable", "Crammer et al. 2006, Theorem 2",
        "sum l_t^2 <= R^2 ||u||^2", "sum of squared losses", lambda run: run.hinge_squares,
        lambda run, u: (run.R * u.norm) ** 2, (FROM_ZERO,), (NO_LOSS,),
    ),
    Bound(
        "PA, rows of norm 1", "Crammer et al. 2006, Theorem 3",
        "sum l_t^2 <= (||u|| + 2 sqrt(sum l*_t^2))^2", "sum of squared losses", lambda run: run.hinge_squares,
        unit_rows, (FROM_ZERO, UNIT_ROWS),
        remark="with the least and the largest ||x||^2, which lie within 1e-4 of 1",
    ),
    Bound(
        "PA-I", "Crammer et al. 2006, Theorem 4",
        "|M| <= max(R^2, 1 / C) (||u||^2 + 2 C sum l*_t)", "mistakes", lambda run: run.mistakes,
        lambda run, u: np.maximum(run.R**2, 1.0 / run.settings["C"])
        * (u.norm**2 + 2.0 * run.settings["C"] * u.hinge), (FROM_ZERO,),
    ),
    Bound(
        "PA-II", "Crammer et al. 2006, Theorem 5",
        "sum l_t^2 <= (R^2 + 1 / (2 C)) (||u||^2 + 2 C sum l*_t^2)",
        "sum of squared losses", lambda run: run.hinge_squares,
        lambda run, u: (run.R**2 + 1.0 / (2.0 * run.settings["C"]))
        * (u.norm**2 + 2.0 * run.settings["C"] * u.hinge_squares), (FROM_ZERO,),
    ),
    Bound(
        "Pegasos, projected", "Pegasos 2011, Theorem 1",
        "regret of lambda/2 ||w||^2 + hinge <= (sqrt(lambda) + R)^2 (1 + ln t) / (2 lambda)",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + (math.sqrt(run.settings["lam"]) + run.R) ** 2 * (1.0 + np.log(run.times))
        / (2.0 * run.settings["lam"]),
        (FROM_ZERO,), (Admission("||u|| <= 1 / sqrt(lambda)", IN_BALL.holds),), regret="loss",
    ),
    Bound(
        "FOBOS", "Duchi, Singer 2009",
        "regret of loss + l1 ||w||_1 <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        "regret", lambda run: run.loss,
        lambda run, u: forward_backward(run, u, np.maximum(run.G, run.settings["l1"] * math.sqrt(run.d))),
        (FALLING, L1_ALONE), regret="loss",
        remark="G: the largest of all ||z_t|| and l1 sqrt(d); D from the range of each weight over all rounds",
    ),
    Bound(
        "HF-FOBOS", "Oiwa et al. 2011",
        "regret of loss + l1 sum h_j |w_j| <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        "regret", lambda run: run.loss,
        lambda run, u: forward_backward(run, u, np.maximum(run.G, heights_norm(run))),
        (FALLING,), regret="loss", proven=False,
        remark="the proof treats the regulariser as fixed, while h grows: here h is that of the last round; "
        "G: the largest of all ||z_t|| and l1 ||h||; D from the range of each weight over all rounds",
    ),
)  # fmt: skip


def bounds_of(run: Run) -> list[Bound]:
    """Those that are about this learner."""
    return [bound for bound in BOUNDS if bound.name in run.learner.bounds]
