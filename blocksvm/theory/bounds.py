"""Proven bounds of online learners, each as data: the bounded quantity, the bound, and its assumptions.

A bound says ``measured(run) <= right(run, u)`` for every fixed u that it admits, at every number of rounds; where it is
about the regret, ``measured`` is the learner's loss, and the loss of u stands on the right.  A new bound is one
entry, which names the learners that it is about.

Novikoff 1962           On convergence proofs on perceptrons.
Crammer et al. 2006     Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online passive-aggressive algorithms, JMLR 7.
Zinkevich 2003          Online convex programming and generalized infinitesimal gradient ascent, ICML.
Shalev-Shwartz 2012     Online learning and online convex optimization, Foundations and Trends in ML 4(2).
Kivinen, Warmuth 1997   Exponentiated gradient versus gradient descent for linear predictors, Inf. and Comp. 132.
Orabona 2019            A modern introduction to online learning, arXiv:1912.13213.
Gentile 2003            The robustness of the p-norm algorithms, Machine Learning 53.
Hazan et al. 2007       Hazan, Agarwal, Kale: Logarithmic regret algorithms for online convex optimization, ML 69.
Duchi et al. 2011       Duchi, Hazan, Singer: Adaptive subgradient methods, JMLR 12.
Pegasos 2011            Shalev-Shwartz, Singer, Srebro, Cotter, Mathematical Programming 127.
Duchi, Singer 2009      Efficient online and batch learning using forward backward splitting, JMLR 10.
Oiwa et al. 2011        Oiwa, Matsushima, Nakagawa: Frequency-aware truncated methods, ECML PKDD.
"""

from __future__ import annotations

import math

import numpy as np

from blocksvm.online.exact import SUBOPTIMAL
from blocksvm.theory.bound import (
    ALL_COUNTED,
    BOTH_CLASSES,
    CONSTANT,
    FALLING,
    FROM_ZERO,
    IN_BALL,
    LARGEST_KNOWN,
    NO_LOSS,
    PROJECTED,
    SEPARATES,
    UNIT_ROWS,
    UNPROJECTED,
    Bound,
    Condition,
    eta,
    mirror_is,
)
from blocksvm.theory.bounds_regularised import REGULARISED
from blocksvm.theory.comparators import Comparator
from blocksvm.theory.run import Run
from blocksvm.theory.theories import ENTROPIC, EUCLIDEAN, P_NORM


def dual_squares(run: Run) -> np.ndarray:
    """(K,) eta' sum ||z_t||_*^2, of a mirror map that is 1 / eta'-strongly convex in ||.||."""
    lengths = np.sqrt(run.sq_norms) if run.read.lengths is None else run.read.lengths
    return run.theory.mirror.smoothness(run.settings) * run.at((run.slopes * lengths) ** 2)


def divergences(run: Run) -> np.ndarray:
    """(K,) sum_t D_R*(-z_1:t || -z_1:t-1) = R*(-z_1:T) - R*(0) + sum <w_t, z_t>, w_t the gradient of R* there."""
    if run.read.potential is None:
        return eta(run) / 2.0 * run.gradient_squares
    return run.read.potential + run.linear


def stability(run: Run) -> np.ndarray:
    """(K,) sum (f_t(w_t) - f_t(w_{t+1})) of a learner that minimises exactly."""
    return run.loss - run.at(run.losses_of(run.read.after)[0])


