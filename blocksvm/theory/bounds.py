"""Proven bounds of online learners, each as data: the bounded quantity, the bound, and its assumptions.

A bound says ``measured(run) <= right(run, u)`` for every fixed u that it admits, at every number of rounds; where it is
about the regret, ``measured`` is the learner's loss, and the loss of u stands on the right; where the learner's
objective has a regulariser r, both are of loss + r.  A new bound is one entry, which names its learners.

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

AdaGrad's.  With s_t,j = sqrt(g_1,j^2 + ... + g_t,j^2), H_t = delta + s_t, f_t + r the losses, w_1 = 0 (r(w_1) = 0):

FOBOS form  w_{t+1} = argmin <g_t, w> + r(w) + (w - w_t)' H_t (w - w_t) / (2 eta).  One round of it gives
    f_t(w_t) + r(w_{t+1}) - f_t(u) - r(u) <= [||u - w_t||^2 - ||u - w_{t+1}||^2] / (2 eta) + eta/2 ||g_t||^2, norms by
    H_t, and by its inverse for g.  H grows, so that with D_j = max_t |u_j - w_t,j| the brackets add up to at most
    sum_j (delta u_j^2 + D_j^2 s_T,j), and sum_t g_t,j^2 / H_t,j <= 2 s_T,j (Duchi, Hazan, Singer 2011, Lemma 4).
RDA form    w_{t+1} = argmin <g_1 + ... + g_t, w> + t r(w) + w' H_t w / (2 eta): their Proposition 2 gives
    u' H_T u / (2 eta) + eta/2 sum_t ||g_t||^2 by the inverse of H_{t-1}, which is delta + s_{t-1} >= s_t where
    delta >= |g_t,j|.
Of the RDA form with sum_s g_s,j^2 in the place of H_t / eta no bound is known here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import option
from blocksvm.losses.box import HINGE as LOSS
from blocksvm.online.exact import SUBOPTIMAL
from blocksvm.theory.comparators import Comparator, length_in
from blocksvm.theory.run import Run
from blocksvm.theory.theories import ENTROPIC, EUCLIDEAN, P_NORM, Euclidean

UNIT = 1e-4  # how far ||x||^2 may lie from 1: rows come from text of some digits, and are stored in single precision


@dataclass(frozen=True)
class Condition:
    """An assumption: holds(run), or holds(run, u) where about_u; detail: the figures, or the setting, that offend."""

    text: str
    holds: Callable[..., bool]
    detail: Callable[[Run], str] | str = ""
    about_u: bool = False

    def found(self, run: Run) -> str:
        if isinstance(self.detail, str):
            return self.detail and option(self.detail, run.settings.get(self.detail))
        return self.detail(run)


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
    "l1 ||h_t||": lambda run: run.heights,
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

    @property
    def regret(self) -> str | None:
        """The name of the sum of u that is subtracted from the quantity for the regret, or None."""
        return REGRETS.get(self.quantity)


FROM_ZERO = Condition("w_1 = 0", lambda run: True)  # all learners begin there
CONSTANT = Condition("eta is constant", lambda run: run.constant_step, "decay")
FALLING = Condition("eta_t = c / sqrt(t)", lambda run: not run.constant_step, "decay")
# the ball of EG+- is its domain
UNPROJECTED = Condition("no projection", lambda run: run.ball is None or run.ball[0] == 1, "radius")
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
L1_ALONE = Condition("r = l1 ||w||_1 alone", lambda run: run.regulariser is not None, "l2")
SEPARATES = Condition("all margins above 0: a separating u was found", lambda run, u: u.margin[-1] > 0.0, about_u=True)
NO_LOSS = Condition(
    "l*_t = 0: a u with all margins at least 1 was found", lambda run, u: u.hinge[-1] == 0.0, about_u=True
)
IN_BALL = Condition("||u|| <= B", lambda run, u: run.ball is None or length_in(run, u) <= run.ball[1], about_u=True)


def mirror_is(mirror: Euclidean) -> Condition:
    return Condition(f"the mirror map is {mirror.name}", lambda run: run.theory.mirror is mirror, "mirror")


def largest_sq_norm(run: Run) -> float:
    """max ||x||^2 without the constant feature."""
    return float(run.sq_norms.max()) - run.runner.bias**2


def eta(run: Run) -> float:
    return run.settings["step"]


def dual_squares(run: Run) -> np.ndarray:
    """(K,) eta' sum ||z_t||_*^2, of a mirror map that is 1 / eta'-strongly convex in ||.||."""
    lengths = np.sqrt(run.sq_norms) if run.lengths is None else run.lengths
    return run.theory.mirror.smoothness(run.settings) * run.at((run.slopes * lengths) ** 2)


def divergences(run: Run) -> np.ndarray:
    """(K,) sum_t D_R*(-z_1:t || -z_1:t-1) = R*(-z_1:T) - R*(0) + sum <w_t, z_t>, w_t the gradient of R* there."""
    if run.potential is None:
        return eta(run) / 2.0 * run.gradient_squares
    return run.potential + run.linear


def stability(run: Run) -> np.ndarray:
    """(K,) sum (f_t(w_t) - f_t(w_{t+1})) of a learner that minimises exactly."""
    return run.loss - run.at(run.losses_of(run.after)[0])


def up_to(run: Run, u: Comparator, reach: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``right`` where ||u|| <= reach, else inf."""
    return np.where(u.norm <= reach, right, np.inf)


