"""Bounds of learners whose objective has a regulariser r, where regret is that of loss + r, as data (see bounds.py)."""

from __future__ import annotations

import math

import numpy as np

from blocksvm.analysis.bound import (
    FALLING,
    FROM_ZERO,
    IN_BALL,
    L1_ALONE,
    PROJECTED,
    UNPROJECTED,
    Admission,
    Bound,
    Condition,
)
from blocksvm.analysis.comparators import Comparator
from blocksvm.analysis.replay import Run
from blocksvm.errors import said


def forward_backward(run: Run, u: Comparator, G: np.ndarray) -> np.ndarray:
    """2 G D + (D^2 / (2 c) + 8 G^2 c) sqrt(t)."""
    c, D = run.settings["step"], u.distance
    return u.loss + 2.0 * G * D + (D * D / (2.0 * c) + 8.0 * G * G * c) * np.sqrt(run.times)


def heights_norm(run: Run) -> float:
    """l1 ||h_T||_2."""
    return 0.0 if run.l1_weights is None else float(np.linalg.norm(run.l1_weights))


def eta(run: Run) -> float:
    return run.settings["step"]


# H_{t-1} >= s_t needs it
DELTA = Condition(
    "delta >= max |g_t,j|",
    lambda run: run.largest_entries[-1] <= run.settings["delta"] * (1.0 + 1e-12),
    lambda run: f"{said('delta', run.settings['delta'])} against {run.largest_entries[-1]:.4g}",
)

HINGE = Condition("the loss is hinge", lambda run: run.loss_name == "hinge", lambda run: said("loss", run.loss_name))
FLAT = Condition(
    "the loss has slopes of at most 1",
    lambda run: run.loss_name in ("hinge", "logistic"),
    lambda run: said("loss", run.loss_name),
)
PROJECTED_THERE = Condition("projected on ||w|| <= 1 / sqrt(lambda)", PROJECTED.holds, lambda run: "no projection")

REGULARISED = (
    Bound(
        "Pegasos, projected", "Pegasos 2011, Theorem 1",
        "regret of lambda/2 ||w||^2 + hinge <= (sqrt(lambda) + R)^2 (1 + ln t) / (2 lambda)",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + (math.sqrt(run.settings["lam"]) + run.R) ** 2 * (1.0 + np.log(run.times))
        / (2.0 * run.settings["lam"]),
        (FROM_ZERO, HINGE, PROJECTED_THERE), (Admission("||u|| <= 1 / sqrt(lambda)", IN_BALL.holds),), regret="loss",
    ),
    Bound(
        "Pegasos, no projection", "Pegasos 2011, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= 4 R^2 (1 + ln t) / (2 lambda)",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + 4.0 * run.R**2 * (1.0 + np.log(run.times)) / (2.0 * run.settings["lam"]),
        (FROM_ZERO, FLAT, UNPROJECTED), regret="loss",
        remark="lambda w_t is a mean of gradients, so that ||lambda w_t + z_t|| <= 2 R",
    ),
    Bound(
        "strongly convex, steps 1 / (lambda t)", "Hazan, Agarwal, Kale 2007, Theorem 1",
        "regret of lambda/2 ||w||^2 + loss <= sum ||lambda w_t + z_t||^2 / (2 lambda t)",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + run.strong_squares / (2.0 * run.settings["lam"]),
        (FROM_ZERO,), (IN_BALL,), regret="loss",
        remark="||w_{t+1} - u||^2 <= ||w_t - u||^2 - 2 <g_t, w_t - u> / (lambda t) + ||g_t||^2 / (lambda t)^2, and "
        "f_t(w_t) - f_t(u) <= <g_t, w_t - u> - lambda/2 ||w_t - u||^2: the squared distances cancel",
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
    Bound(
        "AdaGrad, FOBOS form", "Duchi, Hazan, Singer 2011, Theorem 5; derived in adaptive.py",
        "regret of loss + l1 ||w||_1 <= delta ||u||^2 / (2 eta) + (max_t ||u - w_t||_inf^2 / (2 eta) + eta) "
        "sum_j ||g_1:t,j||",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + run.settings["delta"] * u.norm**2 / (2.0 * eta(run))
        + (u.reach**2 / (2.0 * eta(run)) + eta(run)) * run.roots,
        (FROM_ZERO,), regret="loss", remark="max_t ||u - w_t||_inf from the range of each weight over all rounds",
    ),
    Bound(
        "AdaGrad, RDA form", "Duchi, Hazan, Singer 2011, Theorem 5; derived in adaptive.py",
        "regret of loss + l1 ||w||_1 <= delta ||u||^2 / (2 eta) + (||u||_inf^2 / (2 eta) + eta) sum_j ||g_1:t,j||",
        "regret", lambda run: run.loss,
        lambda run, u: u.loss + run.settings["delta"] * u.norm**2 / (2.0 * eta(run))
        + (u.norm_inf**2 / (2.0 * eta(run)) + eta(run)) * run.roots,
        (FROM_ZERO, DELTA), regret="loss",
    ),
)  # fmt: skip