def up_to(run: Run, u: Comparator, reach: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``right`` where ||u|| <= reach, else inf."""
    return np.where(u.norm <= reach, right, np.inf)


def unit_rows(run: Run, u: Comparator) -> np.ndarray:
    """(||u|| + 2 sqrt(sum l*^2))^2 where every ||x||^2 is 1; the same proof for those between 1 / b and 1 / a."""
    a, b = 1.0 / run.sq_norms.max(), 1.0 / run.sq_norms.min()
    return ((math.sqrt(a) * u.norm + 2.0 * b * np.sqrt(u.hinge_squares)) / a) ** 2


IN_SIMPLEX = Condition("||u||_1 <= U", IN_BALL.holds, about_u=True)
IN_DOMAIN = Condition("||u||_1 <= U", lambda run, u: u.distances[1] < math.inf, about_u=True)
FOLLOWED = ("ogd", "forel", "omd")

BOUNDS = (
    Bound(
        "FoReL lemma, linearised losses", "Shalev-Shwartz 2012, Lemma 2.3",
        "sum <z_t, w_t - u> <= ||u||^2 / (2 eta) + sum <z_t, w_t - w_{t+1}> = ||u||^2 / (2 eta) + eta sum ||z_t||^2",
        FOLLOWED, lambda run, u: u.linear + u.norm**2 / (2.0 * eta(run)) + eta(run) * run.gradient_squares,
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, UNPROJECTED), quantity="linearised regret",
    ),
    Bound(
        "mirror descent, Bregman form", "Shalev-Shwartz 2012, section 2.7; Orabona 2019, section 7.3",
        "sum <z_t, w_t - u> <= R(u) - R(w_1) + sum_t D_R*(-z_1:t || -z_1:t-1)",
        FOLLOWED, lambda run, u: u.linear + u.distances[1] + divergences(run),
        (FROM_ZERO, CONSTANT, UNPROJECTED, IN_DOMAIN),
        quantity="linearised regret",
        remark="with the divergences themselves, where the bounds by norms have what they are at most",
    ),
    Bound(
        "FoReL, exact minimisers", "Shalev-Shwartz 2012, Lemma 2.3",
        "regret <= ||u||^2 / (2 eta) + sum (f_t(w_t) - f_t(w_{t+1}))",
        ("forel-exact",), lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + stability(run), (FROM_ZERO,),
    ),
    Bound(
        "FTL, exact minimisers", "Shalev-Shwartz 2012, Lemma 2.1",
        "regret <= sum (f_t(w_t) - f_t(w_{t+1}))",
        ("ftl",), lambda run, u: u.loss * (1.0 + SUBOPTIMAL * run.times) + stability(run), (IN_BALL,),
        remark="the minimisers are exact to 1e-7 of the loss, which is counted",
    ),
    Bound(
        "OGD, constant step", "Zinkevich 2003; Shalev-Shwartz 2012",
        "regret <= ||u||^2 / (2 eta) + eta / 2 sum ||z_t||^2",
        FOLLOWED, lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) / 2.0 * run.gradient_squares,
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL),
    ),
    Bound(
        "OGD, looser FoReL form", "Shalev-Shwartz 2012, Theorem 2.4",
        "regret <= ||u||^2 / (2 eta) + eta sum ||z_t||^2",
        FOLLOWED, lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) * run.gradient_squares,
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL),
    ),
    Bound(
        "OGD, tuned: B L sqrt(t)", "Zinkevich 2003",
        "regret <= B L sqrt(t), with L^2 = mean ||z_t||^2 and the B for which eta = B / (L sqrt(t))",
        FOLLOWED, lambda run, u: up_to(run, u, eta(run) * np.sqrt(run.gradient_squares),
                             u.loss + eta(run) * run.gradient_squares),
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL), remark="at each t for the comparators with ||u|| <= B",
    ),
    Bound(
        "FoReL, tuned: B L sqrt(2 t)", "Shalev-Shwartz 2012",
        "regret <= B L sqrt(2 t), with L^2 = mean ||z_t||^2 and the B for which eta = B / (L sqrt(2 t))",
        FOLLOWED, lambda run, u: up_to(run, u, eta(run) * np.sqrt(2.0 * run.gradient_squares),
                             u.loss + 2.0 * eta(run) * run.gradient_squares),
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL), remark="at each t for the comparators with ||u|| <= B",
    ),
    Bound(
        "OGD, falling step, projected", "Zinkevich 2003, Theorem 1",
        "regret <= (2 B)^2 sqrt(t) / (2 c) + c sum ||z_t||^2 / (2 sqrt(t))",
        ("ogd",), lambda run, u: u.loss + (2.0 * run.ball[1]) ** 2 * np.sqrt(run.times) / (2.0 * eta(run))
        + eta(run) / 2.0 * run.at(run.slopes**2 * run.sq_norms / np.sqrt(np.arange(1.0, run.T + 1.0))),
        (FALLING, PROJECTED, IN_BALL),
    ),
    Bound(
        "EG+-", "Kivinen, Warmuth 1997; Shalev-Shwartz 2012",
        "regret <= U log(2 d) / eta + eta U / 2 sum ||z_t||_inf^2",
        ("omd",), lambda run, u: u.loss + u.distances[0] + dual_squares(run) / 2.0,
        (FROM_ZERO, mirror_is(ENTROPIC), ALL_COUNTED, IN_SIMPLEX),
    ),
    Bound(
        "p-norm", "Gentile 2003; Shalev-Shwartz 2012",
        "regret <= ||u||_q^2 / (2 eta) + eta (p - 1) / 2 sum ||z_t||_p^2, 1/p + 1/q = 1",
        ("omd",), lambda run, u: u.loss + u.distances[0] + dual_squares(run) / 2.0,
        (FROM_ZERO, mirror_is(P_NORM)),
    ),
    Bound(
        "mirror descent in general", "Shalev-Shwartz 2012",
        "regret <= R(u) - min R + eta sum ||z_t||_*^2, R 1/eta-strongly convex in ||.||",
        FOLLOWED, lambda run, u: u.loss + u.distances[0] + dual_squares(run),
        (FROM_ZERO, CONSTANT, IN_BALL),
    ),
    Bound(
        "perceptron, hinge of u", "Shalev-Shwartz 2012, section 3.3",
        "|M| - sum hinge_t(u) <= R ||u|| sqrt(|M|)",
        ("perceptron", "perceptron-bias"), lambda run, u: u.hinge + run.R * u.norm * np.sqrt(run.mistakes),
        (FROM_ZERO,), quantity="mistakes",
        remark="for perceptron-bias of the rows with their constant feature",
    ),
    Bound(
        "perceptron, separable", "Novikoff 1962",
        "|M| <= (R / gamma)^2 ||u||^2, gamma the least margin of u",
        ("perceptron",), lambda run, u: (run.R * u.norm / u.margin) ** 2, (FROM_ZERO, SEPARATES), quantity="mistakes",
    ),
    Bound(
        "perceptron with bias", "Novikoff 1962; Cristianini, Shawe-Taylor 2000, Theorem 2.3",
        "|M| <= (2 R / gamma)^2, gamma the least margin of (u, b) with ||u|| = 1",
        ("perceptron-bias",), lambda run, u: (2.0 * run.settings["max_norm"] * u.norm_without_bias / u.margin) ** 2,
        (FROM_ZERO, BOTH_CLASSES, LARGEST_KNOWN, SEPARATES), quantity="mistakes",
    ),
    Bound(
        "PA, lemma", "Crammer et al. 2006, Lemma 1",
        "sum tau_t (2 l_t - tau_t ||x_t||^2 - 2 l*_t) <= ||u||^2",
        ("pa", "pa1", "pa2"), lambda run, u: u.norm**2 + 2.0 * u.tau_hinge, (FROM_ZERO,),
        quantity="sum tau (2 l - tau ||x||^2)",
    ),
    Bound(
        "PA, separable", "Crammer et al. 2006, Theorem 2",
        "sum l_t^2 <= R^2 ||u||^2", ("pa",), lambda run, u: (run.R * u.norm) ** 2, (FROM_ZERO, NO_LOSS),
        quantity="sum of squared losses",
    ),
    Bound(
        "PA, rows of norm 1", "Crammer et al. 2006, Theorem 3",
        "sum l_t^2 <= (||u|| + 2 sqrt(sum l*_t^2))^2", ("pa",), unit_rows, (FROM_ZERO, UNIT_ROWS),
        quantity="sum of squared losses", remark="with the least and the largest ||x||^2, which lie within 1e-4 of 1",
    ),
    Bound(
        "PA-I", "Crammer et al. 2006, Theorem 4",
        "|M| <= max(R^2, 1 / C) (||u||^2 + 2 C sum l*_t)",
        ("pa1",), lambda run, u: np.maximum(run.R**2, 1.0 / run.settings["C"])
        * (u.norm**2 + 2.0 * run.settings["C"] * u.hinge), (FROM_ZERO,), quantity="mistakes",
    ),
    Bound(
        "PA-II", "Crammer et al. 2006, Theorem 5",
        "sum l_t^2 <= (R^2 + 1 / (2 C)) (||u||^2 + 2 C sum l*_t^2)",
        ("pa2",), lambda run, u: (run.R**2 + 1.0 / (2.0 * run.settings["C"]))
        * (u.norm**2 + 2.0 * run.settings["C"] * u.hinge_squares), (FROM_ZERO,), quantity="sum of squared losses",
    ),
    *REGULARISED,
)  # fmt: skip


def bounds_of(run: Run) -> list[Bound]:
    return [bound for bound in BOUNDS if {run.variant, run.variant.split()[0]} & set(bound.of)]
