"""Bounds, as data, of learners whose objective has a regulariser r: regret is that of loss + r (see bounds.py).

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

from __future__ import annotations

import math

import numpy as np

from blocksvm.base.errors import option
from blocksvm.losses.box import HINGE as LOSS
from blocksvm.theory.bound import (
    CONSTANT,
    FALLING,
    FROM_ZERO,
    IN_BALL,
    L1_ALONE,
    PROJECTED,
    UNPROJECTED,
    Bound,
    Condition,
    eta,
)
from blocksvm.theory.comparators import Comparator
from blocksvm.theory.run import MOST_STEPS, Run


def forward_backward(run: Run, u: Comparator, G: np.ndarray) -> np.ndarray:
    """2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)."""
    return splitting(run, u, G, u.distance)


def splitting(run: Run, u: Comparator, G: np.ndarray, D: float) -> np.ndarray:
    """The same for any D."""
    c = run.settings["step"]
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


def strong_squares(run: Run) -> np.ndarray:
    """(K,) sum ||lambda w_t + z_t||^2 / t."""
    return run.at(run.read.gradients / (np.arange(run.T) // run.batch + 1.0))


def gradient_squares(run: Run) -> np.ndarray:
    """(K,) sum ||z_t + l1 sign(w_t)||^2."""
    return run.at(run.read.gradients)


def largest_entry(run: Run) -> float:
    """max |g_t,j|."""
    return float((np.abs(run.slopes) * run.read.lengths).max())


# H_{t-1} >= s_t needs it
DELTA = Condition(
    "delta >= max |g_t,j|",
    lambda run: largest_entry(run) <= run.settings["delta"] * (1.0 + 1e-12),
    lambda run: f"{option('delta', run.settings['delta'])} against {largest_entry(run):.4g}",
)

HINGE = Condition(
    "the loss is hinge", lambda run: run.followed.loss is LOSS, lambda run: option("loss", run.followed.name)
)
FLAT = Condition(
    "the loss has slopes of at most 1",
    lambda run: run.followed.loss.slope_bound <= 1.0,
    lambda run: option("loss", run.followed.name),
)
WITH_L1 = Condition("l1 > 0", lambda run: run.truncated, lambda run: option("l1", run.settings["l1"]))
EACH_ROUND = Condition(
    f"rows times features are at most {MOST_STEPS:,}",
    lambda run: run.checks_rounds,
    lambda run: f"{run.T:,} x {run.d:,}",
)
ABOVE_2 = Condition("p > 2", lambda run: run.settings["p"] > 2.0, lambda run: option("p", run.settings["p"]))
PROJECTED_THERE = Condition("projected on ||w|| <= 1 / sqrt(lambda)", PROJECTED.holds, lambda run: "no projection")

REGULARISED = (
    Bound(
        "Pegasos, projected", "Pegasos 2011, Theorem 1",
        "regret of lambda/2 ||w||^2 + hinge <= (sqrt(lambda) + R)^2 (1 + ln t) / (2 lambda)",
        ("pegasos",), lambda run, u: u.loss + logarithmic(run, (math.sqrt(run.settings["lam"]) + run.R) ** 2),
        (FROM_ZERO, HINGE, PROJECTED_THERE,
         Condition("||u|| <= 1 / sqrt(lambda)", IN_BALL.holds, about_u=True)),
    ),
    Bound(
        "Pegasos, no projection", "Pegasos 2011, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= 4 R^2 (1 + ln t) / (2 lambda)",
        ("pegasos",), lambda run, u: u.loss + logarithmic(run, 4.0 * run.R**2),
        (FROM_ZERO, FLAT, UNPROJECTED), remark="lambda w_t is a mean of gradients, so that ||lambda w_t + z_t|| <= 2 R",
    ),
    Bound(
        "strongly convex, steps 1 / (lambda t)", "Hazan, Agarwal, Kale 2007, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= sum ||lambda w_t + z_t||^2 / (2 lambda t)",
        ("pegasos",), lambda run, u: u.loss + strong_squares(run) / (2.0 * run.settings["lam"]),
        (FROM_ZERO, IN_BALL),
        remark="||w_{t+1} - u||^2 <= ||w_t - u||^2 - 2 <g_t, w_t - u> / (lambda t) + ||g_t||^2 / (lambda t)^2, and "
        "f_t(w_t) - f_t(u) <= <g_t, w_t - u> - lambda/2 ||w_t - u||^2: the squared distances cancel",
    ),
    Bound(
        "strongly convex, largest gradient", "Hazan, Agarwal, Kale 2007, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= G^2 (1 + ln t) / (2 lambda)",
        ("pegasos",), lambda run, u: u.loss + logarithmic(run, run.largest(run.read.gradients)),
        (FROM_ZERO, IN_BALL), remark="G: the largest of all ||lambda w_t + z_t||, whatever the loss",
    ),
    Bound(
        "subgradient, constant step", "Shalev-Shwartz 2012, section 2.4",
        "regret of loss + l1 ||w||_1 <= ||u||^2 / (2 eta) + eta / 2 sum ||z_t + l1 sign(w_t)||^2",
        ("subgradient",), lambda run, u: u.loss + u.norm**2 / (2.0 * eta(run)) + eta(run) / 2.0 * gradient_squares(run),
        (FROM_ZERO, WITH_L1, CONSTANT), remark="sign(0) = 0 is a subgradient of |w_j|, too",
    ),
    Bound(
        "subgradient, falling step", "Zinkevich 2003, Theorem 1",
        "regret of loss + l1 ||w||_1 <= D^2 sqrt(t) / (2 c) + c / 2 sum ||z_s + l1 sign(w_s)||^2 / sqrt(s)",
        ("subgradient",), lambda run, u: u.loss + u.distance**2 * np.sqrt(run.times) / (2.0 * eta(run))
        + eta(run) / 2.0 * run.at(run.read.gradients / np.sqrt(np.arange(1.0, run.T + 1.0))),
        (WITH_L1, FALLING), remark="D from the range of each weight over all rounds",
    ),
    Bound(
        "FOBOS, HF-FOBOS: inequality of each round", "Oiwa et al. 2011, Lemma A.2.1",
        "0 <= the least over all rounds of ||w_t - u||^2 - ||w_t+1 - u||^2 + 8 eta_t eta_t+1/2 G_t^2 "
        "- 2 eta_t (f_t(w_t) - f_t(u)) - 2 eta_t+1/2 (r_t(w_t+1) - r_t(u))",
        ("fobos l1", "hf-fobos"), lambda run, u: u.slack, (L1_ALONE, EACH_ROUND), quantity="0",
        remark="r_t as it was in each round, G_t the larger of its ||z_t|| and ||l1 h_t||",
    ),
    Bound(
        "FOBOS", "Duchi, Singer 2009",
        "regret of loss + l1 ||w||_1 <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        ("fobos l1",), lambda run, u: forward_backward(run, u, largest_slope(run)),
        (FALLING, L1_ALONE),
        remark="G: the largest of all ||z_t|| and l1 sqrt(d); D from the range of each weight over all rounds",
    ),
    Bound(
        "FOBOS, group ||w||", "Duchi, Singer 2009",
        "regret of loss + group ||w|| <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        ("fobos group",), lambda run, u: splitting(run, u, np.maximum(run.G, run.settings["group"]),
                                                    float(run.read.norms.max()) + u.norm),
        (FALLING,), remark="G: the largest of all ||z_t|| and group; D: the largest ||w_t||, and ||u||",
    ),
    Bound(
        "HF-FOBOS", "Oiwa et al. 2011",
        "regret of loss + l1 sum h_j |w_j| <= 2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)",
        ("hf-fobos",),
        lambda run, u: forward_backward(run, u, np.maximum(run.G, float(np.linalg.norm(run.read.weights)))),
        (FALLING,), proven=False,
        remark="the proof treats the regulariser as fixed, while h grows: here h is that of the last round; "
        "G: the largest of all ||z_t|| and l1 ||h||; D from the range of each weight over all rounds",
    ),
    Bound(
        "FOBOS, sum of one-round inequalities", "Oiwa et al. 2011, Lemma A.2.1",
        "sum 2 eta_t (f_t(w_t) - f_t(u)) + 2 eta_t+1/2 (r(w_t+1) - r(u)) <= ||u||^2 + 8 G^2 sum eta_t eta_t+1/2",
        ("fobos l1",), lambda run, u: u.weighted + u.norm**2
        + 8.0 * largest_slope(run) ** 2 * run.at(run.steps() * run.half_steps()),
        (FROM_ZERO, L1_ALONE, EACH_ROUND), quantity="weighted regret",
        remark="the lemma of each round, added up; eta_t+1 <= eta_t+1/2 <= eta_t <= 2 eta_t+1 for all steps here",
    ),
    Bound(
        "HF-FOBOS, largest heights", "Oiwa et al. 2011, Lemma 6.1",
        "regret of loss + l1 sum h_j |w_j| <= 2 U D + (D^2 / (2 c) + 8 U^2 c) sqrt(t), "
        "U = max(G, l1 G c Z^(1/p) sqrt(d)), Z = sum_s s^(-p/2)",
        ("hf-fobos",), lambda run, u: forward_backward(run, u, np.maximum(run.G, largest_heights(run))),
        (FALLING, ABOVE_2), proven=False, remark="the proof treats the regulariser as fixed, while h grows; D as above",
    ),
    Bound(
        "HF-FOBOS, heights", "Oiwa et al. 2011, Lemma 6.1",
        "l1 ||h_t|| <= l1 G c Z^(1/p) sqrt(d), Z = sum_s s^(-p/2)",
        ("hf-fobos",), lambda run, u: largest_heights(run), (FALLING, ABOVE_2), quantity="l1 ||h_t||",
    ),
    Bound(
        "AdaGrad, FOBOS form", "Duchi, Hazan, Singer 2011, Theorem 5; derived in bounds_regularised.py",
        "regret of loss + l1 ||w||_1 <= delta ||u||^2 / (2 eta) + (max_t ||u - w_t||_inf^2 / (2 eta) + eta) "
        "sum_j ||g_1:t,j||",
        ("adagrad-fobos",), lambda run, u: u.loss + run.settings["delta"] * u.norm**2 / (2.0 * eta(run))
        + (u.reach**2 / (2.0 * eta(run)) + eta(run)) * run.read.roots,
        (FROM_ZERO,), remark="max_t ||u - w_t||_inf from the range of each weight over all rounds",
    ),
    Bound(
        "AdaGrad, RDA form", "Duchi, Hazan, Singer 2011, Theorem 5; derived in bounds_regularised.py",
        "regret of loss + l1 ||w||_1 <= delta ||u||^2 / (2 eta) + (||u||_inf^2 / (2 eta) + eta) sum_j ||g_1:t,j||",
        ("adagrad-rda",), lambda run, u: u.loss + run.settings["delta"] * u.norm**2 / (2.0 * eta(run))
        + (u.norm_inf**2 / (2.0 * eta(run)) + eta(run)) * run.read.roots,
        (FROM_ZERO, DELTA),
    ),
)  # fmt: skip