def unit_rows(run: Run, u: Comparator) -> np.ndarray:
    """(||u|| + 2 sqrt(sum l*^2))^2 where every ||x||^2 is 1; the same proof for those between 1 / b and 1 / a."""
    a, b = 1.0 / run.sq_norms.max(), 1.0 / run.sq_norms.min()
    return ((math.sqrt(a) * u.norm + 2.0 * b * np.sqrt(u.hinge_squares)) / a) ** 2


def splitting(run: Run, u: Comparator, G: np.ndarray, D: float | None = None) -> np.ndarray:
    """2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t), by default with the D from the range of each weight."""
    c, D = eta(run), u.distance if D is None else D
    return u.loss + 2.0 * G * D + (D * D / (2.0 * c) + 8.0 * G * G * c) * np.sqrt(run.times)


def largest_slope(run: Run) -> np.ndarray:
    """(K,) G: the largest ||z_t|| so far and l1 sqrt(d)."""
    return np.maximum(run.G, run.settings["l1"] * math.sqrt(run.d))


def largest_heights(run: Run) -> np.ndarray:
    """(K,) l1 G c Z^(1/p) sqrt(d), which l1 ||h_t|| cannot exceed where all |g_t,j| <= G."""
    p = run.settings["p"]
    Z = 1.0 if p == math.inf else run.at(np.arange(1.0, run.T + 1.0) ** (-p / 2.0)) ** (1.0 / p)
    return run.settings["l1"] * run.G * run.settings["step"] * Z * math.sqrt(run.d)


def logarithmic(run: Run, c: np.ndarray) -> np.ndarray:
    """(K,) c (1 + ln rounds) / (2 lambda), times the rows of a round: losses are summed over rows."""
    return run.batch * c * (1.0 + np.log(run.times / run.batch)) / (2.0 * run.settings["lam"])


def largest_entry(run: Run) -> float:
    """max |g_t,j|."""
    return float((np.abs(run.slopes) * run.lengths).max())


IN_SIMPLEX = Condition("||u||_1 <= U", IN_BALL.holds, about_u=True)
IN_DOMAIN = Condition("||u||_1 <= U", lambda run, u: u.distances[1] < math.inf, about_u=True)
# H_{t-1} >= s_t needs it
DELTA = Condition(
    "delta >= max |g_t,j|",
    lambda run: largest_entry(run) <= run.settings["delta"] * (1.0 + 1e-12),
    lambda run: f"{option('delta', run.settings['delta'])} against {largest_entry(run):.4g}",
)
HINGE = Condition("the loss is hinge", lambda run: run.followed.loss is LOSS, "loss")
FLAT = Condition("the loss has slopes of at most 1", lambda run: run.followed.loss.slope_bound <= 1.0, "loss")
WITH_L1 = Condition("l1 > 0", lambda run: run.truncated, "l1")
ABOVE_2 = Condition("p > 2", lambda run: run.settings["p"] > 2.0, "p")
PROJECTED_THERE = Condition("projected on ||w|| <= 1 / sqrt(lambda)", PROJECTED.holds, lambda run: "no projection")
FOLLOWED = ("ogd", "forel", "omd")

BOUNDS = (
    Bound("FoReL lemma, linearised losses", "Shalev-Shwartz 2012, Lemma 2.3",
        "sum <z_t, w_t - u> <= ||u||^2 / (2 eta) + sum <z_t, w_t - w_{t+1}> = ||u||^2 / (2 eta) + eta sum ||z_t||^2",
        FOLLOWED, lambda run, u: u.linear + u.norm**2 / (2.0 * eta(run)) + eta(run) * run.gradient_squares,
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, UNPROJECTED), quantity="linearised regret"),
    Bound("mirror descent, Bregman form", "Shalev-Shwartz 2012, section 2.7; Orabona 2019, section 7.3",
        "sum <z_t, w_t - u> <= R(u) - R(w_1) + sum_t D_R*(-z_1:t || -z_1:t-1)",
        FOLLOWED, lambda run, u: u.linear + u.distances[1] + divergences(run),
        (FROM_ZERO, CONSTANT, UNPROJECTED, IN_DOMAIN), quantity="linearised regret",
        remark="with the divergences themselves, where the bounds by norms have what they are at most"),
    Bound("FoReL, exact minimisers", "Shalev-Shwartz 2012, Lemma 2.3",
        "regret <= ||u||^2 / (2 eta) + sum (f_t(w_t) - f_t(w_{t+1}))",
        ("forel-exact",), lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + stability(run), (FROM_ZERO,)),
    Bound("FTL, exact minimisers", "Shalev-Shwartz 2012, Lemma 2.1",
        "regret <= sum (f_t(w_t) - f_t(w_{t+1}))",
        ("ftl",), lambda run, u: u.loss * (1.0 + SUBOPTIMAL * run.times) + stability(run), (IN_BALL,),
        remark="the minimisers are exact to 1e-7 of the loss, which is counted"),
    Bound("OGD, constant step", "Zinkevich 2003; Shalev-Shwartz 2012",
        "regret <= ||u||^2 / (2 eta) + eta / 2 sum ||z_t||^2",
        FOLLOWED, lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) / 2.0 * run.gradient_squares,
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL)),
    Bound("OGD, looser FoReL form", "Shalev-Shwartz 2012, Theorem 2.4",
        "regret <= ||u||^2 / (2 eta) + eta sum ||z_t||^2",
        FOLLOWED, lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) * run.gradient_squares,
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL)),
    Bound("OGD, tuned: B L sqrt(t)", "Zinkevich 2003",
        "regret <= B L sqrt(t), with L^2 = mean ||z_t||^2 and the B for which eta = B / (L sqrt(t))",
        FOLLOWED, lambda run, u: up_to(run, u, eta(run) * np.sqrt(run.gradient_squares),
                             u.loss + eta(run) * run.gradient_squares),
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL), remark="at each t for the comparators with ||u|| <= B"),
    Bound("FoReL, tuned: B L sqrt(2 t)", "Shalev-Shwartz 2012",
        "regret <= B L sqrt(2 t), with L^2 = mean ||z_t||^2 and the B for which eta = B / (L sqrt(2 t))",
        FOLLOWED, lambda run, u: up_to(run, u, eta(run) * np.sqrt(2.0 * run.gradient_squares),
                             u.loss + 2.0 * eta(run) * run.gradient_squares),
        (FROM_ZERO, mirror_is(EUCLIDEAN), CONSTANT, IN_BALL), remark="at each t for the comparators with ||u|| <= B"),
    Bound("OGD, falling step, projected", "Zinkevich 2003, Theorem 1",
        "regret <= (2 B)^2 sqrt(t) / (2 c) + c sum ||z_t||^2 / (2 sqrt(t))",
        ("ogd",), lambda run, u: u.loss + (2.0 * run.ball[1]) ** 2 * np.sqrt(run.times) / (2.0 * eta(run))
        + eta(run) / 2.0 * run.at(run.slopes**2 * run.sq_norms / np.sqrt(np.arange(1.0, run.T + 1.0))),
        (FALLING, PROJECTED, IN_BALL)),
    Bound("EG+-", "Kivinen, Warmuth 1997; Shalev-Shwartz 2012",
        "regret <= U log(2 d) / eta + eta U / 2 sum ||z_t||_inf^2",
        ("omd",), lambda run, u: u.loss + u.distances[0] + dual_squares(run) / 2.0,
        (FROM_ZERO, mirror_is(ENTROPIC), ALL_COUNTED, IN_SIMPLEX)),
    Bound("p-norm", "Gentile 2003; Shalev-Shwartz 2012",
        "regret <= ||u||_q^2 / (2 eta) + eta (p - 1) / 2 sum ||z_t||_p^2, 1/p + 1/q = 1",
        ("omd",), lambda run, u: u.loss + u.distances[0] + dual_squares(run) / 2.0, (FROM_ZERO, mirror_is(P_NORM))),
    Bound("mirror descent in general", "Shalev-Shwartz 2012",
        "regret <= R(u) - min R + eta sum ||z_t||_*^2, R 1/eta-strongly convex in ||.||",
        FOLLOWED, lambda run, u: u.loss + u.distances[0] + dual_squares(run), (FROM_ZERO, CONSTANT, IN_BALL)),
    Bound("perceptron, hinge of u", "Shalev-Shwartz 2012, section 3.3",
        "|M| - sum hinge_t(u) <= R ||u|| sqrt(|M|)",
        ("perceptron", "perceptron-bias"), lambda run, u: u.hinge + run.R * u.norm * np.sqrt(run.mistakes),
        (FROM_ZERO,), quantity="mistakes", remark="for perceptron-bias of the rows with their constant feature"),
    Bound("perceptron, separable", "Novikoff 1962",
        "|M| <= (R / gamma)^2 ||u||^2, gamma the least margin of u",
        ("perceptron",), lambda run, u: (run.R * u.norm / u.margin) ** 2, (FROM_ZERO, SEPARATES), quantity="mistakes"),
    Bound("perceptron with bias", "Novikoff 1962; Cristianini, Shawe-Taylor 2000, Theorem 2.3",
        "|M| <= (2 R / gamma)^2, gamma the least margin of (u, b) with ||u|| = 1",
        ("perceptron-bias",), lambda run, u: (2.0 * run.settings["max_norm"] * u.norm_without_bias / u.margin) ** 2,
        (FROM_ZERO, BOTH_CLASSES, LARGEST_KNOWN, SEPARATES), quantity="mistakes"),
    Bound("PA, lemma", "Crammer et al. 2006, Lemma 1",
        "sum tau_t (2 l_t - tau_t ||x_t||^2 - 2 l*_t) <= ||u||^2",
        ("pa", "pa1", "pa2"), lambda run, u: u.norm**2 + 2.0 * u.tau_hinge, (FROM_ZERO,),
        quantity="sum tau (2 l - tau ||x||^2)"),
    Bound("PA, separable", "Crammer et al. 2006, Theorem 2",
        "sum l_t^2 <= R^2 ||u||^2", ("pa",), lambda run, u: (run.R * u.norm) ** 2, (FROM_ZERO, NO_LOSS),
        quantity="sum of squared losses"),
    Bound("PA, rows of norm 1", "Crammer et al. 2006, Theorem 3",
        "sum l_t^2 <= (||u|| + 2 sqrt(sum l*_t^2))^2", ("pa",), unit_rows, (FROM_ZERO, UNIT_ROWS),
        quantity="sum of squared losses", remark="with the least and the largest ||x||^2, which lie within 1e-4 of 1"),
    Bound("PA-I", "Crammer et al. 2006, Theorem 4",
        "|M| <= max(R^2, 1 / C) (||u||^2 + 2 C sum l*_t)",
        ("pa1",), lambda run, u: np.maximum(run.R**2, 1.0 / run.settings["C"])
        * (u.norm**2 + 2.0 * run.settings["C"] * u.hinge), (FROM_ZERO,), quantity="mistakes"),
    Bound("PA-II", "Crammer et al. 2006, Theorem 5",
        "sum l_t^2 <= (R^2 + 1 / (2 C)) (||u||^2 + 2 C sum l*_t^2)",
        ("pa2",), lambda run, u: (run.R**2 + 1.0 / (2.0 * run.settings["C"]))
        * (u.norm**2 + 2.0 * run.settings["C"] * u.hinge_squares), (FROM_ZERO,), quantity="sum of squared losses"),
    # of learners whose objective has a regulariser
    Bound("Pegasos, projected", "Pegasos 2011, Theorem 1",
        "regret of lambda/2 ||w||^2 + hinge <= (sqrt(lambda) + R)^2 (1 + ln t) / (2 lambda)",
        ("pegasos",), lambda run, u: u.loss + logarithmic(run, (math.sqrt(run.settings["lam"]) + run.R) ** 2),
        (FROM_ZERO, HINGE, PROJECTED_THERE,
         Condition("||u|| <= 1 / sqrt(lambda)", IN_BALL.holds, about_u=True))),
    Bound("Pegasos, no projection", "Pegasos 2011, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= 4 R^2 (1 + ln t) / (2 lambda)",
        ("pegasos",), lambda run, u: u.loss + logarithmic(run, 4.0 * run.R**2), (FROM_ZERO, FLAT, UNPROJECTED),
        remark="lambda w_t is a mean of gradients, so that ||lambda w_t + z_t|| <= 2 R"),
    Bound("strongly convex, steps 1 / (lambda t)", "Hazan, Agarwal, Kale 2007, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= sum ||lambda w_t + z_t||^2 / (2 lambda t)",
        ("pegasos",), lambda run, u: u.loss
        + run.at(run.gradients / (np.arange(run.T) // run.batch + 1.0)) / (2.0 * run.settings["lam"]),
        (FROM_ZERO, IN_BALL),
        remark="||w_{t+1} - u||^2 <= ||w_t - u||^2 - 2 <g_t, w_t - u> / (lambda t) + ||g_t||^2 / (lambda t)^2, and "
        "f_t(w_t) - f_t(u) <= <g_t, w_t - u> - lambda/2 ||w_t - u||^2: the squared distances cancel"),
    Bound("strongly convex, largest gradient", "Hazan, Agarwal, Kale 2007, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= G^2 (1 + ln t) / (2 lambda)",
        ("pegasos",), lambda run, u: u.loss + logarithmic(run, run.largest(run.gradients)),
        (FROM_ZERO, IN_BALL), remark="G: the largest of all ||lambda w_t + z_t||, whatever the loss"),
    Bound("subgradient, constant step", "Shalev-Shwartz 2012, section 2.4",
        "regret of loss + l1 ||w||_1 <= ||u||^2 / (2 eta) + eta / 2 sum ||z_t + l1 sign(w_t)||^2",
        ("subgradient",), lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) / 2.0 * run.at(run.gradients),
        (FROM_ZERO, WITH_L1, CONSTANT), remark="sign(0) = 0 is a subgradient of |w_j|, too"),
    Bound("subgradient, falling step", "Zinkevich 2003, Theorem 1",
        "regret of loss + l1 ||w||_1 <= D^2 sqrt(t) / (2 c) + c / 2 sum ||z_s + l1 sign(w_s)||^2 / sqrt(s)",
        ("subgradient",), lambda run, u: u.loss + u.distance**2 * np.sqrt(run.times) / (2.0 * eta(run))
        + eta(run) / 2.0 * run.at(run.gradients / np.sqrt(np.arange(1.0, run.T + 1.0))),
        (WITH_L1, FALLING), remark="D from the range of each weight over all rounds"),
    Bound("FOBOS, HF-FOBOS: inequality of each round", "Oiwa et al. 2011, Lemma A.2.1",
        "0 <= the least over all rounds of ||w_t - u||^2 - ||w_t+1 - u||^2 + 8 eta_t eta_t+1/2 G_t^2 "
        "- 2 eta_t (f_t(w_t) - f_t(u)) - 2 eta_t+1/2 (r_t(w_t+1) - r_t(u))",
        ("fobos l1", "hf-fobos"), lambda run, u: u.slack, (L1_ALONE,), quantity="0",
        remark="r_t as it was in each round, G_t the larger of its ||z_t|| and ||l1 h_t||"),
    Bound("FOBOS", "Duchi, Singer 2009",
        "regret of loss + l1 ||w||_1 <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        ("fobos l1",), lambda run, u: splitting(run, u, largest_slope(run)), (FALLING, L1_ALONE),
        remark="G: the largest of all ||z_t|| and l1 sqrt(d); D from the range of each weight over all rounds"),
    Bound("FOBOS, group ||w||", "Duchi, Singer 2009",
        "regret of loss + group ||w|| <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        ("fobos group",), lambda run, u: splitting(run, u, np.maximum(run.G, run.settings["group"]),
                                                    float(run.norms.max()) + u.norm),
        (FALLING,), remark="G: the largest of all ||z_t|| and group; D: the largest ||w_t||, and ||u||"),
    Bound("HF-FOBOS", "Oiwa et al. 2011",
        "regret of loss + l1 sum h_j |w_j| <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        ("hf-fobos",), lambda run, u: splitting(run, u, np.maximum(run.G, float(np.linalg.norm(run.weights)))),
        (FALLING,), proven=False,
        remark="the proof treats the regulariser as fixed, while h grows: here h is that of the last round; "
        "G: the largest of all ||z_t|| and l1 ||h||; D from the range of each weight over all rounds"),
    Bound("FOBOS, sum of one-round inequalities", "Oiwa et al. 2011, Lemma A.2.1",
        "sum 2 eta_t (f_t(w_t) - f_t(u)) + 2 eta_t+1/2 (r(w_t+1) - r(u)) <= ||u||^2 + 8 G^2 sum eta_t eta_t+1/2",
        ("fobos l1",), lambda run, u: u.weighted + u.norm**2
        + 8.0 * largest_slope(run) ** 2 * run.at(run.steps() * run.half_steps()),
        (FROM_ZERO, L1_ALONE), quantity="weighted regret",
        remark="the lemma of each round, added up; eta_t+1 <= eta_t+1/2 <= eta_t <= 2 eta_t+1 for all steps here"),
    Bound("HF-FOBOS, largest heights", "Oiwa et al. 2011, Lemma 6.1",
        "regret of loss + l1 sum h_j |w_j| <= 2 U D + (D^2 / (2 c) + 8 U^2 c) sqrt(t), "
        "U = max(G, l1 G c Z^(1/p) sqrt(d)), Z = sum_s s^(-p/2)",
        ("hf-fobos",), lambda run, u: splitting(run, u, np.maximum(run.G, largest_heights(run))),
        (FALLING, ABOVE_2), proven=False,
        remark="the proof treats the regulariser as fixed, while h grows; D as above"),
    Bound("HF-FOBOS, heights", "Oiwa et al. 2011, Lemma 6.1",
        "l1 ||h_t|| <= l1 G c Z^(1/p) sqrt(d), Z = sum_s s^(-p/2)",
        ("hf-fobos",), lambda run, u: largest_heights(run), (FALLING, ABOVE_2), quantity="l1 ||h_t||"),
    Bound("AdaGrad, FOBOS form", "Duchi, Hazan, Singer 2011, Theorem 5; derived in bounds.py",
        "regret of loss + l1 ||w||_1 <= delta ||u||^2 / (2 eta) + (max_t ||u - w_t||_inf^2 / (2 eta) + eta) "
        "sum_j ||g_1:t,j||",
        ("adagrad-fobos",), lambda run, u: u.loss + run.settings["delta"] * u.norm**2 / (2.0 * eta(run))
        + (u.reach**2 / (2.0 * eta(run)) + eta(run)) * run.roots,
        (FROM_ZERO,), remark="max_t ||u - w_t||_inf from the range of each weight over all rounds"),
    Bound("AdaGrad, RDA form", "Duchi, Hazan, Singer 2011, Theorem 5; derived in bounds.py",
        "regret of loss + l1 ||w||_1 <= delta ||u||^2 / (2 eta) + (||u||_inf^2 / (2 eta) + eta) sum_j ||g_1:t,j||",
        ("adagrad-rda",), lambda run, u: u.loss + run.settings["delta"] * u.norm**2 / (2.0 * eta(run))
        + (u.norm_inf**2 / (2.0 * eta(run)) + eta(run)) * run.roots, (FROM_ZERO, DELTA)),
)  # fmt: skip


def bounds_of(run: Run) -> list[Bound]:
    return [bound for bound in BOUNDS if {run.variant, run.variant.split()[0]} & set(bound.of)]
